"""What the benchmark workflow costs beside generator and judge: overhead, resume, summary, requests in flight.

Run it with `python benchmarks/bench_workflow.py`; about two minutes on two CPU cores, no GPU and no network beyond this
machine. Every line ends with its target and whether it is met.

* judging 2,000 pictures by a judge that answers at once: milliseconds per verdict.
* going on with a run of 10,000 generated and judged items where nothing is left to do: seconds for each step.
* the summary of 100,000 verdicts (20,000 items in 36 tasks, five metrics): seconds, and memory beyond what the imports
  take, in a process of its own.
* a judge behind a server that takes 200 ms an answer, 64 requests in flight: 1,920 questions, one about each picture,
  in the batches of `gnomon bench judge`. The ideal time (30 waves of 200 ms) over that of the whole step, which opens
  the run, loads pictures, builds requests, reads replies and writes verdicts; what it imports was imported before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from PIL import Image

from bench.folder import CASES
from bench.generators import FolderGenerator, file_stem
from bench.workflow import generate, judge, summarize
from gnomon.datasets import write_records
from gnomon.images import content_hash, save_png
from gnomon.jsonl import to_line
from gnomon.records import Case, Reference, Text, Verdict
from gnomon.runs import SAMPLES, peak_memory
from rm.judge import JudgeRequest

METRICS = ("instruction_following", "world_awareness", "region_consistency", "identity_consistency", "visual_quality")
TASKS = 36
LATENCY, IN_FLIGHT, WAVES = 0.2, 64, 30


class InstantJudge:
    """Answers every question with the same number."""

    fingerprint = "instant"

    def __init__(self, metrics: Sequence[str] = METRICS) -> None:
        self.name, self.metrics = "instant", tuple(metrics)

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request."""
        return [
            Verdict(
                case_id=request.case.id,
                generator=request.candidate.generator,
                seed=request.candidate.seed,
                metric=request.metric,
                value=3.0,
                judge=self.fingerprint,
            )
            for request in requests
        ]


def make_cases(root: Path, count: int) -> list[Case]:
    """Write a dataset of `count` cases over 36 tasks, all with one source picture."""
    save_png(Image.new("RGB", (64, 64), "grey"), root / "images/source.png")
    cases = [
        Case(
            id=f"case-{number:06d}",
            benchmark="synthetic",
            task=f"task {number % TASKS:02d}",
            instruction=Text(en=f"change number {number}"),
            references=[Reference(path="images/source.png")],
        )
        for number in range(count)
    ]
    write_records(root / CASES, cases)
    return cases


def make_run(folder: Path, count: int) -> Path:
    """Make a run whose pictures were taken from a folder; all are one file under many names."""
    cases = make_cases(folder / "cases", count)
    outputs = folder / "outputs"
    save_png(Image.new("RGB", (64, 64), "white"), outputs / "all.png")
    for case in cases:
        (outputs / f"{file_stem(case.id)}.png").symlink_to(outputs / "all.png")
    generate(folder / "cases", folder / "run", FolderGenerator(outputs), name="white", batch_size=500)
    return folder / "run"


def verdict_of(case_id: str, metric: str, value: float, picture: str) -> Verdict:
    """Return a verdict as long as those of a real judge."""
    return Verdict(
        case_id=case_id,
        generator="white",
        metric=metric,
        value=value,
        judge="instant",
        rationale="a sentence or two on what is seen in the picture and why that is worth the score " * 3,
        raw='{"reason": "what the model said, word by word, in its JSON", "score": 3} ' * 6,
        prompt_hash="0" * 64,
        image_hashes=["1" * 64, picture],
        seconds=1.5,
    )


def say(name: str, value: float, unit: str, target: float, *, at_least: bool = False) -> None:
    """Print one figure with its target."""
    met = value >= target if at_least else value < target
    sign = ">=" if at_least else "<"
    print(f"{name:<64}{value:9.3f} {unit:<4} (target {sign} {target:g}: {'met' if met else 'MISSED'})", flush=True)


def measure_overhead(folder: Path) -> None:
    """Print what a verdict costs beside the judge."""
    run = make_run(folder, 2000)
    judge(run, InstantJudge(METRICS[:1]))  # what is imported at first use is no part of it
    start = time.perf_counter()
    judge(run, _Other(), batch_size=64)
    say("overhead of judging, a verdict", (time.perf_counter() - start) / 10_000 * 1000, "ms", 2)


