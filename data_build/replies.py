"""Replies that are an object of a record's kind: the schema that a model is held to, and how such an object is read."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from gnomon.jsonl import Model, describe
from rm.protocols.parsing import Parsed
from rm.protocols.parsing.core import failed

_OUT_OF_RANGE = {"literal_error", "less_than_equal", "greater_than_equal", "too_long", "string_too_long"}


def closed_schema(model: type[Model]) -> dict[str, Any]:
    """Return a record's JSON schema as servers take it that hold a model to one: every key is named and required."""
    schema = model.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        part.pop("description", None)
        if "properties" in part:
            part["required"] = list(part["properties"])
            for key in part["properties"].values():
                key.pop("default", None)
    return schema


def read_object(value: Any, model: type[Model]) -> Parsed[Model]:
    """Return a record from an object as JSON has it: `out_of_range` for a foreign word, else `parse_error`."""
    try:
        return Parsed(model.model_validate(value, strict=False))
    except ValidationError as error:
        outside = all(item["type"] in _OUT_OF_RANGE for item in error.errors())
        return failed("out_of_range" if outside else "parse_error", describe(error))
