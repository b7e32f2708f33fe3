"""EditReward-Compass: pairs of edits as reinforcement learning samples them, in three dimensions, with ties.

No field of a row is known to name the task. The pairs are edits of Edit-Compass' sources, so it is inferred from the
source's path, where that is the other release's `<Part>/<Cell>/...`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.editcompass.cases import cell_of_picture
from data_build.importers.pairs import group_of, with_sides_by_hash
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Reference, Text

_DIMENSIONS = {"IA": "instruction_awareness", "VC": "visual_consistency", "VQ": "visual_quality"}
_LABELS: dict[str, Label] = {"preference": "i", "tie": "tie"}


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row, in the row's dimension and its source's task, with its sides placed by hash.

    Raises:
        RowError: for missing or wrong fields.
    """
    instruction = row.text("prompt")
    dimension, label = row.text("dimension"), row.text("label")
    if dimension not in _DIMENSIONS or label not in _LABELS:
        raise RowError(
            f"expected one of {', '.join(_DIMENSIONS)} under 'dimension' and preference or tie under 'label', "
            f"got {dimension!r:.40} and {label!r:.40}"
        )
    source = row.get("source_image")
    sources = source if isinstance(source, list) else [source]
    references = [pictures.add(value, "source_image") for value in sources]
    candidates = [ComparedImage(path=pictures.add(row.get(name), name)) for name in ("winner", "loser")]
    role = "source" if len(references) == 1 else "reference"
    return [
        with_sides_by_hash(
            Comparison(
                id=row.id,
                instruction=Text(en=instruction),
                references=[Reference(path=path, role=role) for path in references],
                candidates=candidates,
                judgements=[Judgement(i=0, j=1, dimension=_DIMENSIONS[dimension], label=_LABELS[label])],
                group_id=group_of(instruction, references),
                task=_task_of(sources),
            )
        )
    ]


def _task_of(sources: Sequence[Any]) -> str | None:
    """Return the one task whose folder the paths of the sources name; None where they name none, or several."""
    paths = [source.get("path") if isinstance(source, dict) else source for source in sources]
    cells = [cell_of_picture(path) for path in paths if isinstance(path, str)]
    tasks = {cell.task for cell in cells if cell is not None}
    return tasks.pop() if len(tasks) == 1 else None
