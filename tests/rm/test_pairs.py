"""K-way comparisons become pairs without losing a label or a side."""

from __future__ import annotations

import pytest

from gnomon.errors import UserError
from gnomon.records import ComparedImage, Comparison, Judgement, Text
from rm.pairs import expand_pairs, swap_by_hash, unknown_dimensions


def comparison(*judgements: Judgement, count: int = 3) -> Comparison:
    return Comparison(
        id="c",
        instruction=Text(en="add"),
        candidates=[ComparedImage(path=f"{k}.png") for k in range(count)],
        judgements=list(judgements),
        group_id="g",
    )


def test_judgements_of_one_pair_come_together_with_the_lower_position_first() -> None:
    pairs = expand_pairs(
        comparison(
            Judgement(i=2, j=0, dimension="overall", label="i", margin=0.5),
            Judgement(i=0, j=2, dimension="quality", label="i"),
            Judgement(i=1, j=2, dimension="overall", label="tie_bad"),
        )
    )
    assert [(pair.id, pair.first, pair.second, pair.labels) for pair in pairs] == [
        ("c:0-2", 0, 2, {"overall": -1, "quality": 1}),
        ("c:1-2", 1, 2, {"overall": 0}),
    ]
    assert pairs[0].margins == {"overall": 0.5, "quality": None}
    assert {pair.group_id for pair in pairs} == {"g"}


def test_two_judgements_in_one_dimension_are_refused() -> None:
    twice = comparison(
        Judgement(i=0, j=1, dimension="overall", label="i"), Judgement(i=1, j=0, dimension="overall", label="i")
    )
    with pytest.raises(UserError, match="judged twice in 'overall'"):
        expand_pairs(twice)


def test_swapping_exchanges_sides_and_signs_and_twice_is_nothing() -> None:
    pair = expand_pairs(comparison(Judgement(i=0, j=1, dimension="overall", label="i", margin=0.2)))[0]
    swapped = pair.swapped()
    assert (swapped.first, swapped.second, swapped.labels) == (1, 0, {"overall": -1})
    assert (swapped.id, swapped.margins) == (pair.id, pair.margins)
    assert swapped.swapped() == pair


def test_the_side_is_a_fair_and_stable_coin() -> None:
    judgement = Judgement(i=0, j=1, dimension="overall", label="i")
    pairs = [expand_pairs(comparison(judgement).model_copy(update={"id": f"c{k}"}))[0] for k in range(400)]
    first = [swap_by_hash(pair, 3).labels["overall"] for pair in pairs]
    assert first == [swap_by_hash(pair, 3).labels["overall"] for pair in pairs]
    assert first != [swap_by_hash(pair, 4).labels["overall"] for pair in pairs]
    assert abs(sum(first)) < 80  # four standard deviations of a fair coin


def test_unknown_dimensions_are_counted() -> None:
    pairs = expand_pairs(
        comparison(
            Judgement(i=0, j=1, dimension="overall", label="i"), Judgement(i=0, j=1, dimension="taste", label="i")
        )
    )
    assert unknown_dimensions(pairs, ["overall"]) == {"taste": 1}
