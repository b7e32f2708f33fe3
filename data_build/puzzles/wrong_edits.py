"""Wrong edits of a puzzle, to test what verifies them and to measure judges: pictures that are not the answer.

Some spoil the answer, by what the puzzle itself knows to be wrong, the others the picture.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from PIL import Image, ImageChops, ImageFilter, ImageOps

from data_build.puzzles.puzzle import AnyPuzzle


def wrong_edits(
    puzzle: AnyPuzzle, instance: Any, other: Any, resolution: int, rng: random.Random
) -> dict[str, Image.Image]:
    """Return wrong edits by what is wrong with them; none of them verifies as `correct`.

    Args:
        puzzle: what kind of puzzle.
        instance: whose edits.
        other: another instance with another answer.
        resolution: pixels per side.
        rng: chooses what to spoil.
    """
    source = puzzle.render(instance, resolution)
    target = puzzle.render(instance, resolution, puzzle.solve(instance))
    foreign = puzzle.render(other, resolution, puzzle.solve(other))
    colours = {name: _turned(colour) for name, colour in puzzle.markers(instance).items()}
    pictures = {
        "unchanged": source,
        "unchanged_blurred": source.filter(ImageFilter.GaussianBlur(1)),
        "black": Image.new("RGB", source.size, "black"),
        "white": Image.new("RGB", source.size, "white"),
        "noise": _noise(source.size, rng),
        "inverted": ImageOps.invert(target),
        "mirrored": ImageOps.mirror(target),
        "turned": target.rotate(90),
        "cut_off": target.crop((0, 0, resolution, resolution // 2)),
        "another_case": puzzle.render(other, resolution),
        "another_answer": foreign,
        "no_colour": ImageOps.grayscale(target).convert("RGB"),
        "other_colour": puzzle.render(
            instance, resolution, puzzle.solve(instance), colour=next(iter(colours.values()))
        ),
        "most_marks_erased": _mostly_erased(source, target),
        "moved_marks": _moved_marks(source, target),
        "painted_over": _painted_over(source, next(iter(puzzle.markers(instance).values()))),
    }
    spoilt = {kind: puzzle.render(instance, resolution, answer) for kind, answer in puzzle.spoil(instance, rng).items()}
    return pictures | spoilt


def _turned(colour: tuple[int, int, int]) -> tuple[int, int, int]:
    """Return a colour a third of the circle of hues further."""
    return colour[2], colour[0], colour[1]


def _noise(size: tuple[int, int], rng: random.Random) -> Image.Image:
    generator = np.random.default_rng(rng.randrange(2**32))
    return Image.fromarray(generator.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def _marks(source: Image.Image, target: Image.Image) -> tuple[Image.Image, tuple[int, int, int, int]]:
    """Return where a target differs from its source, as a mask, and the box around it."""
    mask = ImageChops.difference(source, target).convert("L").point([0] + [255] * 255)
    box = mask.getbbox()
    assert box is not None
    return mask, box


def _mostly_erased(source: Image.Image, target: Image.Image) -> Image.Image:
    """Return a target of whose marks, along their longer way, only the first three tenths are left."""
    left, top, right, bottom = _marks(source, target)[1]
    if right - left > bottom - top:
        left += round((right - left) * 0.3)
    else:
        top += round((bottom - top) * 0.3)
    spoilt = target.copy()
    spoilt.paste(source.crop((left, top, right, bottom)), (left, top))
    return spoilt


def _moved_marks(source: Image.Image, target: Image.Image) -> Image.Image:
    """Return a source with the target's marks at another place, a quarter of the picture away."""
    mask = _marks(source, target)[0]
    quarter = source.width // 4
    spoilt = source.copy()
    spoilt.paste(ImageChops.offset(target, quarter, quarter), mask=ImageChops.offset(mask, quarter, quarter))
    return spoilt


def _painted_over(source: Image.Image, colour: tuple[int, int, int]) -> Image.Image:
    """Return a source with the marker's colour all over."""
    return ImageChops.multiply(source, Image.new("RGB", source.size, colour))
