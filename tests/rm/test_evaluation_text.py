"""What a terminal shows of an evaluation: dashes for the unknown, and what is missing from an average."""

from __future__ import annotations

from typing import Any

from rm.averages import average_figures
from rm.comparing import paired_accuracy
from rm.evaluation_text import average_table, difference_text, format_table, more_lines
from rm.scorers import PairSample
from tests.rm.pair_samples import pair_sample


def sample(pair: int, correct: bool | None, dimension: str = "overall") -> PairSample:
    return pair_sample(f"p{pair}", correct, dimension=dimension)


def test_the_table_shows_what_is_unknown_as_a_dash() -> None:
    figures = {
        "n": 0,
        "failures": 2,
        "strict": None,
        "half_credit": None,
        "tie_rate": None,
        "tie_rule": None,
        "ci_low": None,
        "ci_high": None,
    }
    line = format_table({"dimensions": {"overall": {"all": figures}}}).splitlines()[1]
    assert line.split() == ["overall", "all", "0", "-", "-", "-", "-", "-", "-", "2"]


def test_a_partial_average_says_so_and_what_it_lacks() -> None:
    samples = [sample(0, True), sample(1, True), sample(2, None), sample(3, None, "visual_quality")]
    results: dict[str, Any] = {
        "average": average_figures(samples, missing=["visual_consistency"]),
        "tasks": {},
        "baseline_averages": {"random": average_figures(samples[:2])},
    }
    lines = average_table(results).splitlines()
    assert " ".join(lines[1].split()) == "micro (partial) all 1.000 1.000..1.000 2 0.500 0.000..1.000 4 2"
    assert " ".join(lines[3].split()) == "micro (random) 1.000 1.000..1.000 2 1.000 1.000..1.000 2 0"
    assert lines[-2] == "all: the judge has no visual_consistency, so its averages are over the other dimensions"
    assert lines[-1] == "all: every pair failed in visual_quality"


def test_failures_are_told_apart_and_a_changed_model_is_said() -> None:
    lines = more_lines({"statuses": {"ok": 3, "refused": 1, "parse_error": 2}, "served_by": {"m 1": 2, "m 2": 1}})
    assert lines[1:] == ["failed: 2 parse_error, 1 refused"]
    assert lines[0].startswith("answered by m 1 (2), m 2 (1): the model behind the judge changed")
    assert more_lines({"statuses": {"ok": 3}, "served_by": {"m 1": 3}}) == ["answered by m 1"]
    assert more_lines({"statuses": {"ok": 3}}) == []


def test_a_difference_in_one_line() -> None:
    before, after = [sample(0, False), sample(1, None)], [sample(0, True), sample(1, True)]
    row = paired_accuracy(before, after)["average"]
    assert difference_text(row) == "+1.000, n 1 (1 left out, failed); McNemar 1 : 0, p 1"
