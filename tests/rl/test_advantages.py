"""Group advantages against numpy and by their invariants."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rl.advantages import StdMode, gdpo_advantages, group_advantages

rewards_in_a_group = st.lists(st.floats(-10, 10), min_size=2, max_size=12)


def test_known_answer_with_two_groups_in_mixed_order() -> None:
    rewards = torch.tensor([1.0, 10.0, 3.0, 30.0, 5.0])
    result = group_advantages(rewards, ["a", "b", "a", "b", "a"], epsilon=0.1)
    std_a, std_b = np.std([1, 3, 5]), np.std([10, 30])
    scale_a, scale_b = float(std_a) + 0.1, float(std_b) + 0.1
    expected = np.array([-2 / scale_a, -10 / scale_b, 0, 10 / scale_b, 2 / scale_a])
    np.testing.assert_allclose(result.values.numpy(), expected)
    np.testing.assert_allclose(result.group_std.numpy(), [std_a, std_b])
    assert result.values.dtype == torch.float64


def test_global_std_and_no_std_keep_the_mean_of_the_group() -> None:
    rewards = [0.0, 1.0, 10.0, 14.0]
    ids = [0, 0, 1, 1]
    overall = group_advantages(torch.tensor(rewards), ids, epsilon=0.0, std_mode="global")
    np.testing.assert_allclose(overall.values.numpy(), np.array([-0.5, 0.5, -2, 2]) / np.std(rewards))
    none = group_advantages(torch.tensor(rewards), ids, std_mode="none")
    np.testing.assert_allclose(none.values.numpy(), [-0.5, 0.5, -2, 2])


def test_a_constant_group_has_exactly_zero_advantage_where_float32_would_not() -> None:
    rewards = torch.full((12,), 0.98)
    naive = (rewards - rewards.mean()) / (rewards.std() + 1e-8)
    assert naive.abs().max() > 0  # what a float32 mean makes of it
    result = group_advantages(rewards, ["a"] * 12, epsilon=0.0)
    assert torch.equal(result.values, torch.zeros(12, dtype=torch.float64))
    assert result.zero_std.tolist() == [True]


def test_rewards_far_from_0_that_hardly_differ_have_a_real_spread_where_a_running_sum_of_squares_has_none() -> None:
    rewards = torch.full((5,), 1000.1)
    rewards[-1] += 2e-4
    squares = (rewards.square().mean() - rewards.mean() ** 2).item()
    assert squares < 0  # a variance whose square root is a complex number
    for mode in get_args(StdMode):
        result = group_advantages(rewards, ["a"] * 5, std_mode=mode)
        np.testing.assert_allclose(result.group_std.numpy(), [np.std(rewards.double().numpy())])
        assert bool(result.values.isfinite().all())
        assert result.values[-1] > 0 > result.values[0]
    apart = gdpo_advantages({"x": rewards}, {"x": 1.0}, ["a"] * 5)
    assert bool(apart.values.isfinite().all())
    assert apart.values[-1] > 1


def test_a_group_of_one_has_zero_advantage() -> None:
    assert group_advantages(torch.tensor([3.0]), ["alone"]).values.tolist() == [0.0]


def test_failed_rewards_are_masked_and_change_no_other_advantage() -> None:
    clean = group_advantages(torch.tensor([1.0, 2.0, 4.0]), ["a"] * 3)
    rewards = torch.tensor([1.0, float("nan"), 2.0, 1000.0, 4.0])
    failed = torch.tensor([False, False, False, True, False])
    result = group_advantages(rewards, ["a"] * 5, failed=failed)
    assert result.valid.tolist() == [True, False, True, False, True]
    assert result.values[~result.valid].tolist() == [0.0, 0.0]
    torch.testing.assert_close(result.values[result.valid], clean.values)


def test_a_rollout_where_everything_failed_gives_zeros() -> None:
    result = group_advantages(torch.tensor([float("nan")] * 2), ["a", "a"], std_mode="global")
    assert result.values.tolist() == [0.0, 0.0]
    assert result.group_std.tolist() == []


def test_large_ids_that_float32_would_merge_stay_apart() -> None:
    rewards = torch.tensor([0.0, 1.0, 0.0, 1.0])
    together = group_advantages(rewards, [2**60, 2**60, 2**60 + 1, 2**60 + 1])
    assert len(together.group_std) == 2


@given(rewards=rewards_in_a_group, shift=st.floats(-5, 5))
def test_advantages_are_centred_bounded_and_do_not_see_a_constant_added_to_all_rewards(
    rewards: list[float], shift: float
) -> None:
    exact = torch.tensor(rewards, dtype=torch.float64)
    result = group_advantages(exact, ["a"] * len(rewards), epsilon=0.02, clip=100.0)
    moved = group_advantages(exact + shift, ["a"] * len(rewards), epsilon=0.02, clip=100.0)
    assert abs(result.values.sum().item()) < 1e-6
    torch.testing.assert_close(result.values, moved.values, atol=1e-6, rtol=1e-6)
    assert result.values.abs().max() <= len(rewards) ** 0.5


def test_advantages_are_clipped() -> None:
    rewards = torch.tensor([0.0] * 99 + [1.0])
    assert group_advantages(rewards, ["a"] * 100, clip=5.0).values.max() == 5.0


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        group_advantages(torch.zeros(3), ["a"] * 2)
    with pytest.raises(ValueError, match="epsilon"):
        group_advantages(torch.zeros(2), ["a"] * 2, epsilon=-1.0)
    with pytest.raises(ValueError, match="std_mode"):
        group_advantages(torch.zeros(2), ["a"] * 2, std_mode="batch")  # type: ignore[arg-type]


# --------------------------------------------------------------------------------------------------------------- GDPO


def test_gdpo_against_numpy() -> None:
    rng = np.random.default_rng(0)
    ids = [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]
    rewards = {"small": rng.normal(size=12), "large": 1000 * rng.normal(size=12), "unused": rng.normal(size=12)}
    weights = {"small": 1.0, "large": 0.5, "unused": 0.0}
    total = np.zeros(12)
    for name in ("small", "large"):
        for group in range(3):
            rows = np.array(ids) == group
            members = rewards[name][rows]
            total[rows] += weights[name] * (members - members.mean()) / (members.std() + 0.01)
    result = gdpo_advantages(
        {name: torch.tensor(r) for name, r in rewards.items()}, weights, ids, epsilon=0.01, clip=50
    )
    np.testing.assert_allclose(result.values.numpy(), total / (total.std() + 0.01), rtol=1e-12)
    np.testing.assert_allclose(result.group_std.numpy(), [total[np.array(ids) == g].std() for g in range(3)])
    assert result.values.dtype == torch.float64


def test_gdpo_tells_apart_what_a_sum_of_rewards_makes_equal() -> None:
    # (1, 0) and (0, 1) have one sum. Beside the rare second reward the first one is nothing special.
    parts = {"easy": torch.tensor([1.0, 1.0, 1.0, 0.0]), "rare": torch.tensor([0.0, 0.0, 0.0, 1.0])}
    summed = group_advantages(parts["easy"] + parts["rare"], [0] * 4)
    assert summed.zero_std.tolist() == [True]
    apart = gdpo_advantages(parts, {"easy": 1.0, "rare": 2.0}, [0] * 4)
    assert apart.values[3] > 1 > 0 > apart.values[0] == apart.values[1]


def test_gdpo_of_one_reward_is_the_group_advantage_at_unit_spread() -> None:
    rewards, ids = torch.tensor([1.0, 5.0, 2.0, 4.0, 4.0, 0.0]), [0, 0, 0, 1, 1, 1]
    alone = gdpo_advantages({"only": rewards}, {"only": 3.0}, ids, epsilon=0.0)
    torch.testing.assert_close(alone.values, group_advantages(rewards, ids, epsilon=0.0).values)
    assert alone.values.std(correction=0).item() == pytest.approx(1.0)


def test_gdpo_masks_a_sample_that_one_part_could_not_judge_in_all_parts() -> None:
    nan, ids = float("nan"), ["a"] * 5 + ["b"] * 2
    parts = {
        "x": torch.tensor([1.0, nan, 2.0, 9.0, 4.0, 0.0, 1.0]),
        "y": torch.tensor([3.0, 100.0, 1.0, -50.0, 2.0, 0.0, 1.0]),
    }
    failed = torch.tensor([False, False, False, True, False, False, False])
    result = gdpo_advantages(parts, {"x": 1.0, "y": 1.0}, ids, failed=failed)
    keep = [0, 2, 4, 5, 6]
    clean = gdpo_advantages({k: v[keep] for k, v in parts.items()}, {"x": 1.0, "y": 1.0}, [ids[k] for k in keep])
    torch.testing.assert_close(result.values[keep], clean.values)
    assert result.values[[1, 3]].tolist() == [0.0, 0.0]
    assert result.valid.tolist() == [True, False, True, False, True, True, True]
    assert failed.sum() == 1  # the caller's tensor is left alone


def test_gdpo_gives_exactly_0_to_constant_groups_and_to_parts_that_cancel() -> None:
    parts = {"x": torch.tensor([0.98] * 12 + [0.0, 1.0]), "y": torch.tensor([0.1] * 12 + [5.0, 6.0])}
    result = gdpo_advantages(parts, {"x": 1.0, "y": 1.0}, [0] * 12 + [1] * 2, epsilon=0.0)
    assert torch.equal(result.values[:12], torch.zeros(12, dtype=torch.float64))
    assert result.zero_std.tolist() == [True, False]
    opposed = {"x": torch.tensor([0.1, 0.2, 0.7]), "y": torch.tensor([-1.0, -2.0, -7.0])}
    cancelled = gdpo_advantages(opposed, {"x": 1.0, "y": 1.0}, [0] * 3, epsilon=0.0)
    assert torch.equal(cancelled.values, torch.zeros(3, dtype=torch.float64))
    everything = gdpo_advantages({"x": torch.tensor([float("nan")] * 2)}, {"x": 1.0}, [0, 0])
    assert everything.values.tolist() == [0.0, 0.0]
    assert everything.group_std.tolist() == []


@settings(max_examples=20)
@given(scale=st.floats(0.01, 1000), shift=st.floats(-100, 100))
def test_gdpo_does_not_see_the_scale_of_a_part(scale: float, shift: float) -> None:
    values = torch.tensor([0.3, 0.9, 0.1, 0.5, 0.8, 0.2], dtype=torch.float64)
    other = torch.tensor([4.0, 1.0, 3.0, 2.0, 9.0, 1.0], dtype=torch.float64)
    ids, weights = [0, 0, 0, 1, 1, 1], {"x": 1.0, "y": 1.0}
    plain = gdpo_advantages({"x": values, "y": other}, weights, ids, epsilon=0.0)
    moved = gdpo_advantages({"x": scale * values + shift, "y": other}, weights, ids, epsilon=0.0)
    torch.testing.assert_close(plain.values, moved.values, atol=1e-6, rtol=1e-6)


def test_gdpo_refuses_parts_that_do_not_fit() -> None:
    parts = {"x": torch.zeros(2), "y": torch.zeros(3)}
    with pytest.raises(ValueError, match="one length"):
        gdpo_advantages(parts, {"x": 1.0, "y": 1.0}, [0, 0])
    with pytest.raises(ValueError, match="one length"):
        gdpo_advantages({"x": torch.zeros(2)}, {"x": 1.0}, [0, 0, 0])
    for weights in ({}, {"x": 0.0}, {"x": 1.0, "z": 1.0}):
        with pytest.raises(ValueError, match="weights other than 0 for some of x, y"):
            gdpo_advantages(parts, weights, [0, 0])
