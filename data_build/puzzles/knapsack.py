"""Knapsack: which objects are worth the most together without weighing more than the budget.

Edit-Compass, appendix A.3.3: a budget from 10 to 20, 6 to 8 objects, weights from 2 to 8, values from 10 to 50. Left
out are draws with several best choices, where everything fits, and (our choice) where the best choice is one object.
The objects' colours are far from red, in which they are circled.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from PIL import Image, ImageDraw

from data_build.puzzles.changes import Change, Colour
from data_build.puzzles.grid import RED, Box, draw_text, share
from data_build.puzzles.objects import FILLS, SHAPES, draw_object
from data_build.puzzles.puzzle import InvalidEditError, Outcome
from data_build.puzzles.settings import require_range
from gnomon.errors import UserError
from gnomon.records import Record, Text

Choice = frozenset[int]
"""Numbers of objects, from 0."""

MARGIN = 0.03
HEADER = 0.14
"""Of the picture's side: around the tiles, and above them for the budget."""
OBJECT_CENTRE = 0.15
VALUE_CENTRE = 0.29
WEIGHT_CENTRE = 0.345
"""Of the picture's side, below a tile's upper edge."""
OBJECT_RADIUS = 0.07
RING_RADIUS = 0.105
RING_WIDTH = 0.0135
TEXT_SIZE = 0.046
TILE_COLOUR: Colour = (200, 200, 200)
INNER = 0.05
"""Share of a tile's width and height that is left out on each side when marks are looked for."""
LEAST_MARK = 0.02
"""Share of a tile's inner part that a mark covers at least: a thin ring, a large tick or a fill."""
MOST_OTHER = 0.03
"""Share of an object's or a text's box that may change in other colours."""


class Item(Record):
    """An object: what it looks like, what it is worth and what it weighs."""

    shape: str
    fill: str
    value: int
    weight: int


class Shelf(Record):
    """The objects, row by row, and how much may be carried."""

    budget: int
    items: list[Item]


