"""Small cases of CogCanvas: people with attributes, an item each, a place, and questions about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bench.cogcanvas.cases import NAME, REFERENCE_GENERATION
from gnomon.records import Case, Question, Reference, Text

MakeCase = Callable[..., Case]
PEOPLE = {
    "Ann": {"gender": "woman", "age": "young"},
    "Bob": {"gender": "man", "age": "old"},
    "Cem": {"gender": "man", "age": "young"},
    "Dua": {"gender": "woman"},
    "Eve": {"gender": "woman", "age": "old"},
}


@pytest.fixture(scope="session")
def make_case() -> MakeCase:
    """A function that makes a case of so many people, with questions of dimensions, each about the people named."""

    def make(
        case_id: str = "c",
        names: Sequence[str] = ("Ann", "Bob"),
        questions: Sequence[tuple[str, str]] = (),
        *,
        negated: Sequence[tuple[str, str]] = (),
        task: str = REFERENCE_GENERATION,
        size: str = "small",
        **meta: Any,
    ) -> Case:
        references = [
            Reference(path=f"images/{name}.png", role="identity", name=name, attributes=PEOPLE[name]) for name in names
        ]
        references.append(
            Reference(path="images/cup.png", role="object", name="cup", attributes={"size_category": size})
        )
        references.append(Reference(path="images/bay.png", role="background", name="bay"))
        asked = [
            Question(
                id=f"{dimension}-{number}" if expected else f"not-{dimension}-{number}",
                text=Text(en=f"Does {dimension} hold of {about}?"),
                dimension=dimension,
                expected=expected,
                about=about.split(","),
            )
            for expected, listed in ((True, questions), (False, negated))
            for number, (dimension, about) in enumerate(listed, start=1)
        ]
        return Case(
            id=case_id,
            benchmark=NAME,
            task=task,
            instruction=Text(en=f"{' and '.join(names)} before the bay"),
            references=references,
            questions=asked,
            meta=meta,
        )

    return make
