"""Protocols `NAME-official`: what the benchmarks' own scorers give, where they differ from protocol `eval`.

Rules restated from the scorers that each docstring names, not copied. Their faults are part of the rules:
letters in the middle of words, whole texts that contain the key, the first word only. They are for
comparisons with published figures; a benchmark without a protocol here has a scorer that agrees with
`eval`, or one that is a language model's verdict. What they leave to such a verdict is `needs_judge`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from vrldata.tasks import boolean, choices
from vrldata.tasks.reading import MAX_CONTENT_CHARS, Record, UnreadableGoldError
from vrldata.tasks.scoring import unscored
from vrldata.types import Score

_V2_PREFIXES = (
    *("Final Answer:", "The best answer is", "The correct answer is", "The answer is", "The answer"),
    *("The best option is", "The correct option is", "Best answer:", "Best option:", "Answer:", "Option:"),
)


Rules = Callable[[Record], Score]


def _scored(accuracy: float, extracted: str, *, how: str, status: str = "scored") -> Score:
    return Score(
        accuracy=accuracy,
        format=0.0,
        overall=accuracy,
        status=status,
        extracted=extracted[:500],
        how=how,
        strict=accuracy,
    )


def _letter_score(letter: str, record: Record, how: str) -> Score:
    """Whether `letter` is the key; none is an unparsed response, which earns nothing."""
    gold = choices.read_gold(record)
    if not letter:
        return _scored(0.0, "", how=how, status="unparsed")
    return _scored(float(gold == {letter}), letter, how=how)


def score_vsibench(record: Record) -> Score:
    """VSI-Bench: the first word alone counts, without a full stop.

    Choices: the word equals the letter, whatever its case. Numbers: the word is a number as Python reads it;
    mean of |p - t| / t <= 1 - c over c = 0.50, 0.55 .. 0.95. A response that begins with a blank has no
    first word.

    Source: Yang et al. 2024, "Thinking in Space"; the benchmark's scorer inside its evaluation harness.
    """
    word = record.response.split(" ", 1)[0].rstrip(".").strip()
    how = "vsibench"
    if record.problem_type == "multiple_choice":
        (letter, *several) = sorted(choices.read_gold(record))
        if several:
            raise UnreadableGoldError("the key has several letters")
        return _scored(float(word.lower() == letter.lower()), word, how=how)
    truth = _float(record.ground_truth)
    if not truth:
        raise UnreadableGoldError(f"key {str(record.ground_truth)[:80]!r} is no number other than 0")
    value = _float(word)
    if value is None:
        return _scored(0.0, word, how=how, status="unparsed")
    import numpy as np

    accuracy = np.mean(abs(value - truth) / truth <= 1 - np.linspace(0.5, 0.95, 10))
    return _scored(float(accuracy), word, how=how)


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def score_ovobench(record: Record) -> Score:
    """OVO-Bench: the key anywhere in the response.

    Choices: the key's letter occurs, inside a word too. REC (counts): all digits of the response joined are
    the count. SSR and CRR: the response is `Y` or `N`, or contains `Yes` or `No` in this spelling.

    Source: Li et al. 2025, OVO-Bench, `utils/OVOBenchScore.py` at 19677d2.
    """
    text, how = record.response, "ovobench"
    if record.problem_type == "numerical":
        digits = "".join(re.findall(r"\d", text))
        return _scored(float(digits == str(record.ground_truth).strip()), digits, how=how)
    if record.problem_type == "boolean":
        wanted = "Yes" if boolean.read_gold(record) else "No"
        return _scored(float(text == wanted[0] or wanted in text), text, how=how)
    letters = sorted(choices.read_gold(record))
    right = all(letter in text for letter in letters)
    return _scored(float(right), ", ".join(letters) if right else "", how=how)


def score_tempcompass(record: Record) -> Score:
    """TempCompass: rules that match a response to the letter, and a judge for all that they do not match.

    Choices: the whole key, a letter alone, or a response that begins with `X.` or `X)`. Yes/no: what the
    response begins with, so that `Not sure, yes` says no. Captions: the response equals an option's line, its
    sentence or its label, or holds its sentence after `) `. Captioning always needs the judge.

    Source: Liu et al. 2024, TempCompass, `eval_multi-choice.py`, `eval_yes_no.py` and
    `eval_caption_matching.py` at 75361fd.
    """
    text, how = record.response.replace("</s>", ""), "tempcompass"
    if record.problem_type == "multiple_choice":
        (letter, *_) = sorted(choices.read_gold(record))
        lines = [f"{name}. {option}" for name, option in choices.letter_options(record.options)]
        whole = {str(record.ground_truth), *(line for line in lines if line.startswith(f"{letter}."))}
        if text in whole and len(text) > 1:
            return _scored(1.0, text, how=how)
        if text in ("A", "B", "C", "D") or text[:2] in {f"{name}{mark}" for name in "ABCD" for mark in ".)"}:
            return _scored(float(text[0] == letter), text[0], how=how)
    elif record.problem_type == "boolean":
        wanted = "yes" if boolean.read_gold(record) else "no"
        said = next((word for word in ("yes", "no") if text.lower().startswith(word)), None)
        if said:
            return _scored(float(said == wanted), said, how=how)
    elif options := [line for line in record.problem.split("\n")[1:] if ": " in line]:
        key, named = str(record.ground_truth), _named_caption(text, options)
        if named:
            return _scored(float(named in (key, key.split(":")[0], *key.split(": ")[1:2])), named, how=how)
    return unscored("needs_judge", "the rules match nothing", extracted=text, how=how)


def _named_caption(text: str, options: list[str]) -> str | None:
    """What names an option, of the last rule that finds one: line, sentence, label."""
    after = text.split(") ")[1] if ") " in text else text
    labels, sentences = zip(*(option.split(": ")[:2] for option in options), strict=True)
    named = [option for option in options if option == text]
    named += [sentence for sentence in sentences if sentence in (text, after)]
    named += [label for label in labels if label in (text, text.replace(".", ""))]
    return named[-1] if named else None


def score_video_holmes(record: Record) -> Score:
    """Video-Holmes: in the last answer tag, or in the whole response, the first letter of the alphabet wins.

    First among those followed by a blank or colon or preceded by `[`, then among any capitals A to F, inside
    words too.

    Source: Cheng et al. 2025, Video-Holmes, `evaluate.py` at 7745c87.
    """
    from vrldata.tasks.easyvideor1 import tag_pairs

    text = record.response
    pairs = tag_pairs(text, "answer", ignore_case=False)
    if pairs:
        text = text[pairs[-1][1] : pairs[-1][2]].strip()
    delimited = (name for name in "ABCDEF" if any(f in text for f in (f"{name} ", f"{name}:", f"[{name}")))
    letter = next(delimited, None) or next((name for name in "ABCDEF" if name in text), "")
    return _letter_score(letter, record, "video-holmes")


def score_videomme_v2(record: Record) -> Score:
    """Video-MME-v2: the first capital A to H, inside words too, once eleven English phrases are removed.

    Source: Video-MME-v2, `evaluation/test_video_mme_v2.py` at 013b6c9.
    """
    text = record.response.strip()
    for prefix in _V2_PREFIXES:
        text = text.replace(prefix, "")
    found = re.search("[A-H]", text)
    return _letter_score(found.group() if found else "", record, "videomme-v2")


def score_longvideobench(record: Record) -> Score:
    """LongVideoBench: the first capital A to E, inside words too. Its guess without one is `--compat random`.

    Source: Wu et al. 2024, LongVideoBench, reference evaluation.
    """
    found = re.search("[A-E]", record.response)
    return _letter_score(found.group() if found else "", record, "longvideobench")


def score_minerva(record: Record) -> Score:
    """MINERVA: the last capital A to E, inside words too. Its guess without one is `--compat random`.

    Source: Nagrani et al. 2025, MINERVA, reference evaluation.
    """
    found = re.findall("[A-E]", record.response)
    return _letter_score(found[-1] if found else "", record, "minerva")


_CHOICES = frozenset({"multiple_choice"})
_TYPES: dict[str, tuple[Rules, frozenset[str]]] = {
    "vsibench-official": (score_vsibench, _CHOICES | {"numerical", "regression"}),
    "ovobench-official": (score_ovobench, _CHOICES | {"numerical", "boolean"}),
    "tempcompass-official": (score_tempcompass, _CHOICES | {"boolean", "open_ended"}),
    "video_holmes-official": (score_video_holmes, _CHOICES),
    "videomme_v2-official": (score_videomme_v2, _CHOICES),
    "longvideobench-official": (score_longvideobench, _CHOICES),
    "minerva-official": (score_minerva, _CHOICES),
}


def _protocol(rules: Rules, types: frozenset[str], name: str) -> Rules:
    def score(record: Record) -> Score:
        if record.problem_type not in types:
            return unscored("needs_judge", f"{name} has no rule for {record.problem_type}")
        if len(record.response) > MAX_CONTENT_CHARS:
            return _scored(0.0, "", how=name, status="unparsed")
        try:
            return rules(record)
        except UnreadableGoldError as error:
            return unscored("bad_ground_truth", str(error))

    return score


OFFICIAL: dict[str, Rules] = {name: _protocol(rules, types, name) for name, (rules, types) in _TYPES.items()}
"""Protocol name, `BENCHMARK-official`, to its rules."""
