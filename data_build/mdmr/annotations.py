"""What the stage annotate writes: a line for every picture that was tagged or could not be, and a table of tags."""

from __future__ import annotations

from typing import Any

from pydantic import model_validator

from data_build.mdmr.tags import TAG_ATTRIBUTES, Tags
from gnomon.records import Record, Status


class Annotation(Record):
    """The tags of one picture, or why there are none; `tags` is None exactly where `status` is not "ok".

    Attributes:
        image: id in the gallery.
        annotator: name of the model, or of the file.
        tags: what it says.
        status: what went wrong otherwise.
        reason: for people.
        raw: the whole reply of a model.
    """

    image: str
    annotator: str
    tags: Tags | None
    status: Status = "ok"
    reason: str | None = None
    raw: str | None = None

    @model_validator(mode="after")
    def _tags_only_when_ok(self) -> Annotation:
        if (self.tags is None) == (self.status == "ok"):
            raise ValueError(f"expected tags exactly when status is 'ok', got status={self.status!r}")
        return self


COLUMNS = {
    "id": "string",
    "category": "string",
    "entity_kinds": "string[]",
    "entity_names": "string[]",
    **{f"attribute_{name}": "string" for name in TAG_ATTRIBUTES},
    "num_people": "int32",
    "age": "int32",
    "framing": "string",
    "facing": "string",
    "text_language": "string",
    "caption": "string",
}
"""Of `tags.parquet`, by pyarrow's names of types."""


def table_row(image: str, tags: dict[str, Any]) -> dict[str, Any]:
    """Return a row of the table from tags as JSON has them."""
    own = {name: tags[name] for name in COLUMNS if name in tags}
    return {
        **dict.fromkeys(COLUMNS),
        **own,
        "id": image,
        "entity_kinds": [entity["kind"] for entity in tags["entities"]],
        "entity_names": [entity["name"] for entity in tags["entities"]],
        **{f"attribute_{name}": words for name, words in tags["attributes"].items()},
    }
