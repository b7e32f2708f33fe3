from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_build.mdmr.duplicates import Double, find_doubles, normal_words, word_overlap
from data_build.mdmr.replies import DraftQuestion
from gnomon.records import Text


def question(en: str, zh: str | None = None, *, expected: bool = True) -> DraftQuestion:
    return DraftQuestion(
        text=Text(en=en, zh=zh or f"问题{en}？"),
        dimension="following",
        level="atomic",
        expected=expected,
        about=["instruction"],
    )


def kinds(*questions: DraftQuestion) -> list[str | None]:
    return [None if double is None else double.kind for double in find_doubles(questions)]


def test_equal_words_are_doubles_in_either_language() -> None:
    assert find_doubles(
        [
            question("Is the hat red?"),
            question("Is it a dog?"),
            question("is the  hat RED ?!"),
            question("Is the hat Red?"),
        ]
    ) == [None, None, Double("duplicate", 0), Double("duplicate", 0)]
    assert kinds(question("Is the hat red?", "帽子是红色的吗？"), question("Is the cap red?", "帽子是红色的吗?")) == [
        None,
        "duplicate",
    ]


def test_equal_questions_that_expect_different_answers_all_go() -> None:
    hat = "Is the hat red?"
    assert kinds(question(hat), question(hat, expected=False), question("Is it a dog?")) == [
        "contradictory",
        "contradictory",
        None,
    ]
    assert kinds(question(hat), question(hat), question(hat, expected=False)) == ["contradictory"] * 3


@pytest.mark.parametrize(
    ("first", "second", "is_double"),
    [
        ("Is the hat of reference 1 red?", "Is the hat in reference 1 red?", False),
        ("Is the hat of reference 1 red?", "Is that hat from reference 1 red?", True),
        ("Does the person have red hair?", "Has the person red hair?", True),
        ("Is the hat of reference 1 red?", "Is the hat of reference 2 red?", False),
        ("Is the hat red?", "Is the hat blue?", False),
        ("Is the hat red?", "Is the hat not red?", False),
        ("Is the cat left of the dog?", "Is the dog left of the cat?", False),
        (
            "Does the man wear the long red coat of reference 2?",
            "Does the man wear the short red coat of reference 2?",
            False,
        ),
    ],
)
def test_near_doubles_differ_in_hardly_anything_that_carries_meaning(first: str, second: str, is_double: bool) -> None:
    assert kinds(question(first), question(second)) == [None, "near_duplicate" if is_double else None]
    assert kinds(question(first), question(second, expected=False)) == [None, None]


def test_overlap_by_hand() -> None:
    # Content words: hat reference 1 red | hat reference 2 red, of which three are common in order.
    assert (
        word_overlap(normal_words("Is the hat of reference 1 red?"), normal_words("the hat of reference 2: red"))
        == 0.75
    )
    assert word_overlap(normal_words("Is it?"), normal_words("Is it?")) == 1
    assert word_overlap(normal_words("Is it?"), normal_words("Was it?")) == 0
    assert normal_words("Ｉｓ the café’s No. 3 帽子?") == ("is", "the", "café’s", "no", "3", "帽", "子")


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("wxyz"), st.booleans()), max_size=8))
def test_what_stays_is_told_apart_and_nothing_is_lost_without_a_partner(drafts: list[tuple[str, str, bool]]) -> None:
    questions = [question(f"Is {en} here?", f"{zh}在吗？", expected=expected) for en, zh, expected in drafts]
    doubles = find_doubles(questions)

    kept = [one for one, double in zip(questions, doubles, strict=True) if double is None]
    assert len({one.text.en for one in kept}) == len({one.text.zh for one in kept}) == len(kept)
    for place, double in enumerate(doubles):
        if double is not None:
            assert 0 <= double.other < len(questions)
            assert double.other != place
        if double is not None and double.kind == "contradictory":
            assert any(one.expected != questions[place].expected for one in questions)
