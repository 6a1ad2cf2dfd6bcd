"""Cleaning and tokenising of answers: Unicode, markup, quotes, punctuation. Linear in the text."""

from __future__ import annotations

import re
import unicodedata

_EDGES = " \t\r\n*_`$\"'“”‘’«»「」『』\u200b\ufeff"
_CJK = (
    "\u3040-\u30ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"  # han
    "\uac00-\ud7af\u1100-\u11ff"  # hangul
    "\U00020000-\U0003ffff"  # han, supplementary planes
)
_CJK_CHARACTER = re.compile(f"[{_CJK}]")
_TOKEN = re.compile(f"[{_CJK}]|[^\\W_{_CJK}]+")
_BOXED = "\\boxed{"


def has_cjk(text: str) -> bool:
    """Whether `text` holds a Chinese, Japanese or Korean character."""
    return _CJK_CHARACTER.search(text) is not None


def nfkc(text: str) -> str:
    """`text` in Unicode form NFKC: full-width letters and digits become plain ones.

    A text that more than doubles stays as it is: some signs stand for whole sentences.
    """
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    return plain if len(plain) <= 2 * len(text) + 64 else text


def raised(text: str) -> str:
    """`text` with superscripts as exponents, which NFKC would make digits like any other.

    >>> raised("10⁻³ m²")
    '10^{-3} m^{2}'
    """
    if text.isascii():
        return text
    return _SUPERSCRIPT_RUN.sub(lambda run: f"^{{{run.group().translate(_SUPERSCRIPTS)}}}", text)


_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻]+")


def folded_widths(text: str) -> str:
    """`text` with each character that has a one-character NFKC form in that form: no place moves.

    >>> folded_widths("答案：Ｂ ½")
    '答案:B ½'
    """
    if unicodedata.is_normalized("NFKC", text):
        return text
    forms = (unicodedata.normalize("NFKC", character) for character in text)
    return "".join(form if len(form) == 1 else own for form, own in zip(forms, text, strict=True))


def collapse(text: str) -> str:
    """`text` with each run of white space as one blank, stripped."""
    return " ".join(text.split())


def clean(content: str) -> str:
    """The content of an answer without its dress: NFKC, no `\\boxed{}`, markup, quotes or blanks around it.

    >>> clean("**\\\\boxed{B}**")
    'B'
    """
    text = nfkc(content).strip(_EDGES)
    for _ in range(4):
        if not text.endswith("}"):
            break
        inner = _unbox(text).strip(_EDGES)
        if inner == text:
            break
        text = inner
    return text


def _unbox(text: str) -> str:
    """The inside of a `\\boxed{}` or `\\text{}` that spans the whole of `text`, else `text`."""
    for command in (_BOXED, "\\fbox{", "\\text{", "\\textbf{", "\\mathbf{", "\\mathrm{"):
        if text.startswith(command) and text.endswith("}"):
            end = closing_brace(text, len(command))
            if end == len(text) - 1:
                return text[len(command) : end]
    return text


def closing_brace(text: str, start: int) -> int:
    """Index of the brace that closes the one opened just before `start`; -1 when none does."""
    depth = 1
    for match in _BRACES.finditer(text, start):
        if match.group() == "{":
            depth += 1
        elif match.group() == "}":
            depth -= 1
            if depth == 0:
                return match.start()
    return -1


_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)


def last_boxed(text: str) -> str | None:
    """The content of the last complete `\\boxed{}` in `text`; None without one.

    >>> last_boxed(r"so \\boxed{\\frac{1}{2}}.")
    '\\\\frac{1}{2}'
    """
    start = text.rfind(_BOXED)
    if start < 0:
        return None
    start += len(_BOXED)
    end = closing_brace(text, start)
    return text[start:end] if end >= 0 else None


def strip_punctuation(text: str) -> str:
    """`text` without punctuation, symbols and blanks at its edges.

    >>> strip_punctuation("(hello, world)!")
    'hello, world'
    """
    start, end = 0, len(text)
    while start < end and not text[start].isalnum():
        start += 1
    while end > start and not text[end - 1].isalnum():
        end -= 1
    return text[start:end]


def comparable(text: str) -> str:
    """`text` for equality: NFKC, case-folded, blanks collapsed, no markup or punctuation at the edges.

    The sign, the decimal point and the percent or degree sign of a number stay. A text of punctuation alone
    stays as it is, so that two of them can still differ.

    >>> comparable("-5 %.")
    '-5%'
    """
    folded = collapse(clean(text).casefold()).replace("−", "-")
    bare = strip_punctuation(folded)
    if not bare or not (bare[0].isdigit() or bare[-1].isdigit()):
        return bare or folded
    folded = folded.replace(" %", "%").replace(" °", "°")
    start = folded.find(bare)
    before = _NUMBER_SIGN.search(folded[:start]) if bare[0].isdigit() else None
    after = folded[start + len(bare) :][:1] if bare[-1].isdigit() else ""
    return (before.group() if before else "") + bare + (after if after in ("%", "°") else "")


_NUMBER_SIGN = re.compile(r"-?\.?\Z")


def tokens(text: str) -> list[str]:
    """Words and digit runs in lower case; each Chinese, Japanese or Korean character is its own token."""
    return _TOKEN.findall(nfkc(text).casefold())


def fenced_blocks(text: str) -> list[str]:
    """The contents of the complete code fences of `text`, without their language names.

    >>> fenced_blocks("so:\\n```json\\n[1]\\n```")
    ['[1]']
    """
    blocks = text.split("```")[1:-1:2]
    return [_LANGUAGE.sub("", block, count=1).strip() for block in blocks]


_LANGUAGE = re.compile(r"^[A-Za-z0-9_+-]{1,12}(?=\s|[{\[])")


def unwrap_answer_tag(text: str) -> str:
    """Gold text without the `<answer>` wrapper that many data sets put around it.

    >>> unwrap_answer_tag("<think>seen</think><Answer> B </Answer>")
    'B'
    """
    folded = text.lower()
    if len(folded) != len(text):
        folded = text
    opening = folded.rfind("<answer>")
    if opening < 0:
        return text.strip()
    closing = folded.find("</answer>", opening)
    return text[opening + len("<answer>") : closing if closing >= 0 else len(text)].strip()
