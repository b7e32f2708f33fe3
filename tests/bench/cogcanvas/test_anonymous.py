"""Names become placeholders, whole names only and in the order of the prompt."""

from __future__ import annotations

import pytest

from bench.cogcanvas.anonymous import anonymized, mentioned


@pytest.mark.parametrize(
    ("prompt", "names", "expected"),
    [
        ("Bo hands Ann's cup to Anna.", ["Ann", "Anna", "Bo"], "person A hands person B's cup to person C."),
        ("Ann Lee greets Ann.", ["Ann", "Ann Lee"], "person A greets person B."),
        ("An anteater and An", ["An"], "person A anteater and person A"),
        ("Nobody is here.", ["Ann"], "Nobody is here."),
        ("Two people", [], "Two people"),
        ("C++ (a nickname) waves", ["C++"], "person A (a nickname) waves"),
    ],
)
def test_whole_names_are_replaced(prompt: str, names: list[str], expected: str) -> None:
    assert anonymized(prompt, names) == expected


def test_chinese_names_have_no_blanks_around_them() -> None:
    assert anonymized("王伟把杯子递给李娜", ["李娜", "王伟"], "zh") == "人物A把杯子递给人物B"


def test_people_are_in_the_order_of_the_prompt() -> None:
    assert mentioned("Bo, then Ann, then Bo", ["Cy", "Ann", "Bo"]) == ["Bo", "Ann", "Cy"]


def test_there_are_letters_for_many() -> None:
    names = [f"n{place}x" for place in range(30)]
    found = anonymized(" ".join(names), names)
    assert found.startswith("person A person B")
    assert found.endswith("person AC person AD")
