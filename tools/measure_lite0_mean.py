"""Measure the fixed mean of subjects' vectors by EfficientNet-Lite0, and how well they tell subjects apart.

    python tools/measure_lite0_mean.py CUTOUTS [--write]

CUTOUTS is a folder of pictures with transparent surroundings, such as those of Debian's tuxpaint-stamps-default. 200 of
them are pasted on photographs of scikit-image and scikit-learn for the mean; 60 others twice each, on two photographs,
for the figures in docs/cogcanvas.md. It takes some ten minutes on one CPU core.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_sample_image
from sklearn.metrics import roc_auc_score

from bench.evaluators.cosine import cosines
from bench.evaluators.vision.lite0 import load_lite0
from bench.evaluators.vision.lite0_features import MEAN_FILE, subject_vector
from bench.evaluators.vision.salience import SalienceSegmenter
from gnomon.progress import track

SIDE, NUM_FOR_MEAN, NUM_TO_TELL_APART = 320, 200, 60


def photographs(side: int = SIDE) -> list[Image.Image]:
    """Return the photographs that subjects are pasted on, squares; none of them shows a subject of its own."""
    data: Any = import_module("skimage.data")
    arrays = [getattr(data, name)() for name in ("rocket", "brick", "grass", "gravel")]
    arrays.append(load_sample_image("china.jpg"))
    return [Image.fromarray(array).convert("RGB").resize((side, side)) for array in arrays]


def cutouts(folder: Path) -> list[Path]:
    """Return the pictures whose surroundings are transparent, but for mirrored copies, cartoons and symbols."""
    return [path for path in sorted(folder.rglob("*.png")) if not _is_left_out(path) and 0.2 < _opaque(path) < 0.95]


def _is_left_out(path: Path) -> bool:
    return any(word in path.as_posix() for word in ("symbols", "cartoon", "_mirror"))


def _opaque(path: Path) -> float:
    with Image.open(path) as image:
        return float((np.asarray(image.convert("RGBA"))[..., 3] > 128).mean())


def composites(paths: list[Path], places: list[Image.Image], count: int, rng: random.Random) -> Iterator[Image.Image]:
    """Yield each subject on `count` different photographs, in another size, place and turn each time."""
    for path in paths:
        with Image.open(path) as opened:
            subject = opened.convert("RGBA")
        subject = subject.crop(subject.getchannel("A").getbbox())
        for place in rng.sample(places, count):
            scale = rng.uniform(0.5, 0.85) * SIDE / max(subject.size)
            size = (max(1, round(subject.width * scale)), max(1, round(subject.height * scale)))
            turned = subject.resize(size).rotate(rng.uniform(-12, 12), expand=True)
            corner = rng.randint(0, max(0, SIDE - turned.width)), rng.randint(0, max(0, SIDE - turned.height))
            picture = place.copy()
            picture.paste(turned, corner, turned)
            yield picture


def figures(vectors: NDArray[np.float32]) -> str:
    """Return how well vectors [subject, 2, dimension] tell subjects apart."""
    alike = cosines(vectors[:, 0], vectors[:, 1])
    same = np.eye(len(alike), dtype=bool)
    found = (alike.argmax(1) == np.arange(len(alike))).mean()
    return (
        f"same {alike[same].mean():.2f} (min {alike[same].min():.2f}), other {alike[~same].mean():.2f} "
        f"(95 % below {np.quantile(alike[~same], 0.95):.2f}), R@1 {found:.2f}, "
        f"AUC {roc_auc_score(same.ravel(), alike.ravel()):.3f}"
    )


def main() -> None:
    """Measure, print, and write the mean where that is asked for."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("cutouts", type=Path)
    parser.add_argument("--write", action="store_true", help=f"write {MEAN_FILE.name}")
    given = parser.parse_args()
    rng, places = random.Random(0), photographs()
    paths = cutouts(given.cutouts)
    rng.shuffle(paths)
    network, segmenter = load_lite0(), SalienceSegmenter()

    def vectors(chosen: list[Path], count: int) -> NDArray[np.float32]:
        pictures = track(list(composites(chosen, places, count, rng)), "embedding")
        found = np.stack([subject_vector(network, segmenter, picture) for picture in pictures])
        return found.reshape(len(chosen), count, -1)

    told = vectors(paths[:NUM_TO_TELL_APART], 2)
    mean = vectors(paths[NUM_TO_TELL_APART : NUM_TO_TELL_APART + NUM_FOR_MEAN], 1).mean((0, 1)).astype(np.float16)
    if given.write:
        np.save(MEAN_FILE, mean)
    print(f"{len(paths)} cut-outs; as they are: {figures(told)}")
    print(f"less the mean of {NUM_FOR_MEAN} others: {figures(told - mean.astype(np.float32))}")


if __name__ == "__main__":
    main()
