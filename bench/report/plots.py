"""Small drawings for a report: curves with bands, histograms, bars with intervals, radars. Each returns an SVG text.

The SVG stands inside the page: its text is text, its neutral lines take the page's colour (so dark mode works), and
nothing in it points outside. Drawn with matplotlib's figure objects, not pyplot, so no global state is left behind.
"""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import fill

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.projections.polar import PolarAxes
from matplotlib.ticker import MaxNLocator, NullLocator

from gnomon.hashing import stable_hash

__all__ = ["Bar", "Series", "plot_bars", "plot_curves", "plot_grouped_bars", "plot_histogram", "plot_radar"]

# Mid tones that keep contrast on white and on near-black, told apart by brightness too; lines also differ in style.
COLOURS = ("#2f7fc1", "#d9722e", "#2a9d78", "#b65fa5", "#9a8a1f", "#7d6be0")
LINE_STYLES = ("-", "--", "-.", ":")
MAX_SERIES = len(COLOURS)  # what a reader can tell apart in one drawing
WIDTH, HEIGHT = 4.5, 3.2  # inches; as wide as a phone, so that text is not scaled down there
INK = "#010203"
"""Of texts and neutral lines; drawn nowhere else, so that it becomes the page's text colour."""
in_our_style = rc_context({"svg.fonttype": "none", "svg.hashsalt": "gnomon", "text.parse_math": False})


