"""EditReward-Compass: pairs of edits as reinforcement learning samples them, in three dimensions, with ties."""

from __future__ import annotations

from data_build.importers.pairs import group_of, with_sides_by_hash
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Reference, Text

_DIMENSIONS = {"IA": "instruction_awareness", "VC": "visual_consistency", "VQ": "visual_quality"}
_LABELS: dict[str, Label] = {"preference": "i", "tie": "tie"}


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row, in the row's dimension, with its sides placed by hash.

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
            )
        )
    ]
