from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from data_build.mdmr import drawing
from data_build.mdmr.buckets import Bucket
from data_build.mdmr.candidates import Candidates
from data_build.mdmr.drawing import Drawer
from data_build.mdmr.narrowing import narrow
from data_build.mdmr.twins import find_twins, relations_hold
from tests.data_build.mdmr.pictures import tags
from tests.data_build.mdmr.tables import candidates


def bucket(*references: dict[str, Any], name: str = "some", **changes: Any) -> Bucket:
    facts = {"name": name, "family": "entity_fusion", "subtask": "objects", "samples": 10, "references": references}
    return Bucket.model_validate({**facts, **changes})


def objects(num: int, **changes: Any) -> list[dict[str, Any]]:
    return [tags("objects", ("object", f"thing {number}"), **changes) for number in range(num)]


@st.composite
def galleries(draw: st.DrawFn) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(4, 24))):
        category = draw(st.sampled_from(("objects", "animals")))
        kinds = draw(st.lists(st.sampled_from(("object", "animal")), max_size=2))
        entities = [(kind, draw(st.sampled_from("abcd"))) for kind in kinds]
        attributes = draw(st.dictionaries(st.sampled_from(("color", "state")), st.sampled_from("xyz")))
        real = [place for place, row in enumerate(rows) if row.get("made_from") is None]
        made_from = draw(st.none() | st.sampled_from(real)) if real else None
        rows.append(tags(category, *entities, attributes=attributes, made_from=made_from))
    return rows


BUCKETS = [
    bucket({"role": "object", "count": 2}, relations=[{"different": "name"}]),
    bucket(
        {"role": "object"},
        {"role": "animal"},
        {"role": "target"},
        relations=[{"different": "category", "references": [1, 2]}],
    ),
    bucket(
        {"role": "before", "has": ["state"]},
        {"role": "after", "has": ["state"]},
        {"role": "query"},
        relations=[{"same": "name", "references": [1, 2]}, {"different": "state", "references": [1, 2]}],
    ),
    bucket(
        {"role": "target", "lacks": ["color"]},
        {"role": "attribute", "has": ["color"], "count": 2},
        relations=[{"different": "color", "references": [2, 3]}],
    ),
]


@given(galleries(), st.sampled_from(BUCKETS), st.integers(1, 3), st.integers(0, 3))
@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_is_drawn_keeps_to_the_rules(
    tmp_path: Path, rows: list[dict[str, Any]], rules: Bucket, max_uses: int, num_paired: int
) -> None:
    pictures = candidates(tmp_path, rows)

    drawn = Drawer(pictures, max_uses=max_uses, seed=1).draw(rules, 8, num_paired)

    samples = list(drawn.rows.values())
    assert len(samples) + drawn.failures.total() == 8
    uses = Counter(row for sample in samples for row in sample)
    assert max(uses.values(), default=0) <= max_uses
    assert len({frozenset(sample) for sample in samples}) == len(samples)
    masks = [narrow(pictures, rule)[0] for rule in rules.slots]
    for sample in samples:
        assert all(mask[row] for mask, row in zip(masks, sample, strict=True))
        assert relations_hold(pictures, rules, sample)
        assert len({int(pictures.root[row]) for row in sample}) == len(sample), "a picture beside its own twin"


