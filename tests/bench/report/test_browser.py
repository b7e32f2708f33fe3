"""The pages in a real headless Chromium: they fit, answer the keyboard, run nothing and ask nobody."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from bench.report.leaderboard import write_leaderboard_page
from bench.report.pages import write_comparison_page, write_run_page
from bench.workflow import compare

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# No sandbox, since tests may run as root; the others keep the browser itself from asking anybody.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
PAGES = ("run", "leaderboard", "comparison")
CHECKLIST_PAGES = ("checklists", "leaderboard of checklists")
SCENE_PAGES = ("scenes", "leaderboard of scenes")
ALL_PAGES = PAGES + CHECKLIST_PAGES + SCENE_PAGES
WIDTHS = (400, 1400)
HEIGHT = 900


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Return a running Chromium."""
    playwright: Any = pytest.importorskip("playwright.sync_api", reason="needs the package playwright (extra dev)")
    if CHROMIUM is None:
        pytest.skip("needs Chromium, such as by `apt-get install chromium`")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def pages(
    judged_runs: tuple[Path, Path],
    checklist_runs: tuple[Path, Path],
    scene_runs: tuple[Path, Path],
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Path]:
    """Return the pages of one run, of both, and of their comparison; the first two of checklists and scenes, too."""
    first, second = judged_runs
    folder = tmp_path_factory.mktemp("pages")
    comparison = compare(first, second, folder / "comparison")
    return {
        "run": write_run_page(second),
        "leaderboard": write_leaderboard_page([first, second], folder / "leaderboard"),
        "comparison": write_comparison_page(first, second, folder / "comparison", comparison),
        "checklists": write_run_page(checklist_runs[1], num_examples=4),
        "leaderboard of checklists": write_leaderboard_page(checklist_runs, folder / "checklists", num_examples=4),
        "scenes": write_run_page(scene_runs[1], num_examples=2),
        "leaderboard of scenes": write_leaderboard_page(scene_runs, folder / "scenes", num_examples=2),
    }


@pytest.fixture
def show(browser: Browser, pages: dict[str, Path]) -> Iterator[Any]:
    """Return a function that opens a page; a request to anywhere or a failing script fails the test."""
    opened: list[Page] = []
    requests: list[str] = []
    problems: list[str] = []

    def open_page(name: str, width: int, scheme: Any = "light") -> Page:
        page = browser.new_page(viewport={"width": width, "height": HEIGHT}, color_scheme=scheme)
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("dialog", lambda dialog: problems.append(dialog.message))
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.goto(pages[name].as_uri())
        opened.append(page)
        return page

    yield open_page
    outside = [url for url in requests if not url.startswith(("file:", "data:"))]
    files = [url for url in requests if url.startswith("file:")]
    for page in opened:
        page.close()
    assert (outside, problems) == ([], [])
    assert len(files) == len(opened), "nothing but the page itself"


def screenshot(page: Page) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), np.int16)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL_PAGES)
def test_a_page_fits_its_window_and_is_drawn_in_the_asked_scheme(show: Any, name: str, width: int, scheme: str) -> None:
    page = show(name, width, scheme)
    for details in page.query_selector_all("details"):
        details.evaluate("element => element.open = true")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    beyond = page.evaluate(
        """() => [...document.querySelectorAll("main *")].filter(element => !element.closest(".scroll table, svg")
            && element.getBoundingClientRect().right > innerWidth + 1).map(element => element.outerHTML.slice(0, 99))"""
    )
    assert beyond == []
    pixels = screenshot(page)
    assert pixels.shape == (HEIGHT, width, 3)
    background = pixels[1, 1]
    assert (background.mean() < 64) == (scheme == "dark")
    inked = (np.abs(pixels - background).max(axis=-1) > 64).mean()
    assert 0.005 < inked < 0.6, "texts and drawings, and room around them"


@pytest.mark.parametrize("name", PAGES)
def test_hostile_texts_are_shown_as_texts_and_nothing_runs(show: Any, name: str) -> None:
    page = show(name, 1400)
    assert page.query_selector_all("script, [onerror], img[src='x']") == []
    assert page.title() != "run"
    text = page.inner_text("main")
    assert "<script>document.title = 'run'</script> \"make\" it & <img src=x onerror=alert(1)> brighter" in text
    assert "plain <b>copy</b>" in page.inner_text("body") or name == "run"
    assert "case <case> '1" in text
    for summary in page.query_selector_all(".row summary"):
        summary.click()
    rationale = "<script>document.title = 'run'</script> \"bright\" & <b>clean</b>"
    assert rationale in page.inner_text("main")


