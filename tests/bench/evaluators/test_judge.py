"""Judging ahead by a model behind a real server: the verdicts of one question at a time, however many are in flight."""

from __future__ import annotations

import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bench.generators import FolderGenerator
from bench.workflow import generate, judge
from gnomon.datasets import read_cases
from gnomon.errors import UserError
from gnomon.jsonl import read_records
from gnomon.records import Verdict
from rm.judge import JudgeRequest
from rm.protocols.rubric import RubricJudge
from rm.vlm.api import ApiVLM
from tests.distributed.launcher import Zygote, strategy_flags
from tests.rm.vlm.server import Answer, ChatServer, KeptBusy, Request, Script, completion, error, texts

METRICS = ("overall", "visual_quality")
FOUR = (*METRICS, "instruction_awareness", "visual_consistency")
NUM_CASES = 30
Serve = Callable[..., ChatServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    servers = []

    def start(script: Script | None = None) -> ChatServer:
        servers.append(ChatServer(lambda number, request: scored(request, (script or honest)(number, request))))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture
def run(make_dataset: Callable[..., Path], tmp_path: Path) -> Path:
    """A run whose pictures are the sources; one is missing."""
    root = make_dataset(NUM_CASES)
    outputs = tmp_path / "outputs"
    outputs.mkdir()
    for case in read_cases(root):
        if case.id != "case-3":
            shutil.copy(root / case.references[0].path, outputs / f"{case.id}.png")
    generate(root, tmp_path / "run", FolderGenerator(outputs), name="sources")
    return tmp_path / "run"


def honest(number: int, request: Request) -> Answer:
    return Answer()


def scored(request: Request, answer: Answer) -> Answer:
    """Give an honest answer a score that depends on the question alone."""
    if answer.body is None:
        answer.body = completion(f'{{"reason": "as asked", "score": {sum(map(ord, texts(request)[-1])) % 11}}}')
    return answer


def rubric(
    server: ChatServer,
    max_concurrency: int,
    kind: type[RubricJudge] = RubricJudge,
    metrics: tuple[str, ...] = METRICS,
) -> RubricJudge:
    vlm = ApiVLM(model="tiny", base_url=server.url, backoff=0.01, max_concurrency=max_concurrency)
    return kind(vlm, metrics=metrics)


def verdicts_of(run: Path) -> list[Verdict]:
    """Return the lines in their order, without how long each took."""
    return [line.model_copy(update={"seconds": None}) for line in read_records(run / "samples.jsonl", Verdict)]


def threads_left() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("gnomon-ahead")]


