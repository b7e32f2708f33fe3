from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_build.tabletop.edits import (
    EDIT_KINDS,
    SIMPLE_KINDS,
    TWO_REFERENCE_KINDS,
    Edit,
    NoSuchEditError,
    apply_edit,
    sample_edit,
    sample_pair,
    sample_scene_for,
    split_of,
)
from data_build.tabletop.world import Scene, Shape
from gnomon.records import Split

ALL_KINDS = EDIT_KINDS + TWO_REFERENCE_KINDS
SEEDS = st.integers(min_value=0, max_value=2**63)
RED = Shape("circle", "red", "small", 0, 0)
BLUE = Shape("square", "blue", "large", 3, 2)
SCENE = Scene("white", (RED, BLUE))


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (
            Edit("add", added=Shape("cross", "cyan", "small", 1, 1)),
            Scene("white", (RED, BLUE, Shape("cross", "cyan", "small", 1, 1))),
        ),
        (Edit("remove", subject=RED), Scene("white", (BLUE,))),
        (Edit("replace", subject=RED, value="cross"), Scene("white", (Shape("cross", "red", "small", 0, 0), BLUE))),
        (Edit("recolour", subject=RED, value="green"), Scene("white", (Shape("circle", "green", "small", 0, 0), BLUE))),
        (Edit("transfer", subject=RED, value="green"), Scene("white", (Shape("circle", "green", "small", 0, 0), BLUE))),
        (Edit("resize", subject=RED, value="large"), Scene("white", (Shape("circle", "red", "large", 0, 0), BLUE))),
        (Edit("move", subject=RED, cell=(2, 2)), Scene("white", (Shape("circle", "red", "small", 2, 2), BLUE))),
        (Edit("copy", subject=RED, cell=(2, 2)), Scene("white", (RED, Shape("circle", "red", "small", 2, 2), BLUE))),
        (Edit("swap", subject=RED, other=BLUE), Scene("white", (RED.at((3, 2)), BLUE.at((0, 0))))),
        (Edit("background", value="black"), Scene("black", (RED, BLUE))),
        (
            Edit("two_step", steps=(Edit("remove", subject=RED), Edit("background", value="black"))),
            Scene("black", (BLUE,)),
        ),
    ],
    ids=lambda value: value.kind if isinstance(value, Edit) else "",
)
def test_each_kind_does_what_it_says(edit: Edit, expected: Scene) -> None:
    assert apply_edit(SCENE, edit) == expected


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="expected an edit kind out of"):
        apply_edit(SCENE, Edit("invert", subject=RED))
    with pytest.raises(ValueError, match="expected an edit kind out of"):
        sample_edit(random.Random(0), SCENE, "invert")


@settings(deadline=None)
@given(SEEDS, st.sampled_from(ALL_KINDS))
def test_a_sampled_edit_changes_the_scene_and_keeps_names_unambiguous(seed: int, kind: str) -> None:
    scene, edit = sample_pair(random.Random(seed), "train", (kind,))

    target = apply_edit(scene, edit)

    assert edit.kind == kind
    assert target != scene
    if kind != "copy":
        assert len({(shape.kind, shape.colour) for shape in target.shapes}) == len(target.shapes)


@settings(deadline=None)
@given(SEEDS)
def test_the_order_of_two_steps_does_not_matter(seed: int) -> None:
    scene, edit = sample_pair(random.Random(seed), "train", ("two_step",))
    first, second = edit.steps

    assert {first.kind, second.kind} <= set(SIMPLE_KINDS)
    assert apply_edit(apply_edit(scene, second), first) == apply_edit(scene, edit)


@settings(deadline=None)
@given(SEEDS, st.sampled_from(ALL_KINDS))
def test_an_edit_is_plain_json(seed: int, kind: str) -> None:
    edit = sample_pair(random.Random(seed), "train", (kind,))[1]

    assert json.loads(json.dumps(edit.to_dict())) == edit.to_dict()


