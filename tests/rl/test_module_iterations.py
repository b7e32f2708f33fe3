"""Iterations of a real training, seen from outside: who is in a group, what counts, and what leaves no trace."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL.Image import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from safetensors.torch import load_file
from torch import Tensor

import rl.iteration
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text
from rl.algorithms import DiffusionNFT, FlowGRPO
from rl.callbacks import KeepLora
from rl.data import CaseData, prompt_indices
from rl.generator import DiffusersGenerator
from rl.iteration import IterationSampling
from rl.lora import WEIGHTS_NAME
from rl.module import PolicyTraining
from rl.monitors import PICTURE_MONITORS
from rl.rewards import RewardOutput
from rl.rollouts import Trajectories
from rl.settings import AdvantageSettings, EmaSettings, OptimizerSettings, RolloutSettings

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*in eval mode at the start of training"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]

MEMBERS = 4
ROLLOUT = RolloutSettings(
    num_prompts=3, num_candidates=MEMBERS, micro_batch_size=3, window_size=2, window_last=1, noise_level=0.9
)
CLIP: dict[str, Any] = {"clip_low": 2e-3, "clip_high": 2e-3}
Build = Callable[..., PolicyTraining]


@pytest.fixture
def build(build: Build) -> Build:
    return partial(build, rollout=ROLLOUT)


@pytest.fixture
def trainer(tmp_path: Path) -> Callable[..., Trainer]:
    def make(iterations: int, *callbacks: Callback, **changes: Any) -> Trainer:
        settings: dict[str, Any] = {
            "accelerator": "cpu",
            "accumulate_grad_batches": 4,
            "callbacks": list(callbacks),
            "default_root_dir": tmp_path,
            "enable_checkpointing": False,
            "enable_model_summary": False,
            "enable_progress_bar": False,
            "inference_mode": False,
            "limit_val_batches": 0,
            "logger": False,
            "max_epochs": iterations,
            "num_sanity_val_steps": 0,
        }
        return Trainer(**(settings | changes))

    return make


@pytest.fixture
def data(case_folders: tuple[Path, Path]) -> CaseData:
    return CaseData(*map(str, case_folders))


def adapter(module: PolicyTraining) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.policy.trained.items()}


class KeepBatches(Callback):
    """Remembers the micro-batches of every iteration."""

    def __init__(self) -> None:
        self.iterations: list[list[Any]] = []

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.iterations.append([])

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self.iterations[-1].append(batch)


# -------------------------------------------------------------------------------------------------------------- groups


def test_every_iteration_trains_all_members_of_its_groups_once_at_each_step_of_its_window(
    build: Build, trainer: Callable[..., Trainer], data: CaseData, capsys: pytest.CaptureFixture[str]
) -> None:
    module, keep = build(), KeepBatches()
    trainer(4, keep).fit(module, data)
    assert "rl: 3 prompts x 4 candidates = 12 samples; 8 micro-batches" in capsys.readouterr().err
    windows = []
    for iteration, batches in enumerate(keep.iterations):
        drawn = prompt_indices(len(data.train_cases), ROLLOUT.num_prompts, 0, iteration)
        groups = {data.train_cases[index].id for index in drawn}
        assert len(groups) == ROLLOUT.num_prompts
        steps = {batch.transitions.step for batch in batches}
        windows.append(steps)
        for step in steps:  # a loader that fetched ahead would serve rows of the iteration before
            rows = [
                name
                for one in batches
                if one.transitions.step == step
                for name in one.transitions.conditioning.case_ids
            ]
            assert Counter(rows) == dict.fromkeys(groups, MEMBERS)
        starts = torch.cat(
            [one.transitions.latents.flatten(1) for one in batches if one.transitions.step == min(steps)]
        )
        assert len(torch.unique(starts, dim=0)) == len(starts) == ROLLOUT.num_samples
    assert all(len(steps) == ROLLOUT.window_size for steps in windows)
    assert any(steps != windows[0] for steps in windows)


def test_every_rollout_is_one_of_the_weights_that_are_trained_then(
    build: Build, trainer: Callable[..., Trainer], data: CaseData
) -> None:
    module, keep = build(), KeepBatches()
    before = adapter(module)
    trainer(2, keep).fit(module, data)
    assert all(not torch.equal(value, before[name]) for name, value in adapter(module).items() if "lora_B" in name)
    for batches in keep.iterations:  # the weights that sampled and those that replay are the same, step after step
        gaps = torch.cat([batch.old_log_prob - batch.drawn_log_prob for batch in batches])
        assert gaps.abs().max() < 1e-6


class StopError(Exception):
    """What is looked at has happened."""


class OneRollout(IterationSampling):
    """Keeps the trajectories of one iteration and goes no further."""

    trajectories: Trajectories

    def sample_and_judge(self, *args: Any, **kwargs: Any) -> tuple[Trajectories, RewardOutput]:
        self.trajectories, _ = super().sample_and_judge(*args, **kwargs)
        raise StopError


@pytest.mark.parametrize("world_size", [2, 4])
def test_a_group_has_its_members_on_any_number_of_ranks_also_where_a_border_cuts_it(
    world_size: int,
    generator_settings: dict[str, Any],
    toy_rewards: ModuleType,
    trainer: Callable[..., Trainer],
    data: CaseData,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows: dict[int, list[tuple[str, int, range]]] = {}
    latents: dict[int, Tensor] = {}
    generator = DiffusersGenerator(**generator_settings)
    module = PolicyTraining(generator, toy_rewards.Brightness(), algorithm=FlowGRPO(), rollout=ROLLOUT)
    advantage = AdvantageSettings()
    sampling = OneRollout(module.policy, module.reward, module.algorithm, ROLLOUT, advantage, seed=0)
    module.sampling = sampling
    for size in (1, world_size):
        parts = []
        for rank in range(size):
            monkeypatch.setattr(rl.iteration, "rank_and_world_size", lambda rank=rank, size=size: (rank, size))
            with pytest.raises(StopError):
                trainer(1).fit(module, data)
            parts.append(sampling.trajectories)
        rows[size] = [
            (case, seed, part.window)
            for part in parts
            for case, seed in zip(part.conditioning.case_ids, part.seeds, strict=True)
        ]
        assert {len(part.seeds) for part in parts} == {ROLLOUT.num_samples // size}
        latents[size] = torch.cat([part.latents for part in parts])
    groups = Counter(case for case, _, _ in rows[world_size])
    assert set(groups.values()) == {MEMBERS}
    assert len(groups) == ROLLOUT.num_prompts
    assert len({seed for _, seed, _ in rows[world_size]}) == ROLLOUT.num_samples
    assert rows[world_size] == rows[1]
    torch.testing.assert_close(latents[world_size], latents[1], atol=1e-4, rtol=0)


@pytest.fixture
def alike(tmp_path: Path, pictures: list[Image]) -> CaseData:
    """Cases with one instruction and different pictures, two of which have ids that differ in a capital only."""
    cases: list[Case] = []
    for name, picture in zip(("a", "A", "b"), pictures, strict=False):
        path = f"{name}-{len(cases)}.png"
        save_png(picture, tmp_path / path)
        cases.append(
            Case(
                id=name,
                benchmark="toy",
                task="x",
                instruction=Text(en="make it red"),
                references=[Reference(path=path)],
            )
        )
    write_records(tmp_path / "cases.jsonl", cases)
    return CaseData(str(tmp_path))


def test_one_instruction_with_other_pictures_is_another_group(
    build: Build, trainer: Callable[..., Trainer], alike: CaseData
) -> None:
    module, keep = build(rollout=ROLLOUT), KeepBatches()
    trainer(1, keep).fit(module, alike)
    advantages: dict[str, list[float]] = {}
    states: dict[str, set[int]] = {}
    for batch in keep.iterations[0]:
        for state, value in zip(batch.transitions.conditioning.states, batch.advantages.tolist(), strict=True):
            advantages.setdefault(state.case_id, []).append(value)
            states.setdefault(state.case_id, set()).add(id(state))
    assert set(advantages) == {"a", "A", "b"}
    for values in advantages.values():
        assert sum(values) == pytest.approx(0, abs=1e-5)  # centred by themselves
        assert max(values) > 0.1
    assert all(len(each) == 1 for each in states.values())
    assert len(set.union(*states.values())) == 3


# --------------------------------------------------------------------------------------------- what counts as nothing


class Told:
    """Rewards every picture with the same number."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        values = torch.full((len(images),), self.value)
        return RewardOutput(values, {"part": values}, torch.zeros(len(images), dtype=torch.bool))


