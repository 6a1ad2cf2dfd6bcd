"""Multiple choice: the options of a row, its key, and the letters of an answer.

Letters come from the row's own options, never from a fixed set. An answer that names two options, or a
letter together with the text of another option, names none.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from vrldata.tasks.reading import Measured, Reading, Record, UnreadableAnswerError, UnreadableGoldError
from vrldata.tasks.text import clean, comparable, nfkc, unwrap_answer_tag

_OPTION = re.compile(r"[(\[]?\s{0,3}([A-Za-z])\s{0,3}(?:[)\]]\s{0,3}[.:、,]?|[.:、])(.*)", re.DOTALL)
BARE_LETTER = re.compile(r"[(\[{]?\s{0,3}([A-Za-z])\s{0,3}[)\]}]?\s{0,3}[.:)。、,]?")
_LETTER_AND_TEXT = re.compile(
    r"(?:[(\[]\s{0,3}([A-Za-z])\s{0,3}[)\]]\s{0,3}[.:、,-]?|([A-Za-z])\s{0,3}[.:、)\]-])\s{0,3}(\S.*)",
    re.DOTALL,
)
# Latin with accents, Greek and Cyrillic: a capital beside one of them is part of a word.
_ALPHABETS = "A-Za-z\u00c0-\u04ff\u1e00-\u1eff"
_LONE_CAPITAL = re.compile(
    rf"(?<![{_ALPHABETS}0-9_])(?<![a-z]['’-])([A-Z])(?![{_ALPHABETS}0-9_]|['’][a-z]|-[a-z])"
)
_GLUED = re.compile(r"(?<![A-Za-z0-9])([A-Z][)\]*,;]{0,3})\s?(or|and|vs)\s?(?=[(\[*]{0,3}[A-Z](?![A-Za-z]))")
_CONTINUES = re.compile(r" ([a-z][a-z'’]*)")
_AFTER_LETTER = frozenset({"or", "and", "is", "are", "vs"})
_JOINS = "xor versus nor but then maybe perhaps alternatively otherwise instead rather else if not plus even"
_AFTER_A = frozenset(_JOINS.split())
"""Words that join the option A to another one and follow no article."""
_LETTER_LIST = re.compile(r"[A-Z](?:\s{0,3}(?:[,;/&+|、]|\band\b|\bor\b|和|与|及)?\s{0,3}[A-Z])+")
_CALLED = re.compile(
    r"(?i:(?:the )?(?:correct )?(?:option|choice|answer|选项|答案)(?: is|是)?)\s{0,3}[:：]?\s{0,3}"
    r"[(\[]?([A-Z])[)\].]{0,2}"
)
_LIST_DRESS = str.maketrans("", "", "()[]{}.*'\"`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of one row: letter to text as `comparable` leaves it; empty when the row lists none."""

    texts: Mapping[str, str]

    @property
    def letters(self) -> tuple[str, ...]:
        return tuple(self.texts)

    def accepts(self, letter: str) -> bool:
        return letter in self.texts if self.texts else len(letter) == 1

    def named_by(self, text: str) -> list[str]:
        """Letters of the options whose text equals `text`."""
        wanted = comparable(text)
        return [letter for letter, option in self.texts.items() if wanted and option == wanted]


def option_texts(options: Any) -> tuple[str, ...]:
    """Options as a tuple of texts, from a list, a mapping of letter to text, or one text with a line each.

    An option may be an object or a pair, too; a text may hold a JSON list or object.

    >>> option_texts({"A": "saw", "B": "drill"})
    ('A. saw', 'B. drill')
    >>> option_texts([{"label": "A", "text": "saw"}, {"label": "B", "text": "drill"}])
    ('A. saw', 'B. drill')
    """
    if isinstance(options, str) and options.lstrip()[:1] in ("[", "{"):
        # a text may only begin like JSON
        with contextlib.suppress(ValueError, RecursionError):
            options = json.loads(options)
    if not options:
        return ()
    if isinstance(options, str):
        return tuple(line for line in options.splitlines() if line.strip())
    if isinstance(options, Mapping):
        return tuple(_named_option(letter, text) for letter, text in options.items() if text is not None)
    return tuple(map(_option_text, options))


def _option_text(option: Any) -> str:
    if isinstance(option, str):
        return option
    if isinstance(option, Mapping):
        named = {name: value for name, value in option.items() if isinstance(value, str | int | float)}
        text = next((named[name] for name in _TEXT_NAMES if name in named), None)
        letter = next((named[name] for name in _LETTER_NAMES if name in named), None)
        if text is not None:
            return str(text) if letter is None else _named_option(letter, text)
        if len(named) == 1 == len(option):
            return _named_option(*next(iter(named.items())))
    if isinstance(option, list | tuple) and len(option) == 2:
        return _named_option(*option)
    return str(option)