@pytest.mark.parametrize("name", ALL_PAGES)
def test_every_picture_and_drawing_has_a_name_and_every_id_is_its_own(show: Any, name: str) -> None:
    page = show(name, 1400)
    assert len(page.query_selector_all("img")) >= 12
    unnamed = "img:not([alt]), img[alt=''], svg:not([aria-label]), svg[aria-label=''], .scroll:not([aria-label])"
    assert page.query_selector_all(unnamed) == []
    assert page.evaluate("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(element => element.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ALL_PAGES)
def test_the_keyboard_reaches_all_that_can_be_used(show: Any, name: str, width: int) -> None:
    page = show(name, width)
    for details in page.query_selector_all("details"):  # what is folded is reached once it is opened
        details.evaluate("element => element.open = true")
    wanted = page.evaluate("document.querySelectorAll('a[href], .scroll, summary').length")
    page.evaluate("window.seen = new Set()")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left >= 0"), "it is seen once it has the focus"
    for _ in range(wanted):
        page.evaluate("seen.add(document.activeElement)")
        page.keyboard.press("Tab")
    reached = page.evaluate("[...seen].filter(element => element.matches('a[href], .scroll, summary')).length")
    assert reached == wanted


def test_the_skip_link_leads_past_the_navigation(show: Any) -> None:
    page = show("leaderboard", 400)
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "content"
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main') !== null")


def test_a_wide_table_scrolls_in_its_box_by_the_keyboard_and_keeps_the_names_of_its_rows(show: Any) -> None:
    page = show("leaderboard", 400)
    box = page.locator(".scroll").nth(1)
    assert box.evaluate("element => element.scrollWidth > element.clientWidth")
    head = box.locator("tbody th").first
    before = head.bounding_box()
    box.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    page.wait_for_function("element => element.scrollLeft > 50", arg=box.element_handle())
    after = head.bounding_box()
    assert (after["x"], after["width"]) == (before["x"], before["width"])


def test_a_rationale_opens_by_the_keyboard(show: Any) -> None:
    page = show("run", 400)
    summary = page.locator(".row summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.locator(".row details").first.evaluate("element => element.open")


@pytest.mark.parametrize("name", CHECKLIST_PAGES)
def test_a_checklist_opens_with_answers_and_reasons_as_texts(show: Any, name: str) -> None:
    page = show(name, 400)
    assert page.query_selector_all("script, [onerror], img[src='x'], td b") == []
    summary = page.locator(".row summary").first
    assert "Checklist by rules" in summary.inner_text()
    summary.focus()
    page.keyboard.press("Enter")
    table = page.locator(".row details").first.locator("table")
    cells = table.locator("tbody tr").first.locator("th, td").all_inner_texts()
    assert cells[0].startswith("Is the hat of person 0 <script>document.title = 'run'</script>")
    assert cells[1].split("\n")[0].strip() in ("yes: right", "no: wrong", "refused")
    assert "because of <b>following-0</b>" in cells[1]
    assert cells[2:] == ["yes", "following", "global"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_numbers_of_a_heat_map_can_be_read_on_their_cells(show: Any, scheme: str) -> None:
    """By WCAG's contrast of the texts with every cell, as it is blended with the page."""
    page = show("checklists", 1400, scheme)
    drawing = page.locator("svg", has_text="infographic").first
    found = drawing.evaluate(
        """element => [...element.querySelectorAll("path")].map(path => getComputedStyle(path))
            .map(style => [style.fill, style.opacity, style.fillOpacity])
            .filter(([fill]) => fill !== "none")"""
    )
    ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
    contrasts = [contrast(ink, blended(fill, float(one) * float(two), paper)) for fill, one, two in found]
    assert len(contrasts) >= 25
    assert min(contrasts) > 4.5


def channels(colour: str) -> np.ndarray:
    return np.array([float(part) for part in colour[colour.index("(") + 1 : -1].split(",")[:3]]) / 255


def blended(fill: str, opacity: float, paper: str) -> np.ndarray:
    return opacity * channels(fill) + (1 - opacity) * channels(paper)


def contrast(ink: str, ground: np.ndarray) -> float:
    """The ratio of relative luminances of WCAG 2.2."""

    def luminance(colour: np.ndarray) -> float:
        linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    lighter, darker = sorted((luminance(channels(ink)), luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("width", WIDTHS)
def test_what_was_found_lies_where_it_is_in_the_picture(show: Any, width: int) -> None:
    """Faces of the drawn scenes stand at known places: a box's sides on the screen are theirs, scaled."""
    page = show("scenes", width)
    for details in page.query_selector_all("details"):
        details.evaluate("element => element.open = true")
    drawn = page.evaluate(
        """() => [...document.querySelectorAll(".seen svg")].map(svg => {
            const picture = svg.parentElement.querySelector("img").getBoundingClientRect();
            const boxes = [...svg.querySelectorAll("rect[stroke]")].map(box => box.getBoundingClientRect());
            return {scale: picture.width / 480, left: picture.left, width: picture.width, overlay: svg.clientWidth,
                    boxes: boxes.map(box => [(box.left - picture.left), box.width])};
        })"""
    )
    assert len(drawn) >= 4
    boxes = [(one, box) for one in drawn for box in one["boxes"]]
    assert boxes
    for one, (left, across) in boxes:
        assert abs(one["overlay"] - one["width"]) <= 2
        places = [20 + 92 * k for k in range(5)], [28 + 92 * k for k in range(5)]
        assert min(abs(left / one["scale"] - place) for place in (*places[0], *places[1])) < 4
        assert min(abs(across / one["scale"] - known) for known in (56, 41)) < 6
    texts = page.evaluate("[...document.querySelectorAll('.seen text')].map(text => text.textContent)")
    assert any(text.startswith("Bob <b>") for text in texts)
    beyond = page.evaluate(
        """() => [...document.querySelectorAll(".seen text")].filter(text => {
            const words = text.getBoundingClientRect(), picture = text.closest(".seen").getBoundingClientRect();
            return words.right > picture.right + 4 || words.left < picture.left - 4 || words.top < picture.top - 4;
        }).map(text => text.textContent)"""
    )
    assert beyond == []
