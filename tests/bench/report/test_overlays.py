"""Drawings over pictures: places in the picture's own pixels, words that do not cover each other, texts escaped."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.report.blocks import Link, Mark, Overlay
from bench.report.overlays import LETTER_SHARE, TEXT_SHARE, overlay_svg

HOSTILE = "<b onload='x'>\"&"


def elements(svg: str, name: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(svg).iter(name))


def test_boxes_stand_where_they_are_and_are_cut_at_the_edges() -> None:
    overlay = Overlay((200, 100), [Mark((10, 20, 60, 70), "one", 0), Mark((-5, 50, 400, 120), "", None, "nobody")])
    first, second = elements(overlay_svg(overlay, "faces"), "rect")
    assert [float(first.attrib[key]) for key in ("x", "y", "width", "height")] == [10, 20, 50, 50]
    assert [float(second.attrib[key]) for key in ("x", "y", "width", "height")] == [0, 50, 200, 50]
    assert "stroke-dasharray" in second.attrib
    assert second.find("title") is not None
    assert 'viewBox="0 0 200 100"' in overlay_svg(overlay, "faces")


def test_shade_covers_the_marked_cells_alone() -> None:
    cells = elements(overlay_svg(Overlay((40, 20), shade=["##..", "...#"]), "background"), "rect")
    found = [tuple(float(cell.attrib[key]) for key in ("x", "y", "width", "height")) for cell in cells]
    assert found == [(0, 0, 20, 10), (30, 10, 10, 10)]


def test_lines_join_the_middles_and_lie_below_each_other() -> None:
    marks = [Mark((0, 0, 20, 20), ""), Mark((60, 0, 100, 20), "")]
    links = [Link(0, 1, True, "a"), Link(1, 0, False, "b"), Link(0, 1, None)]
    lines = elements(overlay_svg(Overlay((100, 100), marks, links), "x"), "line")
    assert [(line.attrib["x1"], line.attrib["x2"]) for line in lines] == [
        ("10.0", "80.0"),
        ("80.0", "10.0"),
        ("10.0", "80.0"),
    ]
    assert [float(line.attrib["y1"]) for line in lines] == [10, 12.5, 15]
    assert ["stroke-dasharray" in line.attrib for line in lines] == [False, True, True]


def test_texts_are_escaped() -> None:
    marks = [Mark((0, 40, 9, 60), HOSTILE, 1, HOSTILE), Mark((20, 0, 30, 9), "b", 2)]
    svg = overlay_svg(Overlay((90, 90), marks, [Link(0, 1, None, HOSTILE)]), HOSTILE)
    root = ElementTree.fromstring(svg)  # as XML, which a tag in a text would break
    assert root.attrib["aria-label"] == HOSTILE
    assert [text.text for text in root.iter("text")] == [HOSTILE, "b"]
    assert [title.text for title in root.iter("title")] == [HOSTILE, HOSTILE]
    assert not re.search(r"<b ", svg)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 440), st.integers(0, 300)), min_size=1, max_size=5))
def test_words_neither_cover_each_other_nor_leave_a_picture_with_room(corners: list[tuple[int, int]]) -> None:
    marks = [Mark((x, y, x + 40, y + 40), f"Person {place}", place) for place, (x, y) in enumerate(corners)]
    texts = elements(overlay_svg(Overlay((480, 340), marks), "x"), "text")
    size = TEXT_SHARE * 480
    spans = [
        (float(one.attrib["x"]), float(one.attrib["y"]), LETTER_SHARE * size * len(one.text or "")) for one in texts
    ]
    assert len(spans) == len(marks)
    for place, (x, y, length) in enumerate(spans):
        assert 0 <= x <= 480 - length + 1
        assert size * 0.9 <= y <= 340 + size
        for other_x, other_y, other_length in spans[:place]:
            assert x >= other_x + other_length - 0.2 or other_x >= x + length - 0.2 or abs(y - other_y) >= size - 0.2


@pytest.mark.parametrize(
    "overlay",
    [
        Overlay((0, 10)),
        Overlay((10, 10), shade=["#", "##"]),
        Overlay((10, 10), [Mark((0, 0, 1, 1), "")], [Link(0, 1, True)]),
    ],
)
def test_what_cannot_be_drawn_is_refused(overlay: Overlay) -> None:
    with pytest.raises(ValueError, match="expected"):
        overlay_svg(overlay, "x")