_TEXT_NAMES = ("text", "content", "option", "value", "answer")
_LETTER_NAMES = ("label", "letter", "key", "id")


def _named_option(letter: Any, text: Any) -> str:
    """`A. text`; the text alone where its name is no letter, but a number that tells the place."""
    return f"{letter}. {text}" if BARE_LETTER.fullmatch(str(letter).strip()) else str(text)


def split_option(option: str) -> tuple[str | None, str]:
    """The letter that an option begins with, if any, and its text.

    >>> split_option("(B) the red car")
    ('B', 'the red car')
    >>> split_option("the red car")
    (None, 'the red car')
    """
    found = _OPTION.fullmatch(nfkc(option).strip())
    return (found.group(1).upper(), found.group(2).strip()) if found else (None, option.strip())


@lru_cache(maxsize=8192)
def read_options(options: tuple[str, ...]) -> Options:
    """Letters and texts of a row's options, from their own prefixes where each has a different one."""
    return Options(texts={letter: comparable(text) for letter, text in letter_options(options)})


def letter_options(options: Sequence[str]) -> list[tuple[str, str]]:
    """(letter, text) of each option: its own prefix where each has a different one, else its position.

    >>> letter_options(["saw", "drill"])
    [('A', 'saw'), ('B', 'drill')]
    """
    split = [split_option(option) for option in options]
    letters = [letter for letter, _ in split]
    if None not in letters and len(set(letters)) == len(letters):
        return [(letter or "", text) for letter, text in split]
    positions = [_position_letter(index) for index in range(len(split))]
    # A prefix counts as one only where it agrees with the position: "E. coli" may be a text.
    return [
        (place, text if letter == place else options[index].strip())
        for index, (place, (letter, text)) in enumerate(zip(positions, split, strict=True))
    ]


