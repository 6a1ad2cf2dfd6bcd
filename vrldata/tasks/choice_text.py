"""Multiple choice in free prose: the tolerant reading for foreign models.

Letters count in upper case unless the whole text is the letter; the article A and the pronoun I count only
where they are delimited or concluded. Two different letters are ambiguous, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from vrldata.tasks.choices import (
    BARE_LETTER,
    Options,
    apart,
    letter_list,
    letters_with_text,
    lone_letters,
    read_answer,
    read_options,
)
from vrldata.tasks.conclusions import CHOICE_IS, LETTER_IS_RIGHT, concluding_statements, negated, sentence
from vrldata.tasks.reading import Reading, Record, UnreadableAnswerError
from vrldata.tasks.text import clean, collapse, comparable, nfkc

_FORMULA_BRACKET = re.compile(r"\\([()\[\]])")
_LEADING = re.compile(
    r"[\s*_`\"'“”‘’$({\[<「『【】:：、，]{0,8}(?:<[a-z]{1,8}>){0,2}(?:\\(?:boxed|text|textbf|mathrm)\{){0,3}"
    r"(?:(?i:is|be|the|probably|likely|clearly|definitely|with|option|choice|letter|answer|选项|la|el|le|die|opción)"
    r"[\s:：*_(\[\"'「]{0,6}){0,4}(?!N/A\b)([A-Z])(?![A-Za-z0-9]|_[A-Za-z0-9]|[\u00c0-\u04ff\u1e00-\u1eff]|['’][a-z]|-[a-z])",
)
_ANOTHER = re.compile(
    r"[)\]*_\"'.}]{0,4}\s?(?:[,;(]?\s?(?:or|vs\.?|versus|xor|oder|ou|или|maybe|perhaps|possibly)\b"
    r"|and|/|,|&|或者?|还是|和|与|及|、)\s?"
    r"(?:maybe |perhaps |possibly |even )?(?:option |choice )?[(\[*]{0,3}[A-Z](?![A-Za-z0-9'’])"
)
# "A B", "A; B" and "A.\nB." are lists, too, where nothing follows.
_NEXT = re.compile(r"[)\]*_\"'.}]{0,4}[\s|;\\+~=:>?!…–—-]{1,4}[(\[*]{0,3}([A-Z])[)\]*_\"'.}]{0,4}\s*\Z")
_JOINED = re.compile(
    r"(?<![A-Za-z0-9'’])([A-Z])[)\]*_\"'.]{0,3}(?:\s?[/,&|、]|\s?[,;(]?\s?(?:or|and|vs|versus|oder|ou|или|maybe|perhaps)\b\.?"
    r"|\s?(?:或者?|还是|[和与及]))"
    r"\s?(?:maybe |perhaps |possibly |even )?(?:option |choice )?[(\[*]{0,3}([A-Z])(?![A-Za-z0-9'’])"
)
_GOES_ON = re.compile(r" ([a-z][a-z'’]*)")
# The whole text is a letter, whatever stands around it: brackets, check marks, HTML, the word "option".
_DRESS = r"(?:</?[a-z_]{1,16}>|[\W_]){0,12}"
_DRESSED = re.compile(
    rf"{_DRESS}(?:(?:option|choice|letter|answer|ans|选项|選項){_DRESS})?([A-Z]){_DRESS}(?:[选選]?[项項]{_DRESS})?",
    re.IGNORECASE,
)
_LINE = re.compile(
    r"^[\s*_>#-]{0,8}[(\[]?([A-Z])[)\]]?[*_]{0,3}"
    r"(?:(?:\s*[.:)、．：]| [-–—] )(?![A-Z]\b)[*_\s]{0,4}(.*)|[*_\s.]{0,4})$",
    re.MULTILINE,
)
# "B, because ..." leads a line as "B." does.
_REASONED = re.compile(
    r"^[\s*_>#-]{0,8}[(\[]?([A-Z])[)\]]?[*_]{0,3}(?:,| ?[-–—])? (?:because|since|I (?:think|guess))\b",
    re.MULTILINE,
)
_REPEATED = re.compile(r"[\W_]*([A-Z])(?:[\W_]+\1){1,40}[\W_]*")
_TRAILING = re.compile(
    r"(?:[,:;–—-]|\b(?i:is|it['’]s|that['’]s|definitely|probably|certainly|clearly|surely|be|so|thus|therefore|hence|likely|perhaps|maybe|obviously|like|think|believe|guess|say|option|choice|answer)\b)"
    r"[\s(\[*\"']{1,4}([A-Z])[)\]*\"']{0,4}\s?[.!。]?$"
)


def read_prose(text: str, record: Record, gold: frozenset[str]) -> Reading:
    """The option that a whole response names, by the first rule that finds one.

    Raises:
        UnreadableAnswerError: no rule does, or the text names several options (`ambiguous`).
    """
    if len(gold) > 1:
        return _several(text, record, gold)
    options = read_options(record.options)
    plain = apart(_FORMULA_BRACKET.sub(r"\1", nfkc(text).strip()))
    bare = BARE_LETTER.fullmatch(clean(plain))
    if bare and options.accepts(bare.group(1).upper()):
        return _reading(bare.group(1).upper(), "whole")
    if len(named := options.named_by(plain)) == 1:
        return _reading(named[0], "option_text")
    dressed = _DRESSED.fullmatch(plain) if len(plain) < 60 else None
    if dressed and dressed.group(1).isupper() and options.accepts(dressed.group(1)):
        return _reading(dressed.group(1), "whole")
    repeated = _REPEATED.fullmatch(plain) if len(plain) < 200 else None
    if repeated and options.accepts(repeated.group(1)):
        return _reading(repeated.group(1), "whole")
    listed = letter_list(clean(plain))
    if listed and all(options.accepts(letter) for letter in listed):
        raise UnreadableAnswerError(f"letters {', '.join(listed)} for a single answer", ambiguous=True)
    _refuse_list(plain, options)
    rules: tuple[tuple[str, Callable[[str, Options], str | None]], ...] = (
        ("conclusion", _concluded),
        ("line", _line_letter),
        ("option_text", _option_text),
        ("trailing", _trailing),
    )
    for how, rule in rules:
        letter = rule(plain, options)
        if letter is not None:
            return _reading(letter, how)
    joined = any(set(match.groups()) <= set(options.letters) for match in _JOINED.finditer(plain))
    raise UnreadableAnswerError(f"no single option is named in {collapse(plain)[:80]!r}", ambiguous=joined)


def _reading(letter: str, how: str) -> Reading:
    return Reading(value=frozenset([letter]), shown=letter, how=how)


def _several(text: str, record: Record, gold: frozenset[str]) -> Reading:
    for statement in concluding_statements(nfkc(text), CHOICE_IS):
        listed = all(map(_LABELLED.match, statement.splitlines()))
        try:
            said = statement if listed else _REASON.split(sentence(statement), maxsplit=1)[0]
            return read_answer(said, record, gold)
        except UnreadableAnswerError:
            continue
    return read_answer(text, record, gold)


_REASON = re.compile(r"[,;]?\s(?:because|since|while|whereas|but|not)\b")
_LABELLED = re.compile(r"[\s*_>#-]{0,8}[(\[]?[A-Z][)\]]?(?![A-Za-z0-9'’])(?! [a-z])")


def _concluded(text: str, options: Options) -> str | None:
    statements = concluding_statements(text, CHOICE_IS)
    for statement in statements:
        said = sentence(statement)
        if len(named := options.named_by(said)) == 1 and not BARE_LETTER.fullmatch(clean(said)):
            return named[0]
        _refuse_list(statement, options)
        letter = leading_letter(statement, options)
        if letter is not None:
            return letter
    verdicts = [
        letter
        for match in LETTER_IS_RIGHT.finditer(text)
        if options.accepts(letter := match.group(1) or match.group(2)) and not negated(text, match.start())
    ]
    if verdicts:
        return verdicts[-1]
    for statement in statements:
        letter = _option_text(sentence(statement), options)
        if letter is not None:
            return letter
    return None


def leading_letter(text: str, options: Options) -> str | None:
    """The letter that `text` begins with; None where it begins with a word.

    Raises:
        UnreadableAnswerError: a second letter is joined to it.
    """
    whole = BARE_LETTER.fullmatch(clean(text))
    if whole:
        letter, named = whole.group(1).upper(), options.named_by(text)
        if options.accepts(letter):
            return letter
        return named[0] if len(named) == 1 else None
    found = _LEADING.match(text)
    if not found:
        return None
    letter = found.group(1)
    second = _NEXT.match(text, found.end())
    listed = second and second.group(1) != letter and options.accepts(second.group(1))
    if listed or _ANOTHER.match(text, found.end()):
        raise UnreadableAnswerError(f"several letters in {text[:80]!r}", ambiguous=True)
    goes_on = _GOES_ON.match(text, found.end())
    if letter in "AI" and goes_on and goes_on.group(1) not in ("is", "because", "since", "as"):
        return None
    if not options.accepts(letter):
        return None
    _refuse_contradiction(letter, text[found.end() :].lstrip(" .:)*_-").partition("\n")[0], options)
    return letter


def _refuse_contradiction(letter: str, text: str, options: Options) -> None:
    """Refuse a letter that stands with the text of another option."""
    others = options.named_by(text)
    if others and letter not in others:
        raise UnreadableAnswerError(f"letter {letter} with the text of option {others[0]}", ambiguous=True)
    own, folded = options.texts.get(letter, ""), comparable(text)
    join = _JOIN.match(folded, len(own)) if own and folded.startswith(own) else None
    if join is None:
        return
    rest = folded[join.end() :]
    second = _LETTERED.match(rest)
    if options.named_by(rest) or (second and options.accepts(second.group(1).upper())):
        raise UnreadableAnswerError(f"several options in {text[:80]!r}", ambiguous=True)


_JOIN = re.compile(r"\s?(?:or|and|vs\.?|versus|xor|[/|,;&+、或和])\s?")
_LETTERED = re.compile(r"[(\[]?([a-z])[.):\]]")


def _refuse_list(text: str, options: Options) -> None:
    """Refuse a text that is nothing but several options, each with its letter, and at most one word."""
    if len(text) > 2000 or len(_LABEL.findall(text)) < 2:
        return
    rest = comparable(text)
    letters = letters_with_text(text, options)
    if len(letters) < 2:
        return
    for letter in letters:
        rest = rest.replace(options.texts[letter], " ")
    words = [word for word in _WORD.findall(rest) if word.upper() not in letters]
    if len(words) <= 1 and not _MARKED.search(" ".join([*words, rest])):
        raise UnreadableAnswerError(f"several options in {text[:80]!r}", ambiguous=True)


_LABEL = re.compile(r"[A-Za-z][.):]")
_WORD = re.compile(r"[^\W\d_]+")
_MARKED = re.compile(r"[✓✔✅☑✗✘❌×←]|\b(?:no|not|yes|wrong|right|correct|true|false|answer|best|x)\b")


def _line_letter(text: str, options: Options) -> str | None:
    found = [(match.group(1), match.group(2) or "") for match in _LINE.finditer(text)]
    found += [(match.group(1), "") for match in _REASONED.finditer(text)]
    letters = {letter for letter, _ in found if options.accepts(letter)}
    if len(letters) != 1:
        return None
    letter = letters.pop()
    for _, rest in found:
        _refuse_contradiction(letter, rest, options)
    return letter


def _option_text(text: str, options: Options) -> str | None:
    """The one option whose text occurs in `text`; one that occurs only inside a longer one's does not."""
    folded = f" {comparable(text)} "
    places = {
        letter: found
        for letter, option in options.texts.items()
        if option and (len(option) > 1 or not option.isascii() or option.isdigit())
        if (found := _places(folded, option))
    }
    own = [
        letter
        for letter, found in places.items()
        if not all(_covered(place, letter, places) for place in found)
    ]
    if len(own) > 1:
        raise UnreadableAnswerError(f"the texts of options {', '.join(own)} occur", ambiguous=True)
    return own[0] if own else None


