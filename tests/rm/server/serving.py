"""A real server on a free port, in a thread, over a scorer whose scores can be read off the pictures."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import uvicorn
from starlette.types import ASGIApp

from rm.server.scoring import Outcome, Picture


class MeanColour:
    """Scores a candidate by its mean red and green, and refuses some pictures; counts how it is called."""

    name = "mean-colour"
    dimensions: tuple[str, ...] = ("red", "green")
    fingerprint = "mean-colour-1"

    def __init__(self, *, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.batches: list[int] = []
        self.busy = 0

    def score(self, pictures: Sequence[Picture]) -> list[Outcome]:
        self.busy += 1
        assert self.busy == 1, "two batches at once"
        time.sleep(self.seconds)
        self.busy -= 1
        if any(picture.instruction == "explode" for picture in pictures):
            raise RuntimeError("it exploded")
        self.batches.append(len(pictures))
        return [self._one(picture) for picture in pictures]

    def _one(self, picture: Picture) -> Outcome:
        if picture.instruction == "nan":
            return {"red": float("nan"), "green": 0.0}
        if picture.instruction == "refuse":
            return "this one is refused"
        red, green, _ = np.asarray(picture.candidate, dtype=np.float64).mean(axis=(0, 1))
        return {"red": float(red), "green": float(green) + len(picture.references)}


@contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serve `app` and yield its address."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", timeout_graceful_shutdown=2))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
