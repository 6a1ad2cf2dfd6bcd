"""Let torchvision's Python part import where its compiled part cannot load.

A torchvision wheel linked against CUDA fails on a machine without CUDA, because two operators that its Python
code registers fake kernels for are never defined. transformers needs the Python part only. `install` puts an
import hook in front of torchvision that first tries the compiled library, as torchvision itself would, and
defines the two operator schemas only when that fails. It costs nothing until torchvision is imported.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec, PathFinder

TYPE_CHECKING = False  # `typing` takes a fifth of Python's start
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import ModuleType

_SCHEMAS = {
    "nms": "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms": "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
}
_kept_libraries: list[object] = []


class _Finder:
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "torchvision":
            return None
        from pathlib import Path

        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None and spec.origin is not None:
            define_missing_operators(Path(spec.origin).parent)
        return spec


def define_missing_operators(package: Path) -> None:
    """Define the schemas of torchvision's operators unless its compiled library loads from `package`."""
    import torch

    for library in package.glob("_C*.so"):
        try:
            torch.ops.load_library(str(library))
        except OSError:
            continue
        return
    library = torch.library.Library("torchvision", "DEF")
    for schema in _SCHEMAS.values():
        library.define(schema)
    _kept_libraries.append(library)  # the definitions live as long as this object


def install() -> None:
    """Install the hook once, unless torchvision is imported already."""
    if "torchvision" not in sys.modules and not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
