"""TIGER-Lab/GenAI-Bench: votes on pairs of edits and of pictures made from a text, with two kinds of ties."""

from __future__ import annotations

from data_build.importers.pairs import group_of
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Reference, Text

_LABELS: dict[str, Label] = {
    "leftvote": "i",
    "rightvote": "j",
    "tievote": "tie_good",  # the benchmark's prompt calls it "A=B=Good"
    "bothbad_vote": "tie_bad",
}


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row, left before right.

    Rows of videos hold no picture and are left out.

    Raises:
        RowError: for missing or wrong fields.
    """
    if row.get("left_video", "right_video") is not None:
        raise RowError("a pair of videos", "not_comparable")
    instruction, vote = row.text("instruct_prompt", "prompt"), row.text("vote_type")
    if vote not in _LABELS:
        raise RowError(f"expected one of {', '.join(_LABELS)} under 'vote_type', got {vote!r:.80}")
    source = row.get("source_image")
    references = [] if source is None else [pictures.add(source, "source_image")]
    candidates = [
        ComparedImage(
            path=pictures.add(row.get(f"{side}_output_image", f"{side}_image"), f"{side}_output_image"),
            generator=row.optional_text(f"{side}_model"),
        )
        for side in ("left", "right")
    ]
    return [
        Comparison(
            id=row.id,
            instruction=Text(en=instruction),
            references=[Reference(path=path) for path in references],
            candidates=candidates,
            judgements=[Judgement(i=0, j=1, dimension="overall", label=_LABELS[vote])],
            group_id=group_of(instruction, references),
            task="edit" if references else "generation",
        )
    ]
