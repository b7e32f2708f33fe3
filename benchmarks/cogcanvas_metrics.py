"""What CogCanvas's metrics cost, on small random models of the real classes; needs neither a GPU nor a network.

Run it with `python benchmarks/cogcanvas_metrics.py` from the root of the repository; it takes five minutes on two
cores. Lines with a target say whether it is met.

* Attr-VQA: the questions of one prompt of five people about one picture, by the probabilities of a Qwen3-VL of some 26
  million weights: one call with all questions, which reads the picture once, over one call for each. Answers must be
  equal. Seconds are of processor time.
* DINO-Sim, BG-Sim, CLIP-T and, where its files are installed, ID-Sim, each over 60 prompts of two to five people over
  20 items and 6 places: with what is computed of references kept (`cache`) and computed anew for each prompt; over a
  first method, and over a second one, whose references are known. Values must be equal. Each prompt's own picture is
  always looked at, so that BG-Sim gains a factor of two at most; SAM 3 masks a place anew for each other set of items;
  CLIP-T looks at no reference at all.
* `gnomon bench judge` with BG-Sim over 240 prompts in one process and in two (DDP): seconds beyond those of the same
  command where nothing is left to judge, and whether both wrote the same verdicts. It needs two cores to itself.
* the largest memory of this process after each part.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from bench_workflow import say
from judge_throughput import TOLERANCE, build_model, draw
from PIL import Image
from transformers.utils import logging as transformers_logging
from vision_models import build_all

from bench.cogcanvas.cases import GROUP_SIZES, REFERENCE_GENERATION
from bench.evaluators.background import BackgroundJudge
from bench.evaluators.reference_cache import ReferenceCache
from bench.evaluators.subject import DetectorLocalizer, SubjectJudge
from bench.evaluators.text_alignment import TextAlignmentJudge
from bench.evaluators.text_image import TextImageEmbedder
from bench.evaluators.vision.detection import OpenVocabularyDetector
from bench.evaluators.vision.embedding import DinoCells, DinoEmbedder
from bench.evaluators.vision.segmentation import Sam3Segmenter
from bench.generators import FolderGenerator
from bench.workflow import generate
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.images import save_png
from gnomon.jsonl import read_records
from gnomon.records import Candidate, Case, Question, Reference, Text, Verdict
from gnomon.runs import SAMPLES, peak_memory
from rm.judge import Judge, JudgeRequest
from rm.protocols.yes_no import YesNoJudge
from rm.vlm.local import LocalVLM

NUM_PROMPTS, NUM_ITEMS, NUM_PLACES, SIDE = 60, 20, 6, 256
NUM_PEOPLE, NUM_ATTRIBUTES = 5, 3
GAIN = 6.0


class Forgetful(ReferenceCache):
    """Keeps nothing."""

    def get(self, backend: str, picture: str, compute: Callable[[], Any]) -> Any:
        """Compute it anew."""
        self.num_computed += 1
        return compute()


def noise(seed: int) -> Image.Image:
    """Return a picture of coarse noise."""
    small = np.random.default_rng(seed).integers(0, 256, (16, 16, 3), dtype=np.uint8)
    return Image.fromarray(small).resize((SIDE, SIDE))


def prompts(root: Path, num_prompts: int = NUM_PROMPTS) -> list[JudgeRequest]:
    """Write pictures below `root`, and return a request for each prompt; its metric is filled in later."""
    rng = random.Random(0)
    for kind, count in (("item", NUM_ITEMS), ("place", NUM_PLACES), ("made", num_prompts)):
        for place in range(count):
            save_png(noise(hash_of(kind, place)), root / f"{kind}{place}.png")
    found = []
    for place in range(num_prompts):
        size = rng.choices(list(GROUP_SIZES), weights=list(GROUP_SIZES.values()))[0]
        items = rng.sample(range(NUM_ITEMS), size)
        references = [Reference(path=f"item{item}.png", role="object", name=f"item {item}") for item in items]
        references.append(Reference(path=f"place{rng.randrange(NUM_PLACES)}.png", role="background", name="place"))
        case = Case(
            id=f"prompt-{place}",
            benchmark="cogcanvas",
            task=REFERENCE_GENERATION,
            instruction=Text(en="people with things"),
            references=references,
        )
        made = Candidate(case_id=case.id, generator="noise", seed=0, path=f"made{place}.png")
        found.append(JudgeRequest(case, root, made, root / f"made{place}.png", ""))
    return found


def hash_of(kind: str, place: int) -> int:
    """Return a seed of its own for each picture."""
    return 1000 * len(kind) + place + ord(kind[0]) * 100_000


def judged(judge: Judge, requests: Sequence[JudgeRequest]) -> tuple[list[float | None], float]:
    """Return a judge's values, and the seconds that they took."""
    asked = [JudgeRequest(one.case, one.root, one.candidate, one.image, judge.metrics[0]) for one in requests]
    start = time.perf_counter()
    values = [verdict.value for verdict in judge.judge(asked)]
    return values, time.perf_counter() - start