def interrupt_when(ready: Callable[[], bool]) -> threading.Thread:
    """Press Ctrl-C once `ready`."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.parametrize("batch_size", [1, 4, 100])
def test_the_verdicts_are_those_of_one_question_at_a_time_and_no_place_is_left_free(
    serve: Serve, run: Path, tmp_path: Path, batch_size: int
) -> None:
    shutil.copytree(run, tmp_path / "one")
    asked = len(FOUR) * (NUM_CASES - 1)
    script = KeptBusy(most=5, total=asked)
    server = serve(script)
    busy = judge(run, rubric(server, 5, metrics=FOUR), batch_size=batch_size)
    assert (script.stalled, script.most_inside, len(server.requests)) == (False, 5, asked)
    assert not threads_left()

    script.stalled = True  # nobody waits for others any more
    judge(tmp_path / "one", rubric(server, 1, metrics=FOUR), batch_size=batch_size)
    assert {verdict.status for verdict in verdicts_of(run)} == {"ok", "missing_output"}
    assert verdicts_of(run) == verdicts_of(tmp_path / "one")
    assert [(verdict.case_id, verdict.metric) for verdict in verdicts_of(run)] == [
        (candidate.case_id, metric) for candidate in busy.candidates() for metric in FOUR
    ]


class Counted(RubricJudge):
    """Notes how many questions each call asks."""

    calls: tuple[int, ...] = ()

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        Counted.calls += (len(requests),)
        return super().judge(requests)


def test_many_places_in_flight_are_filled_by_few_calls_of_several_pictures(
    serve: Serve, run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "one")
    script = KeptBusy(most=NUM_CASES - 1, total=NUM_CASES - 1)  # all of them are in flight together
    server = serve(script)
    judge(run, rubric(server, 64, Counted, METRICS[:1]), batch_size=12)
    assert not script.stalled
    assert sorted(Counted.calls) == [4, 4, 6, 7, 8]  # 30 pictures in batches of 12, one of them missing
    script.stalled = True
    judge(tmp_path / "one", rubric(server, 1, metrics=METRICS[:1]), batch_size=12)
    assert verdicts_of(run) == verdicts_of(tmp_path / "one")


def test_a_step_is_written_while_later_ones_are_asked_about(serve: Serve, run: Path) -> None:
    samples, late = run / "samples.jsonl", threading.Event()

    def script(number: int, request: Request) -> Answer:
        if number >= 12:  # nothing more is answered until what was answered before is on the disk
            deadline = time.monotonic() + 30
            while not (samples.exists() and samples.read_bytes().count(b"\n") >= 4) and time.monotonic() < deadline:
                time.sleep(0.01)
            late.set()
        return Answer()

    judge(run, rubric(serve(script), 4), batch_size=2)
    assert late.is_set()
    assert len(verdicts_of(run)) == 2 * NUM_CASES


class Failing(RubricJudge):
    """Cannot judge one of the cases, and says so when earlier ones are done."""

    def judge(self, requests: list[JudgeRequest]) -> list[Verdict]:  # type: ignore[override]
        """Judge, or fail."""
        if any(request.case.id == "case-9" for request in requests):
            raise UserError("no words for case 9")
        return super().judge(requests)


def test_an_error_in_the_middle_stops_the_run_after_the_batches_before_it(
    serve: Serve, run: Path, tmp_path: Path
) -> None:
    shutil.copytree(run, tmp_path / "whole")
    server = serve(lambda number, request: Answer(delay=0.02))
    judge(tmp_path / "whole", rubric(server, 4), batch_size=4)
    server.requests.clear()

    with pytest.raises(UserError, match="no words for case 9"):
        judge(run, rubric(server, 4, Failing), batch_size=4)

    assert verdicts_of(run) == verdicts_of(tmp_path / "whole")[: 2 * 8]  # cases 0 to 7: two batches
    assert not threads_left()
    asked = len(server.requests)
    assert asked < 2 * NUM_CASES - 10
    judge(run, rubric(server, 4), batch_size=4)
    assert verdicts_of(run) == verdicts_of(tmp_path / "whole")


def test_a_wrong_key_stops_the_run_at_once(serve: Serve, run: Path) -> None:
    server = serve(lambda number, request: error(401, "no such key"))
    with pytest.raises(UserError, match="check api_key_variable"):
        judge(run, rubric(server, 4), batch_size=2)
    assert len(server.requests) <= 12
    assert not threads_left()


def test_ctrl_c_ends_everything_and_the_run_goes_on_later(serve: Serve, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "whole")
    stuck = serve(lambda number, request: Answer(delay=60.0 if number >= 20 else 0.0))
    samples = run / "samples.jsonl"

    def ready() -> bool:
        return stuck.at_once == 4 and samples.exists() and samples.read_bytes().count(b"\n") >= 8

    thread = interrupt_when(ready)
    with pytest.raises(KeyboardInterrupt):
        judge(run, rubric(stuck, 4), batch_size=2)
    thread.join()
    assert not threads_left()
    asked, kept = len(stuck.requests), verdicts_of(run)
    assert 8 <= len(kept) < 2 * NUM_CASES

    stuck.script = lambda number, request: scored(request, Answer())
    judge(tmp_path / "whole", rubric(stuck, 4), batch_size=2)
    assert len(stuck.requests) == asked + 2 * (NUM_CASES - 1)  # nothing was asked in the background
    assert kept == verdicts_of(tmp_path / "whole")[: len(kept)]
    judge(run, rubric(stuck, 4), batch_size=2)
    assert verdicts_of(run) == verdicts_of(tmp_path / "whole")


def test_two_ranks_ask_ahead_each_over_its_own_share(serve: Serve, run: Path, tmp_path: Path, zygote: Zygote) -> None:
    server = serve(lambda number, request: Answer(delay=0.01 * (number % 7)))
    settings = {"model": "tiny", "base_url": server.url, "max_concurrency": 4}
    flags = ["--judge.class_path", "rm.protocols.rubric.RubricJudge", "--judge.init_args.metrics", str([*METRICS])]
    flags += ["--judge.init_args.vlm.class_path", "rm.vlm.api.ApiVLM"]
    for name, value in settings.items():
        flags += [f"--judge.init_args.vlm.init_args.{name}", str(value)]
    shutil.copytree(run, tmp_path / "one")
    judge(tmp_path / "one", rubric(server, 4), batch_size=2)
    one = len(server.requests)

    command = ["bench", "judge", "--run", str(run), "--batch-size", "2", *flags, *strategy_flags("ddp")]
    codes, log = zygote.run(command, ranks=2)

    assert codes == [0, 0], log
    assert verdicts_of(run) == verdicts_of(tmp_path / "one")
    assert len(server.requests) == 2 * one
    assert server.most_at_once <= 8
