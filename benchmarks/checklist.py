"""What checklists cost: questions that share their pictures, and the numbers of a whole benchmark.

Run it with `python benchmarks/checklist.py`; it needs neither a GPU nor a network, and about five minutes on one CPU
core. Every line ends with its target and whether it is met. Seconds are of processor time, so that they do not count
what else the machine does.

* 30 questions about one case of three references and a generated picture, by the probabilities of a fixed Qwen3-VL of
  some 26 million random weights: one call with all questions, which reads pictures and instruction once, over one call
  for each question. The answers must be equal.
* the summary of MDMR-Bench's 2,390 cases with 30 questions each, in a process of its own: reading cases and verdicts,
  scores, and intervals of every metric over every group. Eleven of them one after the other are a leaderboard's.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import torch
from bench_workflow import say
from judge_throughput import TOLERANCE, build_model, draw
from PIL import Image
from transformers.utils import logging as transformers_logging

from bench.folder import CASES, JudgeFile, judge_file
from bench.generators import FolderGenerator, file_stem
from bench.mdmr.cases import FAMILIES, NAME, WEIGHTS
from bench.workflow import generate, summarize
from gnomon.datasets import write_records
from gnomon.images import content_hash, save_png
from gnomon.jsonl import to_line
from gnomon.records import Candidate, Case, Question, Reference, Text, Verdict
from gnomon.runs import SAMPLES
from rm.judge import JudgeRequest
from rm.protocols.yes_no import YesNoJudge
from rm.vlm.local import LocalVLM

NUM_CASES, NUM_QUESTIONS, NUM_RUNS, NUM_REFERENCES = 2390, 30, 11, 3
GAIN, SECONDS, LEADERBOARD = 10.0, 2.7, 30.0
FAILED = 0.005  # share of questions without an answer


def make_questions() -> list[Question]:
    """Return 30 questions over the five dimensions, a third of them about the whole."""
    dimensions = list(WEIGHTS)
    return [
        Question(
            id=f"{dimensions[place % 5]}-{place // 5 + 1}",
            text=Text(en=f"is the object of reference {1 + place % NUM_REFERENCES} left of number {place} and sharp"),
            dimension=dimensions[place % 5],
            level="global" if place < NUM_QUESTIONS // 3 else "atomic",
            about=[f"reference-{1 + place % NUM_REFERENCES}"],
        )
        for place in range(NUM_QUESTIONS)
    ]


def measure_sharing(folder: Path, repeats: int) -> None:
    """Print how much faster one call is than thirty, and how far the answers are apart."""
    build_model(folder / "judge")
    for number in range(NUM_REFERENCES + 1):
        save_png(draw(number), folder / f"{number}.png")
    references = [Reference(path=f"{number}.png", role="person") for number in range(NUM_REFERENCES)]
    instruction = Text(en="the object of the first left of the second and the third in the background")
    questions = make_questions()
    case = Case(
        id="c",
        benchmark=NAME,
        task="entity_fusion",
        instruction=instruction,
        references=references,
        questions=questions,
    )
    image = folder / f"{NUM_REFERENCES}.png"
    candidate = Candidate(case_id="c", generator="g", seed=0, path=image.name)
    requests = [JudgeRequest(case, folder, candidate, image, question.id) for question in questions]
    vlm = LocalVLM(folder / "judge", batch_size=NUM_QUESTIONS)
    judge = YesNoJudge(vlm, yes=["yes"], no=["no"])
    calls = {"each": [[request] for request in requests], "shared": [requests]}
    seconds, values = dict.fromkeys(calls, float("inf")), dict[str, list[float]]()
    for _ in range(repeats):
        for way, asked in calls.items():  # in turns, so that whatever else the machine does hits both
            start = time.process_time()
            verdicts = [verdict for call in asked for verdict in judge.judge(call)]
            seconds[way] = min(seconds[way], time.process_time() - start)
            values[way] = [value_of(verdict) for verdict in verdicts]
    print(f"one call each {seconds['each']:.2f} s, shared {seconds['shared']:.2f} s")
    what = f"{NUM_QUESTIONS} questions, {NUM_REFERENCES + 1} pictures: shared over one call each"
    say(what, seconds["each"] / seconds["shared"], "x", GAIN, at_least=True)
    apart = max(abs(one - other) for one, other in zip(values["each"], values["shared"], strict=True))
    say("largest difference between the answers", apart, "", TOLERANCE)


def value_of(verdict: Verdict) -> float:
    """Return an answer; there are no others where probabilities are read."""
    assert verdict.value is not None, f"{verdict.question_id}: {verdict.status}"
    return verdict.value


def make_run(folder: Path) -> Path:
    """Make a judged run of a whole benchmark; all its pictures are one file under many names."""
    subtasks = [(family, subtask) for family, found in FAMILIES.items() for subtask in found]
    questions = make_questions()
    save_png(Image.new("RGB", (64, 64), "grey"), folder / "cases/images/source.png")
    cases = [
        Case(
            id=f"case-{number:05d}",
            benchmark=NAME,
            task=subtasks[number % len(subtasks)][0],
            subtask=subtasks[number % len(subtasks)][1],
            instruction=Text(en=f"put what is in the references together as number {number}"),
            references=[Reference(path="images/source.png", role="person")] * (1 + number % 4),
            questions=questions,
            meta={"content_type": ("person", "animal", "object", "scene")[number % 4]},
        )
        for number in range(NUM_CASES)
    ]
    write_records(folder / "cases" / CASES, cases)
    white, outputs, run = Image.new("RGB", (64, 64), "white"), folder / "outputs", folder / "run"
    save_png(white, folder / "white.png")
    outputs.mkdir()
    for case in cases:
        (outputs / f"{file_stem(case.id)}.png").symlink_to(folder / "white.png")
    generate(folder / "cases", run, FolderGenerator(outputs), name="white", batch_size=500)
    entry = JudgeFile(name="dice", judge_class="dice", fingerprint="dice", metrics=[], asks_questions=True)
    (run / judge_file("dice")).write_text(entry.model_dump_json(), encoding="utf-8")
    write_verdicts(run / SAMPLES, cases, content_hash(white))
    return run


def write_verdicts(file: Path, cases: list[Case], picture: str) -> None:
    """Write verdicts as long as those of a real judge."""
    dice = random.Random(0)
    with file.open("w", encoding="utf-8") as lines:
        for case in cases:
            for question in case.questions:
                failed = dice.random() < FAILED
                verdict = Verdict(
                    case_id=case.id,
                    generator="white",
                    metric=question.id,
                    question_id=question.id,
                    value=None if failed else float(dice.random() < 0.8),
                    status="parse_error" if failed else "ok",
                    judge="dice",
                    rationale="one short sentence on what is seen in the picture",
                    raw='{"reason": "one short sentence on what is seen in the picture", "answer": "Y"}',
                    prompt_hash="0" * 64,
                    image_hashes=["1" * 64, picture],
                    seconds=1.5,
                )
                lines.write(to_line(verdict) + "\n")


def measure_summary(folder: Path) -> None:
    """Print the seconds of one summary and of eleven, in a process of their own."""
    command = [sys.executable, __file__, "--summarize", str(make_run(folder))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    seconds = json.loads(done.stdout.splitlines()[-1])
    what = f"summary of {NUM_CASES:,} cases of {NUM_QUESTIONS} questions, the best of {NUM_RUNS}"
    say(what, min(seconds), "s", SECONDS)
    say(f"{NUM_RUNS} of them", sum(seconds), "s", LEADERBOARD)


def report_summary(run: Path) -> None:
    """Print the seconds of each of eleven summaries."""
    seconds = []
    for _ in range(NUM_RUNS):
        start = time.process_time()
        summarize(run)
        seconds.append(time.process_time() - start)
    print(json.dumps(seconds))


def main() -> None:
    """Measure everything once."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summarize", type=Path, help="print the seconds of summaries of this run")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each way to ask, of which the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers_logging.disable_progress_bar()
    if options.summarize:
        report_summary(options.summarize)
        return
    with tempfile.TemporaryDirectory() as name:
        for measure in (lambda folder: measure_sharing(folder, options.repeats), measure_summary):
            folder = Path(tempfile.mkdtemp(dir=name))
            measure(folder)


if __name__ == "__main__":
    main()
