"""A user's own function named in a config as `module:function`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from vrldata.errors import ConfigError, nearest


def load_function(name: str, *, purpose: str) -> Callable[..., Any]:
    """Import `module:function`; the module must be importable (on `PYTHONPATH` or installed).

    Raises:
        ConfigError: the name is not of that form, or the module or the function does not exist.
    """
    module_name, _, function_name = name.partition(":")
    if not module_name or not function_name:
        raise ConfigError(f"{purpose} {name!r}: expected module:function")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(
            f"{purpose} {name!r}: module {module_name!r} cannot be imported: {error}"
        ) from error
    function = getattr(module, function_name, None)
    if not callable(function):
        hint = nearest(function_name, dir(module))
        raise ConfigError(f"{purpose} {name!r}: {module_name} has no function {function_name!r}.{hint}")
    return function  # type: ignore[no-any-return]
