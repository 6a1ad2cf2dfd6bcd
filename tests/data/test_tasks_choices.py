"""Multiple choice in the words of foreign models: the tolerant reading, and options that look alike."""

from __future__ import annotations

from typing import Any

import pytest

from vrldata.tasks import score

OPTIONS = ["A. red bucket", "B. green ladder", "C. blue kite", "D. grey boat"]


def tolerant(response: str, key: Any = "B", options: list[str] = OPTIONS) -> tuple[str, str]:
    result = score("mcq", response, key, options=options, protocol="eval")
    return result.status, result.extracted


@pytest.mark.parametrize(
    "response",
    [
        "The answer is \\(B\\).",
        "**Correct answer: B**",
        "### Final Answer\nB",
        '```json\n{"answer": "B"}\n```',
        "First I thought the answer is C, but the correct answer is B.",
        "A. red bucket - wrong\nB. green ladder. Because A. red bucket is not shown, the answer is B.",
        "Looking at the options:\nA. red bucket - no\nB. green ladder - yes\n\nThe answer is B.",
        "正确答案是：Ｂ",
        "答えはBです",
        "정답은 B입니다",
        "الإجابة هي B",
    ],
)
def test_letter_is_found(response: str) -> None:
    assert tolerant(response) == ("scored", "B")


@pytest.mark.parametrize(
    "response",
    [
        *("Both A and C", "Either A or C", "The correct answers are A and C.", "It shows A, C"),
        *("AorC", "Aor C", "A orC", "(A)or(C)"),
        *("A. red bucket or C. blue kite", "A. red bucket / blue kite", "A) red bucket, C) blue kite"),
        *("A. red bucket -> C. blue kite", "A. red bucket\nthen\nC. blue kite"),
        *("The answer is A. red bucket and C. blue kite", "The answer is A vs C", "The answer is A = C"),
        *("The answer is A|C", "The answer is A; C", "The answer is A C", "The answer is A.\nC."),
    ],
)
def test_joined_letters_are_ambiguous(response: str) -> None:
    assert tolerant(response) == ("ambiguous", "")


@pytest.mark.parametrize("content", ["AorC", "Aor C", "A orC", "(A)or(C)", "**A**or**C**"])
@pytest.mark.parametrize("key", ["A", "C"])
def test_letters_without_a_blank_between_them_are_not_paid(content: str, key: str) -> None:
    result = score("mcq", f"<answer>{content}</answer>", key, options=OPTIONS)
    assert (result.accuracy, result.format) == (0.0, 0.5)


def test_option_whose_text_is_a_letter_is_named_by_it() -> None:
    variables = ["A. x", "B. y", "C. z"]
    assert score("mcq", "<answer>y</answer>", "B", options=variables).accuracy == 1.0
    assert tolerant("The answer is y.", options=variables) == ("scored", "B")


@pytest.mark.parametrize("response", ["2", "2.", "The answer is 2.", "There are 2 of them."])
def test_option_of_one_digit_is_named_by_its_text(response: str) -> None:
    assert tolerant(response, options=["A. 1", "B. 2", "C. 3"]) == ("scored", "B")


@pytest.mark.parametrize("response", ["It takes 2.5 s.", "At 0:12 it stops.", "-2", "It is 12."])
def test_option_that_is_a_number_is_not_named_by_a_part_of_another(response: str) -> None:
    assert tolerant(response, options=["A. 1", "B. 2", "C. 3"])[0] == "unparsed"


@pytest.mark.parametrize(
    ("content", "right"), [("-1", True), ("1", False), ("A. -1", False), ("B. -1", True)]
)
def test_sign_of_an_option_counts(content: str, right: bool) -> None:
    result = score("mcq", f"<answer>{content}</answer>", "B", options=["A. 1", "B. -1", "C. 1%"])
    assert result.accuracy == float(right)


@pytest.mark.parametrize(
    "key",
    [
        ["B"],
        "['B']",
        '["B"]',
        "<answer>B</answer>",
        "<ANSWER>B</ANSWER>",
        "Option B",
        "The answer is (B).",
        "green ladder",
        "(B) green ladder",
    ],
)
def test_key_in_its_usual_forms(key: Any) -> None:
    assert score("mcq", "<answer>B</answer>", key, options=OPTIONS).accuracy == 1.0


@pytest.mark.parametrize(
    "response",
    [
        "Answer: Option B",
        "B, because the ladder is green.",
        "B because the ladder is green",
        "Hmm. It's (B).",
        "Definitely B.",
        "The answer is not A. It is B.",
        "The answer is _B_.",
        "B is therefore the answer.",
        "A: is wrong\nB: is right\n\nFinal: B",
        "B B",
        "B选项正确",
        "正解は「B」です。",
        "La respuesta correcta es la B.",
        *("Most likely B.", "Ans. B", "B is my answer.", "B, I think.", "The answer corresponds to B."),
        *("The answer is ‘B’.", "The answer is \\[B\\]", "The answer is <b>B</b>.", "Rätt svar: B"),
        *("B选项", "B選項", "選擇B", "【答案】B", "正确的是B", "我認為是B", "答案就是B"),
        *("A resposta é a B", "Câu trả lời đúng là B", "Jawaban yang benar adalah B", "คำตอบคือ B"),
        *("I'm not sure, but I choose B.", "There is not a bucket therefore B", "不选A，选B"),
    ],
)
def test_letter_is_found_in_short_statements(response: str) -> None:
    assert tolerant(response) == ("scored", "B")