def measure_attr_vqa(folder: Path, repeats: int) -> None:
    """Print how much faster one call is than one for each question, and how far the answers are apart."""
    build_model(folder / "judge")
    save_png(draw(0), folder / "made.png")
    case = Case(
        id="five",
        benchmark="cogcanvas",
        task=REFERENCE_GENERATION,
        instruction=Text(en="the object of the first left of the second"),
        questions=questions(),
    )
    made = Candidate(case_id=case.id, generator="noise", seed=0, path="made.png")
    requests = [JudgeRequest(case, folder, made, folder / "made.png", question.id) for question in case.questions]
    judge = YesNoJudge(LocalVLM(folder / "judge", batch_size=len(requests)), yes=["yes"], no=["no"])
    ways: dict[str, Callable[[], list[Verdict]]] = {
        "each": lambda: [verdict for request in requests for verdict in judge.judge([request])],
        "shared": lambda: judge.judge(requests),
    }
    seconds, values = dict.fromkeys(ways, float("inf")), {}
    for _ in range(repeats):
        for way, ask in ways.items():  # in turns, so that whatever else the machine does hits both
            start = time.process_time()
            values[way] = [verdict.value or 0.0 for verdict in ask()]
            seconds[way] = min(seconds[way], time.process_time() - start)
    print(f"Attr-VQA: one call each {seconds['each']:.2f} s, shared {seconds['shared']:.2f} s")
    what = f"{len(requests)} questions about one picture: shared over each"
    say(what, seconds["each"] / seconds["shared"], "x", GAIN, at_least=True)
    apart = max(abs(one - other) for one, other in zip(values["each"], values["shared"], strict=True))
    say("largest difference between the answers", apart, "", TOLERANCE)


def questions() -> list[Question]:
    """Return one for each attribute of each person, and one for each pair of people."""
    attributes = [
        (
            "attribute",
            f"{person}-{attribute}",
            f"is the object of number {person} sharp and left of reference {attribute}",
        )
        for person in range(NUM_PEOPLE)
        for attribute in range(NUM_ATTRIBUTES)
    ]
    pairs = [
        ("interaction", f"{one}-with-{other}", f"is the object of number {one} left of number {other}")
        for one, other in combinations(range(NUM_PEOPLE), 2)
    ]
    return [Question(id=name, text=Text(en=text), dimension=about) for about, name, text in attributes + pairs]


def measure_references(folder: Path) -> None:
    """Print what each metric costs, and what keeping references saves."""
    detector = OpenVocabularyDetector(folder / "owlv2", threshold=0.05)
    localizer, embedder = DetectorLocalizer(detector), DinoEmbedder(folder / "dinov2")
    segmenter, cells = Sam3Segmenter(folder / "sam3", threshold=0.3), DinoCells(folder / "dinov3")
    requests = prompts(folder / "cases")
    compare_cache("DINO-Sim", lambda: SubjectJudge(localizer, embedder), requests)
    compare_cache("BG-Sim", lambda: BackgroundJudge(segmenter, cells, max_foreground=0.9), requests)
    text = TextAlignmentJudge(TextImageEmbedder(folder / "clip"))
    judged(text, requests[:2])
    values, seconds = judged(text, requests)
    print(f"CLIP-T: {seconds:.2f} s; {values.count(None)} of {len(values)} failed")
    measure_identity(folder / "faces")


