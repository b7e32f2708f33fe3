"""The page: escaped, self-contained, and whole whatever happened to a picture."""

from __future__ import annotations

import base64
import io
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from PIL import Image

from bench.report import Figure, Gallery, GalleryRow, Picture, PictureGroup, Report, Table, Tile
from bench.report.blocks import Cell
from bench.report.plots import Series, plot_curves
from gnomon.statistics import Estimate

ATTACK = "<script>alert('x')</script> \" onload=\"alert(1) & http://example.org/a_b"
VOID = {"meta", "img", "br", "wbr", "link", "input"}


class Outline(HTMLParser):
    """Collects tags, attributes and visible texts, and checks that tags close in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def page_with(text: str, image: Image.Image | Path | None) -> Report:
    """Return a report in which `text` stands wherever a text can stand."""
    page = Report(text, lead=text).add_section(text, text).add_section("a").add_section("b")
    page.add_tiles([Tile(text, text, text, "good")])
    page.add_table(Table(text, [text, "n"], [[text, 3], [text, None]], note=text))
    svg = plot_curves([Series(text, [0, 1], [0, 1])], title=text, x_label=text, y_label=text)
    page.add_figures([Figure(svg, text)])
    picture = Picture(image, text, {text: 0.5, "judge": text})
    return page.add_gallery(Gallery(text, [GalleryRow(text, [PictureGroup(text, [picture])], note=text)]))


def test_texts_are_escaped_wherever_they_stand() -> None:
    html = page_with(ATTACK, Image.new("RGB", (4, 4))).render()
    outline = Outline(html)
    assert "script" not in outline.tags
    assert not any(name.startswith("on") for name, _ in outline.attributes)
    assert "<script" not in html
    assert "".join(outline.texts).count("<script>alert('x')</script>") >= 15


def test_nothing_points_outside_the_page() -> None:
    html = page_with("plain", Image.new("RGB", (4, 4))).render()
    assert "http://" not in html
    assert "https://" not in html
    assert "//" not in re.sub(r"base64,[A-Za-z0-9+/=]+", "", html)
    for name, value in Outline(page_with(ATTACK, None).render()).attributes:
        if name in ("src", "href", "xlink:href", "action", "data", "poster", "srcset", "background"):
            assert value is not None
            assert value.startswith(("#", "data:image/png;base64,", "data:image/webp;base64,"))
    assert re.search(r"url\((?!#)", html) is None
    assert "@import" not in html


def test_drawings_of_one_page_share_no_ids() -> None:
    page = Report("x").add_section("y")
    for title in ("first", "second"):
        svg = plot_curves([Series("a", [0, 1], [0, 1])], title=title, x_label="x", y_label="y")
        page.add_figures([Figure(svg, title)])
    ids = [value for name, value in Outline(page.render()).attributes if name == "id"]
    assert len(ids) == len(set(ids))


def test_pictures_are_small_and_inside_the_page() -> None:
    page = Report("x").add_section("y")
    wide, tiny = Image.new("RGB", (1000, 500), "red"), Image.new("RGB", (64, 64), "blue")
    page.add_gallery(Gallery("g", [GalleryRow("i", [PictureGroup("t", [Picture(wide, "w"), Picture(tiny, "t")])])]))
    html = page.render()
    uris = re.findall(r'src="data:image/(?:png|webp);base64,([^"]+)"', html)
    pictures = [Image.open(io.BytesIO(base64.b64decode(uri))) for uri in uris]
    assert [picture.size for picture in pictures] == [(256, 128), (64, 64)]
    assert pictures[1].convert("RGB").getpixel((5, 5)) == (0, 0, 255)
    assert html.count('class="small"') == 1


def test_a_missing_or_broken_picture_is_said_and_the_page_comes_out(tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no picture")
    for image, said in (
        (None, "no picture"),
        (tmp_path / "nowhere.png", "picture missing"),
        (tmp_path / "broken.png", "unreadable"),
    ):
        assert f'<div class="none">{said}</div>' in page_with("x", image).render()


def test_table_cells_show_intervals_and_dashes() -> None:
    rows: list[list[Cell]] = [["a", Estimate(-0.5, -0.75, 0.125, 10, 5)], ["b", None]]
    rows.append(["c", Estimate(1.0, None, None, 1, 1)])
    html = Report("x").add_section("y").add_table(Table("t", ["name", "mean"], rows)).render()
    assert ">−0.500 <span" in html
    assert "−0.750 to 0.125" in html
    assert ">–</td>" in html
    assert "no interval" in html
    assert '<th scope="col" class="number">mean</th>' in html


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 2 cells in row 1"):
        Table("t", ["a", "b"], [[1, 2], [1]])


def test_a_block_before_any_section_is_refused() -> None:
    with pytest.raises(ValueError, match="add_section"):
        Report("x").add_tiles([Tile("a", "b")])


def test_write_returns_the_path_of_the_whole_page(tmp_path: Path) -> None:
    path = page_with("x", None).write(tmp_path / "deep/report.html")
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
