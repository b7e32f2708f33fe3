"""What a section of a report is made of: plain data, checked where it is built, drawn by the template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from PIL import Image

from gnomon.statistics import Estimate

Tone = Literal["neutral", "good", "bad"]


@dataclass(frozen=True)
class Measured:
    """A value with its interval, None where there is none, and what limits it: coverage, partial, repeats."""

    estimate: Estimate | None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Noted:
    """A text with quieter lines below it, such as an answer with its reason."""

    text: str
    notes: Sequence[str] = ()


Cell = str | Noted | int | float | Estimate | Measured | None


@dataclass(frozen=True)
class Tile:
    """One key figure: what it is, its value as it shall be read, and a line of detail (interval, n)."""

    label: str
    value: str
    detail: str = ""
    tone: Tone = "neutral"


@dataclass(frozen=True)
class Table:
    """Rows under named columns, the first of which names the row.

    An :class:`Estimate` is shown with its interval, None as a dash.

    Raises:
        ValueError: for a row whose length is not that of `columns`.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""

    def __post_init__(self) -> None:
        for position, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"expected {len(self.columns)} cells in row {position} of table {self.caption!r}, got {len(row)}"
                )


@dataclass(frozen=True)
class Figure:
    """A drawing of :mod:`bench.report.plots` with its caption. `svg` goes into the page as it is."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Mark:
    """A box on a picture with a word about it.

    Attributes:
        box: left, top, right and bottom in pixels.
        label: shown at the box.
        colour: number of a colour, the same for what belongs together; None is quiet, for what stands for nothing.
        note: more about it, for who points at it and for screen readers.
    """

    box: tuple[float, float, float, float]
    label: str
    colour: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Link:
    """A line between two marks, by their places among them: whether what it says is right, None where nobody knows."""

    first: int
    second: int
    right: bool | None
    note: str = ""


@dataclass(frozen=True)
class Overlay:
    """What is drawn over a picture.

    Attributes:
        size: width and height that boxes are given in.
        marks: boxes.
        links: lines between them.
        shade: rows of a grid over the picture, "#" for a cell that is shaded.
    """

    size: tuple[int, int]
    marks: Sequence[Mark] = ()
    links: Sequence[Link] = ()
    shade: Sequence[str] = ()


@dataclass(frozen=True)
class Picture:
    """One picture of a gallery with what is said about it.

    `image` is a picture, its path, or None where there is none; a missing or broken file is shown as a box that says
    so. `scores` are numbers under the picture, e.g. the rewards of a candidate. A picture with an `overlay` is shown
    larger.
    """

    image: Image.Image | Path | None
    caption: str
    scores: Mapping[str, float | str | None] = field(default_factory=dict)
    highlight: bool = False
    overlay: Overlay | None = None


@dataclass(frozen=True)
class PictureGroup:
    """Pictures that belong together in a row: the sources, the candidates before, the candidates after."""

    title: str
    pictures: Sequence[Picture]


@dataclass(frozen=True)
class Detail:
    """Texts by name that are folded under one title until a reader opens it, such as the rationales of judges."""

    title: str
    texts: Mapping[str, str]


@dataclass(frozen=True)
class Findings:
    """Groups of pictures that are folded under one title until a reader opens it, such as what a judge found where."""

    title: str
    groups: Sequence[PictureGroup]


@dataclass(frozen=True)
class GalleryRow:
    """One case: its instruction, its groups of pictures from left to right, and findings, tables and texts below them.

    All of what is below is folded until a reader opens it.
    """

    instruction: str
    groups: Sequence[PictureGroup]
    note: str = ""
    details: Sequence[Detail] = ()
    tables: Sequence[Table] = ()
    findings: Sequence[Findings] = ()


@dataclass(frozen=True)
class Gallery:
    """Rows of pictures under one caption."""

    caption: str
    rows: Sequence[GalleryRow]


Block = Sequence[Tile] | Table | Sequence[Figure] | Gallery
