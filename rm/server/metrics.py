"""What the server counts, in the format of Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class ServerMetrics:
    """Counters of one server; a registry of its own, so that several servers of a process do not mix."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "gnomon_requests", "answers by path and HTTP status", ["path", "status"], registry=self.registry
        )
        self._items = Counter(
            "gnomon_items", "pictures by outcome: scored or failed", ["outcome"], registry=self.registry
        )
        self._batch_size = Histogram(
            "gnomon_batch_size", "pictures scored together", buckets=(1, 2, 4, 8, 16, 32, 64), registry=self.registry
        )
        self._seconds = Histogram("gnomon_scoring_seconds", "seconds of a batch", registry=self.registry)
        self._waiting = Gauge("gnomon_waiting_items", "pictures in the queue", registry=self.registry)

    def answered(self, path: str, status: int) -> None:
        """Count an answer."""
        self._requests.labels(path, str(status)).inc()

    def items(self, *, scored: int, failed: int) -> None:
        """Count pictures of an answered request."""
        self._items.labels("scored").inc(scored)
        self._items.labels("failed").inc(failed)

    @contextmanager
    def scoring(self, size: int) -> Iterator[None]:
        """Count a batch and the time that the block takes."""
        start = time.perf_counter()
        yield
        self._batch_size.observe(size)
        self._seconds.observe(time.perf_counter() - start)

    def page(self, waiting: int) -> bytes:
        """Return all counters as text."""
        self._waiting.set(waiting)
        return generate_latest(self.registry)
