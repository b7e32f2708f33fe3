"""Repeats: mean and sample standard deviation over seeds and runs of one model."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

from bench.report.examples import JudgedRun
from bench.studies.repeats import repeats
from gnomon.records import Case

MakeCase = Callable[..., Case]
MakeRun = Callable[..., JudgedRun]


def test_seeds_and_runs_of_one_generator_are_its_repeats(make_case: MakeCase, make_run: MakeRun) -> None:
    cases = [make_case("x", benchmark="grey"), make_case("y", benchmark="grey")]
    first = make_run(
        "mine", cases, {"j": {"overall": {("x", 0): 0.1, ("y", 0): 0.3, ("x", 1): 0.4, ("y", 1): 0.4}}}, repeats=2
    )
    second = make_run("mine", cases, {"j": {"overall": {"x": 0.9, "y": 0.3}}}, path="again")
    other = make_run("other", cases, {"j": {"overall": {"x": 0.5, "y": 0.5}}})
    found = repeats([first, second, other], "j", ["overall"])
    mine = found["mine"].metrics["overall"]
    assert found["mine"].repeats == [("mine", 0), ("mine", 1), ("again", 0)]
    assert mine.means == pytest.approx([0.2, 0.4, 0.6])
    assert mine.mean == pytest.approx(0.4)
    assert mine.sample_std == pytest.approx(statistics.stdev([0.2, 0.4, 0.6]))
    assert found["other"].metrics["overall"].sample_std is None


def test_a_case_that_failed_in_one_repeat_is_in_none(make_case: MakeCase, make_run: MakeRun) -> None:
    cases = [make_case("x", benchmark="grey"), make_case("y", benchmark="grey"), make_case("z", benchmark="grey")]
    scores = {("x", 0): 0.5, ("y", 0): 1.0, ("z", 0): "not_applicable", ("x", 1): 0.7, ("y", 1): "refused"}
    scores[("z", 1)] = "not_applicable"
    found = repeats([make_run("mine", cases, {"j": {"overall": scores}}, repeats=2)], "j", ["overall"])
    one = found["mine"].metrics["overall"]
    assert one.means == pytest.approx([0.5, 0.7])
    assert (one.num_cases, one.num_left_out) == (1, 1)


def test_without_a_common_case_there_is_no_number(make_case: MakeCase, make_run: MakeRun) -> None:
    cases = [make_case("x", benchmark="grey")]
    found = repeats([make_run("mine", cases, {"j": {"overall": {("x", 0): 0.5}}}, repeats=2)], "j", ["overall"])
    one = found["mine"].metrics["overall"]
    assert (one.means, one.mean, one.sample_std, one.num_left_out) == ([], None, None, 1)
