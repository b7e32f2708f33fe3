"""What CogCanvas's metrics cost, on tiny random models of the real classes; needs neither a GPU nor a network.

Run it with `python benchmarks/cogcanvas_metrics.py` from the root of the repository; it takes a minute on one core.

What it prints, for 60 prompts of two to five people over 20 items and 6 places:

* DINO-Sim and BG-Sim with what is computed of references kept (`cache`) and computed anew for each prompt: over a first
  method, and over a second one, whose references are known. Values must be equal. Each prompt's own picture is always
  looked at, so that BG-Sim gains a factor of two at most; and SAM 3 masks a place anew for each other set of items.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from bench.cogcanvas.cases import GROUP_SIZES, REFERENCE_GENERATION
from bench.evaluators.background import BackgroundJudge
from bench.evaluators.reference_cache import ReferenceCache
from bench.evaluators.subject import DetectorLocalizer, SubjectJudge
from bench.evaluators.vision.detection import OpenVocabularyDetector
from bench.evaluators.vision.embedding import DinoCells, DinoEmbedder
from bench.evaluators.vision.segmentation import Sam3Segmenter
from gnomon.images import save_png
from gnomon.records import Candidate, Case, Reference, Text
from rm.judge import Judge, JudgeRequest
from tests.bench.evaluators import checkpoints

NUM_PROMPTS, NUM_ITEMS, NUM_PLACES, SIDE = 60, 20, 6, 256


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


def prompts(root: Path) -> list[JudgeRequest]:
    """Write pictures below `root`, and return a request for each prompt; its metric is filled in later."""
    rng = random.Random(0)
    for kind, count in (("item", NUM_ITEMS), ("place", NUM_PLACES), ("made", NUM_PROMPTS)):
        for place in range(count):
            save_png(noise(hash_of(kind, place)), root / f"{kind}{place}.png")
    found = []
    for place in range(NUM_PROMPTS):
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


def measure_reference_cache(folder: Path) -> None:
    """Print what keeping references saves."""
    vit = {"hidden_size": 192, "num_hidden_layers": 6}
    dinov2 = checkpoints.build_dinov2(folder / "dinov2", image_size=112, shown=112, **vit)
    dinov3 = checkpoints.build_dinov3(folder / "dinov3", shown=112, **vit)
    owlv2, sam3 = checkpoints.build_owlv2(folder / "owlv2"), checkpoints.build_sam3(folder / "sam3")
    localizer, embedder = DetectorLocalizer(OpenVocabularyDetector(owlv2, threshold=0.05)), DinoEmbedder(dinov2)
    segmenter, cells = Sam3Segmenter(sam3, threshold=0.3), DinoCells(dinov3)
    requests = prompts(folder / "cases")
    judges: dict[str, Callable[[], Any]] = {
        "DINO-Sim": lambda: SubjectJudge(localizer, embedder),
        "BG-Sim": lambda: BackgroundJudge(segmenter, cells, max_foreground=0.9),
    }
    for name, make in judges.items():
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


def main() -> None:
    """Measure and print everything."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        measure_reference_cache(Path(folder))


if __name__ == "__main__":
    main()
