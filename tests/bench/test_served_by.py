"""Which model answered: what a server says of itself is in every verdict, and a change within a run is said."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from bench.editcompass.judge import EditCompassJudge
from bench.folder import BenchRun
from bench.report.leaderboard import write_leaderboard_page
from bench.report.pages import write_comparison_page, write_run_page
from bench.text import comparison_text, results_text
from bench.workflow import compare, generate, judge, summarize
from gnomon.records import Verdict
from rm.protocols.rubric import ExpectedScoreJudge, RubricJudge
from rm.vlm.api import ApiVLM
from rm.vlm.conversation import GenerationParameters
from tests.rm.vlm.server import Answer, ChatServer, Request, completion

REPLY = '{"differences": ["a hat"], "score": 4}'
CHANGED = "the model behind the judge changed"


class Drifting(ChatServer):
    """Answers as version `a` so often, then as version `b`; a version of None says nothing of itself."""

    def __init__(self, versions: Callable[[int], str | None]) -> None:
        super().__init__(lambda number, request: Answer(body=self._body(request, versions(number))))

    def _body(self, request: Request, version: str | None) -> bytes:
        logprobs = {"content": [{"top_logprobs": [{"token": "4", "logprob": -0.1}]}]}
        body = json.loads(completion(REPLY, logprobs=logprobs))
        if version is not None:
            body |= {"model": f"judge-{request['model']}", "system_fingerprint": version}
        return json.dumps(body).encode()


Serve = Callable[[Callable[[int], str | None]], ChatServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers: list[ChatServer] = []

    def start(versions: Callable[[int], str | None]) -> ChatServer:
        servers.append(Drifting(versions))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def api(server: ChatServer) -> ApiVLM:
    return ApiVLM(model="m", base_url=server.url, max_concurrency=1)


def served(run: Path) -> list[str | None]:
    return [verdict.served_by for by_item in BenchRun.read(run).verdicts().values() for verdict in by_item.values()]


@pytest.fixture
def make_run(make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path) -> Callable[[str], Path]:
    """Return a function that makes a run of six cases."""
    root = make_dataset(6)

    def make(name: str) -> Path:
        generate(root, tmp_path / name, brightness.NoisyCopy(), name=name)
        return tmp_path / name

    return make


def test_a_change_within_a_run_is_recorded_and_said(serve: Serve, make_run: Callable[[str], Path]) -> None:
    server, run = serve(lambda number: "fp_a" if number < 4 else "fp_b"), make_run("run")
    judge(run, RubricJudge(api(server), metrics=["visual_quality"], name="who"))
    results = summarize(run)
    assert results.judges["who"].served_by == {"judge-m fp_a": 4, "judge-m fp_b": 2}
    said = f"answered by judge-m fp_a (4), judge-m fp_b (2): {CHANGED}"
    assert f"who: {said}" in results_text(results)
    assert f"A{said[1:]}" in write_run_page(run).read_text()


def test_a_change_between_two_runs_is_said_where_they_are_compared(
    serve: Serve, make_run: Callable[[str], Path], tmp_path: Path
) -> None:
    server, runs = serve(lambda number: "fp_a" if number < 6 else "fp_b"), (make_run("one"), make_run("two"))
    for run in runs:
        judge(run, RubricJudge(api(server), metrics=["visual_quality"], name="who"))
        assert CHANGED not in results_text(summarize(run))
    assert "who: answered by judge-m fp_b" in results_text(summarize(runs[1]))
    comparison = compare(*runs, tmp_path / "compared")
    assert CHANGED in comparison_text(comparison)
    assert CHANGED in write_comparison_page(*runs, tmp_path / "compared", comparison).read_text()
    assert CHANGED in write_leaderboard_page(runs, tmp_path / "board").read_text()


def test_every_way_of_asking_keeps_who_answered(serve: Serve, make_run: Callable[[str], Path]) -> None:
    server, run = serve(lambda number: f"fp_{number // 6 % 2}"), make_run("run")
    sampled = GenerationParameters(temperature=1.0)
    judge(run, RubricJudge(api(server), metrics=["overall"], samples=2, parameters=sampled, name="samples"))
    assert set(served(run)) == {"judge-m fp_0, judge-m fp_1"}
    judge(run, ExpectedScoreJudge(api(server), metrics=["visual_quality"], name="probabilities"))
    judge(run, EditCompassJudge(api(server), name="stages"))
    found: dict[str, set[str | None]] = {}
    for (_, metric), by_item in BenchRun.read(run).verdicts().items():
        found[metric] = {verdict.served_by for verdict in by_item.values()}
    assert found["visual_quality"] <= {"judge-m fp_0", "judge-m fp_1"}
    assert None not in found["unedited_region_consistency"]


def test_a_server_that_says_nothing_is_no_news(serve: Serve, make_run: Callable[[str], Path]) -> None:
    server, run = serve(lambda number: None), make_run("run")
    judge(run, RubricJudge(api(server), metrics=["visual_quality"], name="who"))
    assert set(served(run)) == {None}
    assert summarize(run).judges["who"].served_by == {}
    assert "answered by" not in results_text(summarize(run))


def test_verdicts_from_before_are_read() -> None:
    line = '{"case_id":"c","generator":"g","metric":"m","value":1.0,"judge":"j"}'
    assert Verdict.model_validate_json(line).served_by is None
