"""What commands do so that their libraries load and work quickly: settings of a whole process.

In a user's own process nothing of it happens.
"""

from __future__ import annotations

import atexit
import gc
import sys
from typing import Any

ALLOCATIONS_BETWEEN_COLLECTIONS = 100_000
"""Of Python's garbage collector: at its default of 700 it walks all that was imported a hundred times."""


_KEEP_FREED = {-8: 1, -3: 1 << 30, -1: 1 << 30}
"""M_ARENA_MAX, so that threads share what was freed; M_MMAP_THRESHOLD and M_TRIM_THRESHOLD (malloc.h)."""


class _WithoutPandas:
    """Keeps pyarrow from importing pandas while it loads itself; later, pandas loads as always.

    pyarrow looks for pandas to tell its objects from others, which takes longer than all of Lance. Whoever
    converts to pandas afterwards gets it: pyarrow asks again then.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """What the import system asks of every finder."""
        if name == "pandas" and _is_loading("pyarrow.dataset"):
            raise ModuleNotFoundError("pandas is not loaded together with pyarrow", name=name)


def load_quickly() -> None:
    """Set this process up as one that runs a command and ends."""
    gc.set_threshold(ALLOCATIONS_BETWEEN_COLLECTIONS, 20, 20)
    # what is left at the end goes with the process: looking through it takes longer than ending
    atexit.register(gc.freeze)
    sys.meta_path.insert(0, _WithoutPandas())  # type: ignore[arg-type]


def keep_freed_memory() -> None:
    """Have the C library keep what Lance frees, for the next batch of a build: fresh pages cost more than the
    copy into them. Of other C libraries than glibc nothing is asked.
    """
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        for option, value in _KEEP_FREED.items():
            mallopt(option, value)


def _is_loading(module: str) -> bool:
    return bool(getattr(getattr(sys.modules.get(module), "__spec__", None), "_initializing", False))
