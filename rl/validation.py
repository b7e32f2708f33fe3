"""Held-out cases: edited by the policy with fixed seeds, looked at by all judges, and averaged over all ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

import torch
from PIL.Image import Image
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.ranks import gather_items, rank_and_world_size
from gnomon.records import Case
from rl.conditioning import CaseState, Conditioning
from rl.generator import DiffusersGenerator
from rl.judging import check_failures_of_all_ranks, gather_columns, gather_failures
from rl.monitors import HackingSettings, HackingWatch, image_monitors
from rl.rewards import Reward, RewardOutput, ask_reward, failures, merge_metrics


class HeldOutValidation:
    """One validation after the other: `start`, `draw` and `judge` for each batch of this rank's cases, `finish`.

    Attributes:
        watch: remembers the figures of past validations; it belongs into the checkpoint.
    """

    def __init__(
        self,
        generator: DiffusersGenerator,
        reward: Reward,
        monitors: Mapping[str, Reward],
        *,
        hacking: HackingSettings,
        max_failed_share: float,
        seed: int,
    ) -> None:
        """Prepare.

        Args:
            generator: the policy.
            reward: what is maximised.
            monitors: judges by name that reward nothing.
            hacking: when to warn that the reward climbs while monitors fall.
            max_failed_share: largest share of failed rewards in a validation, on all ranks together.
            seed: of the noise, together with the id of a case.
        """
        self._generator, self._reward, self._monitors = generator, reward, dict(monitors)
        self._max_failed_share, self._seed = max_failed_share, seed
        self.watch = HackingWatch(tuple(monitors), hacking)
        self._states: dict[str, CaseState] = {}
        self.start()

    def start(self) -> None:
        """Forget the last validation."""
        self._columns: defaultdict[str, list[Tensor]] = defaultdict(list)
        # By turn: a case that a rank repeats is counted by the rank that was dealt it.
        self._failures: dict[int, tuple[str, str]] = {}
        self._failures_of_monitors: dict[str, dict[int, tuple[str, str]]] = {name: {} for name in self._monitors}

    def draw(self, cases: Sequence[Case], references: Sequence[list[Image]]) -> list[Image]:
        """Edit cases with the ODE sampler and fixed seeds; each is conditioned once in all validations."""
        for case, pictures in zip(cases, references, strict=True):
            if case.id not in self._states:
                self._states[case.id] = self._generator.condition([case], [pictures]).states[0]
        conditioning = Conditioning(tuple(self._states[case.id] for case in cases))
        return self._generator.draw(conditioning, [stable_seed(self._seed, "validation", case.id) for case in cases])

    def judge(self, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]) -> None:
        """Have all judges look at a batch, in the order in which a rank was dealt its cases.

        Raises:
            UserError: when a judge cannot be asked, or names its breakdown otherwise than for the batch before.
        """
        rewards = ask_reward(self._reward, cases=cases, references=references, images=images)
        position = sum(len(values) for values in self._columns["reward"])
        self._failures |= _by_turn(rewards, cases, position)
        sources: dict[str, Mapping[str, Tensor]] = {
            "the trainer": {"reward": rewards.total, "failed": rewards.failed.double()},
            "the reward": rewards.breakdown,
            "the pictures": image_monitors(images, references),
        }
        for name, monitor in self._monitors.items():
            opinion = ask_reward(monitor, cases=cases, references=references, images=images)
            self._failures_of_monitors[name] |= _by_turn(opinion, cases, position)
            parts = {f"{name}/{key}": value for key, value in opinion.breakdown.items()}
            sources[f"monitor {name}"] = {name: opinion.total, **parts}
        merged = merge_metrics(sources)
        if position and merged.keys() != self._columns.keys():
            different = ", ".join(sorted(merged.keys() ^ self._columns.keys()))
            raise UserError(f"expected the same breakdown for every batch of pictures, {different} is not in all")
        for key, values in merged.items():
            self._columns[key].append(values)

    def finish(self, num_cases: int, device: torch.device) -> dict[str, Tensor]:
        """Average over all held-out cases and warn of what looks wrong; a collective call.

        Args:
            num_cases: held-out cases on all ranks together.
            device: what the ranks' exchange works on.

        Returns:
            float64 scalars: the means, without cases that have no value, and the number of `failed` rewards.

        Raises:
            UserError: when too many rewards failed.
        """
        own = {key: torch.cat(parts) for key, parts in self._columns.items()}
        rank, world_size = rank_and_world_size()
        # Ranks look at equally many cases; where they run out, a rank repeats one, which does not count. A trainer
        # that limits its batches looks at fewer.
        num_cases = min(num_cases, len(own["reward"]) * world_size)

        def counted(by_turn: Mapping[int, tuple[str, str]]) -> list[tuple[str, str]]:
            return [failure for turn, failure in by_turn.items() if rank + turn * world_size < num_cases]

        check_failures_of_all_ranks(self._reward, counted(self._failures), num_cases, self._max_failed_share)
        for name, by_turn in self._failures_of_monitors.items():
            self._warn_of_failures(name, gather_failures(counted(by_turn)), num_cases)
        values = gather_columns(own, device, partial(gather_items, num_items=num_cases))
        means = {key: value.nanmean() for key, value in values.items() if key != "failed"}
        self._warn({key: value.item() for key, value in means.items()})
        return {**means, "failed": values["failed"].sum()}

    def _warn_of_failures(self, monitor: str, failed: Sequence[tuple[str, str]], num_cases: int) -> None:
        if failed:
            case, reason = failed[0]
            rank_zero_warn(
                f"monitor {monitor} failed on {len(failed)} of {num_cases} held-out pictures, which are left out of "
                f"its mean: {reason} ({case})"
            )

    def _warn(self, means: Mapping[str, float]) -> None:
        for sign in self.watch.update(means):
            rank_zero_warn(str(sign))


def _by_turn(output: RewardOutput, cases: Sequence[Case], position: int) -> dict[int, tuple[str, str]]:
    """Return case id and reason of failed rows by their place among all that a rank was dealt."""
    rows = output.failed.nonzero().flatten().tolist()
    return {position + row: failure for row, failure in zip(rows, failures(output, cases), strict=True)}
