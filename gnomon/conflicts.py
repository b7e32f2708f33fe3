"""What is wrong between the comparisons of one file: answers that contradict each other, groups in several splits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from gnomon.records import Comparison, Judgement


class Conflicts:
    """Goes through the comparisons of a file one by one and remembers what each said, and on which line."""

    def __init__(self, identity: Callable[[str], str] | None = None) -> None:
        """Know of no comparison yet.

        Args:
            identity: what a picture's normal path stands for, such as the hash of its pixels: pictures of one identity
                are one picture. By default every path is a picture of its own.
        """
        self._identity = identity or (lambda path: path)
        self._outcomes: dict[tuple[str, ...], tuple[str, str, int]] = {}
        self._splits: dict[str, tuple[str, int]] = {}

    def find(self, record: Comparison, line: int) -> list[str]:
        """Return what `record`, found on `line`, contradicts in itself or in the comparisons before it."""
        problems = [self._self_preference(record, judgement) for judgement in record.judgements]
        problems += [self._contradiction(record, judgement, line) for judgement in record.judgements]
        return [problem for problem in [*problems, self._leak(record, line)] if problem is not None]

    def _contradiction(self, record: Comparison, judgement: Judgement, line: int) -> str | None:
        """Compare with the first judgement of the same two pictures under the same instruction and references."""
        references = (self._identity(_normal(reference.path)) for reference in record.references)
        pair = _pair(record, judgement)
        identities = self._identity(pair[0]), self._identity(pair[1])
        key = (record.instruction.model_dump_json(), *references, *sorted(identities), judgement.dimension)
        text = _outcome(repr(pair[0]), repr(pair[1]), judgement.label)
        outcome = _outcome(*identities, judgement.label)
        earlier, earlier_text, first_line = self._outcomes.setdefault(key, (outcome, text, line))
        if earlier == outcome:
            return None
        first, second = sorted(pair)
        return (
            f"conflicting judgements of {first!r} and {second!r} in {judgement.dimension!r}: "
            f"{text} here, {earlier_text} on line {first_line}; keep one, or merge them into one with votes"
        )

    def _self_preference(self, record: Comparison, judgement: Judgement) -> str | None:
        first, second = _pair(record, judgement)
        if judgement.label not in ("i", "j") or self._identity(first) != self._identity(second):
            return None
        shown = repr(first) if first == second else f"in {first!r} and {second!r}"
        return (
            f"candidates {judgement.i} and {judgement.j} are the same picture {shown}, yet {judgement.label!r} is "
            f"better in {judgement.dimension!r}; correct a path, or remove the judgement"
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


def _outcome(first: str, second: str, label: str) -> str:
    """Return the label without regard to the order of the two: the better one, or the kind of tie."""
    return {"i": f"{first} is better", "j": f"{second} is better"}.get(label, label)