def _position_letter(index: int) -> str:
    return chr(65 + index) if index < 26 else chr(64 + index // 26) + chr(65 + index % 26)


def read_gold(record: Record) -> frozenset[str]:
    """The key as a set of letters.

    Raises:
        UnreadableGoldError: it is no letter and no text of the row's options.
    """
    key = record.ground_truth
    if isinstance(key, list | tuple):
        if not key:
            raise UnreadableGoldError("the key is an empty list")
        return frozenset(letter for item in key for letter in _resolve_key(item, record.options))
    return _resolve_key(key, record.options)


def _resolve_key(key: Any, options: tuple[str, ...]) -> frozenset[str]:
    if isinstance(key, bool) or not isinstance(key, str | int | float):
        raise UnreadableGoldError(f"key {key!r} is neither a letter nor an option's text")
    if isinstance(key, float) and key.is_integer() and not read_options(options).named_by(str(key)):
        key = int(key)
    return _key_letters(str(key), options)


@lru_cache(maxsize=8192)
def _key_letters(key: str, texts: tuple[str, ...]) -> frozenset[str]:
    options, text = read_options(texts), clean(unwrap_answer_tag(key))
    # a list of one letter that was written out as text: ['B']
    bare = BARE_LETTER.fullmatch(text.strip("[]'\" ")) or BARE_LETTER.fullmatch(text)
    if bare and options.accepts(bare.group(1).upper()):
        return frozenset(bare.group(1).upper())
    if named := options.named_by(text):
        if len(named) > 1:
            raise UnreadableGoldError(f"key {key!r} is the text of options {', '.join(named)}")
        return frozenset(named)
    if (called := _CALLED.fullmatch(text)) and options.accepts(called.group(1)):
        return frozenset(called.group(1))
    if pair := _LETTER_AND_TEXT.fullmatch(text):
        letter = (pair.group(1) or pair.group(2)).upper()
        others = [other for other in options.named_by(pair.group(3)) if other != letter]
        if options.accepts(letter) and not (others and letter not in options.named_by(pair.group(3))):
            return frozenset(letter)
    if (letters := letter_list(text)) and all(options.accepts(letter) for letter in letters):
        return frozenset(letters)
    known = f"options {', '.join(options.letters)}" if options.texts else "no options are known"
    raise UnreadableGoldError(f"key {key!r} is neither a letter nor an option's text ({known})")


def letter_list(text: str) -> list[str]:
    """The letters of a text that is nothing but a list of different capitals, such as `A, C`."""
    plain = text.translate(_LIST_DRESS).strip()
    if len(plain) > 200 or not _LETTER_LIST.fullmatch(plain):
        return []
    letters = [character for character in plain if "A" <= character <= "Z"]
    return letters if len(set(letters)) == len(letters) else []


def read_answer(content: str, record: Record, gold: frozenset[str]) -> Reading:
    """The letters that `content` names; one unless the key has several.

    Raises:
        UnreadableAnswerError: it names none, several for a single-answer question, or one that is no option.
    """
    options = read_options(record.options)
    text = clean(content)
    if len(gold) > 1:
        return _several(text, options)
    letter = _one_letter(text, options)
    return Reading(value=frozenset([letter]), shown=letter)


def _several(text: str, options: Options) -> Reading:
    letters = letter_list(text) or _letters_of_parts(text, options) or lone_letters(text)
    if not letters and (bare := BARE_LETTER.fullmatch(text)):
        letters = [bare.group(1).upper()]
    if not letters:
        letters = options.named_by(text)
    if not letters or not all(options.accepts(letter) for letter in letters):
        raise UnreadableAnswerError(f"no list of the options' letters in {text[:80]!r}")
    return Reading(value=frozenset(letters), shown=", ".join(sorted(set(letters))))


def _letters_of_parts(text: str, options: Options) -> list[str]:
    """The letters of a list in which every part is a letter in either case or an option's text; else none."""
    letters: list[str] = []
    for part in _PARTS.split(text):
        bare = BARE_LETTER.fullmatch(part.strip())
        named = [bare.group(1).upper()] if bare else options.named_by(part)
        if len(named) != 1:
            return []
        letters += named
    return letters


_PARTS = re.compile(r"[,;\n、，]|\band\b|[和与及]")


def _one_letter(text: str, options: Options) -> str:
    named = options.named_by(text)
    # an option's text may be a letter that is no option's
    bare = BARE_LETTER.fullmatch(text)
    if bare and (options.accepts(bare.group(1).upper()) or len(named) != 1):
        return _valid(bare.group(1).upper(), options)
    if len(named) == 1:
        return named[0]
    if pair := _LETTER_AND_TEXT.fullmatch(text):
        letter, rest = (pair.group(1) or pair.group(2)).upper(), pair.group(3)
        fitting = options.named_by(rest)
        if letter in fitting:
            return letter
        if fitting:
            raise UnreadableAnswerError(
                f"letter {letter} with the text of option {fitting[0]}", ambiguous=True
            )
    letters = lone_letters(text) + letters_with_text(text, options)
    if letters:
        letters += _letters_of_alternatives(text, options)
    if len(set(letters)) != 1:
        reason = f"{len(letters)} letters" if letters else "no letter"
        raise UnreadableAnswerError(f"{reason} in {text[:80]!r}", ambiguous=len(set(letters)) > 1)
    return _valid(letters[0], options)


def letters_with_text(text: str, options: Options) -> list[str]:
    """Letters that stand with their option's whole text, also where a missing blank hides the letter."""
    folded = comparable(text)
    return [
        letter
        for letter, option in options.texts.items()
        if len(option) > 1
        and any(f"{letter.lower()}{dress}{option}" in folded for dress in (". ", ") ", ": "))
    ]


def _letters_of_alternatives(text: str, options: Options) -> list[str]:
    """Letters of the parts of `text`, between commas and "or", that are the text of an option."""
    parts = _ALTERNATIVES.split(text, maxsplit=64)
    if len(parts) < 2:
        return []
    texts = [pair.group(3) if (pair := _LETTER_AND_TEXT.fullmatch(part.strip())) else part for part in parts]
    return [letter for part in texts for letter in options.named_by(part)]


_ALTERNATIVES = re.compile(r"[,;/|\n、，()]|\b(?:or|and|vs|versus|xor|maybe|perhaps)\b|[或和]")


def _valid(letter: str, options: Options) -> str:
    if not options.accepts(letter):
        raise UnreadableAnswerError(f"{letter} is none of the options {', '.join(options.letters)}")
    return letter


def apart(text: str) -> str:
    """`text` with blanks between letters that a missing one hides.

    >>> apart("AorB")
    'A or B'
    """
    return _GLUED.sub(r"\1 \2 ", text)


def lone_letters(text: str) -> list[str]:
    """Capital letters that stand alone in prose; the article A and the pronoun I are none.

    >>> lone_letters("I think B")
    ['B']
    >>> lone_letters("A or B")
    ['A', 'B']
    """
    letters = []
    text = apart(text)
    for match in _LONE_CAPITAL.finditer(text):
        letter = match.group(1)
        if letter in "AI":
            follows = _CONTINUES.match(text, match.end())
            joined = _AFTER_LETTER | _AFTER_A if letter == "A" else _AFTER_LETTER
            if follows and follows.group(1) not in joined:
                continue
        letters.append(letter)
    return letters


def compare(value: frozenset[str], gold: frozenset[str], record: Record) -> Measured:
    """1 where the letters are exactly those of the key."""
    return Measured(accuracy=float(value == gold))
