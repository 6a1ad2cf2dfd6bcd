"""Streams of samples for Ray Data, torch and Hugging Face `datasets`.

Keys travel, pixels do not: a row carries `clips`, handles whose frames are fetched by the process that first
touches them. Order depends on (seed, epoch) alone. `order` decides it, `clips` fetches; `ray_rows`,
`torch_rows` and `hf_rows` fit both to their library, which is imported with them only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vrldata.errors import missing_extra

if TYPE_CHECKING:
    from vrldata.dataset import Dataset


def ray_dataset(dataset: Dataset, **options: Any) -> Any:
    """A streaming `ray.data.Dataset` of samples; see `ray_rows.ray_dataset` for the options.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    try:
        from vrldata.readers import ray_rows
    except ModuleNotFoundError as error:
        raise missing_extra("ray", "ray", "Dataset.ray()") from error
    return ray_rows.ray_dataset(dataset, **options)


def ray_iterator(dataset: Dataset, **options: Any) -> Any:
    """A resumable iterator over the samples of one rank, prefetched by Ray; see `ray_rows.RayIterator`.

    Raises:
        MissingExtraError: Ray is not installed.
    """
    try:
        from vrldata.readers import ray_rows
    except ModuleNotFoundError as error:
        raise missing_extra("ray", "ray", "ray_iterator()") from error
    return ray_rows.RayIterator(dataset, **options)


def torch_dataset(dataset: Dataset, **options: Any) -> Any:
    """A torch `IterableDataset` of samples; see `torch_rows.SampleStream` for the options.

    Raises:
        MissingExtraError: torch is not installed.
    """
    try:
        from vrldata.readers import torch_rows
    except ModuleNotFoundError as error:
        raise missing_extra("torch", "build", "Dataset.torch()") from error
    return torch_rows.SampleStream(dataset, **options)


def hf_dataset(dataset: Dataset, **options: Any) -> Any:
    """A `datasets.Dataset` of samples; see `hf_rows.hf_dataset` for the options.

    Raises:
        MissingExtraError: `datasets` is not installed.
    """
    try:
        from vrldata.readers import hf_rows
    except ModuleNotFoundError as error:
        raise missing_extra("datasets", "hf", "Dataset.hf()") from error
    return hf_rows.hf_dataset(dataset, **options)
