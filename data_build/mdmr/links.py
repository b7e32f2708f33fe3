"""What the questions of a checklist are about: references of the case, their attributes, or the instruction alone."""

from __future__ import annotations

import re
from collections.abc import Sequence

from data_build.mdmr.samples import SampledReference
from data_build.mdmr.tags import TAG_ATTRIBUTES

INSTRUCTION = "instruction"
_LINK = re.compile(r"reference-([1-9]\d*)(?:\.([a-z_]+))?")


def link_problem(about: Sequence[str], references: Sequence[SampledReference]) -> str | None:
    """Say which link of a question leads nowhere; None where all lead somewhere.

    A link is `instruction`, `reference-<number>` (from 1) or `reference-<number>.<attribute>`, an attribute one of
    :data:`data_build.mdmr.tags.TAG_ATTRIBUTES` or of those that the reference was sampled for.

    Args:
        about: of the question.
        references: of the case.
    """
    if not about:
        return "it is about nothing"
    for link in about:
        match = _LINK.fullmatch(link)
        if link == INSTRUCTION:
            continue
        if match is None:
            return f"{link!r} is neither {INSTRUCTION!r} nor reference-<number> nor reference-<number>.<attribute>"
        number, attribute = int(match[1]), match[2]
        if number > len(references):
            return f"{link!r} is about a reference that there is not; the case has {len(references)}"
        if attribute and attribute not in (*TAG_ATTRIBUTES, *references[number - 1].attributes):
            return f"{link!r} is about an attribute that there is not; known are {', '.join(TAG_ATTRIBUTES)}"
    return None
