"""The report itself: collect sections of blocks, render them with jinja2, write one HTML file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bench.report.blocks import Figure, Gallery, Table, Tile
from bench.report.formatting import Shown, is_numeric_column, show, show_score
from bench.report.overlays import overlay_svg
from bench.report.thumbnails import thumbnail
from gnomon.files import atomic_write_text

LONGEST_WORD = 24  # characters that are not broken


@dataclass(frozen=True)
class _Block:
    kind: str
    content: object


@dataclass
class _Section:
    title: str
    lead: str
    blocks: list[_Block] = field(default_factory=list)


@dataclass
class Report:
    """A page under construction; every `add_...` returns the report, so calls chain.

    Blocks go into the section that was begun last. All texts are escaped; only the `svg` of a figure is not.

    Example:
        >>> page = Report("My run", lead="What was measured.").add_section("Scores")
        >>> page.add_tiles([Tile("success", "0.42", "n = 240")]).render().startswith("<!doctype html>")
        True
    """

    title: str
    lead: str = ""
    sections: list[_Section] = field(default_factory=list)

    def add_section(self, title: str, lead: str = "") -> Report:
        """Begin a section."""
        self.sections.append(_Section(title, lead))
        return self

    def add_tiles(self, tiles: Sequence[Tile]) -> Report:
        """Add a row of key figures."""
        return self._add("tiles", tiles)

    def add_table(self, table: Table) -> Report:
        """Add a table."""
        return self._add("table", table)

    def add_figures(self, figures: Sequence[Figure], *, fold: str = "") -> Report:
        """Add figures, side by side where there is room; with `fold`, under that title until a reader opens it."""
        return self._add("figures", {"figures": figures, "fold": fold}) if figures else self

    def add_gallery(self, gallery: Gallery) -> Report:
        """Add rows of pictures."""
        return self._add("gallery", gallery)

    def render(self) -> str:
        """Return the page as HTML."""
        environment = Environment(
            loader=PackageLoader("bench.report"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.filters.update(
            thumbnail=thumbnail,
            score=show_score,
            breakable=_breakable,
            drawing=Markup,
            laid_out=_laid_out,
            overlay=overlay_svg,
        )
        return environment.get_template("report.html").render(report=self)

    def write(self, path: str | Path) -> Path:
        """Write the page atomically and return its path.

        Raises:
            UserError: when the file cannot be written.
        """
        atomic_write_text(path, self.render())
        return Path(path)

    def _add(self, kind: str, content: object) -> Report:
        if not self.sections:
            raise ValueError(f"expected add_section(title) before the first block, got a block of {kind}")
        self.sections[-1].blocks.append(_Block(kind, content))
        return self


@dataclass(frozen=True)
class _LaidOut:
    """A table's cells as texts, and which of its columns are aligned as numbers."""

    numeric: list[bool]
    rows: list[list[Shown]]


def _laid_out(table: Table) -> _LaidOut:
    numeric = [is_numeric_column([row[column] for row in table.rows]) for column in range(len(table.columns))]
    return _LaidOut(numeric, [[show(cell) for cell in row] for row in table.rows])


def _breakable(text: str) -> Markup:
    """Return the text escaped, with leave to break lines after underscores and within long words, as names have."""
    pieces = re.findall(rf"_|[^_\s]{{1,{LONGEST_WORD}}}|\s+", text)
    breaks = ["_<wbr>" if piece == "_" else escape(piece) for piece in pieces]
    long = [len(piece) == LONGEST_WORD for piece in pieces]
    return Markup("").join(
        Markup(piece) + (Markup("<wbr>") if is_long else Markup(""))
        for piece, is_long in zip(breaks, long, strict=True)
    )
