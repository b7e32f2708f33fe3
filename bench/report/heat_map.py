"""A heat map as SVG: a cell for each row and column, the deeper the higher, with its number in it."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill

from matplotlib.colors import to_rgba
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Rectangle

from bench.report.formatting import NOTHING
from bench.report.plots import COLOURS, INK, WIDTH, in_our_style, shortened, svg_of

FAINTEST, DEEPEST = 0.06, 0.5
"""Opacity of the lowest and highest cell: text in the page's ink keeps a contrast of 7 to 1 on both, light or dark."""


@in_our_style
def plot_heat_map(
    rows: Sequence[str], columns: Sequence[str], values: Sequence[Sequence[float | None]], *, title: str, highest: float
) -> str:
    """Draw the values as a grid, the first row on top.

    Args:
        rows: names, longest ones shortened.
        columns: names.
        values: from 0 to `highest`, by row and column; None is a cell without colour.
        title: of the drawing.
        highest: the value of the deepest colour, so that drawings of several runs can be compared.

    Raises:
        ValueError: for no rows or columns, another number of values than of places, and values out of range.
    """
    if not rows or not columns or len(values) != len(rows) or any(len(row) != len(columns) for row in values):
        raise ValueError(f"expected {len(rows)} x {len(columns)} values, at least one, for {title!r}")
    known = [value for row in values for value in row if value is not None]
    if any(not 0 <= value <= highest for value in known):
        raise ValueError(f"expected values from 0 to {highest:g} for {title!r}, got {min(known)} to {max(known)}")
    figure = Drawing(figsize=(WIDTH, 1.3 + 0.42 * len(rows)), layout="constrained")
    axes = figure.add_subplot()
    figure.suptitle(title, color=INK, fontsize=11, x=0.01, horizontalalignment="left", wrap=True)
    decimals = 1 if highest > 10 else 2  # what fits into a cell on a phone
    for down, row in enumerate(values):
        for across, value in enumerate(row):
            if value is not None:
                opacity = FAINTEST + (DEEPEST - FAINTEST) * value / highest
                colour = to_rgba(COLOURS[0], opacity)
                axes.add_patch(Rectangle((across - 0.48, down - 0.46), 0.96, 0.92, facecolor=colour, linewidth=0))
            text = NOTHING if value is None else f"{value:.{decimals}f}"
            axes.text(across, down, text, color=INK, fontsize=9.5, ha="center", va="center")
    axes.set_xlim(-0.5, len(columns) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    names = [shortened(name.replace("_", " ")) for name in columns]
    axes.set_xticks(range(len(columns)), names, rotation=35, horizontalalignment="left", rotation_mode="anchor")
    axes.set_yticks(range(len(rows)), [fill(shortened(name.replace("_", " "), 36), 18) for name in rows])
    axes.xaxis.tick_top()
    axes.tick_params(colors=INK, labelsize=9, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return svg_of(figure, title)
