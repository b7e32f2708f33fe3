"""Straight lines between points: which ones an edit drew, and what it drew beside them.

A line counts as drawn when marks cover the straight way between its points but for a small gap. Lengths are in the
units of the points' coordinates.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from data_build.puzzles.changes import Mask, widen

Point = tuple[float, float]
Line = tuple[int, int]
"""The numbers of two points, the smaller one first."""

SAMPLES = 128
"""Places at which a line is looked for."""
TOLERANCE = 0.03
"""How far beside the straight way a mark may be."""
HIDDEN = 0.16
"""Radius around points in which nothing is looked for: lines end there, and the points may be drawn over them."""
LEAST_COVER = 0.9
"""Share of the places at which there is a mark."""
MOST_GAP = 0.3
"""Length without marks."""
BAND = 0.2
"""How far from the middle of a drawn line marks still belong to it."""
AROUND_POINT = 0.35
"""How far from the end of a drawn line marks still belong to it."""


def distance_to_segment(point: Point, first: Point, second: Point) -> float:
    """Return the distance of a point from the nearest one between two others."""
    (x, y), across, down = first, second[0] - first[0], second[1] - first[1]
    along = ((point[0] - x) * across + (point[1] - y) * down) / (across**2 + down**2)
    along = min(1.0, max(0.0, along))
    return math.dist(point, (x + along * across, y + along * down))


def drawn_lines(mask: Mask, points: Sequence[Point], unit: float) -> frozenset[Line]:
    """Return the lines between points that marks cover.

    Of a line that passes another point, its two parts are returned, not the whole.

    Args:
        mask: the marks.
        points: x and y.
        unit: pixels per unit of length.
    """
    if not mask.any():
        return frozenset()
    lines = list(combinations(range(len(points)), 2))
    ends = np.array(points)[np.array(lines)] * unit
    shares = (np.arange(SAMPLES) + 0.5) / SAMPLES
    columns, rows = (_places(ends[:, 0, axis], ends[:, 1, axis], shares, mask.shape[0]) for axis in (0, 1))
    seen = ~_discs(mask, points, HIDDEN, unit)[rows, columns]
    covered = widen(mask, max(1, round(TOLERANCE * unit)))[rows, columns]
    cover = (covered & seen).sum(axis=1) / np.maximum(1, seen.sum(axis=1))
    lengths = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) / unit
    gaps = _longest_run(seen & ~covered) * lengths / SAMPLES
    drawn = np.flatnonzero((cover >= LEAST_COVER) & (gaps <= MOST_GAP))
    found = frozenset(lines[number] for number in drawn)
    return frozenset(line for line in found if not _is_made_of_two(line, found, points))


def _places(
    first: NDArray[np.float64], second: NDArray[np.float64], shares: NDArray[np.float64], side: int
) -> NDArray[np.intp]:
    """Return the pixels at shares of the way from first to second coordinates, `[lines, shares]`."""
    places = first[:, None] + shares * (second - first)[:, None]
    return np.clip(places, 0, side - 1).astype(np.intp)


def _discs(mask: Mask, points: Iterable[Point], radius: float, unit: float) -> Mask:
    """Return discs around points, in the shape of another mask."""
    image = Image.new("1", (mask.shape[1], mask.shape[0]))
    pen, reach = ImageDraw.Draw(image), radius * unit
    for x, y in ((x * unit, y * unit) for x, y in points):
        pen.ellipse((x - reach, y - reach, x + reach, y + reach), 1)
    discs: Mask = np.asarray(image)
    return discs


def _longest_run(flags: Mask) -> NDArray[np.intp]:
    """Return the largest number of set flags in a row, for every row."""
    places = np.arange(flags.shape[1])
    last_unset = np.maximum.accumulate(np.where(flags, -1, places), axis=1)
    longest: NDArray[np.intp] = (places - last_unset).max(axis=1)
    return longest


def _is_made_of_two(line: Line, found: frozenset[Line], points: Sequence[Point]) -> bool:
    first, second = line
    return any(
        {(min(first, other), max(first, other)), (min(second, other), max(second, other))} <= found
        and distance_to_segment(points[other], points[first], points[second]) < HIDDEN
        for other in range(len(points))
        if other not in line
    )


def marks_beside(mask: Mask, points: Sequence[Point], lines: frozenset[Line], unit: float) -> Mask:
    """Return the marks that belong to none of the drawn lines, nor to their ends."""
    band = Image.new("1", (mask.shape[1], mask.shape[0]))
    pen = ImageDraw.Draw(band)
    for line in lines:
        pen.line([(points[number][0] * unit, points[number][1] * unit) for number in line], 1, round(2 * BAND * unit))
    ends = [points[number] for number in {number for line in lines for number in line}]
    beside: Mask = mask & ~np.asarray(band) & ~_discs(mask, ends, AROUND_POINT, unit)
    return beside
