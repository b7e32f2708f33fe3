"""Groups are judged as they are finished, and their rewards come back in the order of the rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from PIL import Image

from gnomon.errors import UserError
from gnomon.ranks import gather_rows
from gnomon.records import Case, Text
from rl.judging import GroupScoring, check_failures_of_all_ranks, gather_columns, gather_rewards
from rl.rewards import RewardOutput
from rl.scoring import OverlappedScoring


class Grey:
    """The grey value, which is the row in these tests; odd rows of 10 and above fail."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image.Image]], images: Sequence[Image.Image]
    ) -> RewardOutput:
        self.calls.append([case.id for case in cases])
        values = torch.tensor([float(image.getpixel((0, 0))[0]) for image in images])  # type: ignore[index]
        failed = (values >= 10) & (values % 2 == 1)
        reasons = {row: f"odd {int(values[row])}" for row in failed.nonzero().flatten().tolist()}
        return RewardOutput(values, {"grey": values * 2}, failed, reasons)


def case(name: str) -> Case:
    return Case(id=name, benchmark="toy", task="x", instruction=Text(en="x"))


CASES = [case(name) for name in "aaabbbcc"]
IMAGES = [Image.new("RGB", (4, 4), (value, 0, 0)) for value in (0, 1, 2, 3, 10, 11, 12, 13)]


@pytest.mark.parametrize("overlap", [True, False])
def test_groups_that_finish_out_of_order_are_judged_whole_and_come_back_in_rows(overlap: bool) -> None:
    reward = Grey()
    with OverlappedScoring(reward, overlap=overlap) as scoring:
        groups = GroupScoring(scoring, CASES, [[]] * 8, by_group=True)
        for rows in ([3, 0], [4, 5, 6, 7], [1, 2]):
            groups.add(rows, [IMAGES[row] for row in rows])
        output = groups.result()
    assert reward.calls == [["b"] * 3, ["c"] * 2, ["a"] * 3]
    assert output.failed.nonzero().flatten().tolist() == [5, 7]
    assert output.reasons == {5: "odd 11", 7: "odd 13"}
    valid = ~output.failed
    assert output.total[valid].tolist() == [0, 1, 2, 3, 10, 12]
    assert output.breakdown["grey"][valid].tolist() == [0, 2, 4, 6, 20, 24]


def test_case_references_and_picture_of_a_row_stay_together() -> None:
    numbers = [5, 3, 9, 1, 7, 2]
    cases = [case(f"{number}") for number in numbers]
    pictures = [Image.new("RGB", (4, 4), (number, 0, 0)) for number in numbers]
    references = [[Image.new("RGB", (4, 4), (0, number, 0)), Image.new("RGB", (4, 4))] for number in numbers]
    seen: list[tuple[str, int, int]] = []

    def look(*, cases: Sequence[Case], references: Sequence[list[Image.Image]], images: Sequence[Image.Image]) -> Any:
        for each, (source, _), image in zip(cases, references, images, strict=True):
            seen.append((each.id, source.getpixel((0, 0))[1], image.getpixel((0, 0))[0]))  # type: ignore[index]
        values = torch.tensor([float(each.id) for each in cases])
        return RewardOutput(values, {}, torch.zeros(len(cases), dtype=torch.bool))

    with OverlappedScoring(look) as scoring:
        groups = GroupScoring(scoring, cases, references, by_group=True)
        for rows in ([4, 1], [0], [5, 3, 2]):
            groups.add(rows, [pictures[row] for row in rows])
        assert groups.result().total.tolist() == numbers
    assert sorted(seen) == sorted((str(number), number, number) for number in numbers)


def test_rows_without_a_picture_are_not_passed_over_in_silence() -> None:
    with OverlappedScoring(Grey(), overlap=False) as scoring:
        groups = GroupScoring(scoring, CASES, [[]] * 8, by_group=True)
        groups.add([0, 1, 2, 4], [IMAGES[row] for row in (0, 1, 2, 4)])
        with pytest.raises(ValueError, match=r"rows \[3, 5, 6, 7\] have none"):
            groups.result()


def test_ranks_that_name_their_metrics_otherwise_are_stopped_before_numbers_change_places(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As many numbers from both ranks, so nothing else would notice.
    other = json.dumps(["failed", "part quality", "total"])
    monkeypatch.setattr("rl.judging.gather_texts", lambda texts: [*texts, other])
    values = torch.zeros(2, dtype=torch.float64)
    output = RewardOutput(values, {"colour": values}, torch.zeros(2, dtype=torch.bool))
    with pytest.raises(UserError, match=r"same metrics on all ranks.* colour, quality is not on all; give"):
        gather_rewards(output, torch.device("cpu"))


def test_without_groups_everything_is_judged_in_one_call() -> None:
    reward = Grey()
    with OverlappedScoring(reward, overlap=False) as scoring:
        groups = GroupScoring(scoring, CASES, [[]] * 8, by_group=False)
        groups.add(range(8), IMAGES)
        assert groups.result().total[:5].tolist() == [0, 1, 2, 3, 10]
    assert reward.calls == [[each.id for each in CASES]]


def test_with_one_process_what_is_gathered_is_what_was_there() -> None:
    output = RewardOutput(
        torch.tensor([1.0, torch.nan], dtype=torch.float64),
        {"total": torch.tensor([3.0, torch.nan], dtype=torch.float64)},  # a part may be called like that
        torch.tensor([False, True]),
        {1: "broken"},
    )
    everyone = gather_rewards(output, torch.device("cpu"))
    assert everyone.total[0] == 1
    assert everyone.breakdown["total"][0] == 3
    assert everyone.failed.tolist() == [False, True]
    columns = {"b": torch.tensor([1.0, 2.0]), "a": torch.tensor([3.0, 4.0])}
    gathered = gather_columns(columns, torch.device("cpu"), gather_rows)
    assert {name: values.tolist() for name, values in gathered.items()} == {"a": [3.0, 4.0], "b": [1.0, 2.0]}


def test_the_budget_of_failures_counts_all_pictures() -> None:
    failed = [("a", 'too "dark"'), ("b", 'too "dark"')]
    check_failures_of_all_ranks(Grey(), failed, 20, 0.1)
    with pytest.raises(UserError, match=r'Grey failed on 2 of 19 .* 2 x too "dark" \(a, b\)'):
        check_failures_of_all_ranks(Grey(), failed, 19, 0.1)
