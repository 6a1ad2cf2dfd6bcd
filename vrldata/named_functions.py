"""A user's own function that a config or an option names, as a Python object: `load_function`.

Only names that the user wrote are loaded, never one that stands in a data set: loading runs the code.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from vrldata.errors import ConfigError, nearest

FORMS = "file.py:function, package.module:function or package.module.function"


def load_function(name: str, *, purpose: str) -> Callable[..., Any]:
    """The function that `name` means.

    Args:
        name: `file.py:function` (relative to the working folder; modules beside the file can be imported),
            `package.module:function` or `package.module.function` (installed, or on `PYTHONPATH`).
        purpose: what the function is for; begins every message.

    Raises:
        ConfigError: the name is of none of these forms, or file, module or function do not exist or cannot be
            loaded; the message says which, and for an error of the code its line.
    """
    place, function_name = split_name(name, purpose=purpose)
    module = _module_of_file(name, place, purpose) if is_file_name(place) else _module(name, place, purpose)
    function = module
    for part in function_name.split("."):
        if not hasattr(function, part):
            hint = nearest(part, dir(function))
            raise ConfigError(f"{purpose}: {name!r}: {place} has no function {function_name!r}.{hint}")
        function = getattr(function, part)
    if not callable(function):
        raise ConfigError(
            f"{purpose}: {name!r}: {function_name} is no function but {type(function).__name__}; name a "
            "function"
        )
    return function


def split_name(name: str, *, purpose: str) -> tuple[str, str]:
    """(file or module, function) of a name.

    >>> split_name("rewards/mine.py:length", purpose="reward")
    ('rewards/mine.py', 'length')
    >>> split_name("package.rewards.length", purpose="reward")
    ('package.rewards', 'length')

    Raises:
        ConfigError: it is of none of the forms.
    """
    place, colon, function_name = name.rpartition(":")
    if not colon:
        place, _, function_name = name.rpartition(".")
        if name.endswith(".py"):
            raise ConfigError(f"{purpose}: {name!r}: names no function; write {name}:FUNCTION")
    if not place or not all(part.isidentifier() for part in function_name.split(".")):
        raise ConfigError(f"{purpose}: {name!r}: expected {FORMS}")
    return place, function_name


def is_file_name(place: str) -> bool:
    """Whether it is the path of a file rather than the name of a module."""
    return place.endswith(".py")


def absolute_name(name: str, *, purpose: str) -> str:
    """`name` with the whole path of its file, so that it means the same in another working folder."""
    place, function_name = split_name(name, purpose=purpose)
    return f"{_path(place)}:{function_name}" if is_file_name(place) else name


def _path(place: str) -> Path:
    return Path(place).expanduser().absolute()


def _module_of_file(name: str, place: str, purpose: str) -> ModuleType:
    path = _path(place)
    if not path.is_file():
        near = nearest(path.name, [file.name for file in path.parent.glob("*.py")])
        raise ConfigError(
            f"{purpose}: {name!r}: {path}: no such file; relative paths begin at {Path.cwd()}.{near}"
        )
    # a name of its own: a file `random.py` must not take the place of the library's module
    module_name = f"vrl_file_{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    if module_name in sys.modules:
        return sys.modules[module_name]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{purpose}: {name!r}: {path}: not readable as Python")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.append(folder)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[module_name]
        raise ConfigError(f"{purpose}: {name!r}: cannot be loaded: {described(error, path)}") from error
    return module


def _module(name: str, place: str, purpose: str) -> ModuleType:
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        hint = ""
        file = Path(*place.split(".")).with_suffix(".py")
        if file.is_file():
            hint = f"; for the file here write {file}:{name.rpartition(':' if ':' in name else '.')[2]}"
        raise ConfigError(
            f"{purpose}: {name!r}: module {place!r} cannot be imported: {described(error)}{hint}"
        ) from error
    except Exception as error:
        raise ConfigError(
            f"{purpose}: {name!r}: module {place!r} cannot be imported: {described(error)}"
        ) from error


def described(error: BaseException, file: str | Path | None = None) -> str:
    """An exception of a user's code on one line, with the last line of their code that it passed.

    Args:
        file: of their code; None takes the innermost line, whatever file that is in.
    """
    text = " ".join(str(error).split())
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}: {kind}: {error.msg}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if file is None or frame.filename == str(file)]
    place = f"{own[-1].filename}:{own[-1].lineno}: " if own and not own[-1].filename.startswith("<") else ""
    return f"{place}{kind}: {text}" if text else f"{place}{kind}"
