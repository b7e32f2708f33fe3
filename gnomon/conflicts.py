"""What is wrong between the comparisons of one file: answers that contradict each other, groups in several splits."""

from __future__ import annotations

from pathlib import PurePosixPath

from gnomon.records import Comparison, Judgement


class Conflicts:
    """Goes through the comparisons of a file one by one and remembers what each said, and on which line."""

    def __init__(self) -> None:
        """Know of no comparison yet."""
        self._outcomes: dict[tuple[str, ...], tuple[str, int]] = {}
        self._splits: dict[str, tuple[str, int]] = {}

    def find(self, record: Comparison, line: int) -> list[str]:
        """Return what `record`, found on `line`, contradicts in itself or in the comparisons before it."""
        problems = [_self_preference(record, judgement) for judgement in record.judgements]
        problems += [self._contradiction(record, judgement, line) for judgement in record.judgements]
        return [problem for problem in [*problems, self._leak(record, line)] if problem is not None]

    def _contradiction(self, record: Comparison, judgement: Judgement, line: int) -> str | None:
        """Compare with the first judgement of the same two pictures under the same instruction and references."""
        context = (record.instruction.model_dump_json(), *(_normal(reference.path) for reference in record.references))
        pair = sorted(_pair(record, judgement))
        outcome = _outcome(record, judgement)
        earlier, first_line = self._outcomes.setdefault((*context, *pair, judgement.dimension), (outcome, line))
        if earlier == outcome:
            return None
        return (
            f"conflicting judgements of {pair[0]!r} and {pair[1]!r} in {judgement.dimension!r}: "
            f"{outcome} here, {earlier} on line {first_line}; keep one, or merge them into one with votes"
        )

    def _leak(self, record: Comparison, line: int) -> str | None:
        """Refuse a group that is in two splits: its test pairs would be known from training."""
        if record.split is None:
            return None
        split, first_line = self._splits.setdefault(record.group_id, (record.split, line))
        if split == record.split:
            return None
        return (
            f"group {record.group_id!r} is in split {record.split!r} here and in {split!r} on line {first_line}; "
            "keep each group in one split"
        )


def _normal(path: str) -> str:
    """Return the path that equal ones share: `./a.png` is `a.png`."""
    return str(PurePosixPath(path))


def _pair(record: Comparison, judgement: Judgement) -> tuple[str, str]:
    first, second = (_normal(record.candidates[position].path) for position in (judgement.i, judgement.j))
    return first, second


def _self_preference(record: Comparison, judgement: Judgement) -> str | None:
    first, second = _pair(record, judgement)
    if first != second or judgement.label not in ("i", "j"):
        return None
    return (
        f"candidates {judgement.i} and {judgement.j} are the same picture {first!r}, yet {judgement.label!r} is better "
        f"in {judgement.dimension!r}; correct a path, or remove the judgement"
    )


def _outcome(record: Comparison, judgement: Judgement) -> str:
    """Return the label without regard to the order of the two: the better one's path, or the kind of tie."""
    first, second = _pair(record, judgement)
    return {"i": f"{first!r} is better", "j": f"{second!r} is better"}.get(judgement.label, judgement.label)