@dataclass(frozen=True)
class Knapsack:
    """The puzzle.

    Attributes:
        budgets: smallest and largest weight that may be carried.
        num_items: fewest and most objects.
        weights: smallest and largest weight of an object.
        values: smallest and largest value of an object.

    Raises:
        UserError: for settings that admit no instance.
    """

    budgets: tuple[int, int] = (10, 20)
    num_items: tuple[int, int] = (6, 8)
    weights: tuple[int, int] = (2, 8)
    values: tuple[int, int] = (10, 50)

    task = "knapsack"
    instance_class = Shelf

    def __post_init__(self) -> None:
        """Refuse settings with which nothing has to be left, or no two objects fit."""
        require_range("num_items", self.num_items, 3, len(SHAPES))
        require_range("weights", self.weights, 1)
        require_range("values", self.values, 1)
        require_range("budgets", self.budgets, 1)
        if self.budgets[1] < 2 * self.weights[0] or self.budgets[0] >= self.num_items[1] * self.weights[1]:
            raise UserError(
                f"expected budgets at which two objects fit and not all of them (weights {self.weights[0]} to "
                f"{self.weights[1]}, up to {self.num_items[1]} objects), got {self.budgets[0]} to {self.budgets[1]}"
            )

    def sample(self, rng: random.Random) -> Shelf | None:
        """Draw objects with one best choice."""
        count = rng.randint(*self.num_items)
        items = [
            Item(
                shape=shape,
                fill=rng.choice(list(FILLS)),
                value=rng.randint(*self.values),
                weight=rng.randint(*self.weights),
            )
            for shape in rng.sample(SHAPES, count)
        ]
        instance = Shelf(budget=rng.randint(*self.budgets), items=items)
        _, ways, choice = _best_of(instance)
        return instance if ways == 1 and 1 < len(choice) < count else None

    def solve(self, instance: Shelf) -> Choice:
        """Return the best choice."""
        return _best_of(instance)[2]

    def render(
        self, instance: Shelf, resolution: int, answer: Choice | None = None, *, colour: Colour | None = None
    ) -> Image.Image:
        """Draw the objects with their values and weights, and the budget above; chosen ones get a ring."""
        image = Image.new("RGB", (resolution, resolution), "white")
        pen = ImageDraw.Draw(image)
        size = TEXT_SIZE * resolution
        draw_text(image, _header_centre(resolution), f"budget {instance.budget}", size * 1.5, (0, 0, 0))
        for item, tile in zip(instance.items, _tiles(len(instance.items), resolution), strict=True):
            left, top, right, bottom = tile
            pen.rectangle((left, top, right - 1, bottom - 1), None, TILE_COLOUR, max(1, resolution // 256))
            draw_object(image, _centre(tile, resolution), OBJECT_RADIUS * resolution, item.shape, item.fill)
            x = (left + right) / 2
            draw_text(image, (x, top + VALUE_CENTRE * resolution), f"value {item.value}", size, (0, 0, 0))
            draw_text(image, (x, top + WEIGHT_CENTRE * resolution), f"weight {item.weight}", size, (0, 0, 0))
        for number in sorted(answer or ()):
            x, y = _centre(_tiles(len(instance.items), resolution)[number], resolution)
            radius, width = RING_RADIUS * resolution, max(1, round(RING_WIDTH * resolution))
            pen.ellipse((x - radius, y - radius, x + radius, y + radius), None, colour or RED, width)
        return image

    def instruct(self, instance: Shelf) -> Text:
        """Return the instruction."""
        return Text(
            en="Under each object its value and its weight are written; the budget at the top is the total weight that "
            "can be carried. Choose the objects whose total value is largest while their total weight does not exceed "
            "the budget, each at most once, and draw a red circle around each chosen object. Change nothing else.",
            zh="每个物体下方写有它的价值（value）和重量（weight），顶部的预算（budget）是所能携带的总重量上限。"
            "请选出总重量不超过预算且总价值最大的物体，每个物体最多选一次，并用红色圆圈圈出每个选中的物体。"
            "不要改动其他任何内容。",
        )

    def describe(self, instance: Shelf) -> str:
        """Return the best choice, its weight and its value."""
        value, _, choice = _best_of(instance)
        names = ", ".join(_name(instance, number) for number in sorted(choice))
        return (
            f"A red circle is drawn around each of {names}, and around no other object; together they weigh "
            f"{_weight(instance, choice)} of {instance.budget} and are worth {value}."
        )

    def markers(self, instance: Shelf) -> dict[str, Colour]:
        """Return the rings' colour."""
        return {"red": RED}

    def read(self, instance: Shelf, change: Change) -> Choice:
        """Return the objects that have a mark on or around them."""
        resolution, mask = change.other.shape[0], change.marked["red"]
        (x, y), half = _header_centre(resolution), TEXT_SIZE * resolution
        header = _box(x - 3 * half, y - half, x + 3 * half, y + half)
        if share(change.other, header) > MOST_OTHER or share(mask, header) > MOST_OTHER:
            raise InvalidEditError("the budget was changed or marked")
        chosen = set()
        for number, tile in enumerate(_tiles(len(instance.items), resolution)):
            if any(share(change.other, box) > MOST_OTHER for box in _content(tile, resolution)):
                raise InvalidEditError(
                    f"{_name(instance, number)} or its numbers were changed in another way than by a mark"
                )
            left, top, right, bottom = tile
            across, down = INNER * (right - left), INNER * (bottom - top)
            if share(mask, _box(left + across, top + down, right - across, bottom - down)) >= LEAST_MARK:
                chosen.add(number)
        return frozenset(chosen)

    def spoil(self, instance: Shelf, rng: random.Random) -> dict[str, Choice]:
        """Return choices that weigh too much or are worth less."""
        best, everything = self.solve(instance), frozenset(range(len(instance.items)))
        lost, won = rng.choice(sorted(best)), rng.choice(sorted(everything - best))
        spoilt = {
            "one_missing": best - {lost},
            "one_more": best | {won},
            "one_swapped": best - {lost} | {won},
            "only_one": frozenset({lost}),
            "all": everything,
            "all_others": everything - best,
            "second_best": _second_best(instance),
            "most_valuable_first": _greedy(instance, [-item.value for item in instance.items]),
            "lightest_first": _greedy(instance, [item.weight for item in instance.items]),
            "one_place_on": frozenset((number + 1) % len(everything) for number in best),
        }
        return {kind: choice for kind, choice in spoilt.items() if choice and choice != best}

    def check(self, instance: Shelf, answer: Choice) -> Outcome:
        """Compare with the budget and the largest value."""
        if not answer:
            return Outcome("invalid", "no object is marked")
        weight, value = _weight(instance, answer), sum(instance.items[number].value for number in answer)
        if weight > instance.budget:
            return Outcome("invalid", f"the marked objects weigh {weight}, more than the budget of {instance.budget}")
        best = _best_of(instance)[0]
        if value < best:
            return Outcome("suboptimal", f"the marked objects are worth {value}, the best choice {best}")
        return Outcome("correct", f"the marked objects have the largest value, {best}")


def _name(instance: Shelf, number: int) -> str:
    return f"the {instance.items[number].fill} {instance.items[number].shape}"


def _weight(instance: Shelf, choice: Choice) -> int:
    return sum(instance.items[number].weight for number in choice)


def _best_of(instance: Shelf) -> tuple[int, int, Choice]:
    """Return the largest value within the budget, how many choices have it, and one of them."""
    best: dict[int, tuple[int, int, Choice]] = {0: (0, 1, frozenset())}
    for number, item in enumerate(instance.items):
        for weight, (value, ways, choice) in sorted(best.items(), reverse=True):
            heavier, worth = weight + item.weight, value + item.value
            if heavier > instance.budget:
                continue
            old = best.get(heavier, (-1, 0, frozenset()))
            if worth > old[0]:
                best[heavier] = worth, ways, choice | {number}
            elif worth == old[0]:
                best[heavier] = worth, old[1] + ways, old[2]
    top = max(value for value, _, _ in best.values())
    ties = [(ways, choice) for value, ways, choice in best.values() if value == top]
    return top, sum(ways for ways, _ in ties), ties[0][1]


def _second_best(instance: Shelf) -> Choice:
    """Return the best choice without one of the best one's objects; empty where none fits."""
    choices = []
    for lost in _best_of(instance)[2]:
        # An object that is heavier than the budget is one that cannot be chosen.
        heavy = instance.items[lost].model_copy(update={"weight": instance.budget + 1})
        items = [heavy if number == lost else item for number, item in enumerate(instance.items)]
        value, _, choice = _best_of(instance.model_copy(update={"items": items}))
        choices.append((value, sorted(choice)))
    return frozenset(max(choices)[1])


def _greedy(instance: Shelf, order: list[int]) -> Choice:
    """Return what fits when objects are taken one by one, smallest of `order` first."""
    taken: Choice = frozenset()
    for number in sorted(range(len(instance.items)), key=lambda number: order[number]):
        if _weight(instance, taken | {number}) <= instance.budget:
            taken |= {number}
    return taken


def _tiles(count: int, resolution: int) -> list[Box]:
    """Return the objects' tiles in two rows, the upper one as long as the lower or longer by one."""
    columns = -(-count // 2)
    width, height = (1 - 2 * MARGIN) / columns, (1 - MARGIN - HEADER) / 2
    tiles = []
    for number in range(count):
        row, column = divmod(number, columns)
        left = MARGIN + (column + (columns - (count - columns)) / 2 * row) * width
        top = HEADER + row * height
        tiles.append(_box(*(edge * resolution for edge in (left, top, left + width, top + height))))
    return tiles


def _box(left: float, top: float, right: float, bottom: float) -> Box:
    return round(left), round(top), round(right), round(bottom)


def _header_centre(resolution: int) -> tuple[float, float]:
    return resolution / 2, HEADER / 2 * resolution


def _centre(tile: Box, resolution: int) -> tuple[float, float]:
    return (tile[0] + tile[2]) / 2, tile[1] + OBJECT_CENTRE * resolution


def _content(tile: Box, resolution: int) -> list[Box]:
    """Return the boxes of a tile's object and of its two lines of text."""
    (x, y), radius = _centre(tile, resolution), OBJECT_RADIUS * resolution
    boxes = [_box(x - radius, y - radius, x + radius, y + radius)]
    for centre in (VALUE_CENTRE, WEIGHT_CENTRE):
        middle, half = tile[1] + centre * resolution, TEXT_SIZE / 2 * resolution
        boxes.append(_box(x - 2 * half, middle - half, x + 2 * half, middle + half))
    return boxes