@given(galleries(), st.sampled_from(BUCKETS))
@settings(deadline=None, max_examples=30, derandomize=True, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_first_sample_is_found_where_there_is_any(tmp_path: Path, rows: list[dict[str, Any]], rules: Bucket) -> None:
    pictures = candidates(tmp_path, rows)
    masks = [np.flatnonzero(narrow(pictures, rule)[0]).tolist() for rule in rules.slots]

    def any_sample(chosen: tuple[int, ...]) -> bool:
        """Try all combinations."""
        if len(chosen) == len(masks):
            return relations_hold(pictures, rules, chosen)
        others = {int(pictures.root[row]) for row in chosen}
        return any(any_sample((*chosen, row)) for row in masks[len(chosen)] if int(pictures.root[row]) not in others)

    drawer = Drawer(pictures, max_uses=1, seed=0)
    drawing_tries, drawing.TRIES = drawing.TRIES, 200
    try:
        drawn = drawer.draw(rules, 1)
    finally:
        drawing.TRIES = drawing_tries

    assert bool(drawn.rows) == any_sample(())


def test_categories_and_names_take_turns(tmp_path: Path) -> None:
    rows = [tags("objects", ("object", f"cup {n % 3}")) for n in range(90)]
    rows += [tags("artworks", ("object", f"vase {n}")) for n in range(10)]
    pictures = candidates(tmp_path, rows)
    rules = bucket({"role": "object", "count": 2}, samples=10)

    drawn = Drawer(pictures, max_uses=3, seed=0).draw(rules, 10)

    shown = [row for sample in drawn.rows.values() for row in sample]
    assert Counter(pictures.word("category", row) for row in shown) == {"objects": 10, "artworks": 10}
    names = Counter(pictures.names[pictures.name_codes("object")[row]] for row in shown)
    assert {count for name, count in names.items() if name.startswith("vase")} == {1}
    assert {count for name, count in names.items() if name.startswith("cup")} <= {3, 4}


def test_what_an_attribute_says_takes_turns_where_it_is_taken_from_a_reference(tmp_path: Path) -> None:
    rows = [tags("people", ("person", f"p{n}"), attributes={"hair": "short" if n < 40 else "long"}) for n in range(44)]
    pictures = candidates(tmp_path, rows)

    drawn = Drawer(pictures, max_uses=9, seed=0).draw(bucket({"role": "attribute", "has": ["hair"]}), 10)

    hair = Counter(pictures.word("hair", sample[0]) for sample in drawn.rows.values())
    assert (hair["short"], hair["long"]) == (6, 4), "each of the four long ones once, since no set comes twice"


def test_pictures_are_used_evenly_over_buckets(tmp_path: Path) -> None:
    pictures = candidates(tmp_path, [tags("objects", ("object", "cup")) for _ in range(20)])
    drawer = Drawer(pictures, max_uses=5, seed=0)
    for name in ("first", "second"):
        drawer.draw(bucket({"role": "object", "count": 2}, name=name), 10)

    assert set(drawer.uses.tolist()) == {2}


def test_the_same_seed_draws_the_same_and_another_bucket_changes_no_lots(tmp_path: Path) -> None:
    pictures = candidates(tmp_path, objects(200))

    def rows(seed: int, *names: str) -> list[tuple[int, ...]]:
        drawer = Drawer(pictures, max_uses=50, seed=seed)
        return [list(drawer.draw(bucket({"role": "object"}, name=name), 10).rows.values()) for name in names][-1]

    assert rows(0, "a") == rows(0, "a")
    assert rows(0, "a") != rows(1, "a")
    assert rows(0, "a") != rows(0, "b")


def test_a_bucket_that_cannot_be_filled_says_what_empties_it(tmp_path: Path) -> None:
    pictures = candidates(tmp_path, objects(3))

    drawn = Drawer(pictures, max_uses=3, seed=0).draw(
        bucket({"role": "object"}, {"role": "object", "has": ["color"], "num_people": {"min": 1}}), 10
    )

    assert (drawn.rows, drawn.failures) == ({}, {"has color": 10})
    assert [(step.constraint, step.left) for step in drawn.steps[1]] == [
        ("tagged pictures", 3),
        ("an entity of kind object", 3),
        ("has color", 0),
        ("num_people >= 1", 0),
    ]


@pytest.mark.parametrize(
    ("rows", "relations", "num_drawn", "reason"),
    [
        ([tags("objects", ("object", "cup"))] * 5, [{"different": "name"}], 0, "different name"),
        (objects(5), [{"same": "name"}], 0, "same name"),
        (objects(3), [], 3, "a set of pictures that no other sample has"),
        (objects(1), [], 0, "different pictures"),
        (objects(9), [{"different": "color"}], 0, "different color"),
    ],
)
def test_what_relations_and_repetition_leave_out_is_named(
    tmp_path: Path, rows: list[dict[str, Any]], relations: list[dict[str, Any]], num_drawn: int, reason: str
) -> None:
    rules = bucket({"role": "object", "count": 2}, relations=relations)

    drawn = Drawer(candidates(tmp_path, rows), max_uses=9, seed=0).draw(rules, 10)

    assert (len(drawn.rows), drawn.failures) == (num_drawn, {reason: 10 - num_drawn})


def test_a_used_up_gallery_is_named(tmp_path: Path) -> None:
    drawn = Drawer(candidates(tmp_path, objects(4)), max_uses=1, seed=0).draw(
        bucket({"role": "object", "count": 2}), 10
    )

    assert (len(drawn.rows), drawn.failures) == (2, {"a picture is in at most 1 samples": 8})


def test_a_glance_at_some_pictures_does_not_hide_the_only_one_that_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "GLANCE", 2)
    rows = [tags("objects", ("object", "cup"), attributes={"state": "whole"}) for _ in range(300)]
    rows.append(tags("objects", ("object", "cup"), attributes={"state": "broken"}))
    rules = bucket({"role": "before"}, {"role": "after"}, relations=[{"same": "name"}, {"different": "state"}])

    drawn = Drawer(candidates(tmp_path, rows), max_uses=20, seed=0).draw(rules, 10)

    assert len(drawn.rows) == 10
    assert all(300 in sample for sample in drawn.rows.values())


def twinned(tmp_path: Path) -> Candidates:
    """Twenty real cups, of which the last ten have synthetic ones; that of the last shows something else."""
    rows = [tags("objects", ("object", f"cup {n}")) for n in range(20)]
    rows += [tags("objects", ("object", f"cup {n}"), made_from=n) for n in range(10, 19)]
    return candidates(tmp_path, [*rows, tags("scenes", ("scene", "beach"), made_from=19)])


def test_first_samples_are_of_pictures_with_synthetic_ones(tmp_path: Path) -> None:
    pictures = twinned(tmp_path)
    rules = bucket({"role": "object", "count": 2}, relations=[{"different": "name"}])

    drawn = Drawer(pictures, max_uses=1, seed=0).draw(rules, 8, num_paired=4)

    assert all(10 <= row < 20 for number in range(1, 5) for row in drawn.rows[number])
    twins, num_unfit = find_twins(pictures, [rules], {rules.name: drawn}, num=9, seed=0)
    assert num_unfit == sum(19 in rows for rows in drawn.rows.values() if min(rows) >= 10)
    for (_, number), rows in twins.items():
        assert [int(pictures.root[row]) for row in rows] == list(drawn.rows[number])
        assert all(pictures.synthetic[row] for row in rows)
        assert relations_hold(pictures, rules, rows)
    assert 3 <= len(twins) <= 4
    assert len(find_twins(pictures, [rules], {rules.name: drawn}, num=2, seed=0)[0]) == 2
