"""TIGER-Lab/EditReward-Bench: groups of two, three and four edits with ties, one row for each pair of a group.

Not to be taken for EditScore/EditReward-Bench (:mod:`data_build.importers.editscore_editreward_bench`).
"""

from __future__ import annotations

import re

from data_build.importers.pairs import group_of, judgement_of_scores, label_of_ranking
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import ComparedImage, Comparison, Judgement, Reference, Text

_DIMENSIONS = ("instruction_following", "visual_quality")


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row; its sides stay as the benchmark has them.

    `comparison_type` says which letters of `ranking` the two candidates are ("AvsC"); where it is missing they are A
    and B. `meta` holds the size and the name of the group, of which all pairs have to be right by the benchmark's rule.

    Raises:
        RowError: for missing or wrong fields.
    """
    instruction, source = row.text("instruction"), pictures.add(row.get("source_image"), "source_image")
    first, second = _letters(row)
    candidates = [_candidate(row, pictures, number) for number in (1, 2)]
    label = label_of_ranking(row.text("ranking"), first, second)
    judgements = [Judgement(i=0, j=1, dimension="overall", label=label)]
    one, two = (candidate.scores for candidate in candidates)
    judgements += [
        judgement_of_scores(one[name], two[name], name) for name in _DIMENSIONS if name in one and name in two
    ]
    name = str(row.get("id") or row.id)
    return [
        Comparison(
            id=row.id,
            instruction=Text(en=instruction),
            references=[Reference(path=source)],
            candidates=candidates,
            judgements=judgements,
            group_id=group_of(instruction, [source]),
            task=row.optional_text("dataset"),
            meta={"group": name.partition("_")[0], "original_id": name, "letters": f"{first}{second}"},
        )
    ]


def _letters(row: Row) -> tuple[str, str]:
    given = row.optional_text("comparison_type") or "AvsB"
    found = re.fullmatch(r"([A-Z])\s*vs\s*([A-Z])", given)
    if found is None:
        raise RowError(f"expected letters such as 'AvsC' under 'comparison_type', got {given!r:.80}")
    return found[1], found[2]


def _candidate(row: Row, pictures: Pictures, number: int) -> ComparedImage:
    values = {name: row.number_of(f"{name}_{number}") for name in (*_DIMENSIONS, "overall_score", "score")}
    scores = {name: value for name, value in values.items() if value is not None}
    overall = scores.pop("overall_score", None)
    if overall is None:
        overall = scores.pop("score", None)
    scores.pop("score", None)
    return ComparedImage(
        path=pictures.add(row.get(f"candidate_{number}"), f"candidate_{number}"),
        generator=row.optional_text(f"model_{number}"),
        scores=scores | ({} if overall is None else {"overall": overall}),
    )
