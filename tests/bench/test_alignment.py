"""`gnomon bench alignment`: a judge against people, by hand and as the paper does it, from files by one command."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import krippendorff
import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from bench.alignment.figures import alignment
from bench.alignment.pictures import RatedPicture, RatedRuns
from bench.folder import BenchRun
from bench.statistics.ratings import Bootstrap
from bench.workflow import generate, judge
from gnomon.cli import main

MakeRun = Callable[..., Path]
FEW = Bootstrap(num_resamples=200)


def rated(*pictures: tuple[str, str, float, float | None]) -> RatedRuns:
    return RatedRuns(
        "j",
        "m",
        [RatedPicture(*picture, "ok" if picture[3] is not None else "parse_error") for picture in pictures],
    )


def test_models_are_compared_by_their_means_over_what_both_rated() -> None:
    found = alignment(
        rated(
            ("a", "1", 1, 2),
            ("a", "2", 3, 2),
            ("b", "1", 2, 3),
            ("b", "2", 5, None),
            ("c", "1", 4, 4),
            ("c", "2", 4, 5),
        ),
        FEW,
    )
    assert [(one.model, one.human, one.judge, one.n) for one in found.models] == [
        ("a", 2, 2, 2),
        ("b", 2, 3, 1),
        ("c", 4, 4.5, 2),
    ]
    assert found.models[1].failed == {"parse_error": 1}
    pearson = found.model_level["pearson"]
    assert pearson.value == pytest.approx(pearsonr([2, 2, 4], [2, 3, 4.5]).statistic)
    assert pearson.n_items == 3
    assert found.picture_level["pearson"].value == pytest.approx(pearsonr([1, 3, 2, 4, 4], [2, 2, 3, 4, 5]).statistic)
    assert found.picture_level["pearson"].n_items == 5
    alpha = krippendorff.alpha(reliability_data=[[1, 3, 2, 4, 4], [2, 2, 3, 4, 5]], level_of_measurement="interval")
    assert found.picture_level["alpha"].value == pytest.approx(alpha)


def test_repeats_of_a_case_are_one_case_of_a_model() -> None:
    """Three pictures of one case weigh no more than one of another."""
    found = alignment(
        rated(
            ("a", "1", 1, 1), ("a", "1", 1, 1), ("a", "1", 1, 1), ("a", "2", 5, 3), ("b", "1", 2, 9), ("c", "1", 9, 2)
        ),
        FEW,
    )
    expected = pearsonr([3, 2, 9], [2, 9, 2]).statistic
    assert found.model_level["pearson"].value == pytest.approx(expected)


def test_the_best_picture_of_a_case_by_hand() -> None:
    pictures = [
        *(("a", "agree", 3, 5), ("b", "agree", 1, 2), ("c", "agree", 2, 4)),
        *(("a", "differ", 3, 1), ("b", "differ", 1, 2), ("c", "differ", 2, 0)),
        *(("a", "judge ties", 3, 4), ("b", "judge ties", 1, 4)),
        *(("a", "people tie", 3, 4), ("b", "people tie", 3, 4), ("c", "people tie", 1, 2)),
        *(("a", "undecided", 3, 4), ("b", "undecided", 3, 1)),
        *(("a", "failed", 3, 4), ("b", "failed", 1, None)),
        ("a", "alone", 3, 4),
    ]
    top = alignment(rated(*pictures), FEW).top_1
    assert top.share is not None
    assert top.share.value == pytest.approx((1 + 0 + 1 / 2 + 1) / 4)
    assert top.chance == pytest.approx((1 / 3 + 1 / 3 + 1 / 2 + 2 / 3) / 4)
    assert (top.share.n, top.n_undecided, top.n_failed) == (4, 2, 1)
    assert top.share.ci_low is not None
    nothing = alignment(rated(("a", "1", 1, None)), FEW)
    assert (nothing.top_1.share, nothing.top_1.n_undecided) == (None, 1)
    assert nothing.model_level["pearson"].reason is not None
    assert nothing.models[0].human is None


@pytest.fixture
def make_run(make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path) -> MakeRun:
    """Return a function that makes a judged run of four cases."""
    root = make_dataset(4)

    def make(name: str, shift: int, **settings: Any) -> Path:
        generate(root, tmp_path / name, brightness.NoisyCopy(shift), name=name, **settings)
        judge(tmp_path / name, brightness.BrightnessJudge())
        return tmp_path / name

    return make


def write_ratings(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def command(runs: list[Path], ratings: Path, out: Path, *flags: str) -> list[str]:
    paths = ["--runs", *map(str, runs), "--ratings", str(ratings), "--out", str(out)]
    return ["bench", "alignment", *paths, "--num-resamples", "200", *flags]


def test_models_rated_by_several_people_from_files(
    make_run: MakeRun, brightness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run(name, shift) for name, shift in (("dim", 0), ("middle", 40), ("bright", 90))]
    (runs[2] / "images/case-3_0.png").unlink()
    judge(runs[2], brightness.BrightnessJudge(name="other", version=2))
    rows = [
        {"item": f"case-{case}", "rater": rater, "value": value + (rater == "ann"), "group": name}
        for name, value in (("dim", 1), ("middle", 3), ("bright", 2))
        for case in range(4)
        for rater in ("ann", "ben")
    ]
    ratings, out = write_ratings(tmp_path / "people.csv", rows), tmp_path / "alignment.json"
    assert main(command(runs, ratings, out)) == 0
    found = json.loads(out.read_text())
    assert (found["judge"], found["metric"]) == ("brightness", "brightness")
    assert [(one["model"], one["human"], one["n"]) for one in found["models"]] == [
        ("dim", 1.5, 4),
        ("middle", 3.5, 4),
        ("bright", 2.5, 4),
    ]
    means = [one["judge"] for one in found["models"]]
    assert found["model_level"]["pearson"]["value"] == pytest.approx(pearsonr([1.5, 3.5, 2.5], means).statistic)
    assert found["model_level"]["spearman"]["value"] == pytest.approx(0.5)
    scores = [
        verdict.value
        for run in runs
        for verdict in BenchRun.read(run).verdicts()["brightness-1", "brightness"].values()
        if verdict.value is not None
    ]
    by_picture = spearmanr([1.5] * 4 + [3.5] * 4 + [2.5] * 4, scores).statistic
    assert found["picture_level"]["spearman"]["value"] == pytest.approx(by_picture)
    assert found["top_1"]["share"]["value"] == 0
    printed = capsys.readouterr().out
    assert [line.split()[:3] for line in printed.splitlines() if "spearman" in line] == [
        ["models", "spearman", "0.500"],
        ["pictures", "spearman", f"{found['picture_level']['spearman']['value']:.3f}"],
    ]
    assert "top-1 by chance is 0.333" in printed

    assert main(command(runs, ratings, out, "--judge", "nobody")) == 1
    assert "expected --judge out of those that judged every run (brightness), got nobody" in capsys.readouterr().err


def test_one_run_with_repeats_and_people_s_order_of_them(make_run: MakeRun, tmp_path: Path) -> None:
    """As the paper compares benchmarks: several pictures of one model per case, ranked by people, the best of each."""
    run = make_run("mine", 0, repeats=3)
    values = {
        item: verdict.value or 0.0
        for item, verdict in BenchRun.read(run).verdicts()["brightness-1", "brightness"].items()
    }
    rows = []
    for case in ("case-0", "case-1", "case-2"):
        brightest = max(range(3), key=lambda seed: values[case, seed])
        chosen = brightest if case != "case-2" else (brightest + 1) % 3
        rows += [{"item": f"{case}/seed-{seed}", "rater": "ann", "value": float(seed == chosen)} for seed in range(3)]
    ratings, out = write_ratings(tmp_path / "people.csv", rows), tmp_path / "alignment.json"
    assert main(command([run], ratings, out, "--metric", "brightness")) == 0
    top = json.loads(out.read_text())["top_1"]
    assert (top["share"]["value"], top["share"]["n"], top["chance"]) == pytest.approx((2 / 3, 3, 1 / 3))
    assert len(np.unique([top["share"]["ci_low"], top["share"]["ci_high"]])) == 2


@pytest.mark.parametrize(
    ("row", "flags", "message"),
    [
        ({"group": "them"}, [], "expected models out of mine"),
        ({"item": "case-9"}, [], "such as case-0"),
        ({}, ["--metric", "blueness"], "expected --metric out of brightness, redness, got 'blueness'"),
        ({"value": "good"}, [], "expected a number"),
    ],
)
def test_what_the_user_can_mend_is_said_and_nothing_is_written(
    row: dict[str, str], flags: list[str], message: str, make_run: MakeRun, tmp_path: Path, capsys: Any
) -> None:
    run = make_run("mine", 0)
    ratings = write_ratings(
        tmp_path / "people.csv", [{"item": "case-0", "rater": "ann", "value": "1", "group": "mine"} | row]
    )
    assert main(command([run], ratings, tmp_path / "out.json", *flags)) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_runs_that_do_not_belong_together_are_refused(
    make_run: MakeRun, make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path, capsys: Any
) -> None:
    run = make_run("mine", 0)
    generate(make_dataset(3, "others"), tmp_path / "other", brightness.NoisyCopy(), name="other")
    generate(tmp_path / "cases", tmp_path / "again", brightness.NoisyCopy(), name="again")
    judge(tmp_path / "again", brightness.BrightnessJudge(version=2))
    ratings = write_ratings(tmp_path / "people.csv", [{"item": "case-0", "rater": "ann", "value": 1, "group": "mine"}])
    for second, message in ((tmp_path / "other", "different datasets"), (tmp_path / "again", "is not the same in all")):
        assert main(command([run, second], ratings, tmp_path / "out.json")) == 1
        assert message in capsys.readouterr().err
    assert main(command([run], ratings, ratings)) == 1
    assert "another file than --ratings" in capsys.readouterr().err
