"""`gnomon bench agreement`, from a CSV file to JSON and the printed table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import cohen_kappa_score

from bench.agreement import agreement_text, group_agreement
from bench.statistics.ratings import Bootstrap, Ratings
from gnomon.cli import main
from gnomon.hashing import to_plain

RELIABILITY = ("agreement", "kappa", "alpha", "cohen_kappa", "fleiss_kappa")
CORRELATIONS = ("pearson", "spearman", "kendall_tau_b")


def run(folder: Path, text: str, level: str, *flags: str) -> dict[str, Any]:
    (folder / "ratings.csv").write_text(text, encoding="utf-8")
    paths = ["--ratings", str(folder / "ratings.csv"), "--out", str(folder / "deep" / "out.json")]
    assert main(["bench", "agreement", *paths, "--level", level, *flags]) == 0
    result: dict[str, Any] = json.loads((folder / "deep" / "out.json").read_text(encoding="utf-8"))
    return result


def long_form(table: list[list[Any]], group: str = "") -> str:
    lines = [
        f"i{i},r{r},{'' if value is None else value}{group and ','}{group}"
        for i, row in enumerate(table)
        for r, value in enumerate(row)
    ]
    return "\n".join([f"item,rater,value{group and ',group'}", *lines, ""])


def test_two_raters_have_cohens_kappa_and_correlations(tmp_path: Path) -> None:
    table = np.random.default_rng(0).integers(1, 6, size=(40, 2))
    table[:30, 1] = table[:30, 0]
    group = run(tmp_path, long_form(table.tolist()), "ordinal", "--num-resamples", "200")["all"]
    first, second = table.T
    assert group["kappa_is"] == "cohen_kappa"
    assert group["kappa"] == group["cohen_kappa"] == pytest.approx(cohen_kappa_score(first, second))
    assert group["agreement"] == pytest.approx(float(np.mean(first == second)))
    assert group["pearson"] == pytest.approx(stats.pearsonr(first, second).statistic)
    assert group["spearman"] == pytest.approx(stats.spearmanr(first, second).statistic)
    assert group["kendall_tau_b"] == pytest.approx(stats.kendalltau(first, second).statistic)
    for name in (*RELIABILITY, *CORRELATIONS):
        assert group[f"{name}_ci_low"] < group[name] < group[f"{name}_ci_high"]
        assert group[f"{name}_n_items"] == 40
    counts = {name: group[name] for name in ("n_items", "n_raters", "n_values", "n_missing", "n_rater_pairs")}
    assert counts == {"n_items": 40, "n_raters": 2, "n_values": 80, "n_missing": 0, "n_rater_pairs": 1}
    assert (group["level"], group["num_resamples"], group["seed"], group["confidence"]) == ("ordinal", 200, 0, 0.95)
    assert group["reasons"] == {}


def test_more_raters_have_fleiss_kappa_and_no_correlations(tmp_path: Path) -> None:
    table: list[list[Any]] = [["a", "a", "b"], ["b", "b", "b"], ["c", "a", "c"], ["a", "a", "a"]]
    group = run(tmp_path, long_form(table), "nominal", "--num_resamples=50")["all"]
    assert group["kappa_is"] == "fleiss_kappa"
    assert group["kappa"] == group["fleiss_kappa"]
    assert group["n_rater_pairs"] == 3
    assert not set(CORRELATIONS) & set(group)


def test_missing_ratings_are_counted_and_leave_fleiss_kappa_undefined(tmp_path: Path) -> None:
    table: list[list[Any]] = [[1, 2, 2], [2, 2, None], [3, 3, 3], [None, None, None], [1, 1, 1]]
    group = run(tmp_path, long_form(table), "ordinal", "--num-resamples", "50")["all"]
    assert (group["n_items"], group["n_raters"], group["n_values"], group["n_missing"]) == (5, 3, 11, 4)
    assert group["alpha_n_items"] == 4
    assert group["fleiss_kappa"] is group["kappa"] is group["kappa_ci_low"] is None
    assert "from 2 to 3" in group["reasons"]["kappa"]
    assert group["alpha"] is not None


def test_groups_are_kept_apart_and_not_pooled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = long_form([[1, 1], [2, 2], [3, 3]], "好") + long_form([[2, 2], [2, 2]], "equal").partition("\n")[2]
    groups = run(tmp_path, text, "interval", "--num-resamples", "50")
    assert set(groups) == {"好", "equal"}
    assert groups["好"]["alpha"] == pytest.approx(1)
    assert (groups["equal"]["agreement"], groups["equal"]["alpha"]) == (1, None)
    printed = capsys.readouterr().out
    assert "equal, alpha: all ratings are equal, so that chance alone would agree as often" in printed
    assert "equal, pearson: all numbers of the first rater are equal" in printed
    assert f"written to {tmp_path / 'deep' / 'out.json'}" in printed


def test_one_rater_has_counts_and_reasons_only(tmp_path: Path) -> None:
    group = run(tmp_path, "item,rater,value\na,x,1\nb,x,2\n", "interval")["all"]
    assert all(group[name] is None for name in RELIABILITY)
    assert set(group["reasons"]) == set(RELIABILITY)
    assert (group["n_values"], group["n_rater_pairs"]) == (2, 0)


def test_seeds_and_runs_repeat(tmp_path: Path) -> None:
    text = long_form(np.random.default_rng(3).integers(0, 3, size=(30, 3)).tolist())
    first = run(tmp_path, text, "nominal", "--num-resamples", "100")
    assert run(tmp_path, text, "nominal", "--num-resamples", "100") == first
    other = run(tmp_path, text, "nominal", "--num-resamples", "100", "--seed", "1")
    assert other["all"]["alpha"] == first["all"]["alpha"]
    assert other["all"]["alpha_ci_low"] != first["all"]["alpha_ci_low"]


def test_what_the_user_can_mend_is_said_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "ratings.csv", tmp_path / "out.json"
    path.write_text("item,rater,value\na,x,good\n", encoding="utf-8")
    command = ["bench", "agreement", "--ratings", str(path)]
    assert main([*command, "--level", "ordinal", "--out", str(out)]) == 1
    assert f"error: {path}:2: expected a number" in capsys.readouterr().err
    assert main([*command, "--level", "ratio", "--out", str(out)]) == 2
    assert main([*command, "--level", "nominal", "--out", str(out), "--num-resamples", "0"]) == 2
    assert not out.exists()
    assert main([*command, "--level", "nominal", "--out", str(path)]) == 1
    assert "expected --out to be another file than --ratings" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8").endswith("good\n")
    assert main([*command, "--level", "nominal", "--out", str(tmp_path)]) == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["ratings.csv"]


@given(
    table=st.lists(
        st.tuples(*[st.one_of(st.none(), st.integers(0, 2), st.floats(allow_infinity=False))] * 3), max_size=6
    ),
    level=st.sampled_from(["ordinal", "interval"]),
    raters=st.integers(1, 3),
)
@settings(max_examples=40, deadline=None)
def test_any_table_gives_values_or_reasons_and_json(table: list[tuple[Any, ...]], level: Any, raters: int) -> None:
    ratings = Ratings.from_table([row[:raters] for row in table], level)
    group = group_agreement(ratings, Bootstrap(num_resamples=20))
    flat = json.loads(json.dumps(to_plain(group.to_json()), allow_nan=False))
    for name, statistic in group.statistics.items():
        assert (statistic.value is None) <= (name in flat["reasons"])
        assert statistic.value is None or statistic.value <= 1 + 1e-9
    assert agreement_text({"any": group})
