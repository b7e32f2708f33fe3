"""Simple objects that are told apart by their shape: drawn around a point, in colours far from red."""

from __future__ import annotations

import math

from PIL import Image, ImageDraw

from data_build.puzzles.changes import Colour

FILLS: dict[str, Colour] = {
    "yellow": (245, 210, 20),
    "green": (60, 170, 80),
    "turquoise": (20, 180, 190),
    "blue": (50, 100, 220),
    "violet": (120, 60, 200),
    "grey": (130, 130, 130),
}
SHAPES = ("circle", "square", "triangle", "diamond", "star", "hexagon", "cross", "crescent")
OUTLINE: Colour = (40, 40, 40)


def draw_object(image: Image.Image, centre: tuple[float, float], radius: float, shape: str, fill: str) -> None:
    """Draw one of the shapes in one of the fills, at most `radius` pixels around a point.

    Raises:
        KeyError: for an unknown shape or fill.
    """
    pen, width, colour = ImageDraw.Draw(image), max(1, round(radius / 16)), FILLS[fill]
    if shape == "circle":
        x, y = centre
        radius *= 0.9
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), colour, OUTLINE, width)
        return
    points = [(centre[0] + radius * x, centre[1] + radius * y) for x, y in _OUTLINES[shape]]
    pen.polygon(points, colour)
    pen.line([*points, points[0], points[1]], OUTLINE, width, joint="curve")


def _ring(corners: int, *, turned: float = 0.0, inner: float | None = None) -> list[tuple[float, float]]:
    """Return the corners of a regular polygon within the unit circle, or with `inner` of a star."""
    if inner is not None:
        outer, notches = _ring(corners, turned=turned), _ring(corners, turned=turned + 180 / corners)
        return [point for tip, (x, y) in zip(outer, notches, strict=True) for point in (tip, (inner * x, inner * y))]
    angles = [math.radians(turned - 90 + 360 * corner / corners) for corner in range(corners)]
    return [(math.cos(angle), math.sin(angle)) for angle in angles]


def _crescent() -> list[tuple[float, float]]:
    """Return the corners of a disc that a smaller one is cut out of at its right."""
    outer = [math.radians(angle) for angle in range(45, 316, 10)]
    inner = [math.radians(angle) for angle in range(290, 69, -10)]
    return [(math.cos(a), math.sin(a)) for a in outer] + [
        (0.35 + 0.75 * math.cos(a), 0.75 * math.sin(a)) for a in inner
    ]


_ARM = 0.3
_OUTLINES: dict[str, list[tuple[float, float]]] = {
    "square": [(0.7 * x, 0.7 * y) for x, y in ((-1, -1), (1, -1), (1, 1), (-1, 1))],
    "triangle": _ring(3),
    "diamond": _ring(4),
    "star": _ring(5, inner=0.45),
    "hexagon": _ring(6),
    "cross": [
        (_ARM, -0.9),
        (_ARM, -_ARM),
        (0.9, -_ARM),
        (0.9, _ARM),
        (_ARM, _ARM),
        (_ARM, 0.9),
        (-_ARM, 0.9),
        (-_ARM, _ARM),
        (-0.9, _ARM),
        (-0.9, -_ARM),
        (-_ARM, -_ARM),
        (-_ARM, -0.9),
    ],
    "crescent": _crescent(),
}
