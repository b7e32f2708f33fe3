"""Several judges on one page: a second one needs no new pictures, and their orders are compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from scipy.stats import kendalltau

from bench.folder import CANDIDATES, BenchRun
from bench.report.examples import JudgedRun
from bench.report.leaderboard import write_leaderboard_page
from bench.report.orders import order_tables
from bench.workflow import generate, judge
from tests.bench.report.test_leaderboard import rows

SHIFTS = {"a": 0, "b": 60, "c": 30, "d": 90}


@pytest.fixture
def runs(make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path) -> list[Path]:
    """Four runs, each by a judge that likes brightness."""
    root = make_dataset(5)
    for name, shift in SHIFTS.items():
        generate(root, tmp_path / name, brightness.NoisyCopy(shift), name=name)
        judge(tmp_path / name, brightness.BrightnessJudge())
    return [tmp_path / name for name in SHIFTS]


def test_a_second_judge_takes_the_same_pictures_and_orders_are_compared(
    runs: list[Path], brightness: ModuleType, tmp_path: Path
) -> None:
    before = [(run / CANDIDATES).read_bytes() for run in runs]
    for run in runs:
        judge(run, brightness.CapriciousJudge({"b": 100.0}))
    assert [(run / CANDIDATES).read_bytes() for run in runs] == before
    html = write_leaderboard_page(runs, tmp_path / "out").read_text()
    ranks = {row[0]: (row[2], row[4]) for row in rows(html, "Runs in the order of each judge")}
    assert list(ranks) == ["d", "b", "c", "a"]
    assert ranks == {"d": ("1", "2"), "b": ("2", "1"), "c": ("3", "3"), "a": ("4", "4")}
    ((first, second, tau, spearman, swapped),) = rows(html, "Agreement of the orders")
    assert (first, second, swapped) == ("brightness", "capricious", "d over b")
    expected = kendalltau([1, 2, 3, 4], [2, 1, 3, 4]).statistic
    assert tau == f"{expected:.3f} {expected:.3f} to {expected:.3f} 4 runs, 5 cases"
    assert spearman.startswith("0.800 ")


def test_only_cases_that_all_have_are_looked_at(runs: list[Path], brightness: ModuleType, tmp_path: Path) -> None:
    (runs[1] / "images/case-0_0.png").unlink()
    for run in runs:
        judge(run, brightness.CapriciousJudge({}))
    judged = [JudgedRun.read(BenchRun.read(run), run.name) for run in runs]
    ranks, agreement = order_tables(judged, {"brightness": "brightness", "capricious": "brightness"})
    assert "Over 4 cases" in ranks.note
    assert len(agreement.rows) == 1
    assert order_tables(judged, {"brightness": "brightness"}) == []
    assert order_tables(judged[:1], {"brightness": "brightness", "capricious": "brightness"}) == []


def test_one_judge_or_one_that_judged_a_part_has_no_order(
    runs: list[Path], brightness: ModuleType, tmp_path: Path
) -> None:
    judge(runs[0], brightness.CapriciousJudge({}))
    assert "Do the judges agree?" not in write_leaderboard_page(runs, tmp_path / "out").read_text()
