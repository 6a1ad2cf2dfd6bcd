"""Every error that vrl raises on purpose.

A message says what failed, on which file, line, field or value, and what to do next. The command line
prints it without a traceback. Bugs are not here: they propagate as what they are.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class VRLError(Exception):
    """Base of all errors with a message for the user.

    Attributes:
        exit_code: what the command line exits with when this error ends a command (2: wrong usage or input).
    """

    exit_code = 2


class ConfigError(VRLError):
    """A configuration value is unknown, missing, of the wrong type, or contradicts another."""


class UriError(VRLError):
    """A dataset URI cannot be parsed, or what it names does not exist."""


class FilterError(VRLError):
    """A predicate or an SQL statement is wrong."""


class AnnotationError(VRLError):
    """An annotation file or row cannot be read."""


class DecodeError(VRLError):
    """A video or an image cannot be decoded into frames."""


class StoreError(VRLError):
    """A dataset's tables cannot be read or written as asked."""


class MissingClip(StoreError, KeyError):  # noqa: N818 - the public name of the contract
    """The store holds no frames for this (video_path, sampling spec)."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class HubError(VRLError):
    """A push to or a pull from the Hugging Face Hub failed."""


class TaskError(VRLError):
    """A problem type is unknown, or a scoring option is wrong."""


class RolloutError(VRLError):
    """The engine could not produce responses, or disagrees with the trainer about its inputs."""


class BenchmarkError(VRLError):
    """A benchmark is unknown, or its files are missing or damaged."""


class MissingExtraError(VRLError):
    """A library of an optional extra is not installed."""


def nearest(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """A hint for a misspelt name.

    Args:
        cutoff: likeness from which a name is suggested, up to 1 for the same one.

    >>> nearest("max_frame", ["max_frames", "fps"])
    " Did you mean 'max_frames'?"
    >>> nearest("zzz", ["max_frames", "fps"])
    ''
    """
    found = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f" Did you mean {found[0]!r}?" if found else ""


def missing_extra(library: str, extra: str, purpose: str) -> MissingExtraError:
    """The one-line error for a library that an extra of this project would have installed."""
    return MissingExtraError(f"{purpose} needs {library}, which is not installed: pip install 'vrl[{extra}]'")