@dataclass(frozen=True)
class Series:
    """One curve: y over x [n], with an optional band from `low` to `high` [n]. None or NaN is a gap."""

    label: str
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Bar:
    """One bar; `low` and `high` are the ends of its interval, None where there is none."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


@in_our_style
def plot_curves(
    series: Sequence[Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    logarithmic: bool = False,
    from_zero: bool = False,
) -> str:
    """Draw curves with their bands.

    Args:
        series: at least one.
        title: of the drawing.
        x_label: what x is.
        y_label: what y is.
        logarithmic: puts equal ratios of x (> 0) equally far apart.
        from_zero: shows zero as well, so that a difference looks as large as it is.

    Raises:
        ValueError: for no series, or lengths that differ within one.
    """
    if not series:
        raise ValueError(f"expected at least one series for {title!r}, got none")
    figure, axes = _axes(title, x_label, y_label)
    for position, one in enumerate(series):
        x, y = np.asarray(one.x, dtype=float), _numbers(one.y)
        if x.shape != y.shape:
            raise ValueError(f"expected as many x as y in series {one.label!r}, got {len(x)} and {len(y)}")
        colour = COLOURS[position % len(COLOURS)]
        if one.low is not None and one.high is not None:
            axes.fill_between(x, _numbers(one.low), _numbers(one.high), color=colour, alpha=0.18, linewidth=0)
        style = LINE_STYLES[position % len(LINE_STYLES)]
        axes.plot(x, y, style, color=colour, label=one.label, linewidth=1.8, marker="o", markersize=3)
    if logarithmic:
        axes.set_xscale("log")
        known = sorted({float(value) for one in series for value in one.x})
        axes.set_xticks(known, [f"{value:g}" for value in known])
        axes.xaxis.set_minor_locator(NullLocator())
    elif all(float(value).is_integer() for one in series for value in one.x):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.ticklabel_format(axis="y", useOffset=False)
    if from_zero:
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, 0), max(high, 0))
    _legend(figure, len(series))
    return svg_of(figure, title)


@in_our_style
def plot_histogram(
    groups: Mapping[str, Sequence[float]], *, title: str, x_label: str, y_label: str = "share", bins: int = 20
) -> str:
    """Draw the distribution of each group as shares of that group, over common bins.

    Raises:
        ValueError: when no group holds a number.
    """
    filled = {label: np.asarray(values, dtype=float) for label, values in groups.items() if len(values)}
    if not filled:
        raise ValueError(f"expected at least one number for {title!r}, got none")
    edges = np.histogram_bin_edges(np.concatenate(list(filled.values())), bins=bins)
    figure, axes = _axes(title, x_label, y_label)
    for position, (label, values) in enumerate(filled.items()):
        colour = COLOURS[position % len(COLOURS)]
        shares = np.histogram(values, bins=edges)[0] / len(values)
        axes.stairs(shares, edges, color=colour, fill=True, alpha=0.25)
        style = LINE_STYLES[position % len(LINE_STYLES)]
        axes.stairs(shares, edges, color=colour, linestyle=style, linewidth=1.6, label=f"{label} (n = {len(values)})")
    _legend(figure, len(filled))
    return svg_of(figure, title)


@in_our_style
def plot_bars(bars: Sequence[Bar], *, title: str, x_label: str) -> str:
    """Draw horizontal bars, the first on top, each with its interval as a whisker.

    Raises:
        ValueError: for no bars.
    """
    if not bars:
        raise ValueError(f"expected at least one bar for {title!r}, got none")
    figure, axes = _axes(title, x_label, "", height=1.1 + 0.32 * len(bars))
    places = np.arange(len(bars))
    axes.barh(places, [bar.value for bar in bars], color=COLOURS[0], alpha=0.75, height=0.62)
    for place, bar in zip(places, bars, strict=True):
        if bar.low is not None and bar.high is not None:
            axes.plot([bar.low, bar.high], [place, place], color=INK, linewidth=1.3, marker="|", markersize=7)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(places, [shortened(bar.label) for bar in bars])
    axes.set_ylim(len(bars) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    return svg_of(figure, title)


@in_our_style
def plot_grouped_bars(groups: Sequence[str], series: Mapping[str, Sequence[Bar]], *, title: str, x_label: str) -> str:
    """Draw a horizontal bar of every series for each group, the first on top; a group that a series lacks stays empty.

    Args:
        groups: names in their order.
        series: bars by the label of their series, each bar labelled with its group.
        title: of the drawing.
        x_label: what the length of a bar is.

    Raises:
        ValueError: for no groups or series, or more series than can be told apart.
    """
    if not groups or not 1 <= len(series) <= MAX_SERIES:
        raise ValueError(
            f"expected groups and 1 to {MAX_SERIES} series for {title!r}, got {len(groups)}, {len(series)}"
        )
    figure, axes = _axes(title, x_label, "", height=1.3 + (0.2 + 0.16 * len(series)) * len(groups))
    thickness = 0.8 / len(series)
    for position, (label, bars) in enumerate(series.items()):
        offset = (position - (len(series) - 1) / 2) * thickness
        places = [groups.index(bar.label) + offset for bar in bars]
        values = [bar.value for bar in bars]
        colour = COLOURS[position]
        axes.barh(places, values, color=colour, alpha=0.75, height=thickness * 0.9, label=label)
        for place, bar in zip(places, bars, strict=True):
            if bar.low is not None and bar.high is not None:
                axes.plot([bar.low, bar.high], [place, place], color=INK, linewidth=1, marker="|", markersize=4)
    axes.axvline(0, color=INK, linewidth=0.8)
    axes.set_yticks(range(len(groups)), [shortened(group) for group in groups])
    axes.set_ylim(len(groups) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    _legend(figure, len(series))
    return svg_of(figure, title)


@in_our_style
def plot_radar(
    spokes: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    *,
    title: str,
    highest: float | None = None,
) -> str:
    """Draw a closed line over the spokes for each series, from zero at the centre; None is a gap.

    Args:
        spokes: names, clockwise from the top.
        series: a value for each spoke, none below zero, by label.
        title: of the drawing.
        highest: what the rim stands for, so that several drawings can be compared; the largest value by default.

    Raises:
        ValueError: for fewer than three spokes, negative values, another number of values than of spokes, or more
            series than can be told apart.
    """
    if len(spokes) < 3 or not 1 <= len(series) <= MAX_SERIES:
        raise ValueError(
            f"expected 3 spokes and 1 to {MAX_SERIES} series for {title!r}, got {len(spokes)}, {len(series)}"
        )
    figure = Drawing(figsize=(WIDTH, 3.7), layout=ConstrainedLayoutEngine(w_pad=0.12))
    axes = figure.add_subplot(projection="polar")
    assert isinstance(axes, PolarAxes)
    figure.suptitle(title, color=INK, fontsize=11, x=0.01, horizontalalignment="left", wrap=True)
    axes.set_theta_zero_location("N")
    axes.set_theta_direction(-1)
    angles = np.linspace(0, 2 * np.pi, len(spokes), endpoint=False)
    for position, (label, values) in enumerate(series.items()):
        numbers = _numbers(values)
        if numbers.shape != angles.shape or np.nanmin(numbers, initial=0.0) < 0:
            raise ValueError(f"expected {len(spokes)} values of at least 0 in series {label!r}, got {list(values)}")
        style = LINE_STYLES[position % len(LINE_STYLES)]
        closed = np.append(angles, angles[0]), np.append(numbers, numbers[0])
        axes.plot(*closed, style, color=COLOURS[position], linewidth=1.8, marker="o", markersize=3.5, label=label)
        if len(series) == 1 and not np.isnan(numbers).any():
            axes.fill(*closed, color=COLOURS[position], alpha=0.15)
    axes.set_ylim(bottom=0, top=highest)
    axes.set_xticks(angles, [fill(shortened(spoke.replace("_", " "), 36), 12) for spoke in spokes])
    axes.tick_params(axis="x", colors=INK, labelsize=9)
    axes.tick_params(axis="y", labelsize=8, labelcolor=INK)
    axes.yaxis.set_major_locator(MaxNLocator(3))
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    axes.spines["polar"].set_color(INK)
    axes.spines["polar"].set_alpha(0.3)
    _align_spokes(axes, angles)
    if len(series) > 1:
        _legend(figure, len(series))
    return svg_of(figure, title)


def _align_spokes(axes: PolarAxes, angles: np.ndarray) -> None:
    """Let the names at the sides begin or end at the circle, so that they do not lie over it."""
    for text, angle in zip(axes.get_xticklabels(), angles, strict=True):
        side = np.sin(angle)
        text.set_horizontalalignment("center" if abs(side) < 0.1 else "left" if side > 0 else "right")


def _axes(title: str, x_label: str, y_label: str, height: float = HEIGHT) -> tuple[Drawing, Axes]:
    """Return an empty drawing with labels and quiet axes."""
    figure = Drawing(figsize=(WIDTH, height), layout="constrained")
    axes = figure.add_subplot()
    figure.suptitle(title, color=INK, fontsize=11, x=0.01, horizontalalignment="left", wrap=True)
    axes.set_xlabel(x_label, color=INK, fontsize=10)
    axes.set_ylabel(y_label, color=INK, fontsize=10)
    axes.tick_params(colors=INK, labelsize=9.5)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(INK)
    return figure, axes


def _legend(figure: Drawing, count: int) -> None:
    """Put the legend below the axes, where it can cover no curve."""
    figure.legend(loc="outside lower center", ncols=min(count, 2), frameon=False, fontsize=9.5, labelcolor=INK)


def _numbers(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=float)


def shortened(label: str, limit: int = 24) -> str:
    """Return a label of at most `limit` characters."""
    return label if len(label) <= limit else label[: limit - 1] + "…"


def svg_of(figure: Drawing, title: str) -> str:
    """Return the drawing as an `<svg>` element for inline use, with ids that no other drawing of a page shares."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    drawing = buffer.getvalue()
    svg = re.sub(r"<metadata>.*?</metadata>", "", drawing[drawing.index("<svg") :], flags=re.DOTALL)
    svg = re.sub(r' xmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href").replace(INK, "currentColor")
    svg = re.sub(r"font-family: [^;]*; ", "", svg)  # the page's font
    prefix = stable_hash(svg)[:10]
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>d{prefix}-", svg)
    return svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
