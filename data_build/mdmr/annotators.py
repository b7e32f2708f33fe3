"""How tags are asked of a model and read from its reply: in the schema or not at all."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

import yaml
from PIL import Image

from bench.mdmr.cases import ENTITIES
from data_build.mdmr.tags import CATEGORIES, FACINGS, FRAMINGS, TAG_ATTRIBUTES, TEXT_LANGUAGES, Tags
from data_build.replies import closed_schema, read_object
from gnomon.hashing import stable_hash
from rm.protocols.parsing import Parsed
from rm.protocols.parsing.core import Grammar, read, same
from rm.protocols.templates import compose
from rm.vlm.conversation import Conversation

_KEYS = ("tags", "annotation")


@cache
def texts() -> Any:
    """Return our texts."""
    return yaml.safe_load(files("data_build.mdmr").joinpath("annotate.yaml").read_text(encoding="utf-8"))


def texts_hash() -> str:
    """Return the version of our texts and a hash of every word, as one text for manifests."""
    return f"version {texts()['version']}, {stable_hash([texts(), reply_schema()])}"


def ask_for_tags(picture: Image.Image) -> Conversation:
    """Return the question for a picture's tags."""
    lists = {
        "categories": CATEGORIES,
        "kinds": ENTITIES,
        "attributes": TAG_ATTRIBUTES,
        "framings": FRAMINGS,
        "facings": FACINGS,
        "languages": TEXT_LANGUAGES,
    }
    values = {name: ", ".join(words) for name, words in lists.items()}
    return compose(texts(), language="en", references=[picture], candidates=[], values=values, names=["Picture"])


@cache
def reply_schema() -> dict[str, Any]:
    """Return the JSON schema that replies follow; an attribute that does not apply is null."""
    schema = closed_schema(Tags)
    attribute = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    schema["properties"]["attributes"] = {
        "type": "object",
        "properties": dict.fromkeys(TAG_ATTRIBUTES, attribute),
        "required": list(TAG_ATTRIBUTES),
        "additionalProperties": False,
    }
    return schema


def read_tags(text: str | None, *, finish_reason: str | None = None) -> Parsed[Tags]:
    """Read a reply: `out_of_range` where a word or number is none of those asked for, `parse_error` otherwise."""

    def convert(values: list[Any]) -> Parsed[Tags]:
        return same([tags_of(value) for value in values], "the reply gives several sets of tags that differ")

    return read(text, Grammar(_KEYS, convert, lambda _: None, bare=(dict,)), finish_reason=finish_reason)


def tags_of(value: Any) -> Parsed[Tags]:
    """Return tags from an object as JSON has it; attributes that are null are none."""
    if isinstance(value, dict) and isinstance(value.get("attributes"), dict):
        given = {name: words for name, words in value["attributes"].items() if words is not None}
        value = {**value, "attributes": given}
    return read_object(value, Tags)
