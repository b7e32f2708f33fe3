"""Drawing scenes by lot: uniform over object size and interaction strength, group sizes in given shares.

A cell is a size with a strength. A scene of a cell has one item of exactly that size with which something of that
strength can be done; its other items are no larger, and something of the same strength can be done with them. Cells
come round evenly within each group size; so do people, their pictures, items and places. Source: Nguyen et al. 2026
(arXiv 2606.15867), sections 3.3 and 3.5. Pure functions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from data_build.cogcanvas.vocabulary import SIZES, STRENGTH_OF, STRENGTHS
from gnomon.hashing import stable_seed

Cell = tuple[str, str]
"""Size of the largest item, and how close people and items are."""


@dataclass(frozen=True)
class Item:
    """An object or fashion item.

    Attributes:
        id: of its picture.
        name: as it is compared; a scene has no two items of one name.
        size: out of `SIZES`.
        actions: what can be done with it.
    """

    id: str
    name: str
    size: str
    actions: tuple[str, ...]

    def actions_of(self, strength: str) -> list[str]:
        """Return what can be done with it that is so close."""
        return [action for action in self.actions if STRENGTH_OF[action] == strength]


@dataclass(frozen=True)
class Pool:
    """What scenes are drawn from.

    Attributes:
        people: ids of pictures, by the name of a person as it is compared.
        items: all.
        backgrounds: ids of pictures.
    """

    people: Mapping[str, Sequence[str]]
    items: Sequence[Item]
    backgrounds: Sequence[str]


@dataclass(frozen=True)
class DrawnScene:
    """A scene: the place, pictures of people, and (item, picture of a person, action)."""

    cell: Cell
    background: str
    people: tuple[str, ...]
    bindings: tuple[tuple[str, str, str], ...]


@dataclass
class _Uses:
    """How often each thing was used; those that were used least are drawn first, among them by lot."""

    counts: Counter[str] = field(default_factory=Counter)

    def pick(self, names: Sequence[str], random: Random) -> str:
        fewest = min(self.counts[name] for name in names)
        picked = random.choice([name for name in names if self.counts[name] == fewest])
        self.counts[picked] += 1
        return picked


def feasible_cells(items: Sequence[Item]) -> list[Cell]:
    """Return the cells that some item fits, in order."""
    return [
        (size, strength)
        for size in SIZES
        for strength in STRENGTHS
        if any(item.size == size and item.actions_of(strength) for item in items)
    ]


def shares(num: int, weights: Mapping[int, int]) -> dict[int, int]:
    """Return `num` shared out in proportion to whole weights, by the largest remainders; of equal ones the first."""
    total = sum(weights.values())
    found = {key: num * weight // total for key, weight in weights.items()}
    remainders = sorted(weights, key=lambda key: (-(num * weights[key] % total), list(weights).index(key)))
    for key in remainders[: num - sum(found.values())]:
        found[key] += 1
    return found


def draw_scenes(pool: Pool, sizes: Mapping[int, int], seed: int) -> list[DrawnScene]:
    """Return so many scenes of each group size, those of one size side by side.

    Args:
        pool: with at least one place, one item, and as many people as the largest group that is drawn.
        sizes: scenes by number of people.
        seed: of the lots.

    Raises:
        ValueError: for a pool that is too small.
    """
    cells = feasible_cells(pool.items)
    largest = max((size for size, num in sizes.items() if num), default=0)
    if not cells or not pool.backgrounds or len(pool.people) < largest:
        raise ValueError(f"expected a place, an item and {largest} people at least")
    uses = {name: _Uses() for name in ("person", "picture", "item", "background")}
    scenes, offset = [], 0
    for size, num in sizes.items():
        order = _rounds(cells, offset, num, Random(stable_seed(seed, "cells", size)))
        offset += num
        for place, cell in enumerate(order):
            scenes.append(_draw(pool, cell, size, uses, Random(stable_seed(seed, size, place))))
    return scenes


def _rounds(cells: Sequence[Cell], offset: int, num: int, random: Random) -> list[Cell]:
    """Return the cells over and over, going on where the last group size stopped, in an order drawn by lot."""
    found = [cells[(offset + place) % len(cells)] for place in range(num)]
    random.shuffle(found)
    return found


def _draw(pool: Pool, cell: Cell, size: int, uses: Mapping[str, _Uses], random: Random) -> DrawnScene:
    names: list[str] = []
    for _ in range(size):
        names.append(uses["person"].pick([name for name in pool.people if name not in names], random))
    people = tuple(uses["picture"].pick(pool.people[name], random) for name in names)
    items = _draw_items(pool.items, cell, random.randint(1, size), uses["item"], random)
    holders = random.sample(people, len(items))
    bindings = tuple(
        (item.id, person, random.choice(item.actions_of(cell[1]))) for item, person in zip(items, holders, strict=True)
    )
    return DrawnScene(cell, uses["background"].pick(pool.backgrounds, random), people, bindings)


def _draw_items(items: Sequence[Item], cell: Cell, num: int, uses: _Uses, random: Random) -> list[Item]:
    """Return up to `num` items of different names: one of the cell's size first, then none that are larger."""
    size, strength = cell
    by_id = {item.id: item for item in items}
    fitting = [item for item in items if SIZES.index(item.size) <= SIZES.index(size) and item.actions_of(strength)]
    candidates = [item for item in fitting if item.size == size]
    found: list[Item] = []
    while len(found) < num and candidates:
        found.append(by_id[uses.pick([item.id for item in candidates], random)])
        candidates = [item for item in fitting if item.name not in {one.name for one in found}]
    return found