_MAX_PLACES = 16


def _covered(place: tuple[int, int], letter: str, places: Mapping[str, Sequence[tuple[int, int]]]) -> bool:
    """Whether a place lies inside that of another option, which is longer."""
    return any(
        start <= place[0] and place[1] <= end and end - start > place[1] - place[0]
        for other, found in places.items()
        if other != letter
        for start, end in found
    )


def _places(text: str, option: str) -> list[tuple[int, int]]:
    """Start and end of the first places where `option` stands as words of their own."""
    found: list[tuple[int, int]] = []
    start = text.find(option)
    while start >= 0 and len(found) < _MAX_PLACES:
        end = start + len(option)
        before, after = text[start - 1], text[end]
        part = (option[0].isdigit() and _NUMBER_BEFORE.search(text, max(0, start - 2), start)) or (
            option[-1].isdigit() and _NUMBER_AFTER.match(text, end)
        )
        if not part and (option[0].isascii() is False or not (before.isalnum() or after.isalnum())):
            found.append((start, end))
        start = text.find(option, start + 1)
    return found


# An option that is a number is not named by a longer one that holds it: 3 in 3.5, 10 in 00:10.
_NUMBER_BEFORE = re.compile(r"\d[.,:/]\Z|[-−]\Z")
_NUMBER_AFTER = re.compile(r"[.,:/]\d|%")


def _trailing(text: str, options: Options) -> str | None:
    """A single letter at the very end, set off from the prose before it, with no other letter alone."""
    found = _TRAILING.search(text[-60:])
    if not found or set(lone_letters(text)) != {found.group(1)}:
        return None
    if negated(text, max(0, len(text) - 60) + found.start()):
        return None
    return found.group(1) if options.accepts(found.group(1)) else None
