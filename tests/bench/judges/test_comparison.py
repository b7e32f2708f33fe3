"""The numbers of a comparison: from real evaluations, by hand, and from a published table."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from bench.judges.comparison import JudgeRow, best_of, compare_runs, gains, size_lines
from bench.judges.runs import About, JudgeRun, read_runs
from gnomon.errors import UserError
from rm.averages import CONVENTIONS

NAMES = ("plain", "thinking", "partial", "pairs")


@pytest.fixture
def runs(evaluated: Path) -> list[JudgeRun]:
    return read_runs([evaluated / name for name in NAMES])


def test_rows_are_those_of_the_evaluations_and_baselines_are_theirs(runs: list[JudgeRun], evaluated: Path) -> None:
    comparison = compare_runs(runs)
    assert comparison.dimensions == ["instruction_awareness", "visual_consistency", "visual_quality"]
    for row in comparison.judges:
        figures = json.loads((evaluated / row.name / "results.json").read_text())["average"]
        assert row.figures["failures"] == figures["failures"]
        for convention in CONVENTIONS:
            for kind in ("micro", "macro"):
                assert row.figures[convention][kind] == pytest.approx(figures[convention][kind])
    partial = {row.name: row.is_partial for row in comparison.judges}
    assert partial == {"plain": False, "thinking": False, "partial": True, "pairs": False}
    results = json.loads((evaluated / "plain" / "results.json").read_text())
    for row in comparison.baselines:
        micro = results["baseline_averages"][row.name]["failed_dropped"]["micro"]
        assert row.figures["failed_dropped"]["micro"] == pytest.approx(micro)
    pairs = comparison.judges[-1]
    assert pairs.num_swapped == 24
    assert pairs.swap_consistency == pytest.approx(1 - (pairs.tie_rate or 0))  # a tie is two orders that disagree
    assert comparison.judges[0].swap_consistency is None


def test_tests_are_paired_and_count_who_failed(runs: list[JudgeRun]) -> None:
    comparison = compare_runs(runs, against="plain")
    assert list(comparison.tests) == ["thinking", "partial", "pairs"]
    plain, thinking = ({s.key: s.correct for s in run.samples} for run in runs[:2])
    both = [key for key, right in plain.items() if right is not None and thinking[key] is not None]
    row = comparison.tests["thinking"]["failed_dropped"]["average"]
    assert (row["n"], row["left_out"]) == (len(both), 24 - len(both))
    assert 0 < len(both) < 24
    assert row["value"] == pytest.approx(sum(bool(thinking[k]) - bool(plain[k]) for k in both) / len(both))
    wrong = comparison.tests["thinking"]["failed_wrong"]["average"]
    assert wrong["value"] == pytest.approx(sum(bool(thinking[k]) - bool(plain[k]) for k in plain) / 24)
    assert set(comparison.tests["partial"]["failed_wrong"]["dimensions"]) == {
        "instruction_awareness",
        "visual_consistency",
    }
    with pytest.raises(UserError, match=r"one of the runs \(plain, .*\) as --against, got 'best'"):
        compare_runs(runs, against="best")


def test_the_best_whole_average_is_the_reference(runs: list[JudgeRun]) -> None:
    rows = compare_runs(runs).judges
    whole = [row for row in rows if not row.is_partial]
    assert best_of(rows) == max(whole, key=lambda row: row.shares["average"]).name == compare_runs(runs).reference
    flawless = rows[2].model_copy(
        update={"figures": {**rows[2].figures, "failed_dropped": {"micro": {"value": 1.0}, "dimensions": {}}}}
    )
    assert best_of([*whole, flawless]) != flawless.name
    assert best_of([flawless]) == flawless.name


def shares(**averages: float) -> dict[str, dict[str, float]]:
    return {name: {"average": value} for name, value in averages.items()}


def test_only_runs_that_differ_in_one_known_thing_have_a_gain() -> None:
    about = [
        About(run="on", family="Q", parameters=8, thinking="on", rubrics="ours"),
        About(run="off", family="Q", parameters=8, thinking="off", rubrics="ours"),
        About(run="short", family="Q", parameters=8, thinking="off", rubrics="short"),
        About(run="large", family="Q", parameters=32, thinking="off", rubrics="ours"),
        About(run="other", family="R", parameters=8, thinking="off", rubrics="ours"),
        About(run="unsaid", family="Q", parameters=8, rubrics="ours"),
        About(run="nothing"),
    ]
    found = gains(about, shares(on=0.6, off=0.5, short=0.4, large=0.7, other=0.9, unsaid=0.1, nothing=0.2))
    assert [(gain.varied, gain.before, gain.after) for gain in found] == [
        ("thinking", "off", "on"),
        ("rubrics", "off", "short"),
    ]
    assert [gain.points["average"] for gain in found] == pytest.approx([10, -10])


def test_a_partial_average_gains_nothing_against_a_whole_one() -> None:
    about = [About(run=name, family="Q", thinking=how) for name, how in (("plain", "off"), ("thinking", "on"))]  # type: ignore[arg-type]
    plain = {"instruction_awareness": 0.5, "visual_consistency": 0.7, "average": 0.6}
    thinking = {"instruction_awareness": 0.6, "average": 0.6}
    (gain,) = gains(about, {"plain": plain, "thinking": thinking})
    assert gain.points == pytest.approx({"instruction_awareness": 10})


def test_gains_have_their_paired_difference(runs: list[JudgeRun]) -> None:
    about = [About(run=name, family="Q", thinking=how) for name, how in (("plain", "off"), ("thinking", "on"))]  # type: ignore[arg-type]
    comparison = compare_runs(runs, about, against="plain")
    (gain,) = comparison.gains
    assert gain.paired == comparison.tests["thinking"]["failed_dropped"]
    rows = {row.name: row.shares for row in comparison.judges}
    assert gain.points == pytest.approx(
        {name: 100 * (rows["thinking"][name] - share) for name, share in rows["plain"].items()}
    )


def test_a_family_is_a_line_over_its_sizes_for_each_way_of_asking() -> None:
    about = [
        About(run="b", family="Q", parameters=32, thinking="off"),
        About(run="a", family="Q", parameters=8, thinking="off"),
        About(run="c", family="Q", parameters=8, thinking="on", rubrics="short"),
        About(run="unknown", family="Q", thinking="off"),
        About(run="failed", family="Q", parameters=2, thinking="off"),
    ]
    figures = {name: {"value": 0.5} for name in ("a", "b", "c", "unknown")}
    lines = size_lines(about, {**figures, "failed": None})
    assert [(line.label, line.runs, line.parameters) for line in lines] == [
        ("Q", ["a", "b"], [8, 32]),
        ("Q, thinking, short", ["c"], [8]),
    ]


def published(golden_data: Path, name: str) -> list[dict[str, str]]:
    path = golden_data / "edit-compass-paper-tables" / name
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


SIZES = {"2B": 2, "9B": 9, "27B": 27, "35B-A3B": 35}


def test_published_gains_of_thinking_come_out_again(golden_data: Path) -> None:
    about, known = [], {}
    for row in published(golden_data, "table5_editreward_compass.csv"):
        family, _, size = row["model"].partition("-")
        if size in SIZES and family in ("Qwen3.5", "Qwen3.6"):
            run = f"{row['model']} {row['thinking']}"
            thinking = "on" if row["thinking"] == "1" else "off"
            about.append(About(run=run, family=family, parameters=SIZES[size], thinking=thinking))  # type: ignore[arg-type]
            known[run] = {"average": float(row["avg"]), "visual_consistency": float(row["vc"])}
    assert len(about) == 12
    found = {gain.before.removesuffix(" 0"): gain.points for gain in gains(about, known)}
    assert {name: round(points["average"], 2) for name, points in found.items()} == {
        "Qwen3.5-2B": 0.37,
        "Qwen3.5-9B": 6.65,
        "Qwen3.5-27B": 3.05,
        "Qwen3.5-35B-A3B": 7.71,
        "Qwen3.6-27B": 8.55,
        "Qwen3.6-35B-A3B": 10.56,
    }
    # The average gains everywhere; consistency loses in all of the older family.
    assert {name for name, points in found.items() if points["visual_consistency"] < 0} == {
        f"Qwen3.5-{size}" for size in SIZES
    }

    lines = {
        line.label: line for line in size_lines(about, {run: {"value": row["average"]} for run, row in known.items()})
    }
    assert list(lines) == ["Qwen3.5", "Qwen3.5, thinking", "Qwen3.6", "Qwen3.6, thinking"]
    assert [row["value"] for row in lines["Qwen3.5, thinking"].figures] == [0.3848, 0.6681, 0.6998, 0.7089]


def test_published_gains_of_prompts_come_out_again(golden_data: Path) -> None:
    about, known = [], {}
    for row in published(golden_data, "table6_prompt_ablation_and_perception.csv"):
        family, size = row["model"].rsplit("-", 1)
        run = f"{size} {row['prompt']}"
        about.append(About(run=run, family=family, parameters=float(size[:-1]), rubrics=row["prompt"]))
        known[run] = {"average": float(row["avg"]), **{name: float(row[name]) for name in ("ia", "vc", "vq")}}
    found = gains(about, known)
    assert [gain.varied for gain in found] == ["rubrics"] * 3
    points = {gain.before.partition(" ")[0]: gain.points for gain in found}
    assert {size: round(row["average"], 2) for size, row in points.items()} == {"4B": 8.67, "8B": 12.69, "32B": 8.88}
    assert all(value > 0 for row in points.values() for value in row.values())


def test_a_row_without_any_score_has_no_shares() -> None:
    figures: dict[str, Any] = {"failed_dropped": {"micro": None, "macro": None, "dimensions": {}}}
    row = JudgeRow(name="a", judge="a", figures=figures, tie_rate=None, swap_consistency=None, num_swapped=0)
    assert row.shares == {}
