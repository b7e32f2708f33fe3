"""ImageReward: groups of four to nine pictures made from a text, ranked; equal ranks are ties and stay."""

from __future__ import annotations

from data_build.importers.pairs import group_of, judgements_of_ranks
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import ComparedImage, Comparison, Text


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row: K candidates in their order, all pairs judged by rank (lower is better).

    Raises:
        RowError: for missing or wrong fields.
    """
    prompt, generations = row.text("prompt"), row.items("generations")
    ranks = row.items("ranking", len(generations))
    if len(ranks) < 2 or not all(isinstance(rank, int) and not isinstance(rank, bool) for rank in ranks):
        raise RowError(f"expected at least two whole numbers under 'ranking', got {ranks!r:.80}")
    candidates = [ComparedImage(path=pictures.add(value, "generations")) for value in generations]
    return [
        Comparison(
            id=row.id,
            instruction=Text(en=prompt),
            candidates=candidates,
            judgements=judgements_of_ranks(ranks, "overall"),
            group_id=group_of(prompt, []),
            meta={"original_id": str(row.get("id") or "")},
        )
    ]
