"""Lines of an evaluation for tests of what is computed from them."""

from __future__ import annotations

from rm.scorers import PairSample


def pair_sample(
    pair: str,
    right: bool | None,
    *,
    dimension: str = "overall",
    comparison: str | None = None,
    group: str | None = None,
    label: int = 1,
    sides: tuple[int, int] = (0, 1),
) -> PairSample:
    """Return what was said about a pair: right, wrong, or (None) nothing readable.

    Comparison and group have the pair's name where they have none of their own.
    """
    return PairSample(
        pair_id=pair,
        comparison_id=comparison or pair,
        group_id=group or pair,
        dimension=dimension,
        first=sides[0],
        second=sides[1],
        label=label,
        margin=None,
        scores=None,
        difference=None if right is None else 1.0 if right else -1.0,
        correct=right,
        status="parse_error" if right is None else "ok",
    )
