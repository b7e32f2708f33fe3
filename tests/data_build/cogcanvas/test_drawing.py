"""Scenes drawn by lot: shares, uniform cells, one identity once, one item each, what an item is good for."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.cogcanvas.cases import GROUP_SIZES
from data_build.cogcanvas.drawing import Item, Pool, draw_scenes, feasible_cells, shares
from data_build.cogcanvas.vocabulary import SIZES, STRENGTH_OF

ITEMS = [
    Item("kite", "kite", "small_handheld", ("hold", "look_at")),
    Item("kite-2", "kite", "small_handheld", ("hold",)),
    Item("hat", "hat", "small_wearable", ("wear", "point_at")),
    Item("cart", "cart", "free_standing", ("push", "stand_beside", "sit_on")),
    Item("gown", "gown", "large_wearable", ("wear",)),
]
POOL = Pool({name: [f"{name}-1", f"{name}-2"] for name in "abcdef"}, ITEMS, ["bridge", "bay"])


def test_group_sizes_have_the_shares_of_the_paper() -> None:
    assert shares(1361, GROUP_SIZES) == GROUP_SIZES
    assert shares(0, GROUP_SIZES) == dict.fromkeys(GROUP_SIZES, 0)
    assert shares(7, {1: 1, 2: 1}) == {1: 4, 2: 3}


@settings(max_examples=50, deadline=None)
@given(num=st.integers(0, 5000))
def test_shares_add_up_and_are_off_by_less_than_one(num: int) -> None:
    found = shares(num, GROUP_SIZES)
    assert sum(found.values()) == num
    assert all(abs(found[size] - num * weight / 1361) < 1 for size, weight in GROUP_SIZES.items())


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), num=st.integers(1, 60))
def test_every_scene_keeps_the_rules_and_cells_come_round_evenly(seed: int, num: int) -> None:
    by_id = {item.id: item for item in ITEMS}
    scenes = draw_scenes(POOL, shares(num, GROUP_SIZES), seed)
    for scene in scenes:
        size, strength = scene.cell
        names = [person.partition("-")[0] for person in scene.people]
        assert len(set(names)) == len(names)
        items = [by_id[item] for item, _, _ in scene.bindings]
        assert 1 <= len(items) <= len(scene.people)
        assert len({item.name for item in items}) == len(items)
        assert len({person for _, person, _ in scene.bindings}) == len(items)
        assert max(SIZES.index(item.size) for item in items) == SIZES.index(size)
        for item, person, action in scene.bindings:
            assert person in scene.people
            assert action in by_id[item].actions
            assert STRENGTH_OF[action] == strength
    cells = Counter(scene.cell for scene in scenes)
    assert len(scenes) == num
    assert max(cells.values()) - min(cells[cell] for cell in feasible_cells(ITEMS)) <= 1
    assert draw_scenes(POOL, shares(num, GROUP_SIZES), seed) == scenes


def test_people_their_pictures_and_places_are_used_evenly() -> None:
    scenes = draw_scenes(POOL, {2: 60, 3: 40}, seed=3)
    people = Counter(person.partition("-")[0] for scene in scenes for person in scene.people)
    pictures = Counter(person for scene in scenes for person in scene.people)
    assert max(people.values()) - min(people.values()) <= 1
    assert max(pictures.values()) - min(pictures.values()) <= 1
    assert Counter(scene.background for scene in scenes) == {"bridge": 50, "bay": 50}
    assert len({scene.people for scene in scenes}) > 50


def test_scenes_have_from_one_item_to_one_for_each_person() -> None:
    roomy = [Item(f"i{number}", f"i{number}", "small_handheld", ("hold",)) for number in range(6)]
    scenes = draw_scenes(Pool(POOL.people, roomy, POOL.backgrounds), {2: 40, 5: 80}, seed=1)
    for size, num in ((2, 40), (5, 80)):
        items = Counter(len(scene.bindings) for scene in scenes if len(scene.people) == size)
        assert set(items) == set(range(1, size + 1))
        assert min(items.values()) > num / size / 3


def test_cells_come_in_an_order_by_lot() -> None:
    orders = {tuple(scene.cell for scene in draw_scenes(POOL, {2: 16}, seed)) for seed in range(3)}
    assert len(orders) == 3
    assert len({tuple(sorted(order)) for order in orders}) == 1


def test_cells_that_no_item_fits_are_not_drawn() -> None:
    assert feasible_cells(ITEMS) == [
        ("small_handheld", "close_contact"),
        ("small_handheld", "loose"),
        ("small_wearable", "close_contact"),
        ("small_wearable", "loose"),
        ("free_standing", "close_contact"),
        ("free_standing", "light_contact"),
        ("free_standing", "loose"),
        ("large_wearable", "close_contact"),
    ]


def test_a_pool_that_is_too_small_is_refused() -> None:
    with pytest.raises(ValueError, match="3 people"):
        draw_scenes(Pool({"a": ["a"], "b": ["b"]}, ITEMS, ["bay"]), {3: 1}, 0)
