"""What is drawn over a picture, as SVG in the picture's own coordinates: boxes with words, lines, a shaded grid."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from markupsafe import Markup, escape

from bench.report.blocks import Mark, Overlay
from bench.report.plots import COLOURS

QUIET = "#7a828c"
RIGHT, WRONG = "#2a9d78", "#d9482e"
"""Of lines; the second are dashed as well."""
TEXT_SHARE = 0.036  # height of letters, as a share of the picture's width: 18 px where it is 32 rem wide
SPACING = 0.025  # of lines between the same marks, as a share of the picture's height
LETTER_SHARE = 0.6  # how wide a letter is for its height, about


def overlay_svg(overlay: Overlay, title: str) -> Markup:
    """Return an `<svg>` element that lies over a picture of any size with the same shape.

    Args:
        overlay: what is drawn.
        title: of the drawing, for screen readers.

    Raises:
        ValueError: for a size below 1, a grid of unequal rows, and a link to a mark that is not there.
    """
    width, height = overlay.size
    if min(width, height) < 1 or len({len(row) for row in overlay.shade}) > 1:
        raise ValueError(f"expected a size of at least 1 and equal rows of shade, got {overlay.size}, {overlay.shade}")
    pieces = [*_shade(overlay), *(_line(overlay, place) for place in range(len(overlay.links)))]
    pieces += [_box(overlay, mark) for mark in overlay.marks]
    pieces += _labels(overlay)
    opening = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(width, height, title)
    return opening + Markup("").join(pieces) + Markup("</svg>")


def _shade(overlay: Overlay) -> Iterator[Markup]:
    """Yield a rectangle for each run of shaded cells."""
    width, height = overlay.size
    for down, row in enumerate(overlay.shade):
        across, cell_width, cell_height = 0, width / max(len(row), 1), height / len(overlay.shade)
        for cell, run in groupby(row):
            count = len(list(run))
            if cell == "#":
                place = _rect(across * cell_width, down * cell_height, count * cell_width, cell_height)
                yield Markup('<rect {} fill="#10151c" fill-opacity=".62"/>').format(place)
            across += count


def _rect(left: float, top: float, width: float, height: float) -> Markup:
    return Markup('x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"').format(left, top, width, height)


def _colour(mark: Mark) -> str:
    return QUIET if mark.colour is None else COLOURS[mark.colour % len(COLOURS)]


def _box(overlay: Overlay, mark: Mark) -> Markup:
    left, top, right, bottom = _inside(overlay, mark)
    dashed = Markup(' stroke-dasharray="4 3"') if mark.colour is None else Markup("")
    style = Markup('fill="none" stroke="{}" stroke-width="2.5" vector-effect="non-scaling-stroke"{}').format(
        _colour(mark), dashed
    )
    place = _rect(left, top, right - left, bottom - top)
    return Markup('<rect {} {} pointer-events="all">{}</rect>').format(place, style, _note(mark.note))


def _labels(overlay: Overlay) -> Iterator[Markup]:
    """Yield the words of each box, above it as far as there is room that no other words have."""
    width, height = overlay.size
    size = TEXT_SHARE * width
    taken: list[tuple[float, float, float]] = []  # left, right, baseline
    for mark in sorted(overlay.marks, key=lambda mark: mark.box):
        if not mark.label:
            continue
        left, top, right, _ = _inside(overlay, mark)
        length = LETTER_SHARE * size * len(mark.label)
        start = max(0.0, left if left + length <= width else min(right, width) - length)
        for baseline in _baselines(top, size, height):
            if not any(
                start < other_right and other_left < start + length and abs(baseline - other) < size
                for other_left, other_right, other in taken
            ):
                break
        taken.append((start, start + length, baseline))
        style = Markup('font-size="{:.1f}" font-weight="650" fill="#fff" stroke="{}" stroke-width="{:.1f}"').format(
            size, _colour(mark), 0.3 * size
        )
        yield Markup('<text x="{:.1f}" y="{:.1f}" {} stroke-linejoin="round" paint-order="stroke">{}</text>').format(
            start, baseline, style, mark.label
        )


def _baselines(top: float, size: float, height: float) -> Iterator[float]:
    """Yield where words may stand, the nearest to the top of a box first: above it, then below that line."""
    line = 1.2 * size
    above = [top - 0.3 * size - step * line for step in range(int(max(top - 0.3 * size, 0) // line) + 1)]
    yield from (place for place in above if place > size)
    yield from (top + 1.1 * size + step * line for step in range(max(1, int((height - top) // line))))


def _line(overlay: Overlay, place: int) -> Markup:
    """Return a link's line, below those of earlier links between the same marks."""
    link = overlay.links[place]
    before = sum({one.first, one.second} == {link.first, link.second} for one in overlay.links[:place])
    lower = before * SPACING * overlay.size[1]
    if max(link.first, link.second) >= len(overlay.marks) or min(link.first, link.second) < 0:
        raise ValueError(f"expected a link between two of {len(overlay.marks)} marks, got {link.first}, {link.second}")
    ends = [_middle(overlay.marks[place]) for place in (link.first, link.second)]
    colour = QUIET if link.right is None else RIGHT if link.right else WRONG
    dashed = Markup("") if link.right else Markup(' stroke-dasharray="7 4"')
    return Markup(
        '<line x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}" stroke="{}" stroke-width="3" '
        'vector-effect="non-scaling-stroke"{}>{}</line>'
    ).format(ends[0][0], ends[0][1] + lower, ends[1][0], ends[1][1] + lower, colour, dashed, _note(link.note))


def _middle(mark: Mark) -> tuple[float, float]:
    left, top, right, bottom = mark.box
    return (left + right) / 2, (top + bottom) / 2


def _inside(overlay: Overlay, mark: Mark) -> Sequence[float]:
    """Return a box cut at the picture's edges, which detectors may leave."""
    width, height = overlay.size
    left, top, right, bottom = mark.box
    left, right = sorted((min(max(left, 0.0), width), min(max(right, 0.0), width)))
    top, bottom = sorted((min(max(top, 0.0), height), min(max(bottom, 0.0), height)))
    return left, top, right, bottom


def _note(text: str) -> Markup:
    return Markup("<title>{}</title>").format(escape(text)) if text else Markup("")
