"""Preferences in the forms that judges give them; exchanging the pictures' names exchanges the preference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm.protocols.parsing import Preference, read_pairwise, swap_preference

# {A} and {B} are names of the first and the second picture; read with the first as A.
FORMS: list[tuple[str, str]] = [
    ("[[{A}>{B}]]", "A>B"),
    ("[{A} > {B}]", "A>B"),
    ("[[{B}<{A}]]", "A>B"),
    ("[[{A}>>{B}]]", "A>B"),
    ("[[{A}>{B}]", "A>B"),
    ("My label is {A}>{B}.", "A>B"),
    ("[[{A}={B}=Good]]", "A=B=Good"),
    ('"{A}={B}=Bad"', "A=B=Bad"),
    ("{A}={B}", "A=B"),
    ("{A}", "A>B"),
    ("**{A}**.", "A>B"),
    ('{{"winner": "{A}"}}', "A>B"),
    ('{{"reason": "{B} is blurred", "winner": "Image {A}"}}', "A>B"),
    ('```json\n{{"verdict": "[[{A}>{B}]]"}}\n```', "A>B"),
    ("{{'胜者': '图{A}',}}", "A>B"),
    ('{{"better_image": "image_{A}"}}', "A>B"),
    ("Image {A} is better.", "A>B"),
    ("Image {A} is clearly better than image {B}.", "A>B"),
    ("Image {B} is worse than image {A}.", "A>B"),
    ("Model {A}'s edited image is better.\n\nModel {B}'s edited image is blurred.", "A>B"),
    ("I prefer image {A}.", "A>B"),
    ("The better image is {A}.", "A>B"),
    ("Winner: Image {A}", "A>B"),
    ("Answer: {A}", "A>B"),
    ("Image {A} wins", "A>B"),
    ("图{A}更好", "A>B"),
    ("图片{A}更好，因为图{B}模糊", "A>B"),
    ("图{B}不如图{A}", "A>B"),
    ("{A}比{B}更好", "A>B"),
    ("结论：{A}更好", "A>B"),
    ("我选择图{A}", "A>B"),
    ("Both are good, but image {A} is better.", "A>B"),
    ("Image {B} is better in colour. Overall, image {A} is better.", "A>B"),
    ("Draft [[{B}>{A}]]. Final verdict: [[{A}>{B}]]", "A>B"),
    ("1. {A} is better: [[{A}>{B}]]\n2. {B} is better: [[{B}>{A}]]\nTherefore, my verdict is [[{A}>{B}]]", "A>B"),
    ("<think>[[{B}>{A}]]</think><answer>Image {A} is better</answer>", "A>B"),
    ("Image {A} and image {B} are equally good.", "A=B=Good"),
    ("Image {A} and image {B} are both bad.", "A=B=Bad"),
    ("{A}图和{B}图都很差。", "A=B=Bad"),
    ("图{A}与图{B}都不错", "A=B=Good"),
    ("图{A}和图{B}一样好", "A=B=Good"),
    ("Image {A} is better in colour. Image {B} is better in shape.", "parse_error"),
    ("[[{A}>{B}]] [[{B}>{A}]]", "parse_error"),
    ('{{"winner": "{A}"}} {{"winner": "{B}"}}', "parse_error"),
    ("Image {A} is not better than image {B}.", "parse_error"),
    ("It is hard to say whether image {A} is better.", "parse_error"),
    ("{A} is a nice picture.", "parse_error"),
    ("{A}>{B}>C", "parse_error"),
    ('{{"winner": "{A}", "winner": "{B}"}}', "parse_error"),
    ('{{"winner": "{A}", "reason": "the', "truncated"),
    ("I'm sorry, I can't compare image {A} with image {B}.", "refused"),
]
EXCHANGED: dict[str, str] = {"A>B": "B>A", "B>A": "A>B"}


def outcome(reply: str) -> str:
    parsed = read_pairwise(reply)
    return parsed.value if parsed.value is not None else parsed.status


@pytest.mark.parametrize(("form", "expected"), FORMS)
def test_forms_in_both_orders(form: str, expected: str) -> None:
    assert outcome(form.format(A="A", B="B")) == expected
    assert outcome(form.format(A="B", B="A")) == EXCHANGED.get(expected, expected)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("Left is better.", "A>B"),
        ("The image on the right is better", "B>A"),
        ("The second image is better.", "B>A"),
        ("I prefer the first one.", "A>B"),
        ("Image 1 is better", "A>B"),
        ('{"winner": 2}', "B>A"),
        ("左图更好", "A>B"),
        ("右边的图明显更好", "B>A"),
        ("第二张图更好", "B>A"),
        ("前者更好", "A>B"),
        ("The latter is better.", "B>A"),
        ("左边更好", "A>B"),
        ("both images are bad", "A=B=Bad"),
        ("Neither image is good.", "A=B=Bad"),
        ("两张图都很差", "A=B=Bad"),
        ("两张都不好", "A=B=Bad"),
        ("Tie, relatively the same acceptable quality", "A=B=Good"),
        ("两张图都很好", "A=B=Good"),
        ('{"winner": "both good"}', "A=B=Good"),
        ("Tie", "A=B"),
        ("It is a tie.", "A=B"),
        ("平局", "A=B"),
        ("两张图不分上下", "A=B"),
        ("I prefer a brighter look", "parse_error"),
        ("There are 2 > 1 hats, and a = b.", "parse_error"),
        ("image 2 > image 1", "B>A"),
        ("[[C]]", "parse_error"),
        ("", "parse_error"),
    ],
)
def test_places_numbers_and_ties(reply: str, expected: str) -> None:
    assert outcome(reply) == expected


def test_the_first_label_rule_takes_the_first_label_and_nothing_else() -> None:
    form = "1. A is better: [[A>B]]\n2. B is better: [[B>A]]\n3. Tie: [[A=B=Good]]\n4. Both are bad: [[A=B=Bad]]"
    assert read_pairwise(form, rule="first-label").value == "A>B"
    assert read_pairwise(form).status == "parse_error"
    assert read_pairwise("Image A is better", rule="first-label").status == "parse_error"
    assert read_pairwise("I'm sorry, I can't.", rule="first-label").status == "refused"


VALID = [form for form, expected in FORMS if expected not in ("truncated", "refused")]


@given(st.lists(st.sampled_from(VALID), min_size=1, max_size=3), st.sampled_from(["\n", " ", "\nTherefore, "]))
def test_exchanging_names_exchanges_the_preference(forms: list[str], between: str) -> None:
    text = between.join(forms)
    one, other = read_pairwise(text.format(A="A", B="B")), read_pairwise(text.format(A="B", B="A"))
    assert one.status == other.status
    assert (None if one.value is None else swap_preference(one.value)) == other.value


@pytest.mark.parametrize("preference", ["A>B", "B>A", "A=B", "A=B=Good", "A=B=Bad"])
def test_exchanging_twice_changes_nothing(preference: Preference) -> None:
    assert swap_preference(swap_preference(preference)) == preference
    assert read_pairwise(f"[[{preference}]]").value == preference


@given(st.text())
def test_nothing_raises(reply: str) -> None:
    parsed = read_pairwise(reply)
    assert (parsed.value is None) == (parsed.status != "ok")
