"""`vrltrain run` with frames decoded from the files whenever they are needed; the store gives only keys.

python benchmarks/learning/decode_on_the_fly.py MEDIA_FOLDER CONFIG.yaml [key=value …]
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import vrldata
from vrldata.config import load_config
from vrldata.dataset import Dataset
from vrldata.types import Clip


class FileDecoder:
    """Stands in for the frame store of a dataset: same keys, frames from `vrldata.decode`."""

    def __init__(self, dataset: Dataset, media: Path) -> None:
        rows = dataset.frames.to_table(columns=["clip_id", "video_path", "spec", "kind"]).to_pylist()
        self._rows = {row["clip_id"]: row for row in rows}
        self._media = media
        self.decoded = 0

    def get(self, clip_id: str, *, indices: Sequence[int] | None = None) -> Clip:
        """The clip, decoded now."""
        assert indices is None, "training asks for whole clips"
        row = self._rows[clip_id]
        spec = vrldata.SamplingSpec.from_json(row["spec"])
        self.decoded += 1
        path = self._media / row["video_path"]
        return vrldata.decode(path, spec, video_path=row["video_path"], kind=row["kind"])


def main() -> None:
    """Train with every store replaced."""
    from vrltrain.configs import RunConfig
    from vrltrain.libraries import quiet_libraries

    media, config, *overrides = sys.argv[1:]
    loaded = load_config(RunConfig, config, overrides)
    quiet_libraries()
    from vrltrain.loop import train

    decoders: dict[str, FileDecoder] = {}

    def frame_store(dataset: Dataset) -> FileDecoder:
        return decoders.setdefault(dataset.root, FileDecoder(dataset, Path(media)))

    Dataset.frame_store = frame_store  # type: ignore[assignment, method-assign]
    train(loaded, command="decode_on_the_fly.py")
    print(f"{sum(one.decoded for one in decoders.values())} clips decoded")


if __name__ == "__main__":
    main()
