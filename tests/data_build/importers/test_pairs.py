"""Rankings, ranks and sides: known answers, and that nothing depends on which candidate is named first."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_build.importers.pairs import (
    group_of,
    judgement_of_scores,
    judgements_of_ranks,
    label_of_ranking,
    with_sides_by_hash,
)
from data_build.importers.rows import RowError
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Text

OTHER: dict[str, str] = {"i": "j", "j": "i"}


@pytest.mark.parametrize(
    ("ranking", "first", "second", "label"),
    [
        ("A>B", "A", "B", "i"),
        ("B>A", "A", "B", "j"),
        (" a > b ", "A", "B", "i"),
        ("A=B=Good", "A", "B", "tie_good"),
        ("A=B=Bad", "A", "B", "tie_bad"),
        ("A=B", "A", "B", "tie"),
        ("C>A>B", "A", "B", "i"),
        ("C>A>B", "A", "C", "j"),
        ("C>A>B", "B", "C", "j"),
        ("D>A=B=Bad>C", "A", "B", "tie_bad"),
        ("D>A=B=Bad>C", "A", "C", "i"),
        ("D>A=B=Bad>C", "B", "D", "j"),
        ("A>C", "A", "C", "i"),
    ],
)
def test_a_ranking_says_who_is_better(ranking: str, first: str, second: str, label: str) -> None:
    assert label_of_ranking(ranking, first, second) == label
    assert label_of_ranking(ranking, second, first) == OTHER.get(label, label)


@pytest.mark.parametrize("ranking", ["", "A", "A>", "A>A", "A<B", "left>right", "A>C", "A=B>A", "Good"])
def test_a_ranking_of_another_form_is_refused(ranking: str) -> None:
    with pytest.raises(RowError, match="expected a ranking"):
        label_of_ranking(ranking, "A", "B")


@given(st.permutations("ABCD"))
def test_all_pairs_of_a_ranking_follow_its_order(order: list[str]) -> None:
    ranking = ">".join(order)
    for better in range(4):
        for worse in range(better + 1, 4):
            assert label_of_ranking(ranking, order[better], order[worse]) == "i"


def test_ranks_give_all_pairs_and_keep_ties() -> None:
    found = judgements_of_ranks([2, 1, 2, 3], "overall")
    assert [(item.i, item.j, item.label) for item in found] == [
        (0, 1, "j"),
        (0, 2, "tie"),
        (0, 3, "i"),
        (1, 2, "i"),
        (1, 3, "i"),
        (2, 3, "i"),
    ]
    assert {item.margin for item in found} == {None}


def test_scores_give_label_and_margin() -> None:
    assert judgement_of_scores(3, 1.5, "q") == Judgement(i=0, j=1, dimension="q", label="i", margin=1.5)
    assert judgement_of_scores(1, 1, "q").label == "tie"
    assert judgement_of_scores(0, 1, "q").label == "j"


def pair(name: str, label: Label, votes: dict[str, int] | None = None) -> Comparison:
    return Comparison(
        id=name,
        instruction=Text(en="x"),
        candidates=[ComparedImage(path="a.png", generator="a"), ComparedImage(path="b.png", generator="b")],
        judgements=[Judgement(i=0, j=1, dimension="overall", label=label, votes=votes)],
        group_id="g",
    )


def better(comparison: Comparison) -> str | None:
    (judgement,) = comparison.judgements
    place = {"i": judgement.i, "j": judgement.j}.get(judgement.label)
    return None if place is None else comparison.candidates[place].path


@given(st.text(min_size=1), st.sampled_from(["i", "j", "tie", "tie_good", "tie_bad"]))
def test_sides_by_hash_change_the_places_and_not_the_answer(name: str, label: Label) -> None:
    before = pair(name, label, {"i": 3, "j": 1, "tie": 2})
    after = with_sides_by_hash(before)

    assert better(after) == better(before)
    assert after == with_sides_by_hash(before)
    (votes,) = [judgement.votes for judgement in after.judgements]
    assert votes is not None
    assert votes["i" if after.candidates[0].path == "a.png" else "j"] == 3
    assert votes["tie"] == 2
    assert {candidate.path for candidate in after.candidates} == {"a.png", "b.png"}


def test_half_of_the_sides_are_swapped() -> None:
    labels = Counter(with_sides_by_hash(pair(str(number), "i")).judgements[0].label for number in range(400))
    # Binomial(400, 1/2) is outside of 150..250 with a probability below 1e-6.
    assert 150 <= labels["i"] <= 250


def test_groups_are_of_one_instruction_and_one_set_of_references() -> None:
    groups = [
        group_of("a", ["x"]),
        group_of("a", ["y"]),
        group_of("b", ["x"]),
        group_of("a", []),
        group_of("a", ["x", "y"]),
    ]
    assert len(set(groups)) == len(groups)
    assert group_of("a", ["x"]) == groups[0]
