"""Images that were scored one by one, compared with each other where instruction and references are the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import combinations

from data_build.importers.pairs import group_of, judgement_of_scores
from gnomon.records import ComparedImage, Comparison, Reference, Split, Text


@dataclass(frozen=True)
class Scored:
    """One image with absolute scores, the higher the better.

    Attributes:
        id: of the row.
        instruction: of the edit.
        references: relative paths.
        candidate: relative path.
        scores: by dimension.
        split: of the row.
    """

    id: str
    instruction: str
    references: tuple[str, ...]
    candidate: str
    scores: dict[str, float]
    split: Split | None = None


def comparisons_of(scored: Iterable[Scored]) -> Iterator[Comparison]:
    """Yield one comparison of K candidates for each instruction and set of references with at least two images.

    All pairs are judged in every dimension that both have. An image that was scored several times counts with its mean.
    """
    groups: dict[tuple[str, tuple[str, ...], Split | None], list[Scored]] = {}
    for item in scored:
        groups.setdefault((item.instruction, item.references, item.split), []).append(item)
    for (instruction, references, split), items in groups.items():
        means = {
            candidate: _means([item.scores for item in items if item.candidate == candidate])
            for candidate in dict.fromkeys(item.candidate for item in items)
        }
        judgements = [
            judgement_of_scores(first[dimension], second[dimension], dimension, i, j)
            for (i, first), (j, second) in combinations(enumerate(means.values()), 2)
            for dimension in first
            if dimension in second
        ]
        if judgements:
            yield Comparison(
                id=items[0].id,
                instruction=Text(en=instruction),
                references=[Reference(path=path) for path in references],
                candidates=[ComparedImage(path=path, scores=scores) for path, scores in means.items()],
                judgements=judgements,
                group_id=group_of(instruction, references),
                split=split,
            )


def _means(scores: list[dict[str, float]]) -> dict[str, float]:
    dimensions = dict.fromkeys(dimension for item in scores for dimension in item)
    values = {dimension: [item[dimension] for item in scores if dimension in item] for dimension in dimensions}
    return {dimension: sum(found) / len(found) for dimension, found in values.items()}
