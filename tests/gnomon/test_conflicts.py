"""Comparisons that contradict themselves, each other, or the split they are in."""

from __future__ import annotations

from typing import Any

import pytest

from gnomon.conflicts import Conflicts
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Reference, Text


def comparison(
    label: Label, first: str = "a.png", second: str = "b.png", reference: str = "source.png", **changes: Any
) -> Comparison:
    return Comparison(
        id="1",
        instruction=Text(en="x"),
        references=[Reference(path=reference)],
        candidates=[ComparedImage(path=first), ComparedImage(path=second)],
        judgements=[Judgement(i=0, j=1, dimension="overall", label=label)],
        group_id=changes.pop("group_id", "g"),
        **changes,
    )


def problems_of(*records: Comparison) -> list[str]:
    conflicts = Conflicts()
    return [problem for line, record in enumerate(records, start=1) for problem in conflicts.find(record, line)]


@pytest.mark.parametrize(
    "second",
    [
        comparison("j", "./a.png", "b.png"),
        comparison("j", "a.png", ".//b.png"),
        comparison("i", "b.png", "./a.png"),
        comparison("j", reference="./source.png"),
    ],
)
def test_one_picture_under_two_spellings_is_one_picture(second: Comparison) -> None:
    (problem,) = problems_of(comparison("i"), second)
    assert problem.startswith("conflicting judgements of 'a.png' and 'b.png' in 'overall': 'b.png' is better here")
    assert "'a.png' is better on line 1" in problem


@pytest.mark.parametrize("second", ["a.png", "./a.png"])
@pytest.mark.parametrize("label", ["i", "j"])
def test_a_picture_that_beats_itself_is_a_problem(label: Label, second: str) -> None:
    (problem,) = problems_of(comparison(label, "a.png", second))
    assert problem == (
        f"candidates 0 and 1 are the same picture 'a.png', yet '{label}' is better in 'overall'; correct a path, or "
        "remove the judgement"
    )


def test_a_picture_may_tie_with_itself() -> None:
    assert problems_of(comparison("tie", "a.png", "./a.png")) == []


def test_a_group_in_two_splits_is_a_problem() -> None:
    records = [comparison("i", split="train"), comparison("i"), comparison("i", split="test")]
    assert problems_of(*records) == [
        "group 'g' is in split 'test' here and in 'train' on line 1; keep each group in one split"
    ]
    assert problems_of(records[0], comparison("i", split="test", group_id="h")) == []
    assert problems_of(records[0], records[0]) == []
