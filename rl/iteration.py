"""The first half of an iteration: groups of candidates are sampled, judged, and compared with each other.

On several ranks each makes and judges its own share of the samples. Rewards and failures are gathered, so advantages,
limits and figures are those of the whole iteration, computed alike everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.errors import UserError
from gnomon.ranks import failing_together, gather_rows, rank_and_world_size, rows_of_rank
from gnomon.records import Case
from gnomon.sharding import in_step, is_sharded
from rl.advantages import Advantages, gdpo_advantages, group_advantages
from rl.algorithms import Algorithm, Samples
from rl.conditioning import Conditioning
from rl.data import prompt_indices
from rl.judging import GroupScoring, check_failures_of_all_ranks, gather_columns, gather_rewards
from rl.monitors import image_monitors
from rl.policy import Policy
from rl.rewards import Reward, RewardOutput, failures, merge_metrics
from rl.rollouts import Trajectories, candidate_seeds, condition_rows, sample_group_trajectories
from rl.scoring import OverlappedScoring
from rl.settings import AdvantageSettings, RolloutSettings

Timer = Callable[[str], AbstractContextManager[None]]


@dataclass(frozen=True, eq=False)
class JudgedSamples:
    """What an iteration trains on.

    Attributes:
        samples: those of this rank.
        rewards: of all ranks.
        advantages: of all ranks.
        monitors: measures of the pictures of all ranks, each float64 `[samples]`.
    """

    samples: Samples
    rewards: RewardOutput
    advantages: Advantages
    monitors: Mapping[str, Tensor]

    def metrics(self) -> dict[str, Tensor]:
        """Return figures of the whole iteration, scalars; what has no value for a sample is left out of a mean."""
        rewards, advantages = self.rewards, self.advantages
        valid = rewards.total[~rewards.failed]
        return merge_metrics(
            {
                "the trainer": {
                    "reward_mean": valid.mean(),
                    "reward_std": valid.std(correction=0) if len(valid) else valid.mean(),  # NaN, as of nothing
                    "group_std": advantages.group_std.mean(),
                    "zero_std_groups": advantages.zero_std.double().mean(),
                    "failed": rewards.failed.double().sum(),
                },
                "the reward": {name: value[~rewards.failed].nanmean() for name, value in rewards.breakdown.items()},
                "the pictures": {name: value.nanmean() for name, value in self.monitors.items()},
            }
        )


class IterationSampling:
    """Makes the samples of one iteration after the other.

    Whatever is drawn is a function of (seed, iteration, case, member).
    """

    def __init__(
        self,
        policy: Policy,
        reward: Reward,
        algorithm: Algorithm,
        rollout: RolloutSettings,
        advantage: AdvantageSettings,
        *,
        seed: int,
    ) -> None:
        """Check what can be known before any work.

        Raises:
            UserError: when the window does not fit into the schedule, or rewards are to be kept apart that do not come
                apart.
        """
        self._policy, self._generator, self._reward, self._algorithm = policy, policy.generator, reward, algorithm
        self._rollout, self._advantage, self._seed = rollout, advantage, seed
        self._window(0)
        self._part_weights = self._weights_of_parts()

    def _weights_of_parts(self) -> dict[str, float]:
        if self._advantage.combine == "sum":
            return {}
        weights: dict[str, float] | None = getattr(self._reward, "weights", None)
        if not weights:
            raise UserError(
                f"expected a reward with `weights` of its parts for model.advantage.combine 'gdpo', which normalises "
                f"them one by one; {type(self._reward).__name__} has none. Use rl.rewards.CombinedReward, or 'sum'"
            )
        return dict(weights)

    def _window(self, iteration: int) -> range:
        if not self._algorithm.stochastic:
            return range(0)
        return self._rollout.window(self._seed, iteration, self._generator.num_inference_steps)

    def make(
        self,
        iteration: int,
        train_cases: Sequence[Case],
        load: Callable[[Sequence[Case]], list[list[Image]]],
        device: torch.device,
        timed: Timer,
    ) -> JudgedSamples:
        """Sample and judge this rank's share, and compare with all ranks; a collective call, without gradients.

        Args:
            iteration: counted from 0.
            train_cases: what the iteration's groups are chosen from.
            load: from cases to their pictures.
            device: where advantages go, and what the ranks' exchange works on.
            timed: measures a part by its name.

        Raises:
            UserError: when too many rewards failed, or cases do not fit into one batch.
        """
        settings = self._rollout
        groups = [
            train_cases[index]
            for index in prompt_indices(len(train_cases), settings.num_prompts, self._seed, iteration)
        ]
        rows = rows_of_rank(settings.num_samples, *rank_and_world_size())
        # One case is one group: the same instruction and the same references.
        cases = [group for group in groups for _ in range(settings.num_candidates)]
        own = [cases[row] for row in rows]
        seeds = candidate_seeds(self._seed, iteration, groups, settings.num_candidates)[rows.start : rows.stop]
        with failing_together(exchange=not is_sharded(self._policy.trained.values())):
            references = _references(own, load)
            trajectories, rewards = self.sample_and_judge(iteration, own, references, seeds, device, timed)
            measured = image_monitors(trajectories.images, references)
        check_failures_of_all_ranks(
            self._reward, failures(rewards, own), settings.num_samples, settings.max_failed_share
        )
        everyone = gather_rewards(rewards, device)
        advantages = self._advantages(everyone, [case.id for case in cases])
        self._check_forms(trajectories.conditioning, device)
        samples = Samples(
            trajectories,
            advantages.values[rows.start : rows.stop].to(device, torch.float32),
            advantages.valid[rows.start : rows.stop].to(device),
            self._seed,
            iteration,
        )
        monitors = gather_columns(measured, device, gather_rows)
        return JudgedSamples(samples, everyone, advantages, monitors)

    def sample_and_judge(
        self,
        iteration: int,
        cases: Sequence[Case],
        references: Sequence[list[Image]],
        seeds: Sequence[int],
        device: torch.device,
        timed: Timer,
    ) -> tuple[Trajectories, RewardOutput]:
        """Sample this rank's candidates and have them judged, beside the sampling where that is set.

        Args:
            iteration: counted from 0.
            cases: one per row of this rank.
            references: one list per row of this rank.
            seeds: one per row of this rank.
            device: of the policy.
            timed: measures a part by its name.
        """
        settings, algorithm = self._rollout, self._algorithm
        with OverlappedScoring(self._reward, device=device, overlap=settings.overlap_scoring) as judge:
            scoring = GroupScoring(judge, cases, references, by_group=settings.overlap_scoring)
            with (
                timed("rollout"),
                self._policy.using(algorithm.sampling_adapter),
                in_step(self._generator.transformer),
            ):
                trajectories = sample_group_trajectories(
                    self._generator,
                    condition_rows(self._generator, cases, references),
                    seeds,
                    self._window(iteration),
                    settings.stochastic_sampler() if algorithm.stochastic else None,
                    same_latent=settings.same_latent,
                    on_images=scoring.add if settings.overlap_scoring else None,
                )
            with timed("reward"):  # beside the sampling: what is left to wait for
                if not settings.overlap_scoring:
                    scoring.add(range(len(cases)), trajectories.images)
                return trajectories, scoring.result()

    def _advantages(self, rewards: RewardOutput, group_ids: list[str]) -> Advantages:
        settings = self._advantage
        if settings.combine == "gdpo":
            return gdpo_advantages(
                rewards.breakdown,
                self._part_weights,
                group_ids,
                failed=rewards.failed,
                epsilon=settings.epsilon,
                clip=settings.clip,
            )
        return group_advantages(
            rewards.total,
            group_ids,
            failed=rewards.failed,
            epsilon=settings.epsilon,
            std_mode=settings.std,
            clip=settings.clip,
        )

    def _check_forms(self, conditioning: Conditioning, device: torch.device) -> None:
        """Refuse what would hang: in training, ranks with sharded weights must make the same forward passes."""
        if not is_sharded(self._policy.trained.values()):
            return
        size = self._rollout.micro_batch_size
        slices = [range(start, start + size) for start in range(0, len(conditioning), size)]
        counts = [len(conditioning.select(rows).rows_by_form()) for rows in slices]
        everyone = gather_rows(torch.tensor([counts], device=device))
        if bool((everyone != everyone[0]).any()):
            raise UserError(
                "expected micro-batches of cases with the same number and sizes of references, because weights are "
                "sharded (ZeRO-3) and ranks would make different numbers of forward passes; choose a "
                "model.rollout.micro_batch_size that divides num_candidates, or use DDP or ZeRO-2"
            )


def _references(cases: Sequence[Case], load: Callable[[Sequence[Case]], list[list[Image]]]) -> list[list[Image]]:
    """Load the pictures of each case once; one list per row."""
    unique = {case.id: case for case in cases}
    loaded = dict(zip(unique, load(list(unique.values())), strict=True))
    return [loaded[case.id] for case in cases]
