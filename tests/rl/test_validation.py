"""Held-out cases: fixed seeds, means over what has a value, and what is said about failures and hacking."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.generator import DiffusersGenerator
from rl.monitors import HackingSettings
from rl.rewards import RewardOutput
from rl.validation import HeldOutValidation

CASES = [Case(id=name, benchmark="toy", task="x", instruction=Text(en=f"make {name} red")) for name in "abc"]


class Fixed:
    """Answers with given totals, one after the other."""

    def __init__(self, totals: Sequence[float]) -> None:
        self.totals = list(totals)

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        values = torch.tensor([self.totals.pop(0) for _ in images])
        return RewardOutput(values, {"part": values}, torch.zeros(len(images), dtype=torch.bool))


@pytest.fixture
def generator(generator_settings: dict[str, Any]) -> DiffusersGenerator:
    return DiffusersGenerator(**generator_settings)


Look = Callable[..., dict[str, float]]


@pytest.fixture
def look(generator: DiffusersGenerator, pictures: list[Image]) -> Look:
    """Return a function that validates three pictures in batches of two and one, and returns the figures."""

    def run(reward: Fixed, num_validations: int = 1, num_cases: int = 3, **changes: Any) -> dict[str, float]:
        arguments: dict[str, Any] = {"monitors": {}, "hacking": HackingSettings(), "max_failed_share": 1.0, "seed": 0}
        validation = HeldOutValidation(generator, reward, **(arguments | changes))
        for _ in range(num_validations):
            validation.start()
            for rows in (slice(0, 2), slice(2, 3)):
                validation.judge(CASES[rows], [pictures[:1]] * len(CASES[rows]), pictures[rows])
            found = validation.finish(num_cases, torch.device("cpu"))
        return {name: value.item() for name, value in found.items()}

    return run


def test_figures_are_means_over_cases_of_all_batches_without_those_that_failed(look: Look) -> None:
    found = look(Fixed([1.0, math.nan, 4.0]))
    assert found["reward"] == found["part"] == 2.5
    assert found["failed"] == 1


def test_a_validation_forgets_the_one_before(look: Look) -> None:
    assert look(Fixed([1.0, math.nan, 4.0, 5.0, 6.0, 7.0]), num_validations=2)["reward"] == 6


def test_failures_of_a_monitor_are_said_and_stop_nothing(look: Look) -> None:
    monitors = {"quiet": Fixed([1.0, 2.0, 3.0]), "broken": Fixed([math.nan, 5.0, math.nan])}
    with pytest.warns(UserWarning, match=r"broken failed on 2 of 3 held-out .*not finite \(nan\) \(a\)") as said:
        found = look(Fixed([1.0] * 3), monitors=monitors, max_failed_share=0.0)
    assert [str(one.message) for one in said if "quiet" in str(one.message)] == []
    assert (found["broken"], found["quiet"], found["failed"]) == (5, 2, 0)


def test_failures_of_a_monitor_are_those_of_all_ranks_each_case_once(
    look: Look, monkeypatch: pytest.MonkeyPatch
) -> None:
    # This is rank 1 of 2 with 5 cases: its third turn repeats a case of the other rank, which has two failures.
    theirs = [json.dumps((case, "too dark")) for case in "xy"]

    def from_both(texts: list[str]) -> list[str]:
        return [*theirs, *texts] if texts == [json.dumps(("a", "not finite (nan)"))] else texts

    monkeypatch.setattr("rl.validation.rank_and_world_size", lambda: (1, 2))
    monkeypatch.setattr("rl.judging.gather_texts", from_both)
    monkeypatch.setattr("rl.validation.gather_items", lambda values, num_items: values)
    with pytest.warns(UserWarning, match="monitor broken") as said:
        look(Fixed([1.0] * 3), num_cases=5, monitors={"broken": Fixed([math.nan, 5.0, math.nan])})
    (message,) = [str(one.message) for one in said]
    assert message.startswith("monitor broken failed on 3 of 5 held-out pictures")


def test_a_breakdown_that_changes_from_batch_to_batch_is_refused(look: Look) -> None:
    class Fickle(Fixed):
        def __call__(self, *, cases: Any, references: Any, images: Any) -> RewardOutput:
            output = super().__call__(cases=cases, references=references, images=images)
            return RewardOutput(output.total, {f"part{len(images)}": output.total}, output.failed)

    with pytest.raises(UserError, match="same breakdown for every batch of pictures, part1, part2 is not in all"):
        look(Fickle([1.0] * 3))


def test_too_many_failures_of_the_reward_stop_the_run(look: Look) -> None:
    with pytest.raises(UserError, match=r"Fixed failed on 2 of 3 .*\(b, c\)"):
        look(Fixed([1.0, math.nan, math.nan]), max_failed_share=0.5)


def test_a_judge_that_falls_while_the_reward_climbs_is_said_once(look: Look) -> None:
    climbing = [value for step in range(8) for value in [float(step)] * 3]
    falling = Fixed([-value for value in climbing])
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        look(Fixed(climbing), num_validations=8, monitors={"judge": falling})
    assert len([one for one in said if "while judge fell" in str(one.message)]) == 1


def test_a_case_is_conditioned_once_and_drawn_from_one_noise_in_any_batch(
    generator: DiffusersGenerator, toy_rewards: ModuleType, pictures: list[Image]
) -> None:
    def validation(seed: int) -> HeldOutValidation:
        return HeldOutValidation(
            generator, toy_rewards.Brightness(), {}, hacking=HackingSettings(), max_failed_share=0.0, seed=seed
        )

    first = validation(0)
    together = first.draw(CASES[:2], [pictures[:1]] * 2)
    alone = first.draw(CASES[1:2], [pictures[:1]])
    assert generator.num_conditionings == 2
    assert alone[0].tobytes() == together[1].tobytes()
    assert together[0].tobytes() != together[1].tobytes()
    assert validation(1).draw(CASES[:1], [pictures[:1]])[0].tobytes() != together[0].tobytes()
