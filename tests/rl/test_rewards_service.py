"""A reward over HTTP, with a real server: rows stay in place, failures are masked, and a dead service stops the run."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from PIL import Image

from gnomon.errors import UserError
from gnomon.records import Case, Reference, Text
from rl.rewards import ServiceReward, apply_reward, ask_reward
from rm.service import ScoreRequest, decode_picture


class Handler(BaseHTTPRequestHandler):
    """Scores red as `overall` and the source's green as `source`; refuses pictures with blue in them."""

    def do_POST(self) -> None:
        request = ScoreRequest.model_validate_json(self.rfile.read(int(self.headers["Content-Length"])))
        results = []
        for item in reversed(request.items):
            red, _, blue = decode_picture(item.candidate).getpixel((0, 0))  # type: ignore[misc]
            assert item.meta["meta"] == {"row": red}
            assert item.meta["references"] == [{"role": "identity", "name": "Ann"}]
            assert item.instruction == f"make it {red}"
            scores = {"overall": red, "source": decode_picture(item.references[0]).getpixel((0, 0))[1]}  # type: ignore[index]
            results.append(
                {"id": item.id, "error": "blue is not allowed"} if blue else {"id": item.id, "scores": scores}
            )
        body = json.dumps({"results": results}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the tests clean."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def columns(count: int, blue: tuple[int, ...] = ()) -> dict[str, Any]:
    cases = [
        Case(
            id=f"case-{row}",
            benchmark="toy",
            task="recolour",
            instruction=Text(en=f"make it {row}"),
            references=[Reference(path="a.png", role="identity", name="Ann")],
            meta={"row": row},
        )
        for row in range(count)
    ]
    images = [Image.new("RGB", (4, 4), (row, 0, int(row in blue))) for row in range(count)]
    return {
        "cases": cases,
        "references": [[Image.new("RGB", (4, 4), (0, row, 0))] for row in range(count)],
        "images": images,
    }


def test_more_pictures_than_fit_into_a_request_keep_their_rows(url: str) -> None:
    reward = ServiceReward(url, weights={"overall": 1.0, "source": 0.5})
    output = ask_reward(reward, **columns(100))
    assert output.breakdown["overall"].tolist() == list(range(100))
    assert output.breakdown["source"].tolist() == list(range(100))
    assert output.total.tolist() == [1.5 * row for row in range(100)]
    assert not output.failed.any()


def test_what_the_service_could_not_score_is_a_failure_with_its_words(url: str) -> None:
    output = ask_reward(ServiceReward(url), **columns(10, blue=(2, 7)))
    assert output.failed.nonzero().flatten().tolist() == [2, 7]
    assert output.total.isnan().nonzero().flatten().tolist() == [2, 7]
    assert output.reasons == {2: "blue is not allowed", 7: "blue is not allowed"}


def test_a_dimension_that_the_service_does_not_have_fails_every_row(url: str) -> None:
    output = ask_reward(ServiceReward(url, weights={"beauty": 1.0}), **columns(3))
    assert set(output.reasons.values()) == {"no score for beauty"}
    assert list(output.breakdown) == ["beauty"]  # the same names whatever happens: ranks average them


def test_a_dimension_that_is_only_logged_fails_no_row_where_it_is_missing(url: str) -> None:
    output = ask_reward(ServiceReward(url, weights={"overall": 1.0, "beauty": 0.0}), **columns(3))
    assert output.total.tolist() == [0.0, 1.0, 2.0]
    assert output.reasons == {}
    assert bool(output.breakdown["beauty"].isnan().all())
    assert list(output.breakdown) == ["overall", "beauty"]


def test_a_service_that_is_down_stops_the_run_at_its_budget_with_address_cases_and_reason(url: str) -> None:
    port = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    dead = f"http://127.0.0.1:{port.server_port}"
    port.server_close()
    reward = ServiceReward(dead, max_retries=1, backoff=0.01)
    with pytest.raises(UserError) as caught:
        apply_reward(reward, **columns(20), max_failed_share=0.9)
    message = str(caught.value)
    assert message.startswith(f"the reward service at {dead} failed on 20 of 20 pictures")
    assert f"no connection to {dead}" in message
    assert "(case-0, case-1, case-2)" in message


def test_the_key_is_not_in_the_rewards_fingerprint_name_or_attributes(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REWARD_KEY", "sk-secret")
    reward = ServiceReward(url, api_key_variable="REWARD_KEY")
    assert "sk-secret" not in f"{vars(reward)} {vars(reward.client)} {reward.fingerprint} {reward.name}"
    assert reward.fingerprint != ServiceReward(url, weights={"overall": 2.0}).fingerprint
    monkeypatch.delenv("REWARD_KEY")
    with pytest.raises(UserError, match="REWARD_KEY"):
        ServiceReward(url, api_key_variable="REWARD_KEY")
