"""Averages over dimensions: by hand, against resampling of the true statistic, and against published tables."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rm.averages import CONVENTIONS, average_figures, is_partial
from rm.scorers import PairSample
from tests.rm.pair_samples import pair_sample

SIZES = {"ia": 1486, "vc": 617, "vq": 148}
# The benchmark's printed average is over fewer pairs where replies could not be read; these rows say so by not fitting.
MISFITS = {
    "Qwen3.5-9B",
    "Qwen3.5-27B",
    "Qwen3.5-35B-A3B",
    "Qwen3.6-27B",
    "Qwen3.6-35B-A3B",
    "EditScore (Qwen2.5-VL-7B)",
}


def samples(dimension: str, answers: Sequence[bool | None], *, per_group: int = 1) -> list[PairSample]:
    """Samples of decided pairs that are right, wrong or failed."""
    return [
        pair_sample(f"{dimension}{number}", right, dimension=dimension, group=f"g{number // per_group}")
        for number, right in enumerate(answers)
    ]


def test_both_averages_by_both_conventions_by_hand() -> None:
    judged = samples("ia", [True, True, True, None]) + samples("vc", [True, False])
    figures = average_figures(judged)
    assert figures["failures"] == 1
    assert not is_partial(figures)
    dropped, wrong = figures["failed_dropped"], figures["failed_wrong"]
    assert dropped["micro"]["value"] == pytest.approx(4 / 5)
    assert dropped["macro"]["value"] == pytest.approx((1 + 1 / 2) / 2)
    assert wrong["micro"]["value"] == pytest.approx(4 / 6)
    assert wrong["macro"]["value"] == pytest.approx((3 / 4 + 1 / 2) / 2)
    assert (dropped["micro"]["n"], wrong["micro"]["n"]) == (5, 6)
    assert {name: row["value"] for name, row in wrong["dimensions"].items()} == {"ia": 3 / 4, "vc": 1 / 2}


@given(st.lists(st.tuples(st.sampled_from(["ia", "vc", "vq"]), st.sampled_from([True, False, None])), min_size=1))
@settings(max_examples=40, deadline=None)
def test_failures_as_wrong_never_help_and_averages_lie_between_their_dimensions(
    drawn: list[tuple[str, bool | None]],
) -> None:
    judged = [one for name in SIZES for one in samples(name, [right for other, right in drawn if other == name])]
    figures = average_figures(judged)
    for convention in CONVENTIONS:
        shares = [row["value"] for row in figures[convention]["dimensions"].values()]
        for kind in ("micro", "macro") if shares else ():
            row = figures[convention][kind]
            assert min(shares) - 1e-12 <= row["value"] <= max(shares) + 1e-12
            assert row["ci_low"] is None or 0 <= row["ci_low"] <= row["ci_high"] <= 1
    if figures["failed_dropped"]["micro"]:
        assert figures["failed_wrong"]["micro"]["value"] <= figures["failed_dropped"]["micro"]["value"]
    assert figures["failed_wrong"]["micro"]["n"] == len(drawn)


def test_a_dimension_that_is_missing_or_failed_makes_an_average_partial() -> None:
    figures = average_figures(samples("ia", [True, False]) + samples("vq", [None]), missing=["vc"])
    assert is_partial(figures)
    assert (figures["missing_dimensions"], figures["unscored_dimensions"]) == (["vc"], ["vq"])
    assert figures["failed_dropped"]["macro"]["value"] == 1 / 2
    assert figures["failed_wrong"]["macro"]["value"] == 1 / 4
    nothing = average_figures(samples("ia", [None]))
    assert nothing["failed_dropped"] == {"micro": None, "macro": None, "dimensions": {}}
    assert nothing["failed_wrong"]["micro"]["value"] == 0


def test_the_interval_of_the_macro_average_is_that_of_resampled_groups() -> None:
    generator = np.random.default_rng(3)
    shares = {"ia": (0.7, 600), "vc": (0.4, 120), "vq": (0.55, 60)}
    answers = {name: generator.random(size) < share for name, (share, size) in shares.items()}
    judged = [one for name, right in answers.items() for one in samples(name, right.tolist(), per_group=3)]
    figures = average_figures(judged)["failed_dropped"]["macro"]
    assert figures["value"] == pytest.approx(np.mean([right.mean() for right in answers.values()]))

    groups = {name: np.arange(len(right)) // 3 for name, right in answers.items()}
    sums = np.stack([np.bincount(groups[name], right, minlength=200) for name, right in answers.items()])
    sizes = np.stack([np.bincount(groups[name], minlength=200) for name in answers])
    drawn = generator.integers(200, size=(4000, 200))
    means = (sums[:, drawn].sum(axis=2) / sizes[:, drawn].sum(axis=2)).mean(axis=0)
    low, high = np.quantile(means, [0.025, 0.975])
    assert figures["ci_low"] == pytest.approx(low, abs=0.01)
    assert figures["ci_high"] == pytest.approx(high, abs=0.01)


def published_rows(golden_data: Path) -> list[dict[str, str]]:
    path = golden_data / "edit-compass-paper-tables" / "table5_editreward_compass.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_micro_average_of_published_rows_is_the_printed_one_but_for_those_that_are_listed(
    golden_data: Path,
) -> None:
    misfits, exact_misfits = set(), set()
    rows = published_rows(golden_data)
    assert len(rows) == 28
    for row in rows:
        shares = {name: float(row[name]) for name in SIZES if row[name]}
        judged = []
        for name, share in shares.items():
            right = round(share * SIZES[name])
            judged += samples(name, [number < right for number in range(SIZES[name])], per_group=200)
        figures = average_figures(judged, missing=[name for name in SIZES if name not in shares])
        assert is_partial(figures) == row["model"].startswith("EditReward (")
        sizes = [SIZES[name] for name in shares]
        exact = np.average(list(shares.values()), weights=sizes)
        # A printed share is not always a whole number of pairs: rounding moves the average by half a pair a dimension.
        micro = figures["failed_dropped"]["micro"]["value"]
        assert micro == pytest.approx(exact, abs=1.5 / sum(sizes))
        if abs(micro - float(row["avg"])) > 1e-3:
            misfits.add((row["model"], row["thinking"]))
        if abs(exact - float(row["avg"])) > 1e-4:
            exact_misfits.add((row["model"], row["thinking"]))
    assert misfits == exact_misfits == {(name, "0") for name in MISFITS}
