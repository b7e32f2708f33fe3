"""The edits of the tabletop world: what each kind changes, how one is drawn at random, and which split it is in.

Ten kinds act on one picture; an eleventh, `transfer`, takes its colour from a second picture.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from data_build.tabletop.world import COLOURS, GROUNDS, KINDS, SIZES, Scene, Shape, sample_scene
from gnomon.hashing import stable_seed
from gnomon.records import Split

EDIT_KINDS = (
    "add",
    "remove",
    "replace",
    "recolour",
    "resize",
    "move",
    "swap",
    "copy",
    "background",
    "two_step",
)
TWO_REFERENCE_KINDS = ("transfer",)
SIMPLE_KINDS = ("remove", "replace", "recolour", "resize", "background")
"""Kinds that a two-step edit is made of: each names its subject by look alone, so their order never matters."""

HELD_OUT_SHARE = 8
"""One in so many combinations of edit, subject and new value appears in the test split only."""


class NoSuchEditError(ValueError):
    """A scene allows no edit of the wanted kind: four shapes of one colour leave none to replace."""


@dataclass(frozen=True)
class Edit:
    """One edit. `subject` and `other` are shapes of the source scene; the rest is what the kind needs."""

    kind: str
    subject: Shape | None = None
    other: Shape | None = None
    value: str | None = None
    added: Shape | None = None
    cell: tuple[int, int] | None = None
    steps: tuple[Edit, ...] = ()

    def canonical(self) -> Edit:
        """Return the one spelling of edits that come to the same: a swap of a and b, or of b and a; steps in any order.

        Splits go by it, else training would show a test edit in its mirror.
        """
        if self.kind == "swap":
            assert self.subject is not None
            assert self.other is not None
            first, second = sorted((self.subject, self.other), key=lambda s: (s.colour, s.kind, s.size, s.cell))
            return replace(self, subject=first, other=second)
        return replace(self, steps=tuple(sorted(self.steps, key=lambda step: repr(step.to_dict()))))

    def combination(self) -> str:
        """Name the combination of edit and attributes, without any place: what the held-out rule looks at."""
        edit = self.canonical()
        if edit.steps:
            return " + ".join(step.combination() for step in edit.steps)
        parts = [edit.kind]
        for shape in (edit.subject, edit.other, edit.added):
            if shape is not None:
                parts += [shape.colour, shape.kind]
        return " ".join([*parts, *([edit.value] if edit.value else [])])

    def held_out(self) -> bool:
        """Say whether training and validation must never show this combination."""
        if self.steps:
            return any(step.held_out() for step in self.steps)
        return stable_seed("tabletop-held-out", self.combination()) % HELD_OUT_SHARE == 0

    def to_dict(self) -> dict[str, Any]:
        """Return the edit as plain JSON data, without empty fields."""
        data: dict[str, Any] = {"kind": self.kind}
        for name in ("subject", "other", "added"):
            shape = getattr(self, name)
            if shape is not None:
                data[name] = {"kind": shape.kind, "colour": shape.colour, "size": shape.size, "cell": list(shape.cell)}
        if self.value is not None:
            data["value"] = self.value
        if self.cell is not None:
            data["cell"] = list(self.cell)
        if self.steps:
            data["steps"] = [step.to_dict() for step in self.steps]
        return data


def apply_edit(scene: Scene, edit: Edit) -> Scene:
    """Return the scene after the edit.

    Raises:
        ValueError: for an unknown kind of edit.
    """
    if edit.kind == "two_step":
        for step in edit.steps:
            scene = apply_edit(scene, step)
        return scene
    if edit.kind == "background":
        return Scene(str(edit.value), scene.shapes)
    if edit.kind == "add":
        assert edit.added is not None
        return scene.with_shapes(edit.added)
    assert edit.subject is not None
    if edit.kind == "copy":
        assert edit.cell is not None
        return scene.with_shapes(edit.subject.at(edit.cell))
    if edit.kind == "swap":
        assert edit.other is not None
        swapped = (edit.subject.at(edit.other.cell), edit.other.at(edit.subject.cell))
        return scene.without(edit.subject, edit.other).with_shapes(*swapped)
    rest = scene.without(edit.subject)
    return rest if edit.kind == "remove" else rest.with_shapes(_changed(edit.subject, edit))


def _changed(subject: Shape, edit: Edit) -> Shape:
    """Return the subject of a replace, recolour, transfer, resize or move edit as it looks afterwards."""
    if edit.kind == "move":
        assert edit.cell is not None
        return subject.at(edit.cell)
    value = str(edit.value)
    if edit.kind == "replace":
        return replace(subject, kind=value)
    if edit.kind in ("recolour", "transfer"):
        return replace(subject, colour=value)
    if edit.kind == "resize":
        return replace(subject, size=value)
    raise ValueError(f"expected an edit kind out of {EDIT_KINDS + TWO_REFERENCE_KINDS}, got {edit.kind!r}")


def sample_edit(rng: random.Random, scene: Scene, kind: str) -> Edit:
    """Draw an edit of one kind that changes the scene and leaves no two shapes of the same kind and colour.

    `copy` is the exception: its purpose is a second shape of the same look.

    Raises:
        NoSuchEditError: when the scene allows none of this kind.
    """
    if kind == "two_step":
        return _sample_two_step(rng, scene)
    if kind == "background":
        return Edit(kind, value=rng.choice([ground for ground in GROUNDS if ground != scene.ground]))
    taken = {(shape.kind, shape.colour) for shape in scene.shapes}
    if kind == "add":
        name = rng.choice([(k, c) for k in KINDS for c in COLOURS if (k, c) not in taken])
        return Edit(kind, added=Shape(*name, rng.choice(SIZES), *rng.choice(scene.empty_cells())))
    needs_value = kind in ("replace", "recolour", "transfer", "resize")
    subjects = [shape for shape in scene.shapes if not needs_value or _free_values(shape, kind, taken)]
    if len(subjects) < (2 if kind == "swap" else 1):
        raise NoSuchEditError(f"no {kind!r} edit is possible in {scene}")
    subject = rng.choice(subjects)
    if kind in ("move", "copy"):
        return Edit(kind, subject=subject, cell=rng.choice(scene.empty_cells()))
    if kind == "swap":
        return Edit(kind, subject=subject, other=rng.choice([shape for shape in scene.shapes if shape != subject]))
    if kind == "remove":
        return Edit(kind, subject=subject)
    return Edit(kind, subject=subject, value=rng.choice(_free_values(subject, kind, taken)))


def _free_values(subject: Shape, kind: str, taken: set[tuple[str, str]]) -> list[str]:
    """Return the new values that change the subject without making it the twin of another shape."""
    if kind == "replace":
        return [k for k in KINDS if (k, subject.colour) not in taken]
    if kind in ("recolour", "transfer"):
        return [c for c in COLOURS if (subject.kind, c) not in taken]
    if kind == "resize":
        return [s for s in SIZES if s != subject.size]
    raise ValueError(f"expected an edit kind out of {EDIT_KINDS + TWO_REFERENCE_KINDS}, got {kind!r}")


def _sample_two_step(rng: random.Random, scene: Scene) -> Edit:
    """Draw two simple edits with different subjects, the second one sampled on what the first one leaves.

    Raises:
        NoSuchEditError: when what the first one leaves does not allow the second one.
    """
    while True:
        first = sample_edit(rng, scene, rng.choice(SIMPLE_KINDS))
        middle = apply_edit(scene, first)
        second = sample_edit(rng, middle, rng.choice(SIMPLE_KINDS))
        touched = first.subject is not None and second.subject is not None and second.subject.cell == first.subject.cell
        if not touched and not (first.kind == second.kind == "background"):
            return Edit("two_step", steps=(first, second))


def split_of(scene: Scene, edit: Edit) -> Split:
    """Return the only split that this scene with this edit may appear in.

    Held-out combinations are in the test split. The others go by a stable hash of scene and edit: eight tenths
    to training, one tenth each to validation and test.
    """
    if edit.held_out():
        return "test"
    bucket = stable_seed("tabletop-split", repr(scene.to_dict()), repr(edit.canonical().to_dict())) % 10
    return "train" if bucket < 8 else "validation" if bucket == 8 else "test"


def sample_pair(
    rng: random.Random, split: Split, kinds: tuple[str, ...], *, held_out: bool = False
) -> tuple[Scene, Edit]:
    """Draw a scene and an edit of one split; with `held_out`, a combination that training never shows.

    Raises:
        ValueError: when held-out combinations are asked of another split than test.
    """
    if held_out and split != "test":
        raise ValueError(f"held-out combinations exist in the test split only, got split {split!r}")
    kind = rng.choice(kinds)
    for _ in range(100_000):
        scene = sample_scene_for(rng, kind)
        try:
            edit = sample_edit(rng, scene, kind)
        except NoSuchEditError:
            continue
        if edit.held_out() == held_out and split_of(scene, edit) == split:
            return scene, edit
    raise ValueError(f"no {kind!r} edit of split {split!r} with held_out={held_out} found in 100,000 draws")


def sample_scene_for(rng: random.Random, kind: str) -> Scene:
    """Draw a scene in which an edit of this kind is possible."""
    while True:
        scene = sample_scene(rng)
        if kind != "two_step" or len(scene.shapes) >= 3:
            return scene
