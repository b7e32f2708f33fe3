"""Pairs for the comparison of real with synthetic references: the same sample with the pictures made from its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from data_build.mdmr.buckets import Bucket
from data_build.mdmr.candidates import NONE, Candidates, Mask
from data_build.mdmr.drawing import Drawn
from data_build.mdmr.narrowing import narrow
from gnomon.hashing import stable_seed

Key = tuple[str, int]
"""Bucket and number of a sample."""


def find_twins(
    candidates: Candidates, buckets: Sequence[Bucket], drawn: Mapping[str, Drawn], *, num: int, seed: int
) -> tuple[dict[Key, tuple[int, ...]], int]:
    """Return synthetic references for some samples of which all references are real.

    The second sample keeps to its bucket's rules as well, by its pictures' own tags. Each synthetic picture is in one
    pair at most.

    Args:
        candidates: the pictures.
        buckets: the rules.
        drawn: what was drawn, by bucket.
        num: pairs at most; which, is drawn by lot.
        seed: of the lots.

    Returns:
        The references, and how many samples have pictures made from all of theirs which do not fit the rules.
    """
    made_from: dict[int, list[int]] = {}
    for row in np.flatnonzero(candidates.synthetic & (candidates.root != np.arange(len(candidates)))).tolist():
        made_from.setdefault(int(candidates.root[row]), []).append(row)
    found: dict[Key, tuple[int, ...]] = {}
    num_unfit = 0
    for bucket in buckets:
        samples = {
            number: rows
            for number, rows in drawn[bucket.name].rows.items()
            if all(not candidates.synthetic[row] and row in made_from for row in rows)
        }
        masks = [narrow(candidates, rule)[0] for rule in bucket.slots] if samples else []
        for number, rows in samples.items():
            twins = _fitting(candidates, bucket, masks, [made_from[row] for row in rows])
            if twins is None:
                num_unfit += 1
            else:
                found[bucket.name, number] = twins
    return _by_lot(found, num, seed), num_unfit


def _fitting(
    candidates: Candidates, bucket: Bucket, masks: Sequence[Mask], choices: Sequence[Sequence[int]]
) -> tuple[int, ...] | None:
    twins = []
    for mask, rows in zip(masks, choices, strict=True):
        row = next((row for row in rows if mask[row]), None)
        if row is None:
            return None
        twins.append(row)
    return tuple(twins) if relations_hold(candidates, bucket, twins) else None


def relations_hold(candidates: Candidates, bucket: Bucket, rows: Sequence[int]) -> bool:
    """Say whether references stand in all relations of a bucket."""
    for relation in bucket.relations:
        places = bucket.places(relation)
        roles = [bucket.slots[place].role for place in places]
        values = [
            int(candidates.feature(relation.feature, role)[rows[place]])
            for place, role in zip(places, roles, strict=True)
        ]
        if NONE in values or len(set(values)) != (1 if relation.same else len(values)):
            return False
    return True


def _by_lot(found: Mapping[Key, tuple[int, ...]], num: int, seed: int) -> dict[Key, tuple[int, ...]]:
    keys = list(found)
    order = np.random.default_rng(stable_seed(seed, "pairs")).permutation(len(keys))
    chosen: dict[Key, tuple[int, ...]] = {}
    used: set[int] = set()
    for place in order.tolist():
        rows = found[keys[place]]
        if len(chosen) < num and used.isdisjoint(rows):
            chosen[keys[place]] = rows
            used.update(rows)
    return chosen
