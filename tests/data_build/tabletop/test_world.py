from __future__ import annotations

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_build.tabletop.world import COLOURS, GRID, GROUNDS, KINDS, SIZES, Scene, Shape, sample_scene

RED = Shape("circle", "red", "small", 0, 0)
BLUE = Shape("square", "blue", "large", 3, 2)
SEEDS = st.integers(min_value=0, max_value=2**63)


def test_scenes_with_the_same_shapes_are_equal_in_whatever_order_they_are_given() -> None:
    assert Scene("white", (RED, BLUE)) == Scene("white", (BLUE, RED))
    assert hash(Scene("white", (RED, BLUE))) == hash(Scene("white", (BLUE, RED)))


def test_two_shapes_in_one_cell_are_refused() -> None:
    with pytest.raises(ValueError, match="at most one shape a cell"):
        Scene("white", (RED, BLUE.at((0, 0))))


def test_shapes_come_and_go() -> None:
    scene = Scene("grey", (RED,))

    assert scene.with_shapes(BLUE).without(RED) == Scene("grey", (BLUE,))
    assert scene.with_shapes(BLUE).cells() == {(0, 0): ("circle", "red", "small"), (3, 2): ("square", "blue", "large")}


@settings(deadline=None)
@given(SEEDS)
def test_a_scene_survives_json(seed: int) -> None:
    scene = sample_scene(random.Random(seed))

    assert Scene.from_dict(json.loads(json.dumps(scene.to_dict()))) == scene


@settings(deadline=None)
@given(SEEDS)
def test_a_sampled_scene_has_two_to_four_shapes_that_kind_and_colour_tell_apart(seed: int) -> None:
    scene = sample_scene(random.Random(seed))

    assert 2 <= len(scene.shapes) <= 4
    assert len({(shape.kind, shape.colour) for shape in scene.shapes}) == len(scene.shapes)
    assert scene.ground in GROUNDS
    assert all(shape.kind in KINDS and shape.colour in COLOURS and shape.size in SIZES for shape in scene.shapes)
    assert all(0 <= shape.row < GRID and 0 <= shape.column < GRID for shape in scene.shapes)


@settings(deadline=None)
@given(SEEDS)
def test_every_cell_is_either_filled_or_empty(seed: int) -> None:
    scene = sample_scene(random.Random(seed))

    assert sorted([*scene.empty_cells(), *scene.cells()]) == [(r, c) for r in range(GRID) for c in range(GRID)]
