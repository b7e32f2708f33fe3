"""Cases of the tabletop world as a dataset folder: `gnomon data build tabletop`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from data_build.tabletop.draw import draw
from data_build.tabletop.edits import EDIT_KINDS, TWO_REFERENCE_KINDS, Edit, apply_edit, sample_pair
from data_build.tabletop.oracle import RESOLUTION
from data_build.tabletop.phrases import describe
from data_build.tabletop.world import GRID, GROUNDS, KINDS, SIZES, Scene, Shape
from gnomon.datasets import CASES, write_records
from gnomon.errors import UserError
from gnomon.hashing import stable_hash, stable_seed
from gnomon.images import save_png
from gnomon.progress import track
from gnomon.records import Case, Reference, Split, Text
from gnomon.runs import RunFolder, atomic_write_text

ALL_KINDS = EDIT_KINDS + TWO_REFERENCE_KINDS
BENCHMARK = "tabletop"
METRICS = ("instruction", "consistency", "quality")
README = """# Tabletop cases, split {split!r}

{num} edits of drawn scenes ({kinds}), made by `gnomon data build tabletop`.
Splits are disjoint: a scene with an edit belongs to one split by a hash of both, and one combination of edit and \
attributes in eight (`meta.held_out`) is in the test split only.
"""


@dataclass(frozen=True)
class Drawn:
    """One case before it is written: what happens, in words, and the second picture of a two-reference edit."""

    scene: Scene
    edit: Edit
    instruction: Text
    element: Scene | None


def build_cases(
    out: str | Path,
    *,
    num: int,
    seed: int,
    split: Split,
    kinds: Sequence[str] = ALL_KINDS,
    resolution: int = 64,
    held_out_share: float = 0.25,
) -> list[Case]:
    """Write a dataset folder of tabletop cases; run again to go on after a stop, with the same bytes in the end.

    Case number n depends on seed, split, kinds and n only, so that a larger folder begins with the smaller one.

    Args:
        out: the folder.
        num: how many cases; they take turns over `kinds`.
        seed: of everything that is drawn.
        split: which split they are from.
        kinds: kinds of edits, see `ALL_KINDS`.
        resolution: pixels per side.
        held_out_share: share of the cases, evenly over the kinds, whose combination training never shows; counts in the
            test split only.

    Returns:
        The cases as they stand in `cases.jsonl`.

    Raises:
        UserError: for numbers out of range, an unknown kind, and where the folder holds something else or is in use.
    """
    _check(num, kinds, resolution, held_out_share)
    config: dict[str, object] = {"num": num, "split": split, "kinds": list(kinds), "resolution": resolution}
    if split == "test":
        config["held_out_share"] = held_out_share
    with RunFolder.open(out, command="data build tabletop", config=config, seed=seed) as run:
        cases = []
        drawn = draw_cases(num, seed=seed, split=split, kinds=kinds, held_out_share=held_out_share)
        for number, item in enumerate(track(drawn, f"drawing {split} cases", total=num)):
            case = _case(f"{BENCHMARK}-{split}-{number:06d}", split, item)
            scenes = [item.scene] if item.element is None else [item.scene, item.element]
            for reference, scene in zip(case.references, scenes, strict=True):
                path = run.path / reference.path
                if not path.exists():  # pictures are written whole or not at all
                    save_png(draw(scene, resolution), path)
            cases.append(case)
        atomic_write_text(run.path / "README.md", README.format(split=split, num=num, kinds=", ".join(kinds)))
        write_records(run.path / CASES, cases)
    return cases


def _check(num: int, kinds: Sequence[str], resolution: int, held_out_share: float) -> None:
    unknown = [kind for kind in kinds if kind not in ALL_KINDS]
    if unknown or not kinds:
        raise UserError(f"expected kinds of edits out of {', '.join(ALL_KINDS)}, got {', '.join(unknown) or 'none'}")
    if len(set(kinds)) < len(kinds):
        raise UserError(f"expected every kind of edit once, got {', '.join(kinds)}")
    if num < 1:
        raise UserError(f"expected num >= 1, got {num}")
    if resolution < RESOLUTION:
        raise UserError(
            f"expected a resolution of at least {RESOLUTION} pixels, where the oracle reads, got {resolution}"
        )
    if not 0 <= held_out_share <= 1:
        raise UserError(f"expected held_out_share in 0..1, got {held_out_share}")


def draw_cases(num: int, *, seed: int, split: Split, kinds: Sequence[str], held_out_share: float) -> Iterator[Drawn]:
    """Draw `num` different pairs of scene and edit with their words, kinds in turn."""
    seen: set[str] = set()
    for number in range(num):
        turn = number // len(kinds)
        held_out = split == "test" and int((turn + 1) * held_out_share) > int(turn * held_out_share)
        rng = random.Random(stable_seed("tabletop-cases", seed, split, number))
        while True:
            scene, edit = sample_pair(rng, split, (kinds[number % len(kinds)],), held_out=held_out)
            name = stable_hash([scene.to_dict(), edit.canonical().to_dict()])
            if name not in seen:
                break
        seen.add(name)
        element = sample_element(rng, edit) if edit.kind in TWO_REFERENCE_KINDS else None
        yield Drawn(scene, edit, describe(edit, rng), element)


def sample_element(rng: random.Random, edit: Edit) -> Scene:
    """Draw the second picture of a `transfer` edit: one shape of the wanted colour and of another kind."""
    assert edit.subject is not None
    assert edit.value is not None
    kind = rng.choice([kind for kind in KINDS if kind != edit.subject.kind])
    shape = Shape(kind, edit.value, rng.choice(SIZES), rng.randrange(GRID), rng.randrange(GRID))
    return Scene(rng.choice(list(GROUNDS)), (shape,))


def _case(case_id: str, split: Split, item: Drawn) -> Case:
    references = [Reference(path=f"images/{case_id}_source.png", role="source")]
    meta: dict[str, Any] = {
        "scene": item.scene.to_dict(),
        "target": apply_edit(item.scene, item.edit).to_dict(),
        "edit": item.edit.to_dict(),
        "held_out": item.edit.held_out(),
        "combination": item.edit.combination(),
    }
    if item.element is not None:
        references.append(Reference(path=f"images/{case_id}_element.png", role="element"))
        meta["element"] = item.element.to_dict()
    return Case(
        id=case_id,
        benchmark=BENCHMARK,
        task=item.edit.kind,
        instruction=item.instruction,
        references=references,
        metrics=list(METRICS),
        split=split,
        meta=meta,
    )
