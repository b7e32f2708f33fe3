"""Every fault of a case of CogCanvas is named, and a good case has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bench.cogcanvas.checks import problems
from gnomon.records import Case, Reference

MakeCase = Callable[..., Case]
GOOD = [("attribute", "Ann"), ("binding", "Bob,cup"), ("interaction", "Ann,Bob"), ("position", "reference-1,Bob")]
GRAPHS: dict[str, Any] = {
    "bindings": [{"item": "cup", "person": "Bob", "interaction": "holds"}],
    "interactions": [{"first": "Ann", "second": "Bob", "action": "greets"}],
    "positions": [
        {"first": "Ann", "relation": "left_of", "second": "Bob"},
        {"first": "Bob", "relation": "right_of", "second": "Ann"},
        {"first": "Ann", "relation": "behind", "second": "Bob"},
    ],
}

ROUND = [("Ann", "left_of", "Bob"), ("Bob", "left_of", "Eve"), ("Ann", "right_of", "Eve")]


def test_a_good_case_has_no_problem(make_case: MakeCase) -> None:
    assert list(problems(make_case(questions=GOOD, negated=GOOD, **GRAPHS))) == []


def position(first: str, relation: str, second: str) -> dict[str, str]:
    return {"first": first, "relation": relation, "second": second}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "video"}, "expected one of the tasks"),
        ({"names": ("Ann",)}, "expected 2 to 5 identities, got 1"),
        ({"names": ("Ann", "Ann")}, "with names of their own, got Ann twice"),
        ({"names": ("Ann", "Ann")}, "expected a picture of their own for each person, got images/Ann.png twice"),
        ({"bindings": [{"item": "cup", "person": "Eve", "interaction": "holds"}]}, "people in it, got Eve"),
        ({"bindings": [{"item": "hat", "person": "Ann", "interaction": "wears"}]}, "items in it, got hat"),
        (
            {"bindings": [{"item": "cup", "person": name, "interaction": "holds"} for name in ("Ann", "Bob")]},
            "got cup bound to several",
        ),
        ({"interactions": [{"first": "Ann", "second": "Dua", "action": "greets"}]}, "people in it, got Dua"),
        ({"positions": [position("Ann", "left_of", "Cem")]}, "people in it, got Cem"),
        (
            {"positions": [position("Ann", "left_of", "Bob"), position("Ann", "right_of", "Bob")]},
            "positions that can hold together, got Bob left_of Ann left_of Bob",
        ),
        (
            {"positions": [position("Bob", "behind", "Ann"), position("Ann", "behind", "Bob")]},
            "positions that can hold together, got Bob in_front_of Ann in_front_of Bob",
        ),
        (
            {"names": ("Ann", "Bob", "Eve"), "positions": [position(*edge) for edge in ROUND]},
            "got Bob left_of Eve left_of Ann left_of Bob",
        ),
        ({"questions": [("taste", "Ann")]}, "question 'taste-1': expected one of the dimensions"),
        ({"questions": [("attribute", "Eve")]}, "in about, got 'Eve'"),
        ({"questions": [("attribute", "reference-9.hair")]}, "in about, got 'reference-9.hair'"),
    ],
)
def test_a_fault_is_named(changes: dict[str, Any], message: str, make_case: MakeCase) -> None:
    assert any(message in problem for problem in problems(make_case(**changes)))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (Reference(path="x.png", role="style"), "roles out of identity, object, fashion, background, got 'style'"),
        (Reference(path="x.png", role="background"), "one background at most"),
        (Reference(path="x.png", role="fashion"), "with names, got none of x.png"),
    ],
)
def test_a_fault_of_a_reference_is_named(reference: Reference, message: str, make_case: MakeCase) -> None:
    case = make_case()
    faulty = case.model_copy(update={"references": [*case.references, reference]})
    (problem,) = problems(faulty)
    assert message in problem


def test_questions_about_nothing_and_foreign_facts(make_case: MakeCase) -> None:
    case = make_case(questions=GOOD[:1])
    about_nothing = [case.questions[0].model_copy(update={"about": []})]
    assert "got none" in next(iter(problems(case.model_copy(update={"questions": about_nothing}))))
    assert list(problems(make_case(colour="red"))) == []  # named where groups are read
