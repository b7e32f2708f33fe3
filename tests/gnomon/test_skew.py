"""How often the first of two is the better one, whatever a judgement calls the two."""

from __future__ import annotations

import pytest

from gnomon.records import ComparedImage, Comparison, Judgement, Label, Text
from gnomon.skew import FirstSide, gives_the_answer_away
from gnomon.statistics import Estimate


def comparison(group: str, *judgements: tuple[int, int, Label]) -> Comparison:
    return Comparison(
        id="1",
        instruction=Text(en="x"),
        candidates=[ComparedImage(path=f"{name}.png") for name in "abc"],
        judgements=[Judgement(i=i, j=j, dimension="overall", label=label) for i, j, label in judgements],
        group_id=group,
    )


@pytest.mark.parametrize(
    ("judgement", "value"),
    [((0, 1, "i"), 1.0), ((1, 0, "j"), 1.0), ((0, 1, "j"), 0.0), ((1, 0, "i"), 0.0), ((2, 1, "i"), 0.0)],
)
def test_the_first_is_the_one_with_the_lower_place(judgement: tuple[int, int, Label], value: float) -> None:
    sides = FirstSide()
    sides.add(comparison("g", judgement))
    assert sides.estimates()["overall"].value == value


def test_ties_say_nothing() -> None:
    sides = FirstSide()
    sides.add(comparison("g", (0, 1, "tie"), (0, 2, "tie_bad"), (1, 2, "tie_good")))
    assert sides.estimates() == {}


def test_a_skew_is_told_from_chance() -> None:
    even, skewed = FirstSide(), FirstSide()
    for number in range(200):
        label: Label = "i" if number % 2 else "j"
        even.add(comparison(str(number), (0, 1, label)))
        skewed.add(comparison(str(number), (0, 1, "i" if number % 4 else "j")))
    assert even.estimates()["overall"].value == 0.5
    assert not gives_the_answer_away(even.estimates()["overall"])
    assert skewed.estimates()["overall"].value == 0.75
    assert gives_the_answer_away(skewed.estimates()["overall"])
    assert not gives_the_answer_away(Estimate(1.0, None, None, n=3, num_clusters=1))
