"""Algorithms of reinforcement learning for flows: what a config's `model.algorithm.class_path` names."""

from __future__ import annotations

from rl.algorithms.base import Algorithm, Samples
from rl.algorithms.grpo import FlowGRPO, GRPOGuard
from rl.algorithms.nft import DiffusionNFT

__all__ = ["Algorithm", "DiffusionNFT", "FlowGRPO", "GRPOGuard", "Samples"]
