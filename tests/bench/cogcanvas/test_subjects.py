"""What came of painted subjects: shares and seconds by hand, and candidates that tell of none."""

from __future__ import annotations

from typing import Any

import pytest

from bench.cogcanvas.subjects import painted_subjects, subject_results
from gnomon.records import Candidate
from tests.bench.cogcanvas.conftest import MakeCase

GONE = "it is not found where it was painted"
NO_PLACE = "it has no place in the layout"


def subject(tries: int, seconds: float, problem: str | None = None) -> dict[str, Any]:
    return {"reference": "a.png", "name": "Ann", "tries": tries, "seconds": seconds, "problem": problem}


def candidate(case_id: str, subjects: object, **more: Any) -> Candidate:
    told = {} if subjects is None else {"subjects": subjects}
    return Candidate(case_id=case_id, generator="g", seed=0, path="p.png", sampling={**told, **more})


def test_shares_and_seconds_are_means_over_subjects_by_number_of_people(make_case: MakeCase) -> None:
    cases = {
        "two": make_case("two"),
        "also two": make_case("also two"),
        "three": make_case("three", ("Ann", "Bob", "Cem")),
    }
    made = [
        candidate("two", [subject(1, 2.0), subject(2, 4.0)]),
        candidate("also two", [subject(2, 6.0, GONE), subject(0, 0.0, NO_PLACE)]),
        candidate("three", [subject(1, 1.0)]),
    ]
    found = subject_results(made, cases)
    assert list(found) == ["2", "3", "all"]
    two = found["2"]
    assert (two.given_up.value, two.given_up.n_scored, two.given_up.num_clusters) == (0.5, 4, 2)
    assert two.tried_again.value == 0.5
    assert (two.seconds.value, two.seconds.n_scored, two.seconds.n_na) == (4.0, 3, 1)  # one has no place
    assert two.problems == {NO_PLACE: 1, GONE: 1}
    assert (two.given_up.ci_low, two.given_up.ci_high) == (0.0, 1.0)
    assert found["all"].seconds.value == pytest.approx(13 / 4)
    assert found["3"].given_up.ci_low is None  # one case


@pytest.mark.parametrize("told", [None, [], 3, "two", [{"reference": "a.png"}], [3], {"reference": "a.png"}])
def test_a_candidate_without_such_a_list_tells_of_no_subject(told: object, make_case: MakeCase) -> None:
    assert painted_subjects(candidate("c", told)) == []
    assert subject_results([candidate("c", told)], {"c": make_case()}) == {}
