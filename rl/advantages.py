"""From rewards to advantages: how much better each candidate is than the others of its group."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

StdMode = Literal["group", "global", "none"]


@dataclass(frozen=True)
class Advantages:
    """Advantages of one rollout and what the groups looked like.

    `values` is float64 `[batch]`, exactly 0 for failed samples, constant groups and groups of one; `valid` is
    boolean `[batch]`. `group_std` and `zero_std` (was the group constant?) have one entry per group with at least
    one valid sample, in order of first appearance.
    """

    values: Tensor
    valid: Tensor
    group_std: Tensor
    zero_std: Tensor


def group_advantages(
    rewards: Tensor,
    group_ids: Sequence[Hashable],
    *,
    failed: Tensor | None = None,
    epsilon: float = 1e-4,
    std_mode: StdMode = "group",
    clip: float = 5.0,
    tolerance: float = 1e-10,
) -> Advantages:
    """Centre rewards on the mean of their group and divide by a standard deviation.

    `A = (r - mean_group) / (std + epsilon)`, in float64, with the population standard deviation (ddof 0) of the
    group, of all valid samples ("global", as in REINFORCE++), or 1 ("none": Dr. GRPO, arXiv 2503.20783; epsilon
    is not used then). Flow-GRPO: arXiv 2505.05470.

    A group whose rewards lie within `tolerance` of each other has nothing to say: its advantages are exactly 0. In
    float32 with a small epsilon, rounding alone would give such a group advantages up to 0.9.

    Args:
        rewards: `[batch]`, any float dtype. NaN and infinity count as failed.
        group_ids: one id per sample. What is compared must share it: the same case, that is the same
            instruction *and* the same references.
        failed: boolean `[batch]`; those samples get 0 and enter no statistic.
        epsilon: added to the standard deviation; larger values calm groups of nearly equal rewards.
        std_mode: what the standard deviation is taken over.
        clip: advantages are cut to `[-clip, clip]`.
        tolerance: range of rewards up to which a group counts as constant.

    Raises:
        ValueError: when lengths differ or a setting is out of its range.
    """
    if rewards.ndim != 1 or len(group_ids) != len(rewards) or (failed is not None and failed.shape != rewards.shape):
        raise ValueError(
            f"expected rewards, group ids and failures of one length, got {list(rewards.shape)}, {len(group_ids)} "
            f"and {'none' if failed is None else list(failed.shape)}"
        )
    if epsilon < 0 or clip <= 0:
        raise ValueError(f"expected epsilon >= 0 and clip > 0, got epsilon={epsilon}, clip={clip}")
    if std_mode not in ("group", "global", "none"):
        raise ValueError(f"expected std_mode 'group', 'global' or 'none', got {std_mode!r}")
    exact = rewards.detach().to("cpu", torch.float64)
    valid = torch.isfinite(exact)
    if failed is not None:
        valid &= ~failed.cpu()

    global_std = exact[valid].std(correction=0) if bool(valid.any()) else exact.new_zeros(())
    values = torch.zeros_like(exact)
    stds, constant = [], []
    for rows in _rows_by_group(group_ids, valid):
        members = exact[rows]
        std = members.std(correction=0)
        flat = bool(members.max() - members.min() <= tolerance)
        stds.append(std)
        constant.append(flat)
        if flat:
            continue
        scale = {"group": std + epsilon, "global": global_std + epsilon, "none": exact.new_ones(())}[std_mode]
        values[rows] = (members - members.mean()) / scale
    return Advantages(
        values=values.clamp(-clip, clip),
        valid=valid,
        group_std=torch.stack(stds) if stds else exact.new_zeros(0),
        zero_std=torch.tensor(constant, dtype=torch.bool),
    )


def gdpo_advantages(
    parts: Mapping[str, Tensor],
    weights: Mapping[str, float],
    group_ids: Sequence[Hashable],
    *,
    failed: Tensor | None = None,
    epsilon: float = 1e-4,
    clip: float = 5.0,
    tolerance: float = 1e-10,
) -> Advantages:
    """Normalise each reward inside its group, add them up by weight, and bring the sum to unit spread over the batch.

    `S = sum_k w_k (r_k - mean_group) / (std_group + epsilon)`, `A = S / (std_batch(S) + epsilon)`, in float64 (GDPO,
    arXiv 2601.05242). A weighted sum of raw rewards lets the one with the largest spread decide; here each counts as
    its weight says, in every group. The mean of S needs no subtraction: it is 0 in every group.

    A sample that failed in one part has no place in the group, so it is left out of all parts. Where a part is constant
    in a group it says nothing there; where all parts are, the advantages are exactly 0.

    Args:
        parts: rewards by name, each `[batch]`.
        weights: of the parts that count; 0 leaves one out.
        group_ids: as in :func:`group_advantages`, like all that follows.
        failed: boolean `[batch]`.
        epsilon: added to both standard deviations.
        clip: advantages are cut to `[-clip, clip]`.
        tolerance: range of a part up to which it counts as constant in a group.

    Returns:
        Advantages whose `group_std` is that of S in each group; a group is `zero_std` when all its parts are constant.

    Raises:
        ValueError: when no part counts, one is missing, or :func:`group_advantages` does.
    """
    counting = {name: weight for name, weight in weights.items() if weight != 0}
    if not counting or not set(counting) <= set(parts):
        raise ValueError(f"expected weights other than 0 for some of {', '.join(parts)}, got {dict(weights)}")
    exact = {name: parts[name].detach().to("cpu", torch.float64) for name in counting}
    shape = next(iter(exact.values())).shape
    broken = torch.zeros(shape, dtype=torch.bool) if failed is None else failed.cpu().clone()
    for values in exact.values():
        if values.shape != shape or broken.shape != shape:
            raise ValueError(
                f"expected parts and failures of one length, got {[list(v.shape) for v in exact.values()]}"
            )
        broken |= ~torch.isfinite(values)
    normalised = {
        name: group_advantages(
            values, group_ids, failed=broken, epsilon=epsilon, clip=float("inf"), tolerance=tolerance
        )
        for name, values in exact.items()
    }
    total = sum(weight * normalised[name].values for name, weight in counting.items())
    assert isinstance(total, Tensor)
    valid = ~broken
    spread = total[valid].std(correction=0) if bool(valid.any()) else total.new_zeros(())
    groups = _rows_by_group(group_ids, valid)
    # Parts that cancel each other leave the rounding of 32-bit rewards, which must not be blown up.
    noise = 1e-6 * sum(abs(weight) for weight in counting.values())
    values = total / (spread + epsilon) if spread > noise else torch.zeros_like(total)
    return Advantages(
        values=values.clamp(-clip, clip),
        valid=valid,
        group_std=torch.stack([total[rows].std(correction=0) for rows in groups]) if groups else total.new_zeros(0),
        zero_std=torch.stack([part.zero_std for part in normalised.values()]).all(dim=0),
    )


def _rows_by_group(group_ids: Sequence[Hashable], valid: Tensor) -> list[list[int]]:
    rows: dict[Hashable, list[int]] = {}
    for row, group in enumerate(group_ids):
        if valid[row]:
            rows.setdefault(group, []).append(row)
    return list(rows.values())
