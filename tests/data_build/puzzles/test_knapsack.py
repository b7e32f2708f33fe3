from __future__ import annotations

import random
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from data_build.puzzles.knapsack import Choice, Item, Knapsack, Shelf
from gnomon.errors import UserError
from tests.data_build.puzzles.examples import RESOLUTION, instances, jpeg, outcome_of, outcome_of_answer

PUZZLE = Knapsack()
SHELF = Shelf(
    budget=10,
    items=[
        Item(shape=shape, fill=fill, value=value, weight=weight)
        for shape, fill, value, weight in (
            ("star", "blue", 30, 6),
            ("circle", "yellow", 25, 5),
            ("cross", "grey", 24, 5),
            ("square", "green", 12, 4),
            ("hexagon", "violet", 10, 8),
            ("diamond", "turquoise", 11, 3),
        )
    ],
)
BEST: Choice = frozenset({1, 2})
CENTRES = [(92, 148), (256, 148), (420, 148), (92, 360), (256, 360), (420, 360)]
"""Of the objects in the picture, in pixels."""


def test_the_best_choice_is_the_one_by_hand() -> None:
    assert PUZZLE.solve(SHELF) == BEST
    assert "around each of the yellow circle, the grey cross, and around no other" in PUZZLE.describe(SHELF)
    assert PUZZLE.describe(SHELF).endswith("they weigh 10 of 10 and are worth 49.")


@given(st.integers(0, 10_000))
def test_draws_keep_the_paper_s_ranges_and_have_the_best_choice_of_all(seed: int) -> None:
    (instance,) = instances(PUZZLE, 1, seed)
    items = instance.items
    values = {
        frozenset(choice): sum(items[number].value for number in choice)
        for size in range(len(items) + 1)
        for choice in combinations(range(len(items)), size)
        if sum(items[number].weight for number in choice) <= instance.budget
    }

    assert 10 <= instance.budget <= 20
    assert 6 <= len(items) <= 8
    assert all(2 <= item.weight <= 8 and 10 <= item.value <= 50 for item in items)
    assert len({item.shape for item in items}) == len(items)
    assert [choice for choice, value in values.items() if value == max(values.values())] == [PUZZLE.solve(instance)]
    assert 1 < len(PUZZLE.solve(instance)) < len(items)


def chances(num: int) -> list[random.Random]:
    return [random.Random(seed) for seed in range(num)]


def test_draws_with_several_best_choices_or_none_to_make_are_left_out() -> None:
    equal = Knapsack(budgets=(10, 10), weights=(4, 4), values=(20, 20))
    assert all(equal.sample(rng) is None for rng in chances(20))
    with_room = Knapsack(budgets=(20, 20), num_items=(3, 6), weights=(4, 4))
    counts = {len(drawn.items) for rng in chances(200) if (drawn := with_room.sample(rng)) is not None}
    assert counts == {6}, "up to five objects of 4 fit into 20"


@pytest.mark.parametrize(
    ("answer", "value", "words"),
    [
        (BEST, "correct", "the largest value, 49"),
        ({0, 3}, "suboptimal", "are worth 42, the best choice 49"),
        ({1}, "suboptimal", "are worth 25, the best choice 49"),
        ({0, 1}, "invalid", "weigh 11, more than the budget of 10"),
        (set(range(6)), "invalid", "weigh 31, more than the budget of 10"),
        (set(), "invalid", "no object is marked"),
    ],
)
def test_answers_are_checked_by_the_rules(answer: set[int], value: str, words: str) -> None:
    outcome = PUZZLE.check(SHELF, frozenset(answer))

    assert outcome.value == value
    assert words in outcome.reason


@pytest.mark.parametrize("answer", [BEST, {0, 3}, {0, 1}, {4}, set(range(6)), set()])
def test_a_picture_is_worth_what_its_answer_is(answer: set[int]) -> None:
    assert outcome_of_answer(PUZZLE, SHELF, frozenset(answer)) == PUZZLE.check(SHELF, frozenset(answer))


