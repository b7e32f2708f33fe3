"""Runs by English and by Chinese instructions on one page: the gap by hand, and what has none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from bench.folder import BenchRun
from bench.report.examples import JudgedRun
from bench.report.languages import language_pairs
from bench.report.leaderboard import write_leaderboard_page
from bench.workflow import generate, judge
from gnomon.datasets import read_cases, write_records
from gnomon.records import Text
from tests.bench.report.test_leaderboard import rows

MakeRun = Callable[..., Path]
GAP = "Chinese minus English"


@pytest.fixture
def make_run(make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path) -> MakeRun:
    """Return a function that makes a judged run of six cases, of which the last has no Chinese instruction."""
    root = make_dataset(6)
    cases = read_cases(root)
    both = [case.model_copy(update={"instruction": Text(en="brighter", zh="更亮")}) for case in cases[:5]]
    write_records(root / "cases.jsonl", [*both, cases[5]])

    def make(name: str, language: str | None, shift: int = 0, folder: str = "") -> Path:
        run = tmp_path / (folder or f"{name}-{language}")
        generator = brightness.NoisyCopy(shift)
        generator.language = language
        generate(root, run, generator, name=name)
        judge(run, brightness.BrightnessJudge())
        return run

    return make


def test_each_language_has_its_table_and_each_generator_its_gap(
    make_run: MakeRun, brightness: ModuleType, tmp_path: Path
) -> None:
    runs = [make_run("even", "en"), make_run("even", "zh"), make_run("odd", "en"), make_run("odd", "zh", 51)]
    (runs[3] / "images/case-0_0.png").unlink()
    judge(runs[3], brightness.BrightnessJudge(name="again", version=2))
    for run in runs[:3]:
        judge(run, brightness.BrightnessJudge(name="again", version=2))
    html = write_leaderboard_page([*runs, make_run("old", None)], tmp_path / "out").read_text()
    names = {
        language: [row[0] for row in rows(html, f"Means over all cases, judged by brightness, {language}")]
        for language in ("by English instructions", "by Chinese instructions", "language of the instructions not known")
    }
    assert [len(found) for found in names.values()] == [2, 2, 1]
    assert names["by Chinese instructions"] == ["odd (odd-zh)", "even (even-zh)"]
    # A picture that is 51 of 255 brighter throughout: 0.2 whatever the case. Five cases have both instructions.
    (odd,) = (row for row in rows(html, f"{GAP}, judged by brightness") if row[0] == "odd")
    assert float(odd[2]) - float(odd[1]) == pytest.approx(0.2, abs=0.0011)
    assert odd[3:] == ["0.200 0.200 to 0.200 5 pairs"] * 2
    (again,) = (row for row in rows(html, f"{GAP}, judged by again") if row[0] == "odd")
    assert again[3] == "0.200 0.200 to 0.200 4 pairs 1 unpaired"
    assert [row[1:] for row in rows(html, f"{GAP}: brightness by task") if row[0] == "odd"] == [
        ["0.200 0.200 to 0.200 2 pairs 1 unpaired", "0.200 0.200 to 0.200 2 pairs"]
    ]
    (even,) = (row for row in rows(html, f"{GAP}, judged by brightness") if row[0] == "even")
    assert even[3] == "0.000 0.000 to 0.000 5 pairs"


def test_only_one_run_in_each_language_makes_a_gap(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("a", "en"), make_run("a", "zh"), make_run("a", "zh", 9, folder="second")]
    runs += [make_run("b", "en"), make_run("c", "mixed")]
    pairs, several = language_pairs([JudgedRun.read(BenchRun.read(run)) for run in runs])
    assert (pairs, several) == ([], ["a"])
    html = write_leaderboard_page(runs, tmp_path / "out").read_text()
    assert "Without a gap, since there are several runs in one language: a." in html
    html = write_leaderboard_page([runs[0], runs[3]], tmp_path / "other").read_text()
    assert GAP not in html
    assert "Means over all cases, judged by brightness</figcaption>" in html
