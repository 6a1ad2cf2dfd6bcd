"""The benchmarks: `benchmarks.toml` says what a table can say, the modules here what it cannot.

`HEADLINES` are rules that turn predictions into the official figure, `FURTHER_FIGURES` are figures beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vrleval.benchmarks import ovobench, videomathqa, videomme_v2, vsibench

if TYPE_CHECKING:
    from vrleval.aggregate import Rule

HEADLINES: dict[str, Rule] = {
    "ovobench": ovobench.categories,
    "vsibench": vsibench.eight_tasks,
    "videomathqa_mbin": videomathqa.all_binaries_right,
    "videomme_v2": videomme_v2.groups_of_four,
}

FURTHER_FIGURES: Mapping[str, Mapping[str, Rule]] = {}
