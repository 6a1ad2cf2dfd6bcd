"""The `Dataset` facade: one dataset at one release, its tables and its clips.

Methods are thin; the work is done in `store` (pixels), `commits` (writing), `build`, `query`, `releases`,
`readers`, `hub`, `export` and `maintenance`.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vrldata.errors import MissingClip, StoreError, UriError
from vrldata.freshness import VersionWatch
from vrldata.location import (
    check_location,
    make_folder,
    open_table,
    release_versions,
    storage_options,
    table_path,
)
from vrldata.readers import hf_dataset, ray_dataset, ray_iterator, torch_dataset
from vrldata.uri import DatasetUri

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from lance import LanceDataset
    from numpy.typing import NDArray

    from vrldata.build import BuildReport
    from vrldata.sampling import SamplingSpec
    from vrldata.selection import Table
    from vrldata.store import FrameStore
    from vrldata.types import Clip, Sample, Trajectory


def open(uri: str | DatasetUri | Path) -> Dataset:
    """The dataset at `uri`, lazily: nothing but the release's row is read.

    >>> import vrldata
    >>> clips = vrldata.open("s3://bucket/clips@v1?split=train")  # doctest: +SKIP

    Raises:
        UriError: no dataset lies there, the URI is malformed, or it has no such release; or the Hub
            refuses it or cannot be reached.
    """
    dataset = Dataset(DatasetUri.parse(uri))
    dataset.check_exists()
    return dataset


def create(root: str | Path) -> Dataset:
    """The dataset at `root`, its five tables made where they are missing. Safe on an existing one.

    Raises:
        UriError: `root` names a release, a query or the Hub. StoreError: the root cannot be written.
    """
    dataset = Dataset(DatasetUri.parse(root))
    dataset.make_tables()
    return dataset


class Dataset:
    """A dataset at a location and release. Cheap to make and to pickle; handles open when first used.

    Attributes:
        uri: location, release and query parameters.
        root: location as Lance takes it: a local absolute path, or `s3://…`, `hf://datasets/org/name`.
        storage_options: what Lance needs to reach the location.
        release: name of the release; None for the newest state.
        is_local: whether the root is a path on this machine.
    """

    def __init__(self, uri: DatasetUri) -> None:
        self.uri = uri
        self.is_local = uri.is_local
        self.root = os.path.abspath(uri.location) if uri.is_local else uri.location
        self.release = uri.release
        self.storage_options = storage_options(uri)
        self._reset()

    def _reset(self) -> None:
        self._tables: dict[str, LanceDataset] = {}
        self._watches: defaultdict[str, VersionWatch] = defaultdict(VersionWatch)
        self._versions: Mapping[str, int] | None = None
        self._frame_store: FrameStore | None = None
        self._pid = os.getpid()

    def __getstate__(self) -> str:
        # absolute: another process may have another working directory
        return str(dataclasses.replace(self.uri, location=self.root))

    def __setstate__(self, state: str) -> None:
        self.__init__(DatasetUri.parse(state))  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"Dataset({str(self.uri)!r})"

    def __len__(self) -> int:
        """Number of samples that the URI selects."""
        return self.samples.count()

    def check_exists(self) -> None:
        """Raises UriError where no dataset lies at the location, or it has no such release."""
        check_location(self.uri, self.root, self.table_path("samples"), self.storage_options)
        if self.release is not None:
            self.versions()

    def make_tables(self) -> None:
        """Make the tables that are missing.

        Raises:
            UriError: the URI names a release, a query or the Hub. StoreError: the root cannot be written.
        """
        from vrldata.commits import make_tables
        from vrldata.location import has_version
        from vrldata.tables import TABLES

        if self.uri != DatasetUri(self.uri.location):
            raise UriError(f"{self.uri}: a dataset is made at a plain location, without @release or ?query")
        if self.uri.scheme == "hf":
            raise UriError(
                f"{self.uri}: datasets on the Hub are made by `vrldata push`; make one on disk first"
            )
        missing = [name for name in TABLES if not (self.is_local and has_version(self.table_path(name)))]
        if missing and self.is_local:
            make_folder(Path(self.root) / "data")
        make_tables(self, missing)

    def table_path(self, table: str) -> str:
        """Where a table lies, as Lance takes it."""
        return table_path(self.root, table)

    def open_table(self, table: str) -> LanceDataset:
        """The newest version of a table, freshly opened.

        Raises:
            StoreError: unknown or missing table, or the location cannot be reached.
        """
        return open_table(self.uri, table, self.table_path(table), self.storage_options)

    def versions(self) -> Mapping[str, int]:
        """Version of each table that the release pins; empty for the newest state.

        Raises:
            UriError: the dataset has no such release.
        """
        if self.release is None:
            return {}
        if self._versions is None:
            self._versions = release_versions(self.open_table("releases"), self.uri)
        return self._versions

    def lance(self, table: str) -> LanceDataset:
        """The Lance table at the release's version, or at the newest.

        Raises:
            StoreError: unknown or missing table, or the release does not hold it. UriError: no such release.
        """
        if self._pid != os.getpid():
            # handles of a parent process do not work in a fork
            self._reset()
        held = self._tables.get(table)
        if held is not None and (self.release is not None or not self._is_outdated(table, held)):
            return held
        opened = self.open_table(table)
        # releases pin the other tables; their own is always the newest
        if table != "releases" and self.versions():
            if table not in self.versions():
                raise StoreError(f"{self.uri}: release {self.release!r} holds no table {table!r}")
            try:
                opened = opened.checkout_version(self.versions()[table])
            except (OSError, ValueError) as error:
                raise StoreError(
                    f"{self.uri}: version {self.versions()[table]} of {table!r} is gone: release damaged"
                ) from error
        self._tables[table] = opened
        return opened

    def _is_outdated(self, name: str, table: LanceDataset) -> bool:
        if self.is_local:
            return self._watches[name].is_outdated(table)
        # a look at the newest version of a Hub repository is a request, and only pushes change it
        return self.uri.scheme != "hf" and table.latest_version != table.version

    @property
    def samples(self) -> Table:
        """One row a question."""
        return self._table("samples")

    @property
    def frames(self) -> Table:
        """One row a decoded clip or image; tables of it come without the pixels."""
        return self._table("frames")

    @property
    def trajectories(self) -> Table:
        """One row a model response."""
        return self._table("trajectories")

    @property
    def failures(self) -> Table:
        """One row a source that could not be decoded, with the reason."""
        return self._table("failures")

    @property
    def releases(self) -> Table:
        """One row a release; always the newest state, whatever release is open."""
        return newest(self)._table("releases")

    def _table(self, name: str) -> Table:
        from vrldata.selection import Table

        return Table(self, name)

    def frame_store(self) -> FrameStore:
        """The store of clips at this release, kept open between calls."""
        frames = self.lance("frames")
        store = self._frame_store
        if store is None or store.table is not frames:
            from vrldata.store import FrameStore

            store = self._frame_store = FrameStore(frames, is_local=self.is_local)
        return store

    def clip(self, video_path: str, spec: SamplingSpec | None = None) -> Clip:
        """The frames of `video_path` under `spec`; also where they are stored once under another path.

        Without a spec, the only ones that are stored of it.

        Raises:
            MissingClip: the store holds none, or several; the message says which for this path, or why not.
        """
        from vrldata.lookup import only_spec, resolve_clip_id

        clip_id = resolve_clip_id(self, video_path, spec or only_spec(self, video_path))
        return dataclasses.replace(self.frame_store().get(clip_id), video_path=video_path)

    def clip_by_id(
        self, clip_id: str, *, indices: Sequence[int] | None = None, out: NDArray[np.uint8] | None = None
    ) -> Clip:
        """The clip of a row of `frames`; see `FrameStore.get` for `indices`, some frames only, and `out`."""
        return self.frame_store().get(clip_id, indices=indices, out=out)

    def clips_of(self, sample: Sample | str) -> list[Clip]:
        """The clips of a sample or of its id: videos, then images, in the order of their columns.

        Raises:
            MissingClip: one of them is not in the store; the message says why. StoreError: no such sample.
        """
        from vrldata.lookup import missing_media

        if isinstance(sample, str):
            sample = self.sample(sample)
        media = [*sample.videos, *sample.images]
        if len(sample.clip_ids) != len(media):
            raise MissingClip(missing_media(self, sample))
        store = self.frame_store()
        return [
            dataclasses.replace(store.get(clip_id), video_path=path)
            for clip_id, path in zip(sample.clip_ids, media, strict=True)
        ]

    def sample(self, sample_id: str) -> Sample:
        """One sample by id, whatever the URI's filter.

        Raises:
            StoreError: no such sample.
        """
        from vrldata.commits import sql_text
        from vrldata.lookup import nearest_sample
        from vrldata.tables import row_to_sample

        rows = (
            self.lance("samples").to_table(filter=f"sample_id = {sql_text(sample_id)}", limit=1).to_pylist()
        )
        if not rows:
            raise StoreError(f"{self.uri}: no sample {sample_id!r}.{nearest_sample(self, sample_id)}")
        return row_to_sample(rows[0])

    def iter_samples(
        self, *, split: str | None = None, filter: str | None = None, limit: int | None = None
    ) -> Iterator[Sample]:
        """Samples in stored order, or in the order of the URI's shuffle seed.

        The URI's filter, split and limit apply on top of the arguments.

        Raises:
            FilterError: the predicate is wrong, or there is no such split. UriError: not the URI's split.
        """
        from vrldata.selection import iter_rows, select, tell_empty
        from vrldata.tables import row_to_sample

        rows = select(self, "samples", split=split, filter=filter, limit=limit, shuffle=True)
        tell_empty(self, rows.num_rows, split=split, filter=filter, limit=limit)
        for row in iter_rows(rows):
            yield row_to_sample(row)

    def iter_trajectories(
        self, *, filter: str | None = None, limit: int | None = None
    ) -> Iterator[Trajectory]:
        """Trajectories in stored order. A URI's filter on columns of samples keeps those of these samples.

        Raises:
            FilterError: the predicate is wrong.
        """
        from vrldata.selection import iter_rows, select
        from vrldata.tables import row_to_trajectory

        for row in iter_rows(select(self, "trajectories", filter=filter, limit=limit)):
            yield row_to_trajectory(row)

    def add_trajectories(self, trajectories: Iterable[Trajectory | Mapping[str, Any]]) -> int:
        """Store trajectories in one commit; the number that were new. Known `trajectory_id`s are left alone.

        A trajectory with an empty id is given one, so that adding the same ones twice adds nothing. Mappings
        of the fields of `Trajectory` are taken as well; they need `sample_id` and `response`.

        Raises:
            AnnotationError: a mapping is no trajectory. StoreError: the dataset cannot be written.
        """
        return int(_call("trajectories", "add_trajectories", self, trajectories))

    def build(
        self,
        rows: str | Path | Iterable[str | Path | Mapping[str, Any]],
        *,
        video_root: str | Path,
        spec: SamplingSpec | None = None,
        **options: Any,
    ) -> BuildReport:
        """Add annotations and their media; see `build.build_dataset` for the options.

        Args:
            rows: annotation files, or rows as mappings.
            video_root: folder that the media paths of the rows are relative to.
        """
        from vrldata.build import build_dataset

        return build_dataset(self, rows, video_root=video_root, spec=spec, **options)

    def sql(self, statement: str) -> pa.Table:
        """Rows of a SELECT over the tables; see `query.run_sql`. Raises FilterError."""
        return _call("query", "run_sql", self, statement)

    def create_release(self, name: str, message: str = "", force: bool = False) -> Any:
        """Pin the present versions of all tables under `name`; see `releases.create_release`."""
        return _call("releases", "create_release", self, name, message=message, force=force)

    def list_releases(self) -> Any:
        """Releases, oldest first; see `releases.list_releases`."""
        return _call("releases", "list_releases", self)

    def diff(self, a: str, b: str) -> Any:
        """Rows added, removed and changed from release `a` to `b`, by table; see `releases.diff`."""
        return _call("releases", "diff", self, a, b)

    # what reads samples in a loop, with options, rows and examples in the functions' docstrings
    torch = torch_dataset
    ray = ray_dataset
    ray_iterator = ray_iterator
    hf = hf_dataset

    def push(self, target: str, **options: Any) -> Any:
        """Publish on the Hugging Face Hub; see `hub.push`."""
        return _call("hub", "push", self, target, **options)

    def pull(self, folder: str | Path) -> Any:
        """Fetch this dataset of the Hub, at its release, into a folder; see `hub_pull.pull`."""
        return _call("hub_pull", "pull", self.uri, folder)

    def info(self) -> dict[str, Any]:
        """Tables, rows, sizes, releases, specs, problem types and failures; see `summary.summarise`."""
        return _call("summary", "summarise", self)

    def verify(self, deep: bool = False, **options: Any) -> Any:
        """Check every row; see `verification.verify`."""
        return _call("verification", "verify", self, deep=deep, **options)

    def compact(self, **options: Any) -> Any:
        """Merge small files; see `maintenance.compact`."""
        return _call("maintenance", "compact", self, **options)

    def gc(self, **options: Any) -> Any:
        """Drop what no release and no reader needs; see `maintenance.gc`."""
        return _call("maintenance", "gc", self, **options)


def newest(dataset: Dataset) -> Dataset:
    """The same dataset at its newest state; on the Hub the revision stays."""
    if dataset.release is None or dataset.uri.scheme == "hf":
        return dataset
    return Dataset(DatasetUri(dataset.uri.location))


def _call(module: str, name: str, *arguments: Any, **options: Any) -> Any:
    """Call a function of a module that is imported only now: most need libraries of an extra."""
    return getattr(importlib.import_module(f"vrldata.{module}"), name)(*arguments, **options)
