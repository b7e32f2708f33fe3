"""The server over a real socket: every picture its own outcome, every mistake a 4xx, and nobody suffers for another."""

from __future__ import annotations

import base64
import http.client
import io
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from PIL import Image

from rm.server.app import create_app
from rm.server.limits import Limits
from rm.service import encode_picture
from rm.service_client import ScoreClient, ScoreTask
from tests.rm.server.serving import MeanColour, serving


def _picture(red: int, green: int = 0, size: int = 4) -> Image.Image:
    return Image.new("RGB", (size, size), (red, green, 0))


def _item(name: str, red: int = 7, **changes: Any) -> dict[str, Any]:
    return {"id": name, "instruction": "paint", "candidate": encode_picture(_picture(red)), **changes}


def _post(address: str, items: list[dict[str, Any]], **rest: Any) -> httpx.Response:
    return httpx.post(f"{address}/v1/score", json={"items": items, **rest}, timeout=30)


def test_scores_of_several_references_come_back_through_the_client(address: str) -> None:
    tasks = [ScoreTask(str(red), "paint", [_picture(0)] * (red % 4), _picture(red, 3)) for red in range(40)]
    results = ScoreClient(address, dimensions=("red", "green"), chunk_size=7).score(tasks)
    assert [result.id for result in results] == [task.id for task in tasks]
    assert [result.scores for result in results] == [{"red": red, "green": 3 + red % 4} for red in range(40)]


def test_only_the_dimensions_that_were_asked_for(address: str) -> None:
    assert _post(address, [_item("a")], dimensions=["green"]).json()["results"][0]["scores"] == {"green": 0.0}
    answer = _post(address, [_item("a")], dimensions=["blue"])
    assert answer.status_code == 422
    assert "expected some of red, green, got blue" in answer.json()["detail"]


def test_each_failure_is_its_own(address: str) -> None:
    items = [
        _item("good", 5),
        _item("broken", candidate="bm90IGEgcGljdHVyZQ=="),
        _item("text", candidate="!!!"),
        _item("explode", instruction="explode"),
        _item("nan", instruction="nan"),
        _item("refuse", instruction="refuse"),
        _item("reference", references=["bm90IGEgcGljdHVyZQ=="]),
        _item("also good", 9),
    ]
    answer = _post(address, items)
    assert answer.status_code == 200
    results = {result["id"]: result for result in answer.json()["results"]}
    assert list(results) == [item["id"] for item in items]
    assert results["good"]["scores"]["red"] == 5
    assert results["also good"]["scores"]["red"] == 9
    reasons = {name: result["error"] for name, result in results.items() if result["scores"] is None}
    assert set(reasons) == {"broken", "text", "explode", "nan", "refuse", "reference"}
    assert "it exploded" in reasons["explode"]
    assert "finite" in reasons["nan"]
    assert "PNG" in reasons["broken"]


def test_a_request_of_which_nothing_can_be_read_is_a_4xx(address: str) -> None:
    answer = _post(address, [_item("broken", candidate="bm90IGEgcGljdHVyZQ==")])
    assert answer.status_code == 422
    assert "PNG" in answer.json()["results"][0]["error"]


@pytest.mark.parametrize("options", [{"limits": Limits(pixels=10)}])
def test_the_client_reads_the_reasons_of_such_a_request(address: str) -> None:
    results = ScoreClient(address).score([ScoreTask("a", "paint", [], _picture(1))])
    assert "more than 10" in str(results[0].error)
    assert "HTTP" not in str(results[0].error)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "JSON"),
        (b"{", "JSON"),
        (b"[]", "object"),
        (b'{"items": []}', "items"),
        (b'{"items": [{"id": "a"}]}', "items.0"),
        (b'{"items": "a", "x": 1}', "items"),
        (b"\xff\xfe", "JSON"),
    ],
)
def test_what_is_no_request_is_a_4xx_that_says_where(address: str, body: bytes, message: str) -> None:
    answer = httpx.post(f"{address}/v1/score", content=body)
    assert answer.status_code == 422
    assert message in answer.json()["detail"]


def test_repeated_ids_are_refused(address: str) -> None:
    answer = _post(address, [_item("a"), _item("a")])
    assert answer.status_code == 422
    assert "more than once" in answer.json()["detail"]


@pytest.mark.parametrize("options", [{"limits": Limits(pixels=100, images=2, items=3)}])
def test_a_bomb_and_a_crowd_are_refused(address: str) -> None:
    bomb = _item("bomb", candidate=encode_picture(Image.new("RGB", (5000, 5000))))
    crowd = _item("crowd", references=[encode_picture(_picture(1))] * 3)
    results = _post(address, [bomb, crowd, _item("good")]).json()["results"]
    assert "more than 100" in results[0]["error"]
    assert "at most 2 references, got 3" in results[1]["error"]
    assert results[2]["scores"]["red"] == 7
    assert "at most 3, got 4" in _post(address, [_item(str(k)) for k in range(4)]).json()["detail"]


