"""The page over several runs: order, coverage, what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from bench import benchmarks
from bench.benchmarks import Benchmark, Score
from bench.report import leaderboard
from bench.report.leaderboard import write_leaderboard_page
from bench.workflow import generate, judge
from gnomon.errors import UserError
from gnomon.records import Case

MakeDataset = Callable[..., Path]
MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path) -> MakeRun:
    """Return a function that makes a judged run of six cases."""
    root = make_dataset(6)

    def make(
        name: str,
        shift: int = 0,
        *,
        cases: Path = root,
        version: int = 1,
        folder: str = "",
        **selection: Any,
    ) -> Path:
        run = tmp_path / (folder or name)
        generate(cases, run, brightness.NoisyCopy(shift), name=name, **selection)
        judge(run, brightness.BrightnessJudge(version=version))
        return run

    return make


def rows(html: str, caption: str) -> list[list[str]]:
    """Return the texts of the rows of the table of that caption."""
    table = html[html.index(f"<figcaption>{caption}") :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    found = re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)
    cells = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, flags=re.DOTALL) for row in found]
    return [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in cells]


def test_runs_are_ordered_by_the_headline_and_show_interval_and_coverage(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("dim"), make_run("bright", 90), make_run("middle", 40)]
    (runs[2] / "images/case-0_0.png").unlink()
    html = write_leaderboard_page(runs, tmp_path / "out").read_text()
    overall = rows(html, "Means over all cases")
    assert [row[0] for row in overall] == ["bright", "middle", "dim"]
    assert re.fullmatch(r"0\.\d{3} 0\.\d{3} to 0\.\d{3} 6 of 6 scored", overall[0][1])
    by_task = rows(html, "brightness by task")
    assert len(by_task[0]) == 4
    light, dark = (float(cell.split()[0]) for cell in by_task[0][1:3])
    mean, low, high = (float(by_task[0][3].split()[place]) for place in (0, 1, 3))
    assert mean == pytest.approx((light + dark) / 2, abs=0.002)
    assert low < mean < high


def test_a_failed_item_is_counted_and_named(make_run: MakeRun, brightness: ModuleType, tmp_path: Path) -> None:
    runs = [make_run("a"), make_run("b", 9)]
    generate(tmp_path / "cases", tmp_path / "c", brightness.MoodyCopy({"case-3": "refused"}), name="c")
    judge(tmp_path / "c", brightness.BrightnessJudge())
    html = write_leaderboard_page([*runs, tmp_path / "c"], tmp_path / "out").read_text()
    (cell,) = (row[1] for row in rows(html, "Means over all cases") if row[0] == "c")
    assert "5 of 6 scored 1 failed" in cell
    assert ["c", "candidates", "refused", "1", "case-3", "bad mood"] in rows(html, "Failures by kind")


def test_a_run_of_fewer_cases_is_partial_blank_where_it_lacks_a_group_and_never_on_top(
    make_run: MakeRun, tmp_path: Path
) -> None:
    runs = [make_run("whole"), make_run("short", 90, limit=1)]
    html = write_leaderboard_page(runs, tmp_path / "out").read_text()
    overall = rows(html, "Means over all cases")
    assert [row[0] for row in overall] == ["whole", "short"]
    assert "1 of 1 scored partial, 5 cases not in this run" in overall[1][1]
    assert rows(html, "brightness by task")[1][2] == "–"
    assert "0.000" not in html


def test_runs_of_other_cases_are_partial_however_many_they_are(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("first", limit=4), make_run("last", 90, limit=4, offset=2)]
    overall = rows(write_leaderboard_page(runs, tmp_path / "out").read_text(), "Means over all cases")
    assert all("4 of 4 scored partial, 2 cases not in this run" in row[1] for row in overall)


def test_chosen_metrics_are_shown_in_their_order(make_run: MakeRun, tmp_path: Path) -> None:
    runs = [make_run("a"), make_run("b", 9)]
    html = write_leaderboard_page(runs, tmp_path / "out", metrics=["redness"]).read_text()
    assert "redness by task" in html
    assert all(len(row) == 2 for row in rows(html, "Means over all cases"))
    with pytest.raises(UserError, match="expected --metrics out of brightness, redness, got 'blueness'"):
        write_leaderboard_page(runs, tmp_path / "out", metrics=["blueness"])


def test_runs_of_one_generator_are_told_apart_by_their_folders_and_the_page_can_grow(
    make_run: MakeRun, tmp_path: Path
) -> None:
    runs = [make_run("a"), make_run("a", 9, folder="second")]
    write_leaderboard_page(runs[:1], tmp_path / "out")
    html = write_leaderboard_page(runs, tmp_path / "out").read_text()
    assert [row[0] for row in rows(html, "Means over all cases")] == ["a (second)", "a (a)"]


def test_what_does_not_belong_into_one_table_is_refused(
    make_run: MakeRun, make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    first, other_judge = make_run("a"), make_run("b", version=2)
    other_cases = make_run("c", cases=make_dataset(5, "other"))
    generate(tmp_path / "cases", tmp_path / "bare", brightness.NoisyCopy(), name="bare")
    for second, match in (
        (other_judge, "judge 'brightness' is not the same in"),
        (other_cases, "are about different datasets"),
        (tmp_path / "bare", "was not judged; run `gnomon bench judge`"),
        (first, "expected each run once"),
    ):
        with pytest.raises(UserError, match=match):
            write_leaderboard_page([first, second], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def derived(case: Case, scores: Mapping[str, Score]) -> dict[str, Score]:
    """Return twice the brightness as "overall", or what it failed by."""
    known = scores.get("brightness")
    if known is None:
        return {}
    return {"overall": known if known.value is None else Score(2 * known.value)}


def test_a_group_that_the_benchmark_expects_is_blank_and_a_derived_overall_leads(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = Benchmark("grey", "for tests", derived, parts={"task": frozenset({"dark", "light", "night"})})
    monkeypatch.setattr(benchmarks, "known_benchmarks", lambda: {"grey": benchmark})
    monkeypatch.setattr(leaderboard, "MAX_OPEN_GROUPS", 1)
    html = write_leaderboard_page([make_run("a"), make_run("b", 9)], tmp_path / "out", num_examples=2).read_text()
    first, *_ = rows(html, "Means over all cases")
    brightness, overall = float(first[2].split()[0]), float(first[1].split()[0])
    assert overall == pytest.approx(2 * brightness, abs=0.002)
    assert "6 of 6 scored partial" in first[1]
    assert [row[3] for row in rows(html, "overall by task")] == ["–", "–"]
    assert "<summary>Drawing of overall by task</summary>" in html
    assert "By the runs&#39; mean overall" in html
