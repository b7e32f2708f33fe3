"""Sampling a reply so that it depends on its own seed and not on the batch that it is drawn in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessor, LogitsProcessorList, TemperatureLogitsWarper, TopPLogitsWarper

from rm.vlm.conversation import GenerationParameters


class GumbelNoise(LogitsProcessor):
    """Makes the likeliest token a sample: the argmax of log-probabilities plus Gumbel noise (Gumbel 1954).

    Each row has a generator of its own, so that what is drawn for it does not depend on the batch.

    Args:
        seeds: one per row.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self.generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Add the noise of the next token to `scores` [rows, vocabulary]."""
        noise = torch.stack([self._draw(generator, scores.shape[1]) for generator in self.generators])
        # In bfloat16, rounding would tie the likeliest tokens, and the first of them would always win.
        return scores.float() + noise.to(scores.device)

    @staticmethod
    def _draw(generator: torch.Generator, size: int) -> Tensor:
        # In double precision, in which a draw of exactly zero does not happen.
        return torch.empty(size, dtype=torch.float64).exponential_(generator=generator).log().neg().float()


def sampling(parameters: GenerationParameters, seeds: Sequence[int]) -> LogitsProcessorList:
    """Return what turns greedy generation into sampling with `parameters`; nothing at temperature 0.

    Args:
        parameters: temperature and top_p.
        seeds: one per row.
    """
    if parameters.temperature == 0:
        return LogitsProcessorList()
    steps: list[LogitsProcessor] = [TemperatureLogitsWarper(float(parameters.temperature))]
    if parameters.top_p < 1:
        steps.append(TopPLogitsWarper(parameters.top_p))
    return LogitsProcessorList([*steps, GumbelNoise(seeds)])
