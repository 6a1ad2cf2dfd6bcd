"""Free text: open-ended answers by n-gram overlap, recognised text (OCR) by error rate."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from vrldata.errors import missing_extra
from vrldata.tasks.measures import error_rate, rouge_l, rouge_n
from vrldata.tasks.reading import (
    Measured,
    Reading,
    Record,
    UnreadableGoldError,
)
from vrldata.tasks.text import (
    collapse,
    comparable,
    has_cjk,
    nfkc,
    strip_punctuation,
    tokens,
    unwrap_answer_tag,
)

MAX_TOKENS = 4096
"""Longer texts are cut: ROUGE-L takes quadratic time."""
MAX_OCR_CHARS = 8192


def read_gold(record: Record) -> str:
    """The key as text; numbers and booleans as JSON writes them.

    Raises:
        UnreadableGoldError: it is empty, null, or an object.
    """
    key = record.ground_truth
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, list | tuple) and len(key) == 1:
        key = key[0]
    if not isinstance(key, str | int | float):
        raise UnreadableGoldError(f"key {str(key)[:80]!r} is no text")
    text = unwrap_answer_tag(str(key))
    if not text:
        raise UnreadableGoldError("the key is empty")
    return text


def read_answer(content: str, record: Record, gold: Any) -> Reading:
    """The content itself."""
    return Reading(value=content, shown=content)


def compare_open_ended(value: str, gold: str, record: Record) -> Measured:
    """1 for equal texts, else the mean of the defined ones among ROUGE-1, ROUGE-2 and ROUGE-L F1."""
    if comparable(value) == comparable(gold):
        return Measured(accuracy=1.0, parts={"rouge_1": 1.0, "rouge_l": 1.0})
    predicted, key = stemmed_tokens(value)[:MAX_TOKENS], stemmed_tokens(gold)[:MAX_TOKENS]
    found = {
        "rouge_1": rouge_n(predicted, key, 1),
        "rouge_2": rouge_n(predicted, key, 2),
        "rouge_l": rouge_l(predicted, key),
    }
    parts = {name: share for name, share in found.items() if share is not None}
    return Measured(accuracy=sum(parts.values()) / len(parts) if parts else 0.0, parts=parts)


def stemmed_tokens(text: str) -> list[str]:
    """Tokens with words longer than three characters reduced to their Porter stem (Porter 1980)."""
    return [_stem(token) if len(token) > 3 and token.isascii() else token for token in tokens(text)]


@lru_cache(maxsize=65536)
def _stem(word: str) -> str:
    return str(_stemmer().stemWord(word[:64]))


@lru_cache(maxsize=1)
def _stemmer() -> Any:
    try:
        import snowballstemmer
    except ImportError as error:
        raise missing_extra("snowballstemmer", "tasks", "scoring open-ended answers") from error
    return snowballstemmer.stemmer("porter")


def compare_ocr(value: str, gold: str, record: Record) -> Measured:
    """1 - min(1, error rate): of characters where the key holds CJK or no blank, else of words."""
    predicted, key = _ocr_text(value, record), _ocr_text(gold, record)
    if record.settings.ocr_mode == "exact":
        return Measured(accuracy=float(predicted == key))
    if has_cjk(key) or " " not in key:
        rate, name = error_rate(predicted, key), "character_error_rate"
    else:
        rate, name = error_rate(predicted.split(" "), key.split(" ")), "word_error_rate"
    return Measured(accuracy=1.0 - rate, parts={name: rate})


def _ocr_text(text: str, record: Record) -> str:
    plain = collapse(nfkc(text[:MAX_OCR_CHARS]).casefold())
    if not record.settings.ignore_edge_punct:
        return plain
    words = [strip_punctuation(word) for word in plain.split(" ")]
    # A text of punctuation alone keeps it: two such texts can still differ.
    return " ".join(word for word in words if word) or plain
