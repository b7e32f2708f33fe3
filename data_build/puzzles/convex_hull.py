"""Convex Hull: the outline of straight lines between points that has all of them on it or inside.

Edit-Compass, appendix A.3.5: 8 to 15 points on a canvas of 10 x 10, coordinates uniform in [1, 9]. Our choices: points
keep a least distance from each other, and draws are left out where a point lies so near a line of the hull, or a corner
is so flat, that a drawn hull would not show on which side it is. Lines are read as pairs of points, see `segments`.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from PIL import Image, ImageDraw

from data_build.puzzles.changes import Change, Colour
from data_build.puzzles.grid import RED
from data_build.puzzles.puzzle import InvalidEditError, Outcome
from data_build.puzzles.segments import Line, Point, distance_to_segment, drawn_lines, marks_beside
from data_build.puzzles.settings import require_range
from gnomon.errors import UserError
from gnomon.records import Record, Text

CANVAS = 10.0
"""Length of a side of the canvas; all lengths below are in its units."""
POINT_RADIUS = 0.12
LINE_WIDTH = 0.12
LEAST_CLEARANCE = 0.25
"""Of a point from a line that does not end in it, below which lines cannot be told apart."""
MOST_OTHER = 0.008
"""Area that may change in other colours; of a point that vanishes, 0.02 are seen."""
MOST_BESIDE = 0.04
"""Area of marks that belong to no line; a line of a unit's length has 0.12."""
TRIES = 300
"""Times that points are drawn anew, so that all numbers of points are as frequent as they are drawn."""


class Points(Record):
    """Points as x and y from the canvas's top left."""

    points: list[Point]


@dataclass(frozen=True)
class ConvexHull:
    """The puzzle.

    Attributes:
        num_points: fewest and most points.
        coordinates: smallest and largest coordinate, on a canvas of 10 x 10.
        least_distance: between two points.
        least_clearance: of a point from a line of the hull that does not end in it, and of the hull's corners from the
            line between their neighbours.

    Raises:
        UserError: for settings that admit no instance, or none that can be read.
    """

    num_points: tuple[int, int] = (8, 15)
    coordinates: tuple[float, float] = (1.0, 9.0)
    least_distance: float = 0.7
    least_clearance: float = 0.3

    task = "convex_hull"
    instance_class = Points

    def __post_init__(self) -> None:
        """Refuse settings whose pictures cannot be drawn or read."""
        require_range("num_points", self.num_points, 3)
        require_range("coordinates", self.coordinates, 0.3, CANVAS - 0.3)
        if self.least_clearance < LEAST_CLEARANCE:
            raise UserError(
                f"expected least_clearance >= {LEAST_CLEARANCE}, the least at which lines are told apart, got "
                f"{self.least_clearance}"
            )
        if self.least_distance < 2 * self.least_clearance:
            raise UserError(
                f"expected least_distance of at least twice least_clearance ({self.least_clearance}), got "
                f"{self.least_distance}"
            )
        room = (self.coordinates[1] - self.coordinates[0]) ** 2
        if self.num_points[1] * self.least_distance**2 > room / 2:
            raise UserError(
                f"expected num_points and least_distance whose squares fill at most half of the canvas between the "
                f"coordinates ({room / 2:g}), got {self.num_points[1]} points {self.least_distance} apart"
            )

    def sample(self, rng: random.Random) -> Points | None:
        """Draw points whose hull can be drawn clearly."""
        count = rng.randint(*self.num_points)
        for _ in range(TRIES):
            points = self._apart(count, rng)
            if len(points) == count and _clearance(points) >= self.least_clearance:
                return Points(points=points)
        return None

    def _apart(self, count: int, rng: random.Random) -> list[Point]:
        """Draw points one by one, again where one is too near another; fewer where that does not help."""
        points: list[Point] = []
        for _ in range(TRIES * count):
            x, y = (round(rng.uniform(*self.coordinates), 3) for _ in range(2))
            if all(math.dist((x, y), other) >= self.least_distance for other in points):
                points.append((x, y))
            if len(points) == count:
                break
        return points

    def solve(self, instance: Points) -> frozenset[Line]:
        """Return the hull's lines."""
        return _closed(_corners(instance.points))

    def render(
        self,
        instance: Points,
        resolution: int,
        answer: frozenset[Line] | None = None,
        *,
        colour: Colour | None = None,
    ) -> Image.Image:
        """Draw the points as black discs; the lines of an answer below them."""
        image = Image.new("RGB", (resolution, resolution), "white")
        pen, unit = ImageDraw.Draw(image), resolution / CANVAS
        places = [(x * unit, y * unit) for x, y in instance.points]
        for first, second in sorted(answer or ()):
            pen.line((places[first], places[second]), colour or RED, max(1, round(LINE_WIDTH * unit)))
        radius = POINT_RADIUS * unit
        for x, y in places:
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), "black")
        return image

    def instruct(self, instance: Points) -> Text:
        """Return the instruction."""
        return Text(
            en="Draw the outline of the convex hull of the black points in red: the smallest convex polygon that has "
            "every point on it or inside, as straight lines from point to point. Draw no other lines and change "
            "nothing else.",
            zh="用红色画出所有黑点的凸包轮廓：即包含所有点（点在其边界上或内部）的最小凸多边形，用直线段依次连接相应的点。"
            "不要画其他任何线，也不要改动其他任何内容。",
        )

    def describe(self, instance: Points) -> str:
        """Return the hull's corners in order."""
        corners = " ".join(_place(instance.points[number]) for number in _corners(instance.points))
        return (
            "Red straight lines join the points at these places (x, y), in shares of the picture's side from the top "
            f"left, to a closed polygon: {corners}; no other lines are drawn."
        )

    def markers(self, instance: Points) -> dict[str, Colour]:
        """Return the lines' colour."""
        return {"red": RED}

    def read(self, instance: Points, change: Change) -> frozenset[Line]:
        """Return the drawn lines, as pairs of points."""
        mask, unit = change.marked["red"], change.other.shape[0] / CANVAS
        if np.count_nonzero(change.other) > MOST_OTHER * unit**2:
            raise InvalidEditError("a point was changed, or something else was drawn than red lines")
        lines = drawn_lines(mask, instance.points, unit)
        beside = marks_beside(mask, instance.points, lines, unit)
        if np.count_nonzero(beside) > MOST_BESIDE * unit**2:
            row, column = (float(numbers.mean()) / unit for numbers in beside.nonzero())
            raise InvalidEditError(
                f"there are red marks, around {_place((column, row))}, that belong to no line from point to point"
            )
        return lines

    def spoil(self, instance: Points, rng: random.Random) -> dict[str, frozenset[Line]]:
        """Return outlines that miss or cut off a point, that go inside, or that have lines inside."""
        points = instance.points
        corners = _corners(points)
        best, count = _closed(corners), len(corners)
        lost, place = rng.choice(sorted(best)), rng.randrange(count)
        inner = [number for number in range(len(points)) if number not in corners]
        chords = sorted(set(combinations(range(len(points)), 2)) - best)
        crossed = list(corners)
        crossed[place], crossed[place - 1] = crossed[place - 1], crossed[place]
        spoilt = {
            "one_line_missing": best - {lost},
            "one_line": frozenset({lost}),
            "one_line_more": best | {rng.choice(chords)} if chords else best,
            "corner_cut_off": _closed(corners[:place] + corners[place + 1 :]),
            "two_corners_cut_off": _closed(corners[::2]),
            "crossed": _closed(crossed),
            "all_lines": frozenset(combinations(range(len(points)), 2)),
            "fan": best | {_line(corners[place], other) for other in corners if other != corners[place]},
            "as_numbered": _closed(list(range(len(points)))),
            "around_the_middle": _closed(_by_angle(points)),
        }
        if inner:
            spoilt["through_inner_point"] = _closed([*corners[:place], rng.choice(inner), *corners[place:]])
            spoilt["inner_points"] = _closed(_by_angle(points, inner))
        return {kind: lines for kind, lines in spoilt.items() if lines and lines != best}

    def check(self, instance: Points, answer: frozenset[Line]) -> Outcome:
        """Compare with the hull's lines."""
        points = instance.points
        corners = _corners(points)
        best = _closed(corners)
        if not answer:
            return Outcome("invalid", "no red line leads from point to point")
        reached = {number for line in answer for number in line}
        for number in corners:
            if number not in reached and answer - best:
                return Outcome("invalid", f"the point at {_place(points[number])} lies outside of the outline")
        for first, second in sorted(answer - best):
            between = f"{_place(points[first])} to {_place(points[second])}"
            return Outcome("invalid", f"the line from {between} runs inside of the hull")
        for first, second in sorted(best - answer):
            between = f"{_place(points[first])} to {_place(points[second])}"
            return Outcome("invalid", f"the outline is not closed: there is no line from {between}")
        return Outcome("correct", f"the outline is the hull, of {len(best)} lines")


