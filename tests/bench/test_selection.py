"""Which cases a run takes: tasks, ids, offset and limit together, and names that are wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.selection import listed, select
from gnomon.errors import UserError
from gnomon.records import Case, Text

CASES = [
    Case(id=f"case-{place}", benchmark="b", task=("add", "remove", "swap")[place % 3], instruction=Text(en="do"))
    for place in range(9)
]


def ids(cases: list[Case]) -> list[int]:
    return [int(case.id.removeprefix("case-")) for case in cases]


def test_everything_is_taken_by_default_and_parts_on_request() -> None:
    assert ids(select(CASES)) == list(range(9))
    assert ids(select(CASES, tasks=["swap", "add"])) == [0, 2, 3, 5, 6, 8]
    assert ids(select(CASES, sample_ids=["case-7", "case-1"])) == [1, 7]
    assert ids(select(CASES, tasks=["add"], offset=1)) == [3, 6]
    assert ids(select(CASES, tasks=["add"], sample_ids=["case-0", "case-1", "case-6"], limit=1)) == [0]


@given(st.integers(0, 8), st.integers(1, 9))
def test_consecutive_offsets_deal_all_cases_once(offset: int, limit: int) -> None:
    parts = [select(CASES, offset=start, limit=limit) for start in range(0, 9, limit)]
    assert ids([case for part in parts for case in part]) == list(range(9))
    assert select(CASES, offset=offset, limit=limit) == CASES[offset : offset + limit]


def test_names_that_nothing_has_are_errors_with_the_nearest() -> None:
    with pytest.raises(
        UserError, match=r"the task 'ad' \(did you mean 'add'\?\), 'x'; the tasks are add, remove, swap"
    ):
        select(CASES, tasks=["ad", "x", "swap"])
    with pytest.raises(UserError, match=r"the id 'case-11' \(did you mean 'case-1'\?\)"):
        select(CASES, sample_ids=["case-11"])
    with pytest.raises(UserError, match="and 2 more"):
        select(CASES, sample_ids=["1", "2", "3", "4", "5"])
    with pytest.raises(UserError, match="expected at least one case"):
        select([])
    with pytest.raises(UserError, match="no case is left of 9: 0 have"):
        select(CASES, tasks=["add"], sample_ids=["case-1"])
    with pytest.raises(UserError, match="3 have the tasks and ids asked for, and the first 3 are skipped"):
        select(CASES, tasks=["add"], offset=3)


def test_names_come_with_commas_or_as_a_list() -> None:
    assert listed("a, b", flag="--tasks") == ("a", "b")
    assert listed(["a,b"], flag="--tasks") == ("a,b",)
    assert listed(None, flag="--tasks") is None


@pytest.mark.parametrize("empty", ["", "a,", []])
def test_an_empty_name_is_refused(empty: str | list[str]) -> None:
    with pytest.raises(UserError, match="--tasks"):
        listed(empty, flag="--tasks")
