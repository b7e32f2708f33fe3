"""Micro-batches: pictures of many requests share a forward pass, and none suffers for another."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass

from rm.server.metrics import ServerMetrics
from rm.server.scoring import Outcome, Picture, PictureScorer

_LOG = logging.getLogger(__name__)


class QueueFullError(Exception):
    """More pictures are waiting than may; the client is to come back later."""


@dataclass(eq=False)
class _Waiting:
    picture: Picture
    outcome: asyncio.Future[Outcome]


class MicroBatcher:
    """Collects pictures for a moment, scores them together in one thread, and hands each its own outcome.

    Args:
        scorer: scores a batch; it is never called twice at once.
        batch_size: pictures per call, at most.
        max_wait: seconds that the first picture of a batch waits for others.
        queue_size: pictures that may wait.
        metrics: counts what happens.
    """

    def __init__(
        self, scorer: PictureScorer, *, batch_size: int, max_wait: float, queue_size: int, metrics: ServerMetrics
    ) -> None:
        self.scorer, self.batch_size, self.max_wait = scorer, batch_size, max_wait
        self.metrics = metrics
        self._queue: asyncio.Queue[_Waiting] = asyncio.Queue(queue_size)

    @property
    def waiting(self) -> int:
        """Number of pictures that wait."""
        return self._queue.qsize()

    async def score(self, pictures: Sequence[Picture]) -> list[Outcome]:
        """Return one outcome per picture, in order.

        Raises:
            QueueFullError: when not all of them find a place; none is scored then.
        """
        if self._queue.qsize() + len(pictures) > self._queue.maxsize:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        places = [_Waiting(picture, loop.create_future()) for picture in pictures]
        for place in places:
            self._queue.put_nowait(place)
        try:
            return list(await asyncio.gather(*(place.outcome for place in places)))
        finally:
            for place in places:
                place.outcome.cancel()  # of a client that went away: not to be scored any more

    async def run(self) -> None:
        """Serve the queue until cancelled."""
        while True:
            batch = await self._collect()
            if batch:
                await self._serve(batch)

    async def _collect(self) -> list[_Waiting]:
        batch = [await self._queue.get()]
        loop = asyncio.get_running_loop()
        until = loop.time() + self.max_wait
        while len(batch) < self.batch_size:
            try:
                async with asyncio.timeout_at(until):
                    batch.append(await self._queue.get())
            except TimeoutError:
                break
        return [place for place in batch if not place.outcome.cancelled()]

    async def _serve(self, batch: list[_Waiting]) -> None:
        with self.metrics.scoring(len(batch)):
            outcomes = await asyncio.to_thread(self._outcomes, [place.picture for place in batch])
        for place, outcome in zip(batch, outcomes, strict=True):
            if not place.outcome.done():
                place.outcome.set_result(outcome)

    def _outcomes(self, pictures: list[Picture]) -> list[Outcome]:
        try:
            outcomes = self.scorer.score(pictures)
            if len(outcomes) != len(pictures):
                raise RuntimeError(f"{len(outcomes)} outcomes for {len(pictures)} pictures")
        # Whatever it was (memory, an impossible shape), only the picture that causes it is to fail.
        except Exception as error:
            if len(pictures) > 1:
                return [outcome for picture in pictures for outcome in self._outcomes([picture])]
            _LOG.exception("a picture could not be scored")
            return [f"this picture could not be scored: {type(error).__name__}: {error}"[:300]]
        return [_checked(outcome) for outcome in outcomes]


def _checked(outcome: Outcome) -> Outcome:
    if isinstance(outcome, dict) and not all(math.isfinite(value) for value in outcome.values()):
        return "a score is not a finite number"
    return outcome
