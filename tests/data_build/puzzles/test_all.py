"""What holds for every puzzle: its own picture verifies, however it was re-rendered, and wrong edits do not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from data_build.puzzles.changes import Source
from data_build.puzzles.puzzle import AnyPuzzle
from data_build.puzzles.table import PUZZLES
from data_build.puzzles.verify import verify_instance
from data_build.puzzles.wrong_edits import wrong_edits
from tests.data_build.puzzles.examples import RESOLUTION, instances, rerendered

NUM_SLOW = 1000
LEAST_KINDS = 20
TASKS = list(PUZZLES)


def refused_targets(puzzle: AnyPuzzle, drawn: Sequence[Any]) -> dict[str, str]:
    """Re-renderings of answers that do not verify, with the reason."""
    refused = {}
    for number, instance in enumerate(drawn):
        source = Source(puzzle.render(instance, RESOLUTION))
        target = puzzle.render(instance, RESOLUTION, puzzle.solve(instance))
        for kind, picture in rerendered(target).items():
            outcome = verify_instance(puzzle, instance, source, picture)
            if outcome.value != "correct":
                refused[f"{number} {kind}"] = outcome.reason
    return refused


def accepted_wrong_edits(puzzle: AnyPuzzle, drawn: Sequence[Any]) -> tuple[Counter[str], Counter[str]]:
    """How often each kind of wrong edit was tried, and how often it passed."""
    tried: Counter[str] = Counter()
    passed: Counter[str] = Counter()
    for number, (other, instance) in enumerate(pairwise(drawn)):
        source = Source(puzzle.render(instance, RESOLUTION))
        for kind, picture in wrong_edits(puzzle, instance, other, RESOLUTION, random.Random(number)).items():
            tried[kind] += 1
            passed[kind] += verify_instance(puzzle, instance, source, picture).value == "correct"
    return tried, passed


@pytest.mark.parametrize("task", TASKS)
def test_the_answer_s_picture_is_correct_after_any_re_rendering(task: str) -> None:
    puzzle = PUZZLES[task]()

    assert refused_targets(puzzle, instances(puzzle, 6)) == {}


@pytest.mark.parametrize("task", TASKS)
def test_wrong_edits_of_twenty_kinds_are_not_correct(task: str) -> None:
    puzzle = PUZZLES[task]()

    tried, passed = accepted_wrong_edits(puzzle, instances(puzzle, 5))

    assert +passed == {}
    assert len(tried) >= LEAST_KINDS


@pytest.mark.parametrize("task", TASKS)
def test_an_instance_has_one_best_answer_and_says_so(task: str) -> None:
    puzzle = PUZZLES[task]()
    for instance in instances(puzzle, 5):
        best = puzzle.solve(instance)
        assert puzzle.check(instance, best).value == "correct"
        assert puzzle.instance_class.model_validate_json(instance.model_dump_json()) == instance
        text = puzzle.instruct(instance)
        assert text.en
        assert text.zh
        assert puzzle.describe(instance).endswith(".")
        for kind, answer in puzzle.spoil(instance, random.Random(0)).items():
            assert puzzle.check(instance, answer).value != "correct", kind


@pytest.mark.parametrize("task", TASKS)
def test_equal_seeds_draw_equal_pictures(task: str) -> None:
    first, second = PUZZLES[task](), PUZZLES[task]()
    for a, b in zip(instances(first, 3), instances(second, 3), strict=True):
        assert a == b
        answer = first.solve(a)
        assert first.render(a, RESOLUTION, answer).tobytes() == second.render(b, RESOLUTION, answer).tobytes()
    assert instances(first, 3, seed=1) != instances(first, 3)


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS)
def test_a_thousand_answers_verify_and_a_thousand_wrong_edits_of_each_kind_do_not(task: str) -> None:
    puzzle = PUZZLES[task]()
    drawn = instances(puzzle, NUM_SLOW)

    assert refused_targets(puzzle, drawn) == {}
    tried, passed = accepted_wrong_edits(puzzle, drawn)
    print(f"{task}: {tried.total()} wrong edits of {len(tried)} kinds, {passed.total()} passed: {dict(+passed)}")
    assert passed.total() <= tried.total() / 1000
