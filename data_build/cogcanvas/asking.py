"""How the stages ask a model: for one object under one key, held to a record's schema and read as that record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Generic

from data_build.replies import closed_schema, read_object
from gnomon.errors import UserError
from gnomon.jsonl import Model
from rm.protocols.asking import raw_text, read_reply
from rm.protocols.parsing import Parsed
from rm.protocols.parsing.core import Grammar, read, same
from rm.vlm.conversation import VLM, Conversation, GenerationParameters


@dataclass(frozen=True)
class Said(Generic[Model]):
    """What a model said about one thing.

    Attributes:
        reading: the record, or what is wrong with the reply.
        raw: the whole reply.
    """

    reading: Parsed[Model]
    raw: str | None


def require_model(vlm: VLM | None, stage: str) -> VLM:
    """Return the model of a stage.

    Raises:
        UserError: where there is none.
    """
    if vlm is None:
        raise UserError(f"expected a model under {stage}.vlm, got none")
    return vlm


def ask(
    vlm: VLM,
    parameters: GenerationParameters,
    key: str,
    model: type[Model],
    conversations: Mapping[str, Conversation],
) -> dict[str, Said[Model]]:
    """Return what a model says to each conversation, by the same names.

    Args:
        vlm: the model.
        parameters: how replies are sampled; the schema is added.
        key: under which the object stands.
        model: what the object is.
        conversations: by name.
    """
    if not conversations:
        return {}
    held = replace(parameters, schema=reply_schema(key, model))
    replies = vlm.generate(list(conversations.values()), held)
    return {
        name: Said(
            read_reply(reply, lambda text, finish_reason=None: _read(text, key, model, finish_reason)), raw_text(reply)
        )
        for name, reply in zip(conversations, replies, strict=True)
    }


def reply_schema(key: str, model: type[Model]) -> dict[str, Any]:
    """Return the schema of a reply: an object with the record under its key."""
    inner = closed_schema(model)
    definitions = {"$defs": inner.pop("$defs")} if "$defs" in inner else {}
    return {
        "type": "object",
        "additionalProperties": False,
        "required": [key],
        "properties": {key: inner},
        **definitions,
    }


def run_config(vlm: VLM, parameters: GenerationParameters, texts: str) -> dict[str, Any]:
    """Return what makes the answers those of another run: model, sampling and our own words."""
    return {
        "model": {vlm.name: vlm.fingerprint},
        "parameters": {**asdict(parameters), "schema": None},
        "texts": texts,
    }


def _read(text: str | None, key: str, model: type[Model], finish_reason: str | None) -> Parsed[Model]:
    def convert(values: list[Any]) -> Parsed[Model]:
        return same([read_object(value, model) for value in values], f"the reply gives several of '{key}' that differ")

    return read(text, Grammar((key,), convert, lambda _: None), finish_reason=finish_reason)
