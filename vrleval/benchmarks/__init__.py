"""The benchmarks: `benchmarks.toml` says what a table can say, the modules here what it cannot.

`PREPARE` turns the rows of a file into rows of questions (repairs, labels that only order or file names
carry, one row that holds several questions). `HEADLINES` are rules that turn predictions into the official
figure, `FURTHER_FIGURES` figures beside it, `SCORERS` rules for one response where no problem type fits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from vrleval.benchmarks import (
    charades_sta,
    layouts,
    mvbench,
    odvbench,
    ovobench,
    stvg,
    tempcompass,
    videomathqa,
    videomme_v2,
    videommmu,
    videoreasonbench,
    vsibench,
)

if TYPE_CHECKING:
    from vrldata.types import Score
    from vrleval.aggregate import Rule
    from vrleval.intervals import Unit
    from vrleval.rows import Row
    from vrleval.types import Prediction, Question

PREPARE: Mapping[str, Callable[[list[Row]], list[Row]]] = {
    "videomme_v2": videomme_v2.prepare,
    "mvbench": mvbench.prepare,
    "tempcompass": tempcompass.prepare,
    "motionbench": layouts.one_row_a_question,
    "lvbench": layouts.one_row_a_question,
    "mlvu_dev": layouts.task_from_file_name,
    "mlvu_test": layouts.task_from_file_name,
    "vcrbench": layouts.choice_or_open,
    "videoreasonbench": videoreasonbench.prepare,
    "mmvu": layouts.discipline_from_path,
    "mmvu_mc": layouts.discipline_from_path,
    "videommmu": videommmu.prepare,
    "videomathqa_mcq": videomathqa.only_choices,
    "videomathqa_mbin": videomathqa.only_binaries,
    "vsibench": vsibench.prepare,
    "charades_sta": charades_sta.prepare,
    "stvg": stvg.prepare,
    "ovobench": ovobench.prepare,
    "odvbench": odvbench.prepare,
}

HEADLINES: Mapping[str, Rule] = {
    "ovobench": ovobench.categories,
    "vsibench": vsibench.eight_tasks,
    "videomathqa_mbin": videomathqa.all_binaries_right,
    "videomme_v2": videomme_v2.groups_of_four,
}

FURTHER_FIGURES: Mapping[str, Mapping[str, Rule]] = {
    "ovobench": {f"category {name}": ovobench.one_category(name) for name in ovobench.CATEGORIES},
    "videomme_v2": {
        "relevance groups": videomme_v2.groups_of_type("relevance"),
        "logic groups": videomme_v2.groups_of_type("logic"),
    },
    "tempcompass": {f"format {name}": tempcompass.one_format(name) for name in tempcompass.FORMATS},
    "videoreasonbench": {"final answer marked": videoreasonbench.marked},
}

JOINT_TABLES: Mapping[str, Callable[[Sequence[Prediction], str], Mapping[str, list[Unit]]]] = {
    "videomme_v2": videomme_v2.by_field,
    "videomathqa_mbin": videomathqa.by_field,
}
"""Units by the value of a group field, where several questions are scored together."""

SCORERS: Mapping[str, Callable[[Question, str], Score | None]] = {
    "tempcompass": tempcompass.score,
    "videoreasonbench": videoreasonbench.score,
}
"""A benchmark's own scorer: (question, response) to a score, or None where the problem type's rules apply."""
