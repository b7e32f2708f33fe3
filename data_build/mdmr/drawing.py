"""References for the samples of a bucket: drawn one after the other, each by what the ones before leave.

Of the pictures that fit, one is taken of the category that the bucket's samples have shown least in this place, then of
the entity (or of what the attribute says) likewise, then one that was used least in all. What is equal by all three is
drawn by lot, with a seed of the bucket and the sample's number: a bucket that is added changes no other one's lots.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from data_build.mdmr.buckets import Bucket, ReferenceRule, Relation
from data_build.mdmr.candidates import NONE, Candidates, Codes
from data_build.mdmr.narrowing import Step, narrow
from gnomon.hashing import stable_seed

Rows = NDArray[np.int64]
TRIES = 20
"""A sample is begun so often: the first reference may leave nothing for a later one."""
GLANCE = 4096
"""Of a category with more pictures so many are drawn by lot; all of them are asked only where none of those fits."""


@dataclass
class Drawn:
    """What came of a bucket.

    Attributes:
        rows: positions of each sample's references, by its number.
        steps: for each reference, how many pictures were left after each constraint.
        failures: samples that were not filled, by what left no picture for them.
    """

    rows: dict[int, tuple[int, ...]] = field(default_factory=dict)
    steps: list[list[Step]] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)


@dataclass
class _Slot:
    """One reference: where its pictures are, and what it has shown so far.

    Attributes:
        rule: what it is for.
        pool: positions of the pictures that fit.
        by_category: likewise, by the code of their category.
        subjects: codes of what else is balanced than the category; of all candidates.
        shown_categories: how often each was drawn.
        shown_subjects: likewise; the last place is that of pictures without a subject.
    """

    rule: ReferenceRule
    pool: Rows
    by_category: dict[int, Rows]
    subjects: Codes
    shown_categories: NDArray[np.int64]
    shown_subjects: NDArray[np.int64]


@dataclass(frozen=True)
class _Beside:
    """What a reference has to stand beside.

    Attributes:
        bucket: the rules.
        slots: of the sample.
        place: of the reference.
        chosen: positions of the pictures before it.
        old: pictures that would make the sample one that there is already.
    """

    bucket: Bucket
    slots: list[_Slot]
    place: int
    chosen: list[int]
    old: list[int]


class Drawer:
    """Draws samples, and remembers how often each picture was used.

    Args:
        candidates: the pictures.
        max_uses: samples that a picture may be in.
        seed: of the lots.
    """

    def __init__(self, candidates: Candidates, *, max_uses: int, seed: int) -> None:
        self.candidates, self.max_uses, self.seed = candidates, max_uses, seed
        self.uses = np.zeros(len(candidates), np.int32)
        self.is_twinned = np.zeros(len(candidates), bool)
        self.is_twinned[candidates.root[candidates.synthetic]] = True
        self.is_twinned &= ~candidates.synthetic

    def draw(self, bucket: Bucket, num: int, num_paired: int = 0) -> Drawn:
        """Draw `num` samples of a bucket, or as many as there can be.

        Args:
            bucket: the rules.
            num: samples.
            num_paired: so many of them, the first ones, of real pictures that synthetic ones were made from, as far as
                that is possible.
        """
        drawn = Drawn()
        slots = self._slots(bucket, drawn)
        empty = next((step for steps in drawn.steps for step in steps if step.left == 0), None)
        if empty is not None:
            drawn.failures[empty.constraint] = num
            return drawn
        paired = self._paired(bucket, slots) if num_paired and self.is_twinned.any() else None
        taken: set[frozenset[int]] = set()
        for number in range(1, num + 1):
            random = np.random.default_rng(stable_seed(self.seed, bucket.name, number))
            found: tuple[int, ...] | str = ""
            if paired is not None and number <= num_paired:
                found = self._new_sample(bucket, paired, taken, random)
            if isinstance(found, str):
                found = self._new_sample(bucket, slots, taken, random)
            if isinstance(found, str):
                drawn.failures[found] += 1
                continue
            taken.add(frozenset(found))
            drawn.rows[number] = found
            self._note(slots, found)
        return drawn

    def _new_sample(
        self, bucket: Bucket, slots: list[_Slot], taken: set[frozenset[int]], random: np.random.Generator
    ) -> tuple[int, ...] | str:
        """Return a sample that is none of those taken, or why there is none."""
        found: tuple[int, ...] | str = ""
        for _ in range(TRIES):
            found = self._sample(bucket, slots, taken, random)
            if not isinstance(found, str):
                break
        return found

    def _slots(self, bucket: Bucket, drawn: Drawn) -> list[_Slot]:
        slots = []
        for rule in bucket.references:
            mask, steps = narrow(self.candidates, rule)
            drawn.steps += [list(steps) for _ in range(rule.count)]
            attribute = rule.has[0] if rule.role == "attribute" and rule.has else "name"
            subjects = self.candidates.feature(attribute, rule.role)
            num_categories = len(self.candidates.words["category"].words)
            shown: dict[str, Any] = {
                "shown_categories": np.zeros(num_categories + 1, np.int64),
                "shown_subjects": np.zeros(int(subjects.max(initial=0)) + 2, np.int64),
            }
            # References of one rule share what they have shown.
            slots += [_Slot(rule=rule, subjects=subjects, **shown, **self._pools(np.flatnonzero(mask)))] * rule.count
        for relation in bucket.relations:
            slots = self._related(bucket, relation, slots, drawn)
        return slots

    def _paired(self, bucket: Bucket, slots: list[_Slot]) -> list[_Slot]:
        """Return the same references with real pictures only that synthetic ones were made from."""
        narrowed = [self._narrowed(slot, self.is_twinned) for slot in slots]
        for relation in bucket.relations:
            narrowed = self._related(bucket, relation, narrowed, Drawn(steps=[[] for _ in slots]))
        return narrowed

    def _narrowed(self, slot: _Slot, mask: NDArray[np.bool_]) -> _Slot:
        return replace(slot, **self._pools(slot.pool[mask[slot.pool]]))

    def _pools(self, rows: Rows) -> dict[str, Any]:
        categories = self.candidates.words["category"].codes[rows]
        by_category = {code: rows[categories == code] for code in np.unique(categories).tolist()}
        return {"pool": rows, "by_category": by_category}

    def _related(self, bucket: Bucket, relation: Relation, slots: list[_Slot], drawn: Drawn) -> list[_Slot]:
        """Leave out pictures that no others can stand beside, as far as one value tells."""
        places = bucket.places(relation)
        codes = {place: self.candidates.feature(relation.feature, slots[place].rule.role) for place in places}
        allowed = {place: codes[place] != NONE for place in places}
        if relation.same:
            good = self._shared(bucket, relation, slots, codes)
            allowed = {place: mask & good[codes[place]] for place, mask in allowed.items()}
        narrowed = list(slots)
        for place in places:
            narrowed[place] = self._narrowed(slots[place], allowed[place])
            drawn.steps[place].append(Step(relation.label, len(narrowed[place].pool)))
        return narrowed

    def _shared(
        self, bucket: Bucket, relation: Relation, slots: list[_Slot], codes: dict[int, Codes]
    ) -> NDArray[np.bool_]:
        """Return which values of a feature enough different pictures have, in every place that has to share one."""
        places = bucket.places(relation)
        num = 1 + max(int(codes[place].max(initial=0)) for place in places)
        good = np.ones(num, bool)
        for place in places:
            values = codes[place][slots[place].pool]
            good &= np.bincount(values[values != NONE], minlength=num) > 0
        rows = np.unique(np.concatenate([slots[place].pool for place in places]))
        good &= self._num_different(codes[places[0]][rows], rows, num) >= len(places)
        for other in bucket.relations:
            both = set(bucket.places(other)) & set(places)
            if other.different and len(both) > 1:
                role = slots[places[0]].rule.role
                values = self.candidates.feature(other.feature, role)[rows]
                has_both = values != NONE
                good &= self._num_different(codes[places[0]][rows][has_both], values[has_both], num) >= len(both)
        return good

    @staticmethod
    def _num_different(values: Codes, others: NDArray[np.integer], num: int) -> NDArray[np.int64]:
        """Return, for each value, how many different others (codes from 0) come with it."""
        wide = int(others.max(initial=0)) + 1
        has_value = values != NONE
        pairs = np.unique(values[has_value].astype(np.int64) * wide + others[has_value])
        return np.bincount(pairs // wide, minlength=num)

    def _sample(
        self, bucket: Bucket, slots: list[_Slot], taken: set[frozenset[int]], random: np.random.Generator
    ) -> tuple[int, ...] | str:
        """Return the references of one sample, or which constraint left none for one of them."""
        chosen: list[int] = []
        for place, slot in enumerate(slots):
            is_last = place == len(slots) - 1
            old = (
                [row for rows in taken if rows.issuperset(chosen) for row in rows.difference(chosen)] if is_last else []
            )
            beside = _Beside(bucket, slots, place, chosen, old)
            row = self._reference(slot, beside, random)
            if row is None:
                return self._fitting(beside, slot.pool)[1]
            chosen.append(row)
        return tuple(chosen)

    def _reference(self, slot: _Slot, beside: _Beside, random: np.random.Generator) -> int | None:
        """Return a picture for one reference; None where there is none."""
        categories = random.permutation(np.array(list(slot.by_category), np.int64))
        for category in categories[np.argsort(slot.shown_categories[categories], kind="stable")].tolist():
            pool = slot.by_category[category]
            parts = [pool] if len(pool) <= GLANCE else [pool[random.integers(len(pool), size=GLANCE)], pool]
            for part in parts:
                rows, _ = self._fitting(beside, part)
                if len(rows):
                    rows = _least(rows, slot.shown_subjects[slot.subjects[rows]])
                    return int(random.choice(_least(rows, self.uses[rows])))
        return None

    def _fitting(self, beside: _Beside, rows: Rows) -> tuple[Rows, str]:
        """Return those rows that may stand beside what was chosen before, and what left none where there is none."""
        chosen, roots = beside.chosen, self.candidates.root
        rows = rows[self.uses[rows] < self.max_uses]
        if not len(rows):
            return rows, f"a picture is in at most {self.max_uses} samples"
        # A picture and the one that was made from it show the same thing.
        rows = rows[~np.isin(roots[rows], roots[chosen])] if chosen else rows
        if not len(rows):
            return rows, "different pictures"
        for relation in beside.bucket.relations:
            before = [other for other in beside.bucket.places(relation) if other < beside.place]
            if beside.place not in beside.bucket.places(relation) or not before:
                continue
            values, *others = (
                self.candidates.feature(relation.feature, beside.slots[place].rule.role)
                for place in (beside.place, *before)
            )
            known = [codes[chosen[place]] for codes, place in zip(others, before, strict=True)]
            rows = rows[values[rows] == known[0]] if relation.same else rows[~np.isin(values[rows], known)]
            if not len(rows):
                return rows, relation.label
        rows = rows[~np.isin(rows, beside.old)] if beside.old else rows
        return rows, "a set of pictures that no other sample has"

    def _note(self, slots: list[_Slot], rows: tuple[int, ...]) -> None:
        for slot, row in zip(slots, rows, strict=True):
            self.uses[row] += 1
            slot.shown_categories[self.candidates.words["category"].codes[row]] += 1
            slot.shown_subjects[slot.subjects[row]] += 1


def _least(rows: Rows, counts: NDArray[np.integer]) -> Rows:
    least: Rows = rows[counts == counts.min()]
    return least