@pytest.mark.parametrize("value", [0.98, math.nan])
def test_groups_that_say_nothing_keep_their_micro_batches_and_move_no_weight(
    value: float, build: Build, trainer: Callable[..., Trainer], data: CaseData
) -> None:
    rollout = replace(ROLLOUT, max_failed_share=1.0)
    module = build(reward=Told(value), rollout=rollout, optimizer=OptimizerSettings(weight_decay=0.0))
    before, keep = adapter(module), KeepBatches()
    fit = trainer(1, keep)
    fit.fit(module, data)
    assert [len(batch.advantages) for batch in keep.iterations[0]] == [ROLLOUT.micro_batch_size] * 8
    assert fit.global_step == 2
    assert fit.callback_metrics["train/grad_norm"] == 0
    assert fit.callback_metrics["rollout/failed"] == (ROLLOUT.num_samples if math.isnan(value) else 0)
    assert all(torch.equal(weight, before[name]) for name, weight in adapter(module).items())


# ---------------------------------------------------------------------------------------------------------- validation


class ByCase:
    """Rewards a case with the square of its number."""

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        values = torch.tensor([float(case.id.removeprefix("case-")) ** 2 for case in cases])
        return RewardOutput(values, {}, torch.zeros(len(images), dtype=torch.bool))


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_every_held_out_case_counts_once_also_in_a_last_batch_that_is_smaller(
    batch_size: int, build: Build, trainer: Callable[..., Trainer], case_folders: tuple[Path, Path]
) -> None:
    data = CaseData(*map(str, case_folders), validation_batch_size=batch_size)
    (metrics,) = trainer(1, limit_val_batches=1.0).validate(build(reward=ByCase()), data, verbose=False)
    assert metrics["validation/reward"] == pytest.approx((25 + 36 + 49) / 3)
    assert metrics["validation/failed"] == 0
    assert {f"validation/{name}" for name in PICTURE_MONITORS} <= set(metrics)