class _Other(InstantJudge):
    """A second judge of the same run, so that everything is still to be asked."""

    fingerprint = "other"

    def __init__(self) -> None:
        super().__init__()
        self.name = "other"


def measure_resume(folder: Path) -> None:
    """Print how long a run of 10,000 items takes to see that nothing is left to judge and to generate."""
    run = make_run(folder, 10_000)
    one = InstantJudge(METRICS[:1])
    judge(run, one, batch_size=500)
    start = time.perf_counter()
    judge(run, one, batch_size=500)
    say("resume of 10,000 judged items", time.perf_counter() - start, "s", 3)
    start = time.perf_counter()
    generate(folder / "cases", run, FolderGenerator(folder / "outputs"), name="white", batch_size=500)
    say("resume of 10,000 generated items", time.perf_counter() - start, "s", 3)


def measure_summary(folder: Path) -> None:
    """Print time and memory of the summary of 100,000 verdicts, from a process of its own."""
    run = make_run(folder, 20_000)
    judge(run, InstantJudge(), batch_size=1000)
    picture = content_hash(Image.new("RGB", (64, 64), "white"))
    with (run / SAMPLES).open("w", encoding="utf-8") as file:
        for number in range(20_000):
            for position, metric in enumerate(METRICS):
                file.write(
                    to_line(verdict_of(f"case-{number:06d}", metric, 1 + (number + position) % 5, picture)) + "\n"
                )
    command = [sys.executable, __file__, "--summarize", str(run)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    measured = json.loads(done.stdout.splitlines()[-1])
    say("summary of 100,000 verdicts", measured["seconds"], "s", 10)
    say("most memory of that beyond the imports", measured["mebibytes"], "MiB", 500)


def report_summary(run: Path) -> None:
    """Print seconds and MiB of one summary."""
    before = peak_memory()
    start = time.perf_counter()
    summarize(run)
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "mebibytes": (peak_memory() - before) / 2**20}))


class _SlowServer(BaseHTTPRequestHandler):
    """Answers every chat with a score after the latency."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet, or the client's system holds its receipt back for 40 ms
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        """Answer a request."""
        self.rfile.read(int(self.headers["Content-Length"]))
        time.sleep(LATENCY)
        message = {"role": "assistant", "content": '{"reason": "as asked", "score": 7}'}
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "slow",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def serve() -> None:
    """Print the port and answer until the process ends."""
    server = _Server(("127.0.0.1", 0), _SlowServer)
    print(server.server_port, flush=True)
    server.serve_forever()


def measure_api(folder: Path) -> None:
    """Print the throughput of a judge behind a slow server over that of requests that never wait for us."""
    from rm.protocols.rubric import RubricJudge
    from rm.vlm.api import ApiVLM

    run = make_run(folder, WAVES * IN_FLIGHT)
    with subprocess.Popen([sys.executable, __file__, "--serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        address = f"http://127.0.0.1:{int(server.stdout.readline())}/v1"
        vlm = ApiVLM(model="slow", base_url=address, max_concurrency=IN_FLIGHT)
        first = make_run(folder / "first", IN_FLIGHT)
        judge(first, RubricJudge(vlm, metrics=["overall"]))  # imports what is used
        start = time.perf_counter()
        judge(run, RubricJudge(vlm, metrics=["overall"]))
        seconds = time.perf_counter() - start
        server.terminate()
    ideal = WAVES * LATENCY
    say(
        f"throughput of {IN_FLIGHT} requests in flight at 200 ms over the ideal",
        ideal / seconds,
        "",
        0.9,
        at_least=True,
    )


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summarize", type=Path, help="print seconds and memory of one summary of this run")
    parser.add_argument("--serve", action="store_true", help="be the slow server")
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    if options.summarize:
        report_summary(options.summarize)
        return
    with tempfile.TemporaryDirectory() as name:
        for measure in (measure_overhead, measure_resume, measure_summary, measure_api):
            measure(Path(name) / measure.__name__)


if __name__ == "__main__":
    main()
