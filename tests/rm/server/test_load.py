"""Many clients at once, over a network that loses, delays and mangles answers: nothing is lost, moved or doubled."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from rm.server.app import create_app
from rm.service_client import ScoreClient, ScoreTask
from tests.rm.server.serving import MeanColour, serving


class Faults:
    """Middleware that spoils about a third of all answers, each kind of trouble as often as the others."""

    def __init__(self, app: ASGIApp, seed: int = 0) -> None:
        self.app, self.random = app, random.Random(seed)
        self.spoilt: dict[str, int] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        kind = self.random.choice(["429", "500", "slow", "cut"]) if self.random.random() < 0.35 else None
        if scope["type"] != "http" or kind is None:
            await self.app(scope, receive, send)
            return
        self.spoilt[kind] = self.spoilt.get(kind, 0) + 1
        if kind in ("429", "500"):
            headers = [(b"retry-after", b"0")] if kind == "429" else []
            await send({"type": "http.response.start", "status": int(kind), "headers": headers})
            await send({"type": "http.response.body", "body": b"not now"})
        elif kind == "slow":
            await asyncio.sleep(self.random.uniform(0.0, 0.2))
            await self.app(scope, receive, send)
        else:
            await self.app(scope, receive, self._cutting(send))

    @staticmethod
    def _cutting(send: Send) -> Send:
        async def cut(message: Message) -> None:
            if message["type"] == "http.response.start":
                kept = [(name, value) for name, value in message["headers"] if name != b"content-length"]
                await send({**message, "headers": kept})
            else:
                body = message.get("body", b"")
                await send({**message, "body": body[: len(body) // 2]})

        return cut


def _storm(clients: int, requests: int) -> tuple[dict[str, int], MeanColour]:
    """Send `requests` requests of two pictures from `clients` clients at once, and check every answer."""
    scorer = MeanColour()
    faults = Faults(create_app(scorer, batch_size=32, queue_size=300))
    colours = np.random.default_rng(0).integers(0, 256, (requests, 2, 2))

    def ask(number: int) -> bool:
        client = ScoreClient(address, dimensions=("red", "green"), backoff=0.01, longest_wait=0.1, max_retries=40)
        tasks = [
            ScoreTask(f"{number}-{k}", "paint", [], Image.new("RGB", (2, 2), (int(red), int(green), 0)))
            for k, (red, green) in enumerate(colours[number])
        ]
        results = client.score(tasks)
        assert [result.id for result in results] == [task.id for task in tasks]
        expected = [{"red": float(red), "green": float(green)} for red, green in colours[number]]
        return [result.scores for result in results] == expected

    with serving(faults) as address, ThreadPoolExecutor(clients) as pool:
        assert all(pool.map(ask, range(requests)))
    return faults.spoilt, scorer


def test_nothing_is_lost_between_a_few_clients_and_a_bad_network() -> None:
    spoilt, _ = _storm(clients=16, requests=150)
    assert set(spoilt) == {"429", "500", "slow", "cut"}


@pytest.mark.slow
def test_nothing_is_lost_between_64_clients_and_a_bad_network() -> None:
    spoilt, scorer = _storm(clients=64, requests=2000)
    assert sum(spoilt.values()) > 500
    # Answers that were cut were scored, and asked for again; nothing else is scored twice.
    assert 4000 <= sum(scorer.batches) <= 4000 + 2 * spoilt["cut"]