def _place(point: Point) -> str:
    return f"({point[0] / CANVAS:.2f}, {point[1] / CANVAS:.2f})"


def _line(first: int, second: int) -> Line:
    return min(first, second), max(first, second)


def _closed(corners: Sequence[int]) -> frozenset[Line]:
    """Return the lines from every point to the next, and from the last to the first."""
    return frozenset(_line(corners[place - 1], corners[place]) for place in range(len(corners)) if len(corners) > 1)


def _corners(points: Sequence[Point]) -> list[int]:
    """Return the points of the hull in order around it (Andrew's monotone chain)."""
    order = sorted(range(len(points)), key=lambda number: points[number])
    halves = []
    for numbers in (order, order[::-1]):
        half: list[int] = []
        for number in numbers:
            while len(half) > 1 and _turn(points[half[-2]], points[half[-1]], points[number]) <= 0:
                half.pop()
            half.append(number)
        halves.append(half[:-1])
    return halves[0] + halves[1]


def _turn(first: Point, second: Point, third: Point) -> float:
    """Return twice the signed area of a triangle: positive for a turn to the one side, negative to the other."""
    return (second[0] - first[0]) * (third[1] - first[1]) - (second[1] - first[1]) * (third[0] - first[0])


def _clearance(points: Sequence[Point]) -> float:
    """Return how far the points are at least from the hull's lines that do not end in them, and corners from flat."""
    corners = _corners(points)
    if len(corners) < 3:
        return 0.0
    lines = [(corners[place - 1], corners[place]) for place in range(len(corners))]
    chords = [(corners[place - 2], corners[place]) for place in range(len(corners))]
    return min(
        [
            distance_to_segment(point, points[first], points[second])
            for first, second in lines
            for number, point in enumerate(points)
            if number not in (first, second)
        ]
        + [
            distance_to_segment(points[corners[place - 1]], points[first], points[second])
            for place, (first, second) in enumerate(chords)
        ]
    )


def _by_angle(points: Sequence[Point], numbers: Sequence[int] | None = None) -> list[int]:
    """Return points in order of their direction from the middle of all."""
    x, y = (sum(point[axis] for point in points) / len(points) for axis in (0, 1))
    chosen = range(len(points)) if numbers is None else numbers
    return sorted(chosen, key=lambda number: math.atan2(points[number][1] - y, points[number][0] - x))
