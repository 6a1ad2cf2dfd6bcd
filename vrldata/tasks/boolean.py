"""Yes/no answers: polarity words in English and Chinese; in other languages the word that comes first."""

from __future__ import annotations

import re

from vrldata.tasks.reading import (
    Measured,
    Reading,
    Record,
    UnreadableAnswerError,
    UnreadableGoldError,
    sole,
)
from vrldata.tasks.text import clean, unwrap_answer_tag

_YES = frozenset({"yes", "true", "correct", "right", "yeah", "yep"})
_NO = frozenset({"no", "false", "incorrect", "wrong", "nope"})
_ALONE = {"y": True, "1": True, "n": False, "0": False}
_CHINESE_NO = ("不是的", "不正确", "不是", "不对", "错误", "没有", "否", "错", "不")
_CHINESE_YES = ("是的", "正确", "对的", "是", "对")
_CHINESE_SURE = ("没有错", "没错")
_CHINESE_OTHER = (
    *("没有问题", "没问题", "不错", "还是", "总是", "但是", "可是", "于是", "只是", "要是", "而是"),
    *("对着", "对称", "对比", "对象", "对手", "绝对", "反对", "面对", "相对", "针对", "应对"),
    "是否",
    "对面",
    "对于",
    "对方",
    "对话",
    "没有信息",
    "不确定",
    "不清楚",
    "不知道",
    "不能",
    "不明",
)
_TOKEN = re.compile(
    "|".join((*_CHINESE_SURE, *_CHINESE_OTHER, *_CHINESE_NO, *_CHINESE_YES))
    + r"|[a-z]+(?:['’]t)?|\d+|[^\W\d_]"
)
_YES_WORDS = "oui ja sí sì sim да はい 네 예 نعم हाँ हां có evet"
_NO_WORDS = "non nein não nee нет いいえ 아니요 아니오 لا नहीं không hayır"
_OTHER_YES = dict.fromkeys(_YES_WORDS.split(), True)
# In these languages the first word decides; inside English prose the same letters mean other things.
_OTHER_LANGUAGES = re.compile(rf"(?<![\w-])(?:{'|'.join([*_OTHER_YES, *_NO_WORDS.split()])})(?![\w-])")
_FLIPS = frozenset({"not", "isn't", "isn’t", "wasn't", "wasn’t", "aren't", "aren’t"})
_JOIN_WORDS = (
    "or and either both vs versus xor then but rather wait maybe perhaps text lor quad br b i e "
    "xor nor neither alternatively otherwise instead not else if even also plus aka viz "
    "ou et oder und o y и или と か 또 는 或 者 和 与 还是"
)
_JOINS = frozenset(_JOIN_WORDS.split())


# Polarities that a missing blank hides: "yesor no", "yes orno".
_GLUED = re.compile(r"\b(?:(yes|no|true|false)(or|and)|(or|and)(yes|no|true|false))(?![a-z])")


def polarity(text: str) -> bool:
    """Whether `text` says yes.

    The first word decides when it is a polarity word; otherwise all polarity words must agree.

    >>> polarity("No, that is not true")
    False

    Raises:
        UnreadableAnswerError: no polarity word, or both with nothing to decide between them.
    """
    plain = _GLUED.sub(r"\1\3 \2\4", clean(text).casefold())
    if first := _OTHER_LANGUAGES.match(plain):
        others = {_OTHER_YES.get(found.group(), False) for found in _OTHER_LANGUAGES.finditer(plain)}
        if len(others) > 1:
            raise UnreadableAnswerError(f"both yes and no in {text[:80]!r}", ambiguous=True)
        return _OTHER_YES.get(first.group(), False)
    words = _TOKEN.findall(plain)
    if len(words) == 1 and words[0] in _ALONE:
        return _ALONE[words[0]]
    found = [_polarity_of(word, words[index - 1] if index else "") for index, word in enumerate(words)]
    said = [value for value in found if value is not None]
    if not said:
        raise UnreadableAnswerError(f"neither yes nor no in {text[:80]!r}")
    only = all(value is not None or word in _JOINS for word, value in zip(words, found, strict=True))
    if len(set(said)) == 2 and (only or found[0] is None):
        raise UnreadableAnswerError(f"both yes and no in {text[:80]!r}", ambiguous=True)
    if found[0] is None and words[0] in _ALONE and len(words) > 1 and words[0] in "yn":
        return _ALONE[words[0]]
    return said[0]


def _polarity_of(word: str, before: str) -> bool | None:
    if word in _YES:
        # "not true" says no, but "not ... yes" leaves the later word as it is
        return not (before in _FLIPS and word in ("true", "correct", "right"))
    if word in _NO:
        return False
    if word in _CHINESE_YES or word in _CHINESE_SURE:
        return True
    return False if word in _CHINESE_NO else None


def read_gold(record: Record) -> bool:
    """The key as a boolean: JSON true and false, 1 and 0, or a text that says one of them."""
    key = sole(record.ground_truth)
    if isinstance(key, bool):
        return key
    if isinstance(key, int | float) and key in (0, 1):
        return bool(key)
    if not isinstance(key, str):
        raise UnreadableGoldError(f"key {key!r} is neither yes nor no")
    try:
        return polarity(unwrap_answer_tag(key))
    except UnreadableAnswerError as error:
        raise UnreadableGoldError(f"key {key[:80]!r} is neither yes nor no") from error


def read_answer(content: str, record: Record, gold: bool) -> Reading:
    """Yes or no."""
    value = polarity(content)
    return Reading(value=value, shown="Yes" if value else "No")


def compare(value: bool, gold: bool, record: Record) -> Measured:
    """1 where both say the same."""
    return Measured(accuracy=float(value == gold))
