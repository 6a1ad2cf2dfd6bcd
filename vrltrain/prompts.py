"""The stream of questions: from a dataset, in an order that the seed decides, with a cursor to go on from.

Ray Data (or a plain iterator) reads ahead; keys travel and frames are fetched where they are used. A sample
that cannot be used is left out with its reason, and counted.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vrldata.errors import ConfigError, MissingClip, RolloutError, StoreError, TaskError, missing_extra
from vrldata.tables import row_to_sample
from vrldata.tasks import check_answer
from vrldata.tasks.registry import resolved_sample
from vrltrain.types import Failure

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Clip, Sample
    from vrltrain.configs import DataConfig
    from vrltrain.inputs import EncodedPrompt, Prompt, PromptEncoder

logger = logging.getLogger(__name__)

RAY_CPUS = 2
"""CPUs that a Ray of our own is started with where none runs; reading ahead needs no more."""


class PromptStream:
    """Samples of a split for ever, epoch after epoch, each with its clips."""

    def __init__(
        self, dataset: Dataset, config: DataConfig, *, seed: int, split: str | None = "train"
    ) -> None:
        self._reader = _reader(dataset, config, seed=seed, split=split)
        if len(self._reader) == 0:
            raise ConfigError(
                f"data.train={dataset.uri}: no sample with its clips there"
                + (f" in split {asked!r}" if (asked := dataset.uri.split or split) else "")
                + "; check `vrldata info`"
            )
        self._on_unknown_type = config.on_unknown_type
        self._rows: Iterator[dict[str, Any]] | None = None

    def __len__(self) -> int:
        """Samples of an epoch, those of a skipped type included."""
        return len(self._reader)

    def take(self, count: int) -> list[tuple[Sample, list[Any]]]:
        """The next `count` samples with handles of their clips."""
        return [self._next() for _ in range(count)]

    def state_dict(self) -> dict[str, Any]:
        """Cursor: samples that `take` gave count as used."""
        return dict(self._reader.state_dict())

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was saved.

        Raises:
            StoreError: it was saved over other samples.
        """
        self._reader.load_state_dict(state)
        self._rows = None

    def _next(self) -> tuple[Sample, list[Any]]:
        for _ in range(2):
            if self._rows is None:
                self._rows = iter(self._reader)
            for row in self._rows:
                sample = resolved_sample(row_to_sample(row), self._on_unknown_type)
                if sample is not None:
                    return sample, list(row["clips"])
            self._rows = None
            if hasattr(self._reader, "next_epoch"):
                self._reader.next_epoch()
        raise StoreError("the dataset gave no sample in a whole epoch")


def load_prompt(
    encoder: PromptEncoder,
    sample: Sample,
    clips: Sequence[Any] | None = None,
    *,
    dataset: Dataset | None = None,
    template: str | None = None,
) -> Prompt | Failure:
    """The prompt of a sample, or why it cannot be used: unreadable answer, missing clip, wrong frame size.

    Args:
        clips: of the sample, or handles of them; None fetches them from `dataset`.
    """
    try:
        reason = check_answer(sample.problem_type, sample.answer, options=sample.options)
        if reason is not None:
            return Failure(sample_id=sample.sample_id, stage="answer", reason=reason)
        if clips is None and dataset is not None:
            clips = dataset.clips_of(sample)
        return encoder.prompt(sample, [_loaded(clip) for clip in clips or ()], template=template)
    except (MissingClip, StoreError) as error:
        return Failure(sample_id=sample.sample_id, stage="clip", reason=str(error))
    except (TaskError, RolloutError) as error:
        return Failure(sample_id=sample.sample_id, stage="prompt", reason=str(error))


class PromptCache:
    """Prompts as tensors, made where they are needed and kept within a budget of bytes, oldest out first."""

    def __init__(self, dataset: Dataset, encoder: PromptEncoder, config: DataConfig) -> None:
        self._dataset = dataset
        self._encoder = encoder
        self._template = config.template
        self._limit = config.clip_cache_mb * 2**20
        self._held: OrderedDict[str, EncodedPrompt] = OrderedDict()
        self._size = 0

    def get(self, sample: Sample) -> EncodedPrompt:
        """The encoded prompt of a sample.

        Raises:
            MissingClip, StoreError: its frames cannot be read any more.
        """
        held = self._held.get(sample.sample_id)
        if held is not None:
            self._held.move_to_end(sample.sample_id)
            return held
        clips = self._dataset.clips_of(sample)
        encoded = self._encoder.encode(self._encoder.prompt(sample, clips, template=self._template))
        self._held[sample.sample_id] = encoded
        self._size += encoded.num_bytes
        while self._size > self._limit and len(self._held) > 1:
            _, dropped = self._held.popitem(last=False)
            self._size -= dropped.num_bytes
        return encoded


def _loaded(clip: Any) -> Clip:
    """A handle of a reader becomes its clip; a clip stays what it is."""
    return clip.load() if hasattr(clip, "load") else clip


def _reader(dataset: Dataset, config: DataConfig, *, seed: int, split: str | None) -> Any:
    chosen = split if dataset.uri.split is None else None
    if config.curriculum.by != "none":
        from vrltrain.curriculum import CurriculumReader

        return CurriculumReader(dataset, config.curriculum, seed=seed, split=chosen)
    options: dict[str, Any] = {
        "split": chosen,
        "shuffle": seed if config.shuffle else None,
        "skip_missing": True,
    }
    if config.reader == "local":
        from vrldata.readers import torch_dataset

        return torch_dataset(dataset, rank=0, world_size=1, **options)
    from vrldata.readers import ray_iterator

    logger.info("starting Ray to read the data")
    start_ray()
    return ray_iterator(dataset, **options)


def start_ray() -> None:
    """Join the Ray cluster that `RAY_ADDRESS` names, or start a small one in this machine.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    if importlib.util.find_spec("ray") is None:
        raise missing_extra("ray", "ray", "data.reader=ray (or set data.reader=local)")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    import ray
    import ray.data

    if not ray.is_initialized():
        own = {} if os.environ.get("RAY_ADDRESS") else {"num_cpus": RAY_CPUS, "include_dashboard": False}
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **own)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)