@pytest.mark.parametrize("algorithm", [FlowGRPO(**CLIP), DiffusionNFT(timestep_fraction=0.4)], ids=["grpo", "nft"])
def test_validations_leave_no_trace_in_the_training_and_the_training_none_in_global_generators(
    algorithm: Any, build: Build, trainer: Callable[..., Trainer], data: CaseData
) -> None:
    runs = []
    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), copy.deepcopy(np.random.get_state())
    for share in (0, 1.0):
        module = build(algorithm=algorithm, ema=EmaSettings(decay=0.5, validate=True))
        fit = trainer(2, limit_val_batches=share)
        fit.fit(module, data)
        runs.append(adapter(module))
        assert ("validation/reward" in fit.callback_metrics) == bool(share)
    assert all(torch.equal(value, runs[1][name]) for name, value in runs[0].items())
    assert random.getstate() == before[0]
    assert str(np.random.get_state()) == str(before[1])


class Drifting:
    """Adds to a reward what grows with every call."""

    def __init__(self, reward: Callable[..., RewardOutput], by: float) -> None:
        self.reward, self.by, self.calls = reward, by, 0

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        self.calls += 1
        output = self.reward(cases=cases, references=references, images=images)
        return replace(output, total=output.total + self.calls * self.by)


def test_raw_and_averaged_weights_are_kept_under_names_of_their_own(
    build: Build, trainer: Callable[..., Trainer], data: CaseData, toy_rewards: ModuleType, tmp_path: Path
) -> None:
    reward = Drifting(toy_rewards.Brightness(), 1.0)  # the last validation is the best
    module = build(reward=reward, ema=EmaSettings(decay=0.5, validate=True))
    keep = KeepLora(tmp_path / "lora")
    fit = trainer(2, keep, limit_val_batches=1.0)
    fit.fit(module, data)
    keep.save_last(fit, module)
    assert keep.best_iteration == 2
    assert module.ema is not None
    raw, average = adapter(module), module.ema.weights
    assert any(not torch.equal(value, average[name]) for name, value in raw.items())
    for kept, expected in (("last", raw), ("ema", average), ("best", average)):
        found = load_file(tmp_path / "lora" / kept / WEIGHTS_NAME)
        assert found.keys() == {f"transformer.{name.replace('.default.', '.')}" for name in expected}
        for name, value in expected.items():
            assert torch.equal(found[f"transformer.{name.replace('.default.', '.')}"], value), f"{kept}: {name}"


def test_a_held_out_judge_that_falls_while_the_reward_climbs_is_warned_of(
    build: Build, trainer: Callable[..., Trainer], data: CaseData, toy_rewards: ModuleType
) -> None:
    reward, monitor = (Drifting(toy_rewards.Brightness(), by) for by in (1.0, -1.0))
    module, fit = build(reward=reward, monitors={"unseen": monitor}), trainer(1, limit_val_batches=1.0)
    for _ in range(4):
        fit.validate(module, data, verbose=False)
    with pytest.warns(UserWarning, match=r"the reward climbed by .* while unseen fell .* gaming its judge"):
        fit.validate(module, data, verbose=False)