@pytest.mark.parametrize(
    "response",
    [
        *("I would not choose A.", "I don't think it's A", "I do not believe that the answer is A."),
        *("It can't be A.", "The answer cannot be A.", "I don't think A is correct.", "不选A", "不能选A"),
    ],
)
def test_denied_option_is_not_chosen(response: str) -> None:
    assert tolerant(response, key="A")[0] == "unparsed"


def test_capital_of_a_word_with_accents_is_no_letter() -> None:
    assert score("mcq", "<answer>Dès le début, B</answer>", "B", options=OPTIONS).accuracy == 1.0
    assert score("mcq", "<answer>Dès le début</answer>", "D", options=OPTIONS).accuracy == 0.0


def test_number_as_key_is_the_text_of_an_option() -> None:
    for key in (2, 2.0, "2"):
        assert score("mcq", "<answer>B</answer>", key, options=["A. 1", "B. 2"]).accuracy == 1.0


@pytest.mark.parametrize(
    "response", ["Answer: N/A", "N/A", "USA", "A.M.", "A man, because he runs", "It is a", "Vitamin E"]
)
def test_capitals_that_choose_nothing(response: str) -> None:
    assert tolerant(response)[0] == "unparsed"


def test_option_inside_another_is_named_where_it_stands_alone() -> None:
    options = ["A. 20", "B. 200", "C. a man", "D. a man and a woman"]
    assert tolerant("a man and a woman", options=options) == ("scored", "D")
    assert tolerant("It is 200.", options=options) == ("scored", "B")
    assert tolerant("20 or 200", options=options)[0] == "ambiguous"


@pytest.mark.parametrize(
    "content", ["A, C", "AC", "a, c", "red bucket and blue kite", "A. red bucket\nC. blue kite", "C; A"]
)
def test_several_options_are_a_set(content: str) -> None:
    def share(key: Any) -> float | None:
        return score("mcq", f"<answer>{content}</answer>", key, options=OPTIONS).accuracy

    assert share(["A", "C"]) == 1.0
    assert share(["A", "B"]) == share(["A", "B", "C"]) == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {"A": "saw", "B": "drill", "C": None},
        {"0": "saw", "1": "drill"},
        [{"label": "A", "text": "saw"}, {"label": "B", "text": "drill"}],
        [{"A": "saw"}, {"B": "drill"}],
        [["A", "saw"], ["B", "drill"]],
        '["saw", "drill"]',
        "A. saw\nB. drill",
        ["[A] saw", "[B] drill"],
    ],
)
def test_options_in_any_form_have_letters_and_texts(options: Any) -> None:
    for content in ("B", "drill", "B. drill"):
        assert score("mcq", f"<answer>{content}</answer>", "drill", options=options).accuracy == 1.0
    assert score("mcq", "<answer>C</answer>", "B", options=options).format == 0.5


@pytest.mark.parametrize(
    "response",
    [
        "Answer: A\nC",
        "The answers are:\nA. red bucket\nC. blue kite",
        "The correct options are A and C.\nB is wrong.",
        "The answer is A and C because B is not shown",
    ],
)
def test_list_of_letters_ends_with_its_statement(response: str) -> None:
    assert tolerant(response, key=["A", "C"]) == ("scored", "A, C")


def test_conclusion_may_be_the_text_of_an_option_that_lists_others() -> None:
    options = ["A. A only", "B. B only", "C. A, B and C"]
    assert tolerant("The answer is A, B and C.", key="C", options=options) == ("scored", "C")
    assert tolerant("The answer is A, B.", key="C", options=options)[0] == "ambiguous"


@pytest.mark.parametrize(
    "content",
    [
        *("B. green ladder or blue kite", "B or blue kite", "B, blue kite"),
        *("green ladder, maybe C", "green ladder; C", "B,orC", "B (blue kite)"),
    ],
)
def test_letter_beside_the_text_of_another_option_is_not_paid(content: str) -> None:
    for key in ("B", "C"):
        result = score("mcq", f"<answer>{content}</answer>", key, options=OPTIONS)
        assert (result.accuracy, result.format) == (0.0, 0.5)
    for right in ("B, green ladder", "B, not a blue kite", "green ladder (B)"):
        assert score("mcq", f"<answer>{right}</answer>", "B", options=OPTIONS).accuracy == 1.0


@pytest.mark.parametrize("join", [" 或者 ", "还是", " oder ", " (maybe ", ", possibly "])
def test_second_letter_in_other_words_is_ambiguous(join: str) -> None:
    assert tolerant(f"The answer is B{join}C")[0] == "ambiguous"
