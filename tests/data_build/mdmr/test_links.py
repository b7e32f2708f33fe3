from __future__ import annotations

import pytest

from data_build.mdmr.links import link_problem
from data_build.mdmr.samples import SampledReference

REFERENCES = [
    SampledReference(image="a", role="person"),
    SampledReference(image="b", role="attribute", attributes={"gesture": "thumbs up"}),
]


@pytest.mark.parametrize(
    "about", [["instruction"], ["reference-1"], ["reference-2.hair", "instruction"], ["reference-2.gesture"]]
)
def test_links_that_lead_somewhere(about: list[str]) -> None:
    assert link_problem(about, REFERENCES) is None


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ([], "about nothing"),
        (["reference-1", "reference-3"], "'reference-3' is about a reference that there is not; the case has 2"),
        (["reference-0"], "neither"),
        (["reference 1"], "neither"),
        (["cat"], "neither"),
        (["reference-1.gesture"], "'reference-1.gesture' is about an attribute that there is not"),
    ],
)
def test_links_that_lead_nowhere_are_named(about: list[str], words: str) -> None:
    assert words in (link_problem(about, REFERENCES) or "")
