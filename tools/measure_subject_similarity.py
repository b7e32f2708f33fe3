"""Measure how far the offline subject similarity, search included, tells a case's own item from others.

    python -m tools.measure_subject_similarity CUTOUTS

CUTOUTS is as for `measure_lite0_mean.py`. 32 subjects are pasted on a photograph each, a quarter to three fifths as
long as it, and each picture is judged with the subject's own reference and with three others. docs/cogcanvas.md has the
figures. It takes some ten minutes on one CPU core.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.metrics import roc_auc_score

from bench.evaluators.subject import METRIC, SubjectJudge
from bench.evaluators.vision.lite0_features import Lite0Embedder
from bench.evaluators.vision.salience import SalienceSegmenter
from bench.evaluators.vision.windows import WindowLocalizer
from gnomon.images import save_png
from gnomon.progress import track
from gnomon.records import Candidate, Case, Reference, Text
from rm.judge import JudgeRequest
from tools.measure_lite0_mean import cutouts, photographs

SIDE, NUM_SUBJECTS, NUM_ASKED = 640, 32, 4


def pasted(path: Path, place: Image.Image, low: float, high: float, rng: random.Random) -> Image.Image:
    """Return a subject on a place, `low` to `high` times as long as the place's side."""
    with Image.open(path) as opened:
        subject = opened.convert("RGBA")
    subject = subject.crop(subject.getchannel("A").getbbox())
    scale = rng.uniform(low, high) * SIDE / max(subject.size)
    subject = subject.resize((max(1, round(subject.width * scale)), max(1, round(subject.height * scale))))
    subject = subject.rotate(rng.uniform(-12, 12), expand=True)
    picture = place.copy()
    corner = rng.randint(0, max(0, SIDE - subject.width)), rng.randint(0, max(0, SIDE - subject.height))
    picture.paste(subject, corner, subject)
    return picture


def requests(root: Path, paths: list[Path]) -> list[tuple[bool, JudgeRequest]]:
    """Write all pictures below `root`; return what is asked, and whether it is about the subject that is there."""
    places, white = photographs(SIDE), Image.new("RGB", (SIDE, SIDE), "white")
    for place, path in enumerate(paths):
        save_png(pasted(path, white, 0.6, 0.9, random.Random(place)), root / f"reference{place}.png")
        rng = random.Random(1000 + place)
        save_png(pasted(path, rng.choice(places), 0.25, 0.6, rng), root / f"picture{place}.png")
    asked = []
    for shown in range(len(paths)):
        for step in range(NUM_ASKED):
            wanted = (shown + 5 * step) % len(paths)
            reference = Reference(path=f"reference{wanted}.png", role="object", name=f"subject {wanted}")
            case = Case(
                id=f"{shown}-{wanted}",
                benchmark="cogcanvas",
                task="reference_generation",
                instruction=Text(en="a subject"),
                references=[reference],
            )
            made = Candidate(case_id=case.id, generator="pasted", seed=0, path=f"picture{shown}.png")
            asked.append((step == 0, JudgeRequest(case, root, made, root / f"picture{shown}.png", METRIC)))
    return asked


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cutouts", type=Path, help="folder of pictures with transparent surroundings")
    paths = cutouts(parser.parse_args().cutouts)
    random.Random(7).shuffle(paths)
    judge = SubjectJudge(WindowLocalizer(), Lite0Embedder(SalienceSegmenter()), crop_embedder=Lite0Embedder())
    with tempfile.TemporaryDirectory() as folder:
        asked = requests(Path(folder), paths[:NUM_SUBJECTS])
        values = np.array([judge.judge([one])[0].value or 0.0 for _, one in track(asked, "judging")])
    own = np.array([is_own for is_own, _ in asked])
    for name, some in (("own", values[own]), ("other", values[~own])):
        shares = f"most {some.max():.2f}, found {(some > 0).mean():.0%}, 95 % below {np.quantile(some, 0.95):.2f}"
        print(f"{name}: {len(some)} pairs, mean {some.mean():.2f}, least {some.min():.2f}, {shares}")
    print(f"AUC {roc_auc_score(own, values):.3f}")


if __name__ == "__main__":
    main()