def test_an_impossible_edit_says_so() -> None:
    with pytest.raises(NoSuchEditError, match="'swap'"):
        sample_edit(random.Random(0), Scene("white", (RED,)), "swap")
    with pytest.raises(NoSuchEditError, match="'remove'"):
        sample_edit(random.Random(0), Scene("white", ()), "remove")


def key(scene: Scene, edit: Edit) -> str:
    return json.dumps([scene.to_dict(), edit.to_dict()], sort_keys=True)


def test_no_scene_edit_pair_is_in_two_splits() -> None:
    rng = random.Random(0)
    pairs = {
        split: {key(*sample_pair(rng, split, (kind,))) for kind in ALL_KINDS for _ in range(30)}
        for split in ("train", "validation", "test")
    }

    assert not pairs["train"] & pairs["validation"]
    assert not pairs["train"] & pairs["test"]
    assert not pairs["validation"] & pairs["test"]


@settings(deadline=None)
@given(SEEDS, st.sampled_from(ALL_KINDS), st.sampled_from(["train", "validation", "test"]))
def test_a_pair_is_in_the_split_it_was_drawn_for_and_stays_there(seed: int, kind: str, split: Split) -> None:
    scene, edit = sample_pair(random.Random(seed), split, (kind,))
    again = Scene.from_dict(json.loads(json.dumps(scene.to_dict())))

    assert split_of(scene, edit) == split_of(again, edit) == split


def simple_combinations(edit: Edit) -> set[str]:
    return {step.combination() for step in edit.steps} or {edit.combination()}


def test_training_and_validation_never_show_a_held_out_combination() -> None:
    rng = random.Random(1)
    held_out, shown = set(), set()
    for kind in ALL_KINDS:
        for _ in range(60):
            held_out |= {
                step.combination()
                for edit in [sample_pair(rng, "test", (kind,), held_out=True)[1]]
                for step in (edit.steps or (edit,))
                if step.held_out()
            }
            shown |= simple_combinations(sample_pair(rng, "train", (kind,))[1])
            shown |= simple_combinations(sample_pair(rng, "validation", (kind,))[1])

    assert len(held_out) > 40
    assert not held_out & shown


def test_every_kind_has_combinations_that_are_held_out_and_others() -> None:
    rng = random.Random(2)
    for kind in ALL_KINDS:
        edits = [sample_edit(rng, sample_scene_for(rng, kind), kind) for _ in range(200)]
        assert {edit.held_out() for edit in edits} == {True, False}, kind


def test_edits_that_come_to_the_same_share_their_split_and_combination() -> None:
    rng = random.Random(5)
    for kind in ("swap", "two_step"):
        for _ in range(100):
            scene, edit = sample_pair(rng, "train", (kind,))
            mirror = replace(edit, subject=edit.other, other=edit.subject, steps=edit.steps[::-1])
            if kind == "swap":
                assert apply_edit(scene, mirror) == apply_edit(scene, edit)
            assert mirror != edit
            assert split_of(scene, mirror) == "train"
            assert mirror.held_out() == edit.held_out()
            assert mirror.combination() == edit.combination()


def test_places_and_sizes_do_not_make_another_combination() -> None:
    here, there = Edit("move", subject=RED, cell=(1, 1)), Edit("move", subject=RED.at((2, 3)), cell=(3, 0))

    assert here.combination() == there.combination() == "move red circle"


def test_splits_share_pairs_eight_to_one_to_one() -> None:
    rng = random.Random(3)
    counts: Counter[str] = Counter()
    while counts.total() < 2000:
        scene = sample_scene_for(rng, "recolour")
        edit = sample_edit(rng, scene, "recolour")
        if not edit.held_out():
            counts[split_of(scene, edit)] += 1

    assert counts["train"] / 2000 == pytest.approx(0.8, abs=0.03)
    assert counts["validation"] / 2000 == pytest.approx(0.1, abs=0.03)


def test_held_out_combinations_of_another_split_than_test_are_refused() -> None:
    with pytest.raises(ValueError, match="test split only, got split 'train'"):
        sample_pair(random.Random(0), "train", ("remove",), held_out=True)
