"""Where a run stores its responses: the dataset that it reads, or one of its own where that is read-only."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vrldata.errors import UriError

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Trajectory

logger = logging.getLogger(__name__)


class TrajectoryStore:
    """Adds trajectories to a dataset; adding the same ones twice adds nothing."""

    def __init__(self, dataset: Dataset | None) -> None:
        self.dataset = dataset

    def add(self, trajectories: Sequence[Trajectory]) -> int:
        """Store trajectories in one commit; the number that were new."""
        if self.dataset is None or not trajectories:
            return 0
        return self.dataset.add_trajectories(trajectories)


def open_trajectory_store(where: str | None, source: Dataset, run_dir: Path | None) -> TrajectoryStore:
    """The store that `trajectories:` of a config names.

    Args:
        where: None for none, `auto` for the dataset of `source` (or one in `run_dir` where that cannot be
            written), or a dataset's location.
        source: the dataset that the run reads.
    """
    import vrldata
    from vrldata.dataset import newest

    if where is None:
        return TrajectoryStore(None)
    if where != "auto":
        return TrajectoryStore(vrldata.create(where))
    writable = source.uri.scheme != "hf" and (not source.is_local or os.access(source.root, os.W_OK))
    if writable:
        return TrajectoryStore(newest(source))
    if run_dir is None:
        raise UriError(
            f"{source.uri} cannot be written: name a dataset for the responses, "
            "such as trajectories=responses"
        )
    logger.info("%s cannot be written; responses go to %s", source.uri, run_dir / "dataset")
    return TrajectoryStore(vrldata.create(run_dir / "dataset"))
