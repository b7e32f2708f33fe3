"""A reward from a service on this or another machine; :mod:`rm.service` is what goes over the wire."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.hashing import stable_hash
from gnomon.records import Case
from rl.rewards.base import RewardOutput, checked_weights, weighted_sum
from rm.judge import check_language
from rm.service_client import ScoreClient, ScoreTask


class ServiceReward:
    """Sends pictures to a reward service and adds up its scores; what it could not score is a failed row."""

    def __init__(
        self,
        url: str,
        *,
        weights: dict[str, float] | None = None,
        language: str = "en",
        chunk_size: int = 16,
        max_concurrency: int = 4,
        timeout: float = 120.0,
        max_retries: int = 8,
        backoff: float = 1.0,
        api_key_variable: str | None = None,
    ) -> None:
        """Check the settings; the service is not asked before there are pictures.

        Args:
            url: where the service is, such as "http://127.0.0.1:8000".
            weights: weight of each dimension in the total; 0 asks only to log it, where there is a number. Default
                `{"overall": 1.0}`.
            language: of the instructions that are sent, "en" or "zh".
            chunk_size: pictures per request.
            max_concurrency: requests at once.
            timeout: seconds for a whole request.
            max_retries: further tries per request, after waiting `backoff`, twice that, ... up to a minute.
            backoff: seconds before the second try.
            api_key_variable: name of the environment variable that holds an API key, where the service wants one.

        Raises:
            UserError: names the setting that is wrong.
        """
        self.name = f"the reward service at {url}"
        self.weights = checked_weights(weights, default={"overall": 1.0}, owner="a reward service")
        self.language = check_language(language)
        self.client = ScoreClient(
            url,
            dimensions=tuple(self.weights),
            required=tuple(name for name, weight in self.weights.items() if weight),
            chunk_size=chunk_size,
            max_concurrency=max_concurrency,
            timeout=timeout,
            max_retries=max_retries,
            backoff=backoff,
            api_key_variable=api_key_variable,
        )

    @property
    def fingerprint(self) -> str:
        """Hash of address, weights and language; what answers at the address is not known."""
        return stable_hash([self.client.url, self.weights, self.language])

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        """Score `images`."""
        rows = zip(cases, references, images, strict=True)
        results = self.client.score([self._task(row, *columns) for row, columns in enumerate(rows)])
        values = torch.full((len(self.weights), len(images)), torch.nan, dtype=torch.float64)
        reasons: dict[int, str] = {}
        for row, result in enumerate(results):
            if result.scores is None:
                reasons[row] = result.error or "no scores"
            else:
                scores = [result.scores.get(name, torch.nan) for name in self.weights]
                values[:, row] = torch.tensor(scores, dtype=torch.float64)
        breakdown: dict[str, Tensor] = dict(zip(self.weights, values, strict=True))
        failed = torch.tensor([result.scores is None for result in results], dtype=torch.bool)
        return RewardOutput(weighted_sum(breakdown, self.weights), breakdown, failed, reasons)

    def _task(self, row: int, case: Case, references: list[Image], image: Image) -> ScoreTask:
        about = {
            "case_id": case.id,
            "benchmark": case.benchmark,
            "task": case.task,
            "references": [{"role": reference.role, "name": reference.name} for reference in case.references],
            "meta": case.meta,
        }
        return ScoreTask(f"{row}:{case.id}", case.instruction.get(self.language), references, image, about)
