"""Reference retrieval: for each person of a prompt, which of the pictures of that identity is the one that is meant?

Source: Nguyen et al. 2026 (arXiv 2606.15867), section 4: an identity has a pool of pictures that differ in attributes,
a prompt means one of them, and Precision@k and Recall@k are reported for k = 1, 3 and 5. Pure functions.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from bench.cogcanvas.cases import IDENTITY
from gnomon.records import Case, Record, Status
from gnomon.statistics import Estimate, cluster_bootstrap

CUTOFFS = (1, 3, 5)
DESCRIPTION = "description"
"""The attribute of a reference that says how its picture looks."""

Query = Literal["text", "image"]


class RetrievalSlot(Record):
    """One person of a prompt, and the pictures to choose from; paths are below the file's folder.

    Attributes:
        id: its own.
        case_id: of the prompt; its slots are resampled together.
        person: the identity.
        text: what is said of the picture that is meant.
        image: a picture that is like it; none of the pool.
        pool: pictures to choose from.
        relevant: those of them that are meant.
    """

    id: str = Field(min_length=1)
    case_id: str = Field(min_length=1)
    person: str
    text: str | None = None
    image: str | None = None
    pool: list[str] = Field(min_length=2)
    relevant: list[str] = Field(min_length=1)

    @model_validator(mode="after")
    def _relevant_is_in_the_pool(self) -> RetrievalSlot:
        if len(set(self.pool)) < len(self.pool) or not set(self.relevant) <= set(self.pool):
            raise ValueError("expected each picture of the pool once, and relevant ones among them")
        if self.image in self.pool:
            raise ValueError(f"expected an image to ask by that is not in the pool, got {self.image}")
        return self


def slots_of(cases: Iterable[Case]) -> tuple[list[RetrievalSlot], int]:
    """Return the slots of a dataset's cases, and how many have nothing to choose from.

    An identity's pool is every picture that any case has of it. A slot is asked by what its reference's `description`
    says, or by the instruction in English where it has none.

    Returns:
        Slots with two pictures at least, and the number of those with one.
    """
    cases = list(cases)
    pools: dict[str, dict[str, None]] = defaultdict(dict)  # in order, and each once
    for case in cases:
        for reference in case.references:
            if reference.role == IDENTITY and reference.name:
                pools[reference.name][reference.path] = None
    slots, alone = [], 0
    for case in cases:
        for place, reference in enumerate(case.references):
            pool = list(pools.get(reference.name or "", ())) if reference.role == IDENTITY else []
            alone += len(pool) == 1
            if len(pool) > 1:
                slots.append(
                    RetrievalSlot(
                        id=f"{case.id}/{place}",
                        case_id=case.id,
                        person=reference.name or "",
                        text=reference.attributes.get(DESCRIPTION) or case.instruction.get("en"),
                        pool=pool,
                        relevant=[reference.path],
                    )
                )
    return slots, alone


@dataclass(frozen=True)
class Ranked:
    """How one slot went: for each relevant picture how many others rank above it and how many beside it.

    Attributes:
        slot: its id.
        case_id: of the prompt.
        n_pool: pictures to choose from.
        above: others with a higher similarity, for each relevant picture; None where nothing could be ranked.
        level: pictures with the same similarity, itself included, likewise.
        status: why nothing could be ranked.
        reason: the same in words.
    """

    slot: str
    case_id: str
    n_pool: int
    above: list[int] | None = None
    level: list[int] | None = None
    status: Status = "ok"
    reason: str | None = None

    def hits(self, k: int) -> float:
        """Return how many relevant pictures are among the first k, as expected where ties are broken by lot."""
        places = zip(self.above or (), self.level or (), strict=True)
        return sum(min(1.0, max(0.0, (k - above) / level)) for above, level in places)

    @property
    def n_relevant(self) -> int:
        """How many pictures are meant."""
        return len(self.above or ())


def rank(slot: RetrievalSlot, similarity: NDArray[Any]) -> Ranked:
    """Return how a slot went by the similarities of its query and the pictures of its pool [pool].

    A picture without one (NaN: nothing in it could be compared) comes last.
    """
    values = np.where(np.isnan(similarity), -np.inf, similarity.astype(np.float64))
    meant = values[[slot.pool.index(path) for path in slot.relevant]]
    above = (values[None, :] > meant[:, None]).sum(axis=1).tolist()
    level = (values[None, :] == meant[:, None]).sum(axis=1).tolist()
    return Ranked(slot.id, slot.case_id, len(slot.pool), above, level)


@dataclass(frozen=True)
class RetrievalResult:
    """Precision@k and Recall@k with 95 % intervals that resample prompts.

    Attributes:
        embedder: whose vectors were compared.
        fingerprint: of all that they depend on.
        query: by what was asked.
        n_slots: slots that there are; `n_scored` of them have a value, `failed` counts the others by status.
        n_alone: slots with one picture in the pool, which are not asked.
        n_cut: texts that were too long for the embedder.
        precision: by k; of k pictures, even where the pool has fewer.
        recall: by k.
        chance_precision: what a ranking by lot is expected to have.
        chance_recall: likewise.
        slots: how each went.
    """

    embedder: str
    fingerprint: str
    query: Query
    n_slots: int
    n_scored: int
    failed: dict[str, int]
    n_alone: int
    n_cut: int
    precision: dict[str, Estimate] = field(default_factory=dict)
    recall: dict[str, Estimate] = field(default_factory=dict)
    chance_precision: dict[str, float] = field(default_factory=dict)
    chance_recall: dict[str, float] = field(default_factory=dict)
    slots: list[Ranked] = field(default_factory=list)


def summarized(
    ranked: Sequence[Ranked], *, embedder: str, fingerprint: str, query: Query, n_alone: int = 0, n_cut: int = 0
) -> RetrievalResult:
    """Return the figures over all slots that could be ranked."""
    scored = [one for one in ranked if one.status == "ok"]
    failed = Counter(one.status for one in ranked if one.status != "ok")
    clusters = [one.case_id for one in scored]

    def means(values: Mapping[str, list[float]]) -> dict[str, Estimate]:
        return {k: cluster_bootstrap(each, clusters) for k, each in values.items()} if scored else {}

    return RetrievalResult(
        embedder=embedder,
        fingerprint=fingerprint,
        query=query,
        n_slots=len(ranked),
        n_scored=len(scored),
        failed=dict(sorted(failed.items())),
        n_alone=n_alone,
        n_cut=n_cut,
        precision=means({str(k): [one.hits(k) / k for one in scored] for k in CUTOFFS}),
        recall=means({str(k): [one.hits(k) / one.n_relevant for one in scored] for k in CUTOFFS}),
        chance_precision={str(k): fmean(_by_lot(one, k) / k for one in scored) for k in CUTOFFS} if scored else {},
        chance_recall={str(k): fmean(_by_lot(one, k) / one.n_relevant for one in scored) for k in CUTOFFS}
        if scored
        else {},
        slots=list(ranked),
    )


def _by_lot(ranked: Ranked, k: int) -> float:
    """Return how many relevant pictures are expected among the first k of a ranking by lot."""
    return ranked.n_relevant * min(k, ranked.n_pool) / ranked.n_pool
