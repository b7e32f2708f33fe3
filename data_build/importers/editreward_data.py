"""TIGER-Lab/EditReward-Data: pairs of edits with expert scores in two dimensions; the better one always comes first."""

from __future__ import annotations

from data_build.importers.pairs import group_of, judgement_of_scores, with_sides_by_hash
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row
from data_build.importers.votes import votes_of
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Reference, Text

_SCORES = {"instruction_following": "dim1_score", "visual_quality": "dim2_score", "overall": "overall_score"}


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row, with its sides placed by hash.

    `path1` is the better one overall. The exception are ties, which the set writes as two rows that contradict each
    other: `tie_case`, or equal overall scores. Both rows are "tie" here. Single dimensions go by their scores.

    Raises:
        RowError: for missing or wrong fields.
    """
    instruction, source = row.text("prompt"), pictures.add(row.get("path_src"), "path_src")
    candidates = [_candidate(row, pictures, number) for number in (1, 2)]
    first, second = (candidate.scores for candidate in candidates)
    judgements = [judgement_of_scores(first[name], second[name], name) for name in first if name in second]
    overall = next((item for item in judgements if item.dimension == "overall"), None)
    is_tie = row.get("tie_case") is True or (overall is not None and overall.label == "tie")
    label: Label = "tie" if is_tie else "i"
    margin = overall.margin if overall is not None and overall.label == label else None
    judgements = [item for item in judgements if item.dimension != "overall"]
    votes = votes_of(row)
    judgements.append(Judgement(i=0, j=1, dimension="overall", label=label, margin=margin, votes=votes))
    confidence = row.number_of("confidence")
    return [
        with_sides_by_hash(
            Comparison(
                id=row.id,
                instruction=Text(en=instruction),
                references=[Reference(path=source)],
                candidates=candidates,
                judgements=judgements,
                group_id=group_of(instruction, [source]),
                meta={} if confidence is None else {"confidence": confidence},
            )
        )
    ]


def _candidate(row: Row, pictures: Pictures, number: int) -> ComparedImage:
    values = {name: row.number_of(f"model{number}_{field}") for name, field in _SCORES.items()}
    return ComparedImage(
        path=pictures.add(row.get(f"path{number}"), f"path{number}"),
        generator=row.optional_text(f"model{number}"),
        scores={name: value for name, value in values.items() if value is not None},
    )
