"""Pictures with known facts for pretraining the judge's base: what is where, what changed, does it match the words.

Nothing here compares two candidates: the base learns to look, preferences come later.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from data_build.tabletop.draw import draw_array
from data_build.tabletop.edits import EDIT_KINDS, Edit, NoSuchEditError, apply_edit, sample_edit, sample_pair
from data_build.tabletop.phrases import describe
from data_build.tabletop.world import COLOURS, GRID, GROUNDS, KINDS, SIZES, Scene

Look = tuple[str, str, str]
UNCLEAR: Look = ("unclear", "none", "none")
NOTHING: Look = ("none", "none", "none")
KIND_CLASSES = ("none", "unclear", *KINDS)
COLOUR_CLASSES = ("none", *COLOURS)
SIZE_CLASSES = ("none", *SIZES)
GROUND_CLASSES = tuple(GROUNDS)
CHINESE_SHARE = 0.35


@dataclass(frozen=True)
class Observation:
    """A source, an instruction, a picture that may show the edit, and the facts about it.

    `source_classes` and `candidate_classes` are [16, 4] class indices per cell: kind, colour, size, ground.
    `changed` and `right` are [16]: does the cell differ from the source, and is it as the instruction wants it.
    `answers` says whether the edit was done, the rest was kept, and the picture is clean.
    """

    instruction: str
    source: Image.Image
    candidate: Image.Image
    source_classes: NDArray[np.int64]
    candidate_classes: NDArray[np.int64]
    changed: NDArray[np.bool_]
    right: NDArray[np.bool_]
    answers: tuple[bool, bool, bool]


def sample_observation(rng: random.Random, kinds: tuple[str, ...] = EDIT_KINDS) -> Observation:
    """Draw a training scene, an edit, and a candidate of a random sort: right, unedited, wrong, with side effects."""
    source, edit = sample_pair(rng, "train", kinds)
    target = apply_edit(source, edit)
    shown = _shown_scene(rng, source, edit, target)
    looks = {(row, column): shown.cells().get((row, column), NOTHING) for row in range(GRID) for column in range(GRID)}
    picture = draw_array(shown)
    if rng.random() < 0.3:
        picture = _spoil(rng, picture, draw_array(source), draw_array(target), looks)
    text = describe(edit, rng)
    return _observe(
        text.get("zh" if rng.random() < CHINESE_SHARE else "en"),
        (source, target, shown.ground),
        looks,
        (_photograph(rng, draw_array(source)), _photograph(rng, picture)),
    )


def _shown_scene(rng: random.Random, source: Scene, edit: Edit, target: Scene) -> Scene:
    """Choose what the candidate shows: the target (40 %), the source, another edit instead or beside the right one."""
    try:
        return _draw_shown_scene(rng, source, edit, target)
    except NoSuchEditError:
        return target


def _draw_shown_scene(rng: random.Random, source: Scene, edit: Edit, target: Scene) -> Scene:
    draw = rng.random()
    if draw < 0.4:
        return target
    if draw < 0.52:
        return source
    if draw < 0.72:  # the same kind of edit with another subject or value
        return apply_edit(source, sample_edit(rng, source, edit.kind))
    other_kind = rng.choice(["remove", "replace", "recolour", "resize", "background", "add", "move"])
    start = source if draw < 0.82 or not target.shapes else target
    return apply_edit(start, sample_edit(rng, start, other_kind))


def _spoil(
    rng: random.Random,
    picture: NDArray[np.float32],
    source: NDArray[np.float32],
    target: NDArray[np.float32],
    looks: dict[tuple[int, int], Look],
) -> NDArray[np.float32]:
    """Make some cells unclear: half-way between source and target, noisy, or smeared; `looks` is told."""
    spoiled = picture.copy()
    size = picture.shape[0] // GRID
    blend = rng.uniform(0.3, 0.7)
    differs = np.abs(source - target).max(axis=-1)
    generator = np.random.default_rng(rng.getrandbits(63))
    candidates = [cell for cell in looks if looks[cell] != NOTHING] or list(looks)
    for row, column in rng.sample(candidates, rng.randint(1, min(2, len(candidates)))):
        window = (slice(row * size, (row + 1) * size), slice(column * size, (column + 1) * size))
        way = rng.random()
        if way < 0.4 and differs[window].max() > 40:
            spoiled[window] = blend * source[window] + (1 - blend) * target[window]
        elif way < 0.7:
            spoiled[window] += generator.normal(0, rng.uniform(35, 70), spoiled[window].shape).astype(np.float32)
        else:
            spoiled[window] = np.roll(spoiled[window], (rng.randint(3, 8), rng.randint(3, 8)), axis=(0, 1))
        looks[row, column] = UNCLEAR
    return np.clip(spoiled, 0, 255)


def _photograph(rng: random.Random, picture: NDArray[np.float32]) -> Image.Image:
    """Return a picture with the small faults that every generator leaves: slight noise, blur and tint."""
    generator = np.random.default_rng(rng.getrandbits(63))
    array = picture * (1 + generator.normal(0, 0.02, 3)) + generator.normal(0, rng.uniform(0, 6), picture.shape)
    image = Image.fromarray(np.clip(np.rint(array), 0, 255).astype(np.uint8))
    return image.filter(ImageFilter.GaussianBlur(rng.uniform(0.2, 0.7))) if rng.random() < 0.5 else image


def _observe(
    instruction: str,
    scenes: tuple[Scene, Scene, str],
    looks: dict[tuple[int, int], Look],
    pictures: tuple[Image.Image, Image.Image],
) -> Observation:
    """Collect the facts about what is shown (`looks` on a ground) against source and target."""
    source, target, ground = scenes
    before, wanted = source.cells(), target.cells()
    cells = sorted(looks)
    is_right = np.array([looks[cell] == wanted.get(cell, NOTHING) for cell in cells])
    is_edited = np.array([before.get(cell) != wanted.get(cell) for cell in cells])
    ground_right = ground == target.ground
    ground_edited = source.ground != target.ground
    return Observation(
        instruction=instruction,
        source=pictures[0],
        candidate=pictures[1],
        source_classes=_classes([before.get(cell, NOTHING) for cell in cells], source.ground),
        candidate_classes=_classes([looks[cell] for cell in cells], ground),
        changed=np.array([looks[cell] != before.get(cell, NOTHING) for cell in cells]) | (ground != source.ground),
        right=is_right & ground_right,
        answers=(
            bool(is_right[is_edited].all() and (ground_right or not ground_edited)),
            bool(is_right[~is_edited].all() and (ground_right or ground_edited)),
            UNCLEAR not in looks.values(),
        ),
    )


def _classes(looks: list[Look], ground: str) -> NDArray[np.int64]:
    """Return class indices [16, 4] of kind, colour, size and ground."""
    return np.array(
        [
            [
                KIND_CLASSES.index(kind),
                COLOUR_CLASSES.index(colour),
                SIZE_CLASSES.index(size),
                GROUND_CLASSES.index(ground),
            ]
            for kind, colour, size in looks
        ]
    )
