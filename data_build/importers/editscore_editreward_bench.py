"""EditScore/EditReward-Bench: strict pairs of edits in three dimensions; the better one always comes first.

Not to be taken for TIGER-Lab/EditReward-Bench (:mod:`data_build.importers.tiger_editreward_bench`).
"""

from __future__ import annotations

from data_build.importers.pairs import group_of, with_sides_by_hash
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import ComparedImage, Comparison, Judgement, Reference, Text

_DIMENSIONS = ("prompt_following", "consistency", "overall")


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row, in the row's dimension, with its sides placed by hash.

    Raises:
        RowError: for missing or wrong fields.
    """
    instruction, dimension = row.text("instruction"), row.text("dimension")
    if dimension not in _DIMENSIONS:
        raise RowError(f"expected one of {', '.join(_DIMENSIONS)} under 'dimension', got {dimension!r:.80}")
    source = pictures.add(row.get("input_image"), "input_image")
    outputs = [pictures.add(value, "output_images") for value in row.items("output_images", 2)]
    key = row.get("key")
    return [
        with_sides_by_hash(
            Comparison(
                id=row.id,
                instruction=Text(en=instruction),
                references=[Reference(path=source)],
                candidates=[ComparedImage(path=path) for path in outputs],
                judgements=[Judgement(i=0, j=1, dimension=dimension, label="i")],
                group_id=group_of(instruction, [source]),
                task=row.optional_text("task_type"),
                meta={} if key is None else {"key": key},
            )
        )
    ]
