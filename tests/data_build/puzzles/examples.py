"""Instances of any puzzle, and what an honest re-rendering makes of a picture."""

from __future__ import annotations

import io
import random
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

from PIL import Image, ImageChops, ImageFilter

from data_build.puzzles.puzzle import AnyPuzzle, Outcome
from data_build.puzzles.verify import verify_instance

RESOLUTION = 512


def instances(puzzle: AnyPuzzle, num: int, seed: int = 0) -> list[Any]:
    """The first instances of a seed."""
    return list(islice(_drawn(puzzle, seed), num))


def _drawn(puzzle: AnyPuzzle, seed: int) -> Iterator[Any]:
    for number in count():
        instance = puzzle.sample(random.Random(f"{seed} {number}"))
        if instance is not None:
            yield instance


def jpeg(image: Image.Image, quality: int = 80) -> Image.Image:
    """A picture after JPEG, its colours in half the resolution."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(buffer).convert("RGB")


def rerendered(image: Image.Image) -> dict[str, Image.Image]:
    """What must not change what a picture is worth."""
    shifted = {f"shifted by {x}, {y}": ImageChops.offset(image, x, y) for x, y in ((1, 0), (0, 1), (-1, -1))}
    return {
        "as it is": image,
        "jpeg": jpeg(image),
        **shifted,
        "jpeg and shifted": jpeg(ImageChops.offset(image, 1, 1)),
        "smaller": image.resize((image.width * 3 // 4, image.height * 3 // 4), Image.Resampling.LANCZOS),
        "larger": image.resize((image.width * 2, image.height * 2), Image.Resampling.BICUBIC),
        "blurred": image.filter(ImageFilter.GaussianBlur(0.8)),
        "tinted": image.point([min(255, int(level * 0.93 + 10)) for level in range(256)] * 3),
    }


def outcome_of(puzzle: AnyPuzzle, instance: Any, edited: Image.Image) -> Outcome:
    """What an edit of an instance is worth."""
    return verify_instance(puzzle, instance, puzzle.render(instance, RESOLUTION), edited)


def outcome_of_answer(puzzle: AnyPuzzle, instance: Any, answer: Any) -> Outcome:
    """What the picture of an answer is worth."""
    return outcome_of(puzzle, instance, puzzle.render(instance, RESOLUTION, answer))