def test_what_is_read_is_what_was_drawn_for_every_number_of_objects() -> None:
    for instance in {len(drawn.items): drawn for drawn in instances(PUZZLE, 12)}.values():
        for number in range(len(instance.items)):
            outcome = outcome_of_answer(PUZZLE, instance, frozenset({number}))
            assert outcome == PUZZLE.check(instance, frozenset({number}))


@pytest.mark.parametrize("colour", [(220, 30, 40), (160, 0, 20), (255, 70, 70)])
@pytest.mark.parametrize("mark", ["thin ring", "thick ring", "fill", "tick", "frame", "ring around all", "loose ring"])
def test_any_clear_red_mark_counts(mark: str, colour: tuple[int, int, int]) -> None:
    image = PUZZLE.render(SHELF, RESOLUTION)
    pen = ImageDraw.Draw(image)
    for x, y in (CENTRES[number] for number in BEST):
        if mark == "tick":
            pen.line([(x - 25, y), (x - 5, y + 25), (x + 35, y - 30)], colour, 7)
        elif mark == "fill":
            pen.ellipse((x - 30, y - 30, x + 30, y + 30), colour)
        elif mark == "frame":
            pen.rectangle((x - 75, y - 70, x + 75, y + 125), None, colour, 6)
        elif mark == "ring around all":
            pen.ellipse((x - 78, y - 60, x + 78, y + 125), None, colour, 6)
        else:
            radius, width = {"thin ring": (45, 3), "thick ring": (55, 14), "loose ring": (88, 6)}[mark]
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), None, colour, width)

    assert outcome_of(PUZZLE, SHELF, image).value == "correct"
    assert outcome_of(PUZZLE, SHELF, jpeg(image)).value == "correct"


def test_marks_of_other_colours_and_specks_do_not_count() -> None:
    speck = PUZZLE.render(SHELF, RESOLUTION)
    ImageDraw.Draw(speck).ellipse((CENTRES[1][0] - 5, 200, CENTRES[1][0] + 5, 210), (220, 30, 40))

    assert "no object is marked" in outcome_of(PUZZLE, SHELF, speck).reason
    for colour in ((40, 200, 60), (40, 60, 220), (230, 200, 0), (0, 0, 0)):
        ring = PUZZLE.render(SHELF, RESOLUTION, BEST, colour=colour)
        assert outcome_of(PUZZLE, SHELF, ring).value == "invalid"


def test_other_changes_are_invalid_and_named() -> None:
    best = PUZZLE.render(SHELF, RESOLUTION, BEST)

    def changed(box: tuple[int, int, int, int], colour: str | tuple[int, int, int]) -> Image.Image:
        image = best.copy()
        ImageDraw.Draw(image).rectangle(box, colour)
        return image

    x, y = CENTRES[0]
    erased = outcome_of(PUZZLE, SHELF, changed((x - 40, y - 40, x + 40, y + 40), "white"))
    number = outcome_of(PUZZLE, SHELF, changed((x - 60, y + 65, x + 60, y + 80), "black"))
    budget = outcome_of(PUZZLE, SHELF, changed((180, 10, 330, 60), "black"))
    circled = outcome_of(PUZZLE, SHELF, changed((180, 10, 330, 60), (220, 30, 40)))

    for outcome in (erased, number):
        assert outcome.value == "invalid"
        assert "the blue star or its numbers were changed" in outcome.reason
    for outcome in (budget, circled):
        assert outcome.value == "invalid"
        assert "the budget was changed or marked" in outcome.reason


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"num_items": (8, 6)}, "expected num_items to be a smallest and a largest number from 3 to 8, got 8 and 6"),
        ({"num_items": (6, 9)}, "num_items"),
        ({"weights": (0, 3)}, "weights"),
        ({"values": (-5, 3)}, "values"),
        ({"budgets": (1, 3)}, "budgets at which two objects fit"),
        ({"budgets": (64, 70)}, "budgets at which two objects fit and not all"),
    ],
)
def test_settings_without_an_instance_are_refused(settings: dict[str, tuple[int, int]], words: str) -> None:
    with pytest.raises(UserError, match=words):
        Knapsack(**settings)
