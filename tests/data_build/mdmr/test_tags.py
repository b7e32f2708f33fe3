from __future__ import annotations

import json
from typing import Any

import pytest

from bench.mdmr.cases import ATTRIBUTES, CHANGES, ENTITIES
from data_build.mdmr.annotators import ask_for_tags, read_tags, reply_schema, texts_hash
from data_build.mdmr.tags import CATEGORIES, FACINGS, FRAMINGS, TAG_ATTRIBUTES, TEXT_LANGUAGES, Tags
from rm.vlm.scripted import prompt_text
from tests.data_build.mdmr.pictures import picture, tags


def reading(value: Any) -> tuple[str, str | None]:
    parsed = read_tags(value if isinstance(value, str) else json.dumps(value))
    assert (parsed.value is None) == (parsed.status != "ok")
    return parsed.status, parsed.problem


def test_the_kinds_of_tags_are_those_of_the_benchmark_and_one_attribute_for_each_change() -> None:
    assert set(ATTRIBUTES) < set(TAG_ATTRIBUTES)
    assert len(TAG_ATTRIBUTES) == len(ATTRIBUTES) + len(CHANGES) - 1  # a stylistic change is one of artistic style


def test_the_question_names_every_word_that_a_reply_may_use() -> None:
    said = prompt_text(ask_for_tags(picture(0)))

    for word in (*CATEGORIES, *ENTITIES, *TAG_ATTRIBUTES, *FRAMINGS, *FACINGS, *TEXT_LANGUAGES, *Tags.model_fields):
        assert word in said
    assert "{references}" not in said
    assert "{categories}" not in said
    assert texts_hash().startswith("version 1, ")


def test_a_reply_is_read_alone_in_a_fence_and_under_a_key() -> None:
    value = tags("people", ("person", " young woman "), num_people=1, age=25, attributes={"hair": "long", "pose": None})
    for text in (json.dumps(value), f"```json\n{json.dumps(value)}\n```", json.dumps({"tags": value})):
        found = read_tags(text).value
        assert found is not None
        assert (found.entities[0].name, found.attributes, found.age) == ("young woman", {"hair": "long"}, 25)


@pytest.mark.parametrize(
    ("change", "status", "problem"),
    [
        ({"category": "vehicles"}, "out_of_range", "category"),
        ({"entities": [{"kind": "plant", "name": "oak"}]}, "out_of_range", "entities.0.kind"),
        ({"attributes": {"mood": "dark"}}, "out_of_range", "attributes.mood"),
        ({"age": 300}, "out_of_range", "age"),
        ({"num_people": -1}, "out_of_range", "num_people"),
        ({"entities": [{"kind": "object", "name": "cup"}] * 17}, "out_of_range", "entities"),
        ({"caption": None}, "parse_error", "caption"),
        ({"entities": "a cup"}, "parse_error", "entities"),
        ({"entities": [{"kind": "object", "name": ""}]}, "parse_error", "entities.0.name"),
        ({"colour": "red"}, "parse_error", "unknown key 'colour'"),
        ({"num_people": "many"}, "parse_error", "num_people"),
    ],
)
def test_what_is_outside_the_schema_is_no_tag(change: dict[str, Any], status: str, problem: str) -> None:
    found = reading(tags() | change)

    assert found[0] == status
    assert problem in (found[1] or "")


def test_replies_without_tags_have_a_status() -> None:
    assert reading("A cup on a table.")[0] == "parse_error"
    assert reading("I'm sorry, I cannot help with that.")[0] == "refused"
    assert reading(json.dumps(tags())[:-10])[0] == "truncated"
    assert reading([tags()])[0] == "parse_error"


def test_the_schema_asks_for_every_key_and_what_follows_it_is_read() -> None:
    schema = reply_schema()

    assert set(schema["required"]) == set(schema["properties"]) == set(Tags.model_fields)
    assert schema["additionalProperties"] is False
    attributes = schema["properties"]["attributes"]
    assert tuple(attributes["required"]) == tuple(attributes["properties"]) == TAG_ATTRIBUTES
    everything = (
        dict.fromkeys(schema["required"]) | tags() | {"num_people": 0, "attributes": dict.fromkeys(TAG_ATTRIBUTES)}
    )
    assert reading(everything) == ("ok", None)