def compare_cache(name: str, make: Callable[[], Any], requests: Sequence[JudgeRequest]) -> None:
    """Print one metric with references kept and computed anew."""
    judged(make(), requests[:2])  # what is done once in a process is not counted
    kept, anew = make(), make()
    anew.references = Forgetful()
    values, longer = judged(anew, requests)
    print(f"{name}: {longer:.2f} s with {anew.references.num_computed} computations of references", end="")
    for which in ("first", "second"):
        before = kept.references.num_computed
        others, seconds = judged(kept, requests)
        if values != others:
            raise SystemExit(f"{name}: values differ with and without the cache")
        computed = kept.references.num_computed - before
        print(f"; kept, {which} method: {seconds:.2f} s with {computed}, {longer / seconds:.2f} times", end="")
    print(f"; {values.count(None)} of {len(values)} failed")


def measure_identity(folder: Path) -> None:
    """Print ID-Sim's cost by its offline parts, over 12 prompts of five people on one photograph of an astronaut."""
    try:
        from skimage.data import astronaut

        from bench.evaluators.faces.dlib_resnet import DlibRecognizer
        from bench.evaluators.faces.mtcnn import MtcnnDetector
        from bench.evaluators.identity import IdentityJudge

        detector, recognizer = MtcnnDetector(), DlibRecognizer()
    except (UserError, ImportError) as error:
        print(f"ID-Sim: left out, {error}")
        return
    face = Image.fromarray(astronaut()).convert("RGB")
    references = []
    for person in range(NUM_PEOPLE):  # of one person, a little darker each, so that their contents differ
        save_png(face.point(lambda value, less=person: max(value - less, 0)), folder / f"{person}.png")
        references.append(Reference(path=f"{person}.png", role="identity", name=f"person {person}"))
    case = Case(
        id="five",
        benchmark="cogcanvas",
        task=REFERENCE_GENERATION,
        instruction=Text(en="people"),
        references=references,
    )
    made = Candidate(case_id=case.id, generator="noise", seed=0, path="0.png")
    requests = [JudgeRequest(case, folder, made, folder / "0.png", "")] * 12
    compare_cache("ID-Sim", lambda: IdentityJudge(detector, recognizer), requests)


def measure_ranks(folder: Path) -> None:
    """Print the seconds of `gnomon bench judge` in one process and in two."""
    cases, outputs = folder / "cases", folder / "outputs"
    requests = prompts(cases, 4 * NUM_PROMPTS)
    write_records(cases / "cases.jsonl", [request.case for request in requests])
    outputs.mkdir()
    for request in requests:
        (outputs / f"{request.case.id}.png").symlink_to(request.image or "")
    here, seconds, verdicts = "bench.evaluators", {}, {}
    judge = ["--judge", f"{here}.background.BackgroundJudge", "--judge.max_foreground", "0.9"]
    judge += ["--judge.segmenter", f"{here}.vision.segmentation.Sam3Segmenter"]
    judge += ["--judge.segmenter.model", str(folder / "sam3"), "--judge.segmenter.threshold", "0.3"]
    judge += ["--judge.embedder", f"{here}.vision.embedding.DinoCells"]
    judge += ["--judge.embedder.model", str(folder / "dinov3")]
    for ranks in (1, 2):
        run = folder / f"run{ranks}"
        generate(cases, run, FolderGenerator(outputs), name="noise")
        flags = ["--trainer.devices", "2", "--trainer.strategy", "ddp"] if ranks == 2 else []
        command = [sys.executable, "-m", "gnomon", "bench", "judge", "--run", str(run), "--batch-size", "4"]
        spent = [seconds_of([*command, *judge, *flags]) for _ in range(2)]
        seconds[ranks] = spent[0] - spent[1]
        read = read_records(run / SAMPLES, Verdict)
        verdicts[ranks] = [verdict.model_copy(update={"seconds": None}) for verdict in read]
        print(f"BG-Sim on {ranks} ranks: {spent[0]:.1f} s, of which {spent[1]:.1f} s are no judging")
    print(f"two ranks judge {seconds[1] / seconds[2]:.2f} times as fast as one; same: {verdicts[1] == verdicts[2]}")


def seconds_of(command: list[str]) -> float:
    """Run a command, and return its seconds."""
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    """Measure and print everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="turns of each way to ask, of which the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers_logging.disable_progress_bar()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build_all(folder)
        parts: list[tuple[str, Callable[[], None]]] = [
            ("Attr-VQA", lambda: measure_attr_vqa(folder, options.repeats)),
            ("the metrics", lambda: measure_references(folder)),
            ("ranks", lambda: measure_ranks(folder)),
        ]
        for what, measure in parts:
            measure()
            print(f"largest memory after {what}: {peak_memory() / 2**20:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
