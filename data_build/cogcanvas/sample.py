"""The stage sample: which references make up each scene, see :mod:`data_build.cogcanvas.drawing`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from bench.cogcanvas.cases import BACKGROUND, GROUP_SIZES, IDENTITY
from data_build.cogcanvas.attributes import read_references
from data_build.cogcanvas.drawing import DrawnScene, Item, Pool, draw_scenes, feasible_cells, shares
from data_build.cogcanvas.entries import name_key
from data_build.cogcanvas.folder import SAMPLE, BuildFolder
from data_build.cogcanvas.references import DescribedReference, ItemAttributes
from data_build.cogcanvas.scenes import SampledBinding, Scene
from data_build.cogcanvas.settings import SampleSettings
from data_build.cogcanvas.vocabulary import SIZES, STRENGTHS, Action, Size, Strength
from data_build.stages import counts_text, write_report
from gnomon.errors import UserError
from gnomon.jsonl import write_records
from gnomon.records import Record
from gnomon.runs import RunFolder

COMMAND = "data build cogcanvas, sample"
SCENES = "scenes.jsonl"


class SampleReport(Record):
    """Counts of scenes: all, by group size, by cell, by number of items; and the cells that no item fits."""

    num_scenes: int
    group_sizes: dict[str, int]
    cells: dict[str, int]
    num_items: dict[str, int]
    empty_cells: list[str]


def sample_scenes(folder: BuildFolder, settings: SampleSettings) -> SampleReport:
    """Draw the scenes anew; the same references and seed give the same ones.

    Raises:
        UserError: where the stage before did not run, and where there are too few references.
    """
    pool = pool_of(read_references(folder).values())
    sizes = shares(settings.num, GROUP_SIZES)
    _check(pool, sizes)
    scenes = [_scene(number, drawn) for number, drawn in enumerate(draw_scenes(pool, sizes, settings.seed), start=1)]
    with RunFolder.open(folder.stage(SAMPLE), command=COMMAND, config={}, seed=settings.seed) as run:
        write_records(run.path / SCENES, scenes)
        report = _report(scenes, pool)
        write_report(run, report, report_lines(report))
    return report


def pool_of(references: Iterable[DescribedReference]) -> Pool:
    """Return what scenes are drawn from."""
    people: dict[str, list[str]] = {}
    items, backgrounds = [], []
    for reference in references:
        name = name_key(reference.name)
        if reference.role == IDENTITY:
            people.setdefault(name, []).append(reference.id)
        elif isinstance(reference.attributes, ItemAttributes):
            attributes = reference.attributes
            items.append(Item(reference.id, name, attributes.size_category, tuple(attributes.afforded_interactions)))
        elif reference.role == BACKGROUND:
            backgrounds.append(reference.id)
    return Pool(people, items, backgrounds)


def _check(pool: Pool, sizes: dict[int, int]) -> None:
    largest = max(size for size, num in sizes.items() if num)
    if len(pool.people) < largest or not pool.items or not pool.backgrounds:
        raise UserError(
            f"expected {largest} people for the largest groups, an object or fashion item and a background, got "
            f"{len(pool.people)}, {len(pool.items)} and {len(pool.backgrounds)}; see the reports of the stages before"
        )


def _scene(number: int, drawn: DrawnScene) -> Scene:
    return Scene(
        id=f"scene-{number:05}",
        background=drawn.background,
        people=list(drawn.people),
        bindings=[
            SampledBinding(item=item, person=person, action=cast("Action", action))
            for item, person, action in drawn.bindings
        ],
        object_size=cast("Size", drawn.cell[0]),
        interaction_strength=cast("Strength", drawn.cell[1]),
    )


def _report(scenes: Sequence[Scene], pool: Pool) -> SampleReport:
    feasible = feasible_cells(pool.items)
    cells = Counter((scene.object_size, scene.interaction_strength) for scene in scenes)
    return SampleReport(
        num_scenes=len(scenes),
        group_sizes=_counted(len(scene.people) for scene in scenes),
        cells={", ".join(cell): cells[cell] for cell in feasible},  # type: ignore[index]
        num_items=_counted(len(scene.bindings) for scene in scenes),
        empty_cells=[
            f"{size}, {strength}" for size in SIZES for strength in STRENGTHS if (size, strength) not in feasible
        ],
    )


def _counted(numbers: Iterable[int]) -> dict[str, int]:
    return {str(number): count for number, count in sorted(Counter(numbers).items())}


def report_lines(report: SampleReport) -> list[str]:
    """Return the report for people."""
    lines = [
        f"{report.num_scenes:,} scenes",
        f"people in a scene: {counts_text(report.group_sizes)}",
        f"items in a scene: {counts_text(report.num_items)}",
        "largest item and closeness: " + "; ".join(f"{cell} {count:,}" for cell, count in report.cells.items()),
    ]
    if report.empty_cells:
        lines.append(f"no item is so large and can be so close: {'; '.join(report.empty_cells)}")
    return lines
