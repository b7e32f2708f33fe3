"""What exists on the tabletop: shapes in the cells of a 4 x 4 grid on a coloured ground.

Scenes are small immutable values with a stable dictionary form; nothing here draws or writes files.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, replace
from typing import Any

GRID = 4
"""Cells per side. Sixteen cells of 16 pixels fill a 64 x 64 picture: one token of the tiny editor and judge each."""

KINDS = ("circle", "square", "triangle", "cross")
SIZES = ("small", "large")
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (220, 45, 45),
    "green": (45, 160, 70),
    "blue": (50, 90, 225),
    "yellow": (245, 205, 45),
    "purple": (155, 60, 195),
    "cyan": (60, 200, 215),
}
GROUNDS: dict[str, tuple[int, int, int]] = {
    "white": (250, 250, 250),
    "grey": (165, 165, 165),
    "black": (25, 25, 25),
    "brown": (115, 80, 55),
}


@dataclass(frozen=True, order=True)
class Shape:
    """One shape: what it is and in which cell it lies. `row` and `column` count from 0 at the top left."""

    kind: str
    colour: str
    size: str
    row: int
    column: int

    @property
    def cell(self) -> tuple[int, int]:
        """The (row, column) that the shape fills."""
        return (self.row, self.column)

    @property
    def look(self) -> tuple[str, str, str]:
        """Kind, colour and size: everything but the place."""
        return (self.kind, self.colour, self.size)

    def at(self, cell: tuple[int, int]) -> Shape:
        """Return the same shape in another cell."""
        return replace(self, row=cell[0], column=cell[1])


@dataclass(frozen=True)
class Scene:
    """A ground and the shapes on it, at most one a cell, kept sorted so that equal scenes compare equal."""

    ground: str
    shapes: tuple[Shape, ...]

    def __post_init__(self) -> None:
        """Sort the shapes and refuse two in one cell."""
        object.__setattr__(self, "shapes", tuple(sorted(self.shapes)))
        if len({shape.cell for shape in self.shapes}) != len(self.shapes):
            raise ValueError(f"expected at most one shape a cell, got {self.shapes}")

    def cells(self) -> dict[tuple[int, int], tuple[str, str, str]]:
        """Map each filled cell to the look of its shape."""
        return {shape.cell: shape.look for shape in self.shapes}

    def without(self, *removed: Shape) -> Scene:
        """Return the scene without the given shapes."""
        return Scene(self.ground, tuple(shape for shape in self.shapes if shape not in removed))

    def with_shapes(self, *added: Shape) -> Scene:
        """Return the scene with more shapes."""
        return Scene(self.ground, (*self.shapes, *added))

    def empty_cells(self) -> list[tuple[int, int]]:
        """Return the cells without a shape, row by row."""
        filled = self.cells()
        return [(row, column) for row in range(GRID) for column in range(GRID) if (row, column) not in filled]

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data; `Scene.from_dict` reads it back."""
        return {"ground": self.ground, "shapes": [asdict(shape) for shape in self.shapes]}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Scene:
        """Read what `to_dict` wrote."""
        return Scene(data["ground"], tuple(Shape(**shape) for shape in data["shapes"]))


def sample_scene(rng: random.Random) -> Scene:
    """Draw a scene of two to four shapes, no two of the same kind and colour, so that names are unambiguous."""
    count = rng.randint(2, 4)
    names = rng.sample([(kind, colour) for kind in KINDS for colour in COLOURS], count)
    cells = rng.sample([(row, column) for row in range(GRID) for column in range(GRID)], count)
    shapes = [
        Shape(kind, colour, rng.choice(SIZES), row, column)
        for (kind, colour), (row, column) in zip(names, cells, strict=True)
    ]
    return Scene(rng.choice(list(GROUNDS)), tuple(shapes))
