"""From the words of preference sets to explicit judgements: rankings, scores, votes, and sides that tell nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from data_build.importers.rows import RowError
from gnomon.hashing import stable_hash, stable_seed
from gnomon.records import Comparison, Judgement, Label

_SWAPPED: dict[str, Label] = {"i": "j", "j": "i"}
_TIES: dict[str | None, Label] = {"GOOD": "tie_good", "BAD": "tie_bad", None: "tie"}


def group_of(instruction: str, references: Sequence[str]) -> str:
    """Return the name that all comparisons of one instruction and one set of references share."""
    return stable_hash([instruction, *references])[:16]


def label_of_ranking(ranking: str, first: str, second: str) -> Label:
    """Return what a ranking says of two of its letters: "A>B", "A=B=Good", "A=B=Bad", "C>A>B", "A=B>C".

    Args:
        ranking: letters from best to worst; "Good" and "Bad" say of what kind the tie is that they stand in.
        first: letter of candidate i.
        second: letter of candidate j.

    Raises:
        RowError: for a ranking of another form, and where a letter is missing or comes twice.
    """
    levels = [level.split("=") for level in ranking.upper().replace(" ", "").split(">")]
    letters = [name for level in levels for name in level if name not in ("GOOD", "BAD")]
    if any(len(name) != 1 or not name.isalpha() for name in letters) or len(set(letters)) < len(letters):
        raise RowError(f"expected a ranking such as 'A>B' or 'A=B=Good', got {ranking!r}")
    places = {name: place for place, level in enumerate(levels) for name in level}
    if first not in letters or second not in letters:
        raise RowError(f"expected a ranking of {first} and {second}, got {ranking!r}")
    if places[first] == places[second]:
        kind = next((name for name in levels[places[first]] if name in ("GOOD", "BAD")), None)
        return _TIES[kind]
    return "i" if places[first] < places[second] else "j"


def judgement_of_scores(first: float, second: float, dimension: str, i: int = 0, j: int = 1) -> Judgement:
    """Return the judgement that two scores imply, the higher the better, equal ones a tie."""
    label: Label = "tie" if first == second else "i" if first > second else "j"
    return Judgement(i=i, j=j, dimension=dimension, label=label, margin=abs(first - second))


def judgements_of_ranks(ranks: Sequence[float], dimension: str) -> list[Judgement]:
    """Return the judgements of all pairs of K candidates by their ranks, the lower the better, equal ones a tie."""
    return [
        judgement_of_scores(-ranks[i], -ranks[j], dimension, i, j).model_copy(update={"margin": None})
        for i, j in combinations(range(len(ranks)), 2)
    ]


def with_sides_by_hash(comparison: Comparison) -> Comparison:
    """Return a comparison of two with its sides swapped for half of all ids, so that no side is the better bet."""
    if stable_seed("side", comparison.id) % 2 == 0:
        return comparison
    swapped = [
        judgement.model_copy(update={"label": _swap(judgement.label), "votes": _swapped_votes(judgement.votes)})
        for judgement in comparison.judgements
    ]
    return comparison.model_copy(update={"candidates": comparison.candidates[::-1], "judgements": swapped})


def _swap(label: Label) -> Label:
    return _SWAPPED.get(label, label)


def _swapped_votes(votes: Mapping[str, int] | None) -> dict[str, int] | None:
    return None if votes is None else {_SWAPPED.get(label, label): count for label, count in votes.items()}
