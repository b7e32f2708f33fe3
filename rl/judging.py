"""Judging the samples of an iteration: groups as they are finished, rewards and failures of all ranks together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.errors import UserError
from gnomon.ranks import gather_rows, gather_texts
from gnomon.records import Case
from rl.rewards import Reward, RewardOutput, check_failures, reward_name
from rl.scoring import OverlappedScoring

_PART = "part "


class GroupScoring:
    """Collects pictures as they are finished, and hands a group on to be judged once all its pictures are there."""

    def __init__(
        self, scoring: OverlappedScoring, cases: Sequence[Case], references: Sequence[list[Image]], *, by_group: bool
    ) -> None:
        """Prepare for some rows.

        Args:
            scoring: who judges.
            cases: one per row; the rows of one case are a group.
            references: one list per row.
            by_group: hand in group by group, in the order in which they are finished; otherwise all rows at once.
        """
        self._scoring, self._cases, self._references = scoring, cases, references
        self._groups: dict[str, list[int]] = {}
        for row, case in enumerate(cases):
            self._groups.setdefault(case.id if by_group else "", []).append(row)
        self._images: dict[int, Image] = {}
        self._order: list[int] = []

    def add(self, rows: Sequence[int], images: Sequence[Image]) -> None:
        """Take up finished pictures."""
        self._images.update(zip(rows, images, strict=True))
        for key in [key for key, members in self._groups.items() if all(row in self._images for row in members)]:
            members = self._groups.pop(key)
            self._scoring.submit(
                [self._cases[row] for row in members],
                [self._references[row] for row in members],
                [self._images[row] for row in members],
            )
            self._order += members

    def result(self) -> RewardOutput:
        """Wait for the judge and return the rewards in the order of the rows.

        Raises:
            ValueError: when pictures of some rows never came.
        """
        if self._groups:
            rows = [row for members in self._groups.values() for row in members if row not in self._images]
            raise ValueError(f"expected a picture for each row, rows {rows} have none")
        return _in_rows(self._scoring.result(), self._order)


def _in_rows(output: RewardOutput, order: Sequence[int]) -> RewardOutput:
    """Undo an order: entry i of `output` belongs to row `order[i]`."""
    place = torch.tensor(order).argsort()
    return RewardOutput(
        output.total[place],
        {name: values[place] for name, values in output.breakdown.items()},
        output.failed[place],
        {order[entry]: reason for entry, reason in sorted(output.reasons.items(), key=lambda item: order[item[0]])},
    )


def gather_columns(
    columns: Mapping[str, Tensor], device: torch.device, gather: Callable[[Tensor], Tensor]
) -> dict[str, Tensor]:
    """Bring columns of numbers of all ranks together in one exchange; a collective call.

    Args:
        columns: each float64 `[rows]`, with the same names on every rank.
        device: what the ranks' exchange works on.
        gather: from `[rows of this rank, columns]` to `[rows of all ranks, columns]`.

    Returns:
        float64 `[rows of all ranks]` by name, on the CPU.

    Raises:
        UserError: on every rank, when the names are not the same everywhere: numbers would change places.
    """
    names = sorted(columns)
    everywhere = [set(json.loads(text)) for text in gather_texts([json.dumps(names)])]
    if any(found != everywhere[0] for found in everywhere):
        different = sorted(set().union(*everywhere) - everywhere[0].intersection(*everywhere))
        raise UserError(
            "expected the same metrics on all ranks, whatever cases each of them has, "
            f"{', '.join(name.removeprefix(_PART) for name in different)} is not on all; give a reward's breakdown "
            "the same names for every batch, NaN where there is no value"
        )
    table = torch.stack([columns[name].double() for name in names], dim=1)
    rows = gather(table.to(device)).cpu()
    return {name: rows[:, place] for place, name in enumerate(names)}


def gather_rewards(output: RewardOutput, device: torch.device) -> RewardOutput:
    """Bring the rewards of all ranks together, without reasons; a collective call."""
    columns = {f"{_PART}{name}": values for name, values in output.breakdown.items()}
    everywhere = gather_columns(
        {"total": output.total, "failed": output.failed.double(), **columns}, device, gather_rows
    )
    return RewardOutput(
        everywhere["total"],
        {name: everywhere[f"{_PART}{name}"] for name in output.breakdown},
        everywhere["failed"] > 0,
    )


def check_failures_of_all_ranks(
    reward: Reward, failed: Sequence[tuple[str, str]], num_pictures: int, max_failed_share: float
) -> None:
    """Stop all ranks when too many rewards failed on all of them together; a collective call.

    Args:
        reward: whose failures they are.
        failed: case id and reason of each failed row of this rank.
        num_pictures: on all ranks together.
        max_failed_share: the budget, 0..1.

    Raises:
        UserError: on every rank, see `check_failures`.
    """
    check_failures(reward_name(reward), gather_failures(failed), num_pictures, max_failed_share)


def gather_failures(failed: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Bring case id and reason of failed rows of all ranks together, any number from each; a collective call."""
    return [(case, reason) for case, reason in map(json.loads, gather_texts([json.dumps(pair) for pair in failed]))]
