"""Rewards: what a judge thinks of pictures, as numbers with failures kept apart."""

from __future__ import annotations

from rl.rewards.base import (
    RESERVED_METRICS,
    Reward,
    RewardOutput,
    apply_reward,
    ask_reward,
    check_failures,
    check_monitor_names,
    concatenate,
    failures,
    merge_metrics,
    reward_name,
    weighted_sum,
)
from rl.rewards.checklist import ChecklistReward
from rl.rewards.combined import CombinedReward
from rl.rewards.function import CallableReward
from rl.rewards.judged import JudgeReward
from rl.rewards.model import RewardModelReward
from rl.rewards.service import ServiceReward

__all__ = [
    "RESERVED_METRICS",
    "CallableReward",
    "ChecklistReward",
    "CombinedReward",
    "JudgeReward",
    "Reward",
    "RewardModelReward",
    "RewardOutput",
    "ServiceReward",
    "apply_reward",
    "ask_reward",
    "check_failures",
    "check_monitor_names",
    "concatenate",
    "failures",
    "merge_metrics",
    "reward_name",
    "weighted_sum",
]
