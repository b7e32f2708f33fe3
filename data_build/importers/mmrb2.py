"""MMRB2 (Multimodal RewardBench 2): pairs of answers to prompts of text and any number of pictures.

The release's README says `pair_id` and `model`, its code `id` and `model_name`; both are read.
"""

from __future__ import annotations

from typing import Any

from data_build.importers.pairs import group_of
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Reference, Text

_LABELS: dict[str, Label] = {"A": "i", "B": "j"}


def convert(row: Row, pictures: Pictures) -> list[Comparison]:
    """Return the comparison of a row; its sides stay as the benchmark has them.

    Answers of text, or of text and pictures in turns, are no candidates of one picture each: "not_comparable".

    Raises:
        RowError: for missing or wrong fields.
    """
    texts, images = _parts(row.get("prompt_content"), "prompt_content")
    instruction = "\n".join(text for text in texts if text.strip())
    if not instruction:
        raise RowError("expected a text in 'prompt_content', got none")
    references = [pictures.add(image, "prompt_content") for image in images]
    chosen = row.text("chosen").upper()
    if chosen not in _LABELS:
        raise RowError(f"expected A or B under 'chosen', got {chosen!r:.80}")
    role = "source" if len(references) == 1 else "reference"
    return [
        Comparison(
            id=row.id,
            instruction=Text(en=instruction),
            references=[Reference(path=path, role=role) for path in references],
            candidates=[_candidate(row, pictures, f"response_{side}") for side in "ab"],
            judgements=[Judgement(i=0, j=1, dimension="overall", label=_LABELS[chosen])],
            group_id=group_of(instruction, references),
            task=row.optional_text("prompt_source"),
            meta={
                "original_id": str(row.get("id", "pair_id") or ""),
                "human_annotations": row.get("human_annotations"),
                "prompt_metadata": row.get("prompt_metadata"),
            },
        )
    ]


def _candidate(row: Row, pictures: Pictures, field: str) -> ComparedImage:
    response = row.get(field)
    if not isinstance(response, dict):
        raise RowError(f"expected an object under '{field}', got {response!r:.80}")
    texts, images = _parts(response.get("response_content"), f"{field}.response_content")
    if len(images) != 1 or any(text.strip() for text in texts):
        raise RowError(f"{field} is not one picture ({len(texts)} texts, {len(images)} pictures)", "not_comparable")
    generator = response.get("model_name") or response.get("model")
    return ComparedImage(path=pictures.add(images[0], field), generator=None if generator is None else str(generator))


def _parts(content: Any, field: str) -> tuple[list[str], list[Any]]:
    """Return the texts and the pictures of a list of `["text" | "image", value]`."""
    if not isinstance(content, list):
        raise RowError(f"expected a list of [kind, value] under '{field}', got {content!r:.80}")
    texts, images = [], []
    for part in content:
        if not isinstance(part, list | tuple) or len(part) != 2 or part[0] not in ("text", "image"):
            raise RowError(f"expected ['text' | 'image', value] in '{field}', got {part!r:.80}")
        if part[0] == "text":
            texts.append(str(part[1]))
        else:
            images.append(part[1])
    return texts, images
