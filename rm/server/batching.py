"""Micro-batches: items of many requests share a forward pass, and none suffers for another."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rm.server.metrics import ServerMetrics

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_LOG = logging.getLogger(__name__)


class QueueFullError(Exception):
    """More items are waiting than may; the client is to come back later."""


@dataclass(eq=False)
class _Waiting(Generic[Item, Outcome]):
    item: Item
    outcome: asyncio.Future[Outcome]


class MicroBatcher(Generic[Item, Outcome]):
    """Collects items for a moment, has them answered together in one thread, and hands each its own outcome.

    Args:
        answer: from items to as many outcomes, in order; it is never called twice at once.
        failed: from what went wrong with one item to its outcome.
        batch_size: items per call, at most.
        max_wait: seconds that the first item of a batch waits for others.
        queue_size: items that may wait.
        metrics: counts what happens.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[Item]], list[Outcome]],
        failed: Callable[[str], Outcome],
        *,
        batch_size: int,
        max_wait: float,
        queue_size: int,
        metrics: ServerMetrics,
    ) -> None:
        self._answer, self._failed = answer, failed
        self.batch_size, self.max_wait, self.metrics = batch_size, max_wait, metrics
        self._queue: asyncio.Queue[_Waiting[Item, Outcome]] = asyncio.Queue(queue_size)

    @property
    def waiting(self) -> int:
        """Number of items that wait."""
        return self._queue.qsize()

    async def ask(self, items: Sequence[Item]) -> list[Outcome]:
        """Return one outcome per item, in order.

        Raises:
            QueueFullError: when not all of them find a place; none is answered then.
        """
        if self._queue.qsize() + len(items) > self._queue.maxsize:
            raise QueueFullError
        loop = asyncio.get_running_loop()
        places: list[_Waiting[Item, Outcome]] = [_Waiting(item, loop.create_future()) for item in items]
        for place in places:
            self._queue.put_nowait(place)
        try:
            return list(await asyncio.gather(*(place.outcome for place in places)))
        finally:
            for place in places:
                place.outcome.cancel()  # of a client that went away: not to be answered any more

    async def run(self) -> None:
        """Serve the queue until cancelled."""
        while True:
            batch = await self._collect()
            if batch:
                await self._serve(batch)

    async def _collect(self) -> list[_Waiting[Item, Outcome]]:
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

    async def _serve(self, batch: list[_Waiting[Item, Outcome]]) -> None:
        with self.metrics.scoring(len(batch)):
            outcomes = await asyncio.to_thread(self._outcomes, [place.item for place in batch])
        for place, outcome in zip(batch, outcomes, strict=True):
            if not place.outcome.done():
                place.outcome.set_result(outcome)

    def _outcomes(self, items: list[Item]) -> list[Outcome]:
        try:
            outcomes = self._answer(items)
            if len(outcomes) != len(items):
                raise RuntimeError(f"{len(outcomes)} outcomes for {len(items)} items")
        # Whatever it was (memory, an impossible shape), only the item that causes it is to fail.
        except Exception as error:
            if len(items) > 1:
                return [outcome for item in items for outcome in self._outcomes([item])]
            _LOG.exception("an item could not be answered")
            return [self._failed(f"{type(error).__name__}: {error}"[:300])]
        return outcomes
