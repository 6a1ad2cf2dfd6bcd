"""vrldata: datasets of decoded video for reinforcement learning, in Lance.

The public names, nothing else. Each is imported when first used, so that `import vrldata` stays fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_PUBLIC = {
    "open": "vrldata.dataset",
    "create": "vrldata.dataset",
    "pull": "vrldata.hub_pull",
    "Dataset": "vrldata.dataset",
    "BuildReport": "vrldata.build",
    "SamplingSpec": "vrldata.sampling",
    "PRESETS": "vrldata.sampling",
    "decode": "vrldata.decoding",
    "collate": "vrldata.readers.batches",
    "score": "vrldata.tasks",
    "score_batch": "vrldata.tasks",
    "Clip": "vrldata.types",
    "Sample": "vrldata.types",
    "Score": "vrldata.types",
    "Trajectory": "vrldata.types",
    "VideoMetadata": "vrldata.types",
    "DatasetUri": "vrldata.uri",
    "VRLError": "vrldata.errors",
    "ConfigError": "vrldata.errors",
    "UriError": "vrldata.errors",
    "FilterError": "vrldata.errors",
    "AnnotationError": "vrldata.errors",
    "DecodeError": "vrldata.errors",
    "StoreError": "vrldata.errors",
    "MissingClip": "vrldata.errors",
    "HubError": "vrldata.errors",
    "TaskError": "vrldata.errors",
    "RolloutError": "vrldata.errors",
    "BenchmarkError": "vrldata.errors",
    "MissingExtraError": "vrldata.errors",
}

__all__ = [*_PUBLIC, "__version__"]

if TYPE_CHECKING:
    from vrldata.build import BuildReport as BuildReport
    from vrldata.dataset import Dataset as Dataset
    from vrldata.dataset import create as create
    from vrldata.dataset import open as open
    from vrldata.decoding import decode as decode
    from vrldata.errors import AnnotationError as AnnotationError
    from vrldata.errors import BenchmarkError as BenchmarkError
    from vrldata.errors import ConfigError as ConfigError
    from vrldata.errors import DecodeError as DecodeError
    from vrldata.errors import FilterError as FilterError
    from vrldata.errors import HubError as HubError
    from vrldata.errors import MissingClip as MissingClip
    from vrldata.errors import MissingExtraError as MissingExtraError
    from vrldata.errors import RolloutError as RolloutError
    from vrldata.errors import StoreError as StoreError
    from vrldata.errors import TaskError as TaskError
    from vrldata.errors import UriError as UriError
    from vrldata.errors import VRLError as VRLError
    from vrldata.hub_pull import pull as pull
    from vrldata.readers.batches import collate as collate
    from vrldata.sampling import PRESETS as PRESETS
    from vrldata.sampling import SamplingSpec as SamplingSpec
    from vrldata.tasks import score as score
    from vrldata.tasks import score_batch as score_batch
    from vrldata.types import Clip as Clip
    from vrldata.types import Sample as Sample
    from vrldata.types import Score as Score
    from vrldata.types import Trajectory as Trajectory
    from vrldata.types import VideoMetadata as VideoMetadata
    from vrldata.uri import DatasetUri as DatasetUri


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'vrldata' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
