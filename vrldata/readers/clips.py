"""Fetching clips where they are needed: `ClipReader`, which travels as a URI, and the handles it gives out.

On a local disk frames are mapped. From an object store they are fetched once a machine and kept in a folder
that stays within a byte budget.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vrldata.errors import ConfigError, MissingClip

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrldata.types import Clip

logger = logging.getLogger(__name__)

MEDIA_COLUMNS = ("sample_id", "videos", "images", "clip_ids")
"""Columns of a sample that its clips are found by."""

RECENT_CLIPS = 4
"""Clips whose frames a process keeps: mapped where the store is on a local disk and raw, else decoded."""

CACHE_BYTES_VARIABLE = "VRL_CLIP_CACHE_BYTES"
DEFAULT_CACHE_BYTES = 20 << 30


@dataclasses.dataclass(frozen=True, slots=True)
class ClipReader:
    """Gives the clips of rows of the `samples` table. Small and picklable: it holds nothing but a URI.

    >>> reader = ClipReader("s3://bucket/clips@v1")
    >>> reader.clips({"videos": [], "images": [], "clip_ids": []})
    []
    """

    uri: str

    def clips(self, row: Mapping[str, Any]) -> list[LazyClip]:
        """Handles of the clips of a row: videos, then images. Nothing is read yet.

        Raises:
            MissingClip: the row has media without clips; the message says why they could not be decoded.
        """
        media = [*(row["videos"] or ()), *(row["images"] or ())]
        clip_ids = list(row["clip_ids"] if row["clip_ids"] is not None else ())
        if len(media) != len(clip_ids):
            from vrldata.lookup import missing_media
            from vrldata.types import Sample

            sample = Sample(
                sample_id=str(row.get("sample_id", "")),
                problem="",
                answer="",
                problem_type="",
                videos=tuple(row["videos"] or ()),
                images=tuple(row["images"] or ()),
            )
            raise MissingClip(missing_media(_opened(self.uri, os.getpid()), sample))
        return [LazyClip(self.uri, str(one), str(path)) for one, path in zip(clip_ids, media, strict=True)]

    def load(self, clip_id: str, *, indices: Sequence[int] | None = None) -> Clip:
        """The clip of a row of `frames`; with `indices` only these of its frames.

        Raises:
            MissingClip: the store holds no such clip. StoreError: it cannot be read.
        """
        dataset = _opened(self.uri, os.getpid())
        if dataset.is_local or indices is not None:
            return dataset.clip_by_id(clip_id, indices=indices)
        return load_through_cache(dataset, clip_id)


class LazyClip:
    """A clip that is fetched by the process that first asks for one of its attributes.

    It has every attribute and method of `types.Clip`. It is three strings, whether fetched or not: a process
    keeps the last few clips, so that rows which wait in memory hold no frames.
    """

    __slots__ = ("clip_id", "uri", "video_path")

    def __init__(self, uri: str, clip_id: str, video_path: str) -> None:
        self.uri = uri
        self.clip_id = clip_id
        self.video_path = video_path

    def load(self, *, indices: Sequence[int] | None = None) -> Clip:
        """The clip; with `indices` only these of its frames, reading only their bytes.

        Raises:
            MissingClip: the store holds no such clip. StoreError: it cannot be read.
        """
        reader = ClipReader(self.uri)
        if indices is not None:
            return dataclasses.replace(reader.load(self.clip_id, indices=indices), video_path=self.video_path)
        version = _opened(self.uri, os.getpid()).frame_store().version
        found = _recent(self.uri, self.clip_id, version, os.getpid())
        return dataclasses.replace(found, video_path=self.video_path)

    def __getattr__(self, name: str) -> Any:
        # only names that are not found on this class arrive here; copying and pickling look for dunders
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self.load(), name)

    def __dir__(self) -> list[str]:
        from vrldata.types import Clip

        return sorted({*super().__dir__(), *dir(Clip)})

    def __reduce__(self) -> tuple[Any, ...]:
        return LazyClip, (self.uri, self.clip_id, self.video_path)

    def __repr__(self) -> str:
        return f"LazyClip({self.video_path!r}, clip_id={self.clip_id[:12]!r})"


@lru_cache(maxsize=RECENT_CLIPS)
def _recent(uri: str, clip_id: str, version: int, process: int) -> Clip:
    """Clips that this process used last: frames and metadata of one are asked for one after the other."""
    return ClipReader(uri).load(clip_id)


@lru_cache(maxsize=32)
def _opened(uri: str, process: int) -> Dataset:
    """The dataset at `uri`, opened once in each process: handles do not survive a fork."""
    from vrldata.dataset import open

    return open(uri)


def cache_folder() -> Path:
    """Folder of the clips that this machine has fetched from object stores."""
    home = os.environ.get("VRL_HOME", "~/.cache/vrl")
    return Path(home).expanduser() / "clips"


def cache_limit_bytes() -> int:
    """Most bytes that the folder may hold; 0 switches it off.

    Raises:
        ConfigError: the variable is no whole number.
    """
    text = os.environ.get(CACHE_BYTES_VARIABLE, str(DEFAULT_CACHE_BYTES))
    if not text.isdecimal():
        raise ConfigError(f"{CACHE_BYTES_VARIABLE}={text!r}: expected a number of bytes, such as 20000000000")
    return int(text)


def load_through_cache(dataset: Dataset, clip_id: str) -> Clip:
    """The clip with its frames mapped from this machine's folder, fetched first where it lacks them."""
    from vrldata.store import clip_from_row

    limit = cache_limit_bytes()
    row = dataset.frame_store().row(clip_id)
    place = hashlib.sha256(f"{dataset.root}\n{clip_id}\n{row['sha256']}".encode()).hexdigest()
    file = cache_folder() / place[:2] / f"{place}.npy"
    if not file.is_file():
        clip = dataset.clip_by_id(clip_id)
        if clip.frames.nbytes > limit // 2 or not _store(file, clip.frames):
            return clip
        _evict(cache_folder(), limit)
    try:
        frames = np.load(file, mmap_mode="r", allow_pickle=False).view(np.ndarray)
        os.utime(file)
    except (OSError, ValueError) as error:
        # evicted by another process meanwhile, or cut short by a full disk
        logger.debug("cached clip %s not usable: %s", file, error)
        file.unlink(missing_ok=True)
        return dataset.clip_by_id(clip_id)
    return clip_from_row(row, frames, None)


def _store(file: Path, frames: np.ndarray) -> bool:
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with draft.open("wb") as out:
            np.save(out, frames, allow_pickle=False)
        draft.replace(file)
    except OSError as error:
        logger.warning("clip not kept in %s: %s", file.parent, error.strerror or error)
        return False
    finally:
        draft.unlink(missing_ok=True)
    return True


def _evict(folder: Path, limit_bytes: int) -> None:
    """Delete the files that were not used for longest until the folder keeps to its budget."""
    files = []
    for path in folder.glob("??/*.npy"):
        try:
            status = path.stat()
        except FileNotFoundError:
            continue
        files.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if total <= limit_bytes:
            return
        path.unlink(missing_ok=True)
        total -= size
