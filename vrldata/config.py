"""Typed configuration: a YAML file plus dotted overrides becomes one validated object.

The models themselves live beside the commands that they configure. An unknown key is an error that
suggests the nearest known one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from vrldata.errors import ConfigError, nearest


class BaseConfig(BaseModel):
    """Base of every configuration model: frozen, no unknown keys, defaults validated too."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, validate_default=True, use_attribute_docstrings=True
    )


ConfigT = TypeVar("ConfigT", bound=BaseConfig)


def load_config(
    model: type[ConfigT], path: str | Path | None = None, overrides: Sequence[str] = ()
) -> ConfigT:
    """Read `path` (YAML), apply `overrides` such as `optim.lr=1e-5`, and validate against `model`.

    Raises:
        ConfigError: the file cannot be read, a key is unknown, or a value is wrong. One line a problem.
    """
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from yaml import YAMLError

    merged: Any = OmegaConf.create({})
    source = "the overrides"
    if path is not None:
        source = str(path)
        file = Path(path).expanduser()
        if not file.is_file():
            raise ConfigError(f"{path}: no such configuration file")
        try:
            merged = OmegaConf.load(file)
        except (YAMLError, OmegaConfBaseException, UnicodeDecodeError, OSError) as error:
            raise ConfigError(f"{path}: not readable as YAML: {_one_line(error)}") from error
        if not OmegaConf.is_dict(merged):
            raise ConfigError(f"{path}: expected a mapping of keys to values at the top level")
    for override in overrides:
        if "=" not in override or override.startswith("="):
            raise ConfigError(
                f"override {override!r}: expected key=value, such as data.train=/path/to/dataset@v1"
            )
    try:
        merged = OmegaConf.merge(merged, OmegaConf.from_dotlist([_quote_uri(text) for text in overrides]))
        values = OmegaConf.to_container(merged, resolve=True)
    except (OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(f"{source}: {_one_line(error)}") from error
    return validate_config(model, values, source=source)


def validate_config(model: type[ConfigT], values: Any, *, source: str) -> ConfigT:
    """Validate plain `values` (what a YAML file parses to) against `model`; errors name `source`."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        problems = [_describe(model, problem) for problem in error.errors()]
        raise ConfigError("\n".join(f"{source}: {problem}" for problem in problems)) from error


def _quote_uri(override: str) -> str:
    """Keep a value with '@', '?' or ': ' a plain string: YAML and interpolation would read it otherwise."""
    key, value = override.split("=", 1)
    if "@" in value or "?" in value or "://" in value:
        return f"{key}={value!r}" if not value.startswith(("'", '"')) else override
    return override


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _describe(model: type[BaseModel], problem: Any) -> str:
    location = [str(part) for part in problem["loc"]]
    name = ".".join(location)
    if problem["type"] == "extra_forbidden":
        known = _fields_at(model, location[:-1])
        listed = f" Known keys here: {', '.join(sorted(known))}." if known else ""
        return f"unknown key {name!r}.{nearest(location[-1], known) or listed}"
    if problem["type"] == "missing":
        return f"missing key {name!r}"
    value = problem.get("input")
    shown = "" if isinstance(value, dict) else f" (found {value!r})"
    return f"{name or 'configuration'}: {problem['msg']}{shown}"


def _fields_at(model: type[BaseModel], location: Sequence[str]) -> list[str]:
    """Names of the fields of the nested model at `location`; empty where that is no model."""
    current: Any = model
    for part in location:
        field = getattr(current, "model_fields", {}).get(part)
        if field is None:
            return []
        candidates = [field.annotation, *getattr(field.annotation, "__args__", ())]
        models = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not models:
            return []
        current = models[0]
    return list(getattr(current, "model_fields", {}))
