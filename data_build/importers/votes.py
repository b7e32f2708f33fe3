"""How many annotators chose each side, as EditReward-Data and HPDv3 write it."""

from __future__ import annotations

from data_build.importers.rows import Row, RowError


def votes_of(row: Row) -> dict[str, int] | None:
    """Return the votes for `path1` ("i") and `path2` ("j") from `choice_dist`; None where there is none.

    Raises:
        RowError: for anything but two counts.
    """
    if row.get("choice_dist") is None:
        return None
    counts = row.items("choice_dist", 2)
    if not all(isinstance(count, int | float) and count >= 0 and count == int(count) for count in counts):
        raise RowError(f"expected two counts under 'choice_dist', got {counts!r:.80}")
    return {"i": int(counts[0]), "j": int(counts[1])}
