"""HPDv3: pairs of pictures made from a text; the better one always comes first."""

from __future__ import annotations

from data_build.importers.pairs import group_of, with_sides_by_hash
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row
from data_build.importers.votes import votes_of
from gnomon.records import ComparedImage, Comparison, Judgement, Text


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row, with its sides placed by hash.

    Raises:
        RowError: for missing or wrong fields.
    """
    prompt = row.text("prompt")
    candidates = [
        ComparedImage(
            path=pictures.add(row.get(f"path{number}"), f"path{number}"),
            generator=row.optional_text(f"model{number}"),
        )
        for number in (1, 2)
    ]
    confidence = row.number_of("confidence")
    return [
        with_sides_by_hash(
            Comparison(
                id=row.id,
                instruction=Text(en=prompt),
                candidates=candidates,
                judgements=[Judgement(i=0, j=1, dimension="overall", label="i", votes=votes_of(row))],
                group_id=group_of(prompt, []),
                meta={} if confidence is None else {"confidence": confidence},
            )
        )
    ]