def _send_chunked(address: str, megabytes: int) -> int:
    """Send a body that does not announce its length; return the status."""
    place = urlsplit(address)
    connection = http.client.HTTPConnection(str(place.hostname), place.port, timeout=30)
    blocks: Iterator[bytes] = (b" " * 2**20 for _ in range(megabytes))
    # The server may have said all it has to say before everything is sent.
    with suppress(BrokenPipeError, ConnectionResetError):
        connection.request("POST", "/v1/score", body=blocks, encode_chunked=True)
    return connection.getresponse().status


@pytest.mark.parametrize("options", [{"limits": Limits(body_bytes=2**21)}])
def test_a_body_that_is_too_long_is_a_413_and_hurts_nobody(address: str) -> None:
    place = urlsplit(address)
    with ThreadPoolExecutor(8) as pool:
        others = [pool.submit(_post, address, [_item(str(k), k)]) for k in range(30)]
        with socket.create_connection((place.hostname, place.port), timeout=30) as announced:
            announced.sendall(b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 100000000\r\n\r\n")
            assert announced.recv(100).startswith(b"HTTP/1.1 413")
        assert _send_chunked(address, 8) == 413
    assert [other.result().json()["results"][0]["scores"]["red"] for other in others] == list(range(30))


def test_pictures_of_several_requests_share_a_batch() -> None:
    slow = MeanColour(seconds=0.05)
    with serving(create_app(slow, batch_size=8)) as address, ThreadPoolExecutor(24) as pool:
        answers = list(pool.map(lambda k: _post(address, [_item(str(k), k)]), range(24)))
    assert [answer.json()["results"][0]["scores"]["red"] for answer in answers] == list(range(24))
    assert sum(slow.batches) == 24
    assert max(slow.batches) > 1
    assert max(slow.batches) <= 8


@pytest.mark.parametrize("options", [{"queue_size": 4}])
def test_a_full_queue_says_when_to_come_back(address: str) -> None:
    answer = _post(address, [_item(str(k)) for k in range(5)])
    assert answer.status_code == 503
    assert answer.headers["Retry-After"] == "1"


def test_what_a_client_no_longer_waits_for_is_not_scored() -> None:
    slow = MeanColour(seconds=0.3)
    with serving(create_app(slow, batch_size=1, max_wait=0.0)) as address:
        first = threading.Thread(target=_post, args=(address, [_item("first")]))
        first.start()
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{address}/v1/score", json={"items": [_item(str(k)) for k in range(20)]}, timeout=0.1)
        first.join()
        assert _post(address, [_item("last", 3)]).json()["results"][0]["scores"]["red"] == 3
    # The first, the last, and at most what was under way when the client left: uvicorn notices on its own time.
    assert sum(slow.batches) <= 22


def test_health_and_metrics(address: str) -> None:
    about = httpx.get(f"{address}/health").json()
    assert about["status"] == "ok"
    assert about["name"] == "mean-colour"
    assert about["dimensions"] == ["red", "green"]
    _post(address, [_item("a"), _item("b", instruction="refuse")])
    page = httpx.get(f"{address}/metrics").text
    assert 'gnomon_requests_total{path="/v1/score",status="200"} 1.0' in page
    assert 'gnomon_items_total{outcome="scored"} 1.0' in page
    assert 'gnomon_items_total{outcome="failed"} 1.0' in page
    assert httpx.get(f"{address}/docs-of-nothing").status_code == 404


@pytest.mark.parametrize("options", [{"api_key": "open sesame".replace(" ", "-")}])
def test_a_key_is_asked_for(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _post(address, [_item("a")]).status_code == 401
    monkeypatch.setenv("SCORE_KEY", "open-sesame")
    client = ScoreClient(address, api_key_variable="SCORE_KEY")
    assert client.score([ScoreTask("a", "paint", [], _picture(4))])[0].scores == {"red": 4.0, "green": 0.0}
    assert httpx.get(f"{address}/health").status_code == 200


def test_png_jpeg_and_webp_are_read(address: str) -> None:
    noise = Image.fromarray(np.full((8, 8, 3), 100, dtype=np.uint8))
    for form in ("PNG", "JPEG", "WEBP"):
        buffer = io.BytesIO()
        noise.save(buffer, format=form)
        item = _item("a", candidate=base64.b64encode(buffer.getvalue()).decode())
        assert _post(address, [item]).json()["results"][0]["scores"]["red"] == pytest.approx(100, abs=2)
