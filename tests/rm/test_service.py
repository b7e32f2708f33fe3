"""What goes over the wire to a reward service, and how answers find their items."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from rm.service import (
    ScoreItem,
    ScoreRequest,
    ScoreResponse,
    ScoreResult,
    decode_picture,
    encode_picture,
    match_results,
)


def picture(seed: int = 0, size: tuple[int, int] = (7, 5)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def test_the_json_of_a_request_is_the_documented_one() -> None:
    item = ScoreItem(
        id="0:case", instruction="make it red", references=["AA=="], candidate="BB==", meta={"task": "edit"}
    )
    assert json.loads(ScoreRequest(items=[item], dimensions=["overall"]).model_dump_json()) == {
        "items": [
            {
                "id": "0:case",
                "instruction": "make it red",
                "references": ["AA=="],
                "candidate": "BB==",
                "meta": {"task": "edit"},
            }
        ],
        "dimensions": ["overall"],
    }
    answer = '{"results": [{"id": "0:case", "scores": {"overall": 1}, "error": null}, {"id": "b", "error": "no"}]}'
    assert ScoreResponse.model_validate_json(answer).results == [
        ScoreResult(id="0:case", scores={"overall": 1.0}),
        ScoreResult(id="b", error="no"),
    ]


def test_a_picture_arrives_as_it_was() -> None:
    sent = picture()
    assert np.array_equal(np.asarray(decode_picture(encode_picture(sent))), np.asarray(sent))
    clear = Image.new("RGBA", (2, 2), (255, 0, 0, 0))
    assert decode_picture(encode_picture(clear)).getpixel((0, 0)) == (255, 255, 255)  # on white, as everywhere


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no base64!", "base64"),
        (base64.b64encode(b"GIF89a").decode(), "cannot identify"),
        (encode_picture(picture())[:60], "truncated"),
        (encode_picture(picture(size=(20, 10))), "20 x 10 pixels are more than 100"),
    ],
)
def test_what_is_no_acceptable_picture_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decode_picture(text, max_pixels=100)


def test_a_request_with_one_id_twice_is_refused() -> None:
    item = ScoreItem(id="a", instruction="", candidate="")
    with pytest.raises(ValidationError, match="a more than once"):
        ScoreRequest(items=[item, item])


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ({"scores": {"overall": float("nan")}}, "scores.overall: Input should be a finite number"),
        ({"scores": {"overall": float("inf")}}, "finite"),
        ({"scores": {"overall": "7"}}, "valid number"),
        ({"scores": {"overall": True}}, "valid number"),
        ({"scores": {"overall": None}}, "valid number"),
        ({"scores": {}}, "no score for overall"),
        ({"scores": {"quality": 1.0}}, "no score for overall"),
        ({"scores": None, "error": None}, "either scores or an error"),
        ({"scores": {"overall": 1.0}, "error": "broken"}, "either scores or an error"),
        ({"error": "unreadable picture"}, "unreadable picture"),
        ({"scores": {"overall": 1.0}, "extra": 1}, "extra"),
        ({}, "either scores or an error"),
    ],
)
def test_a_result_without_a_finite_number_is_an_error_of_its_item_only(result: dict[str, Any], reason: str) -> None:
    results = [{"id": "good", "scores": {"overall": 0.5}}, {"id": "bad", **result}]
    found = match_results(["bad", "good"], results, ["overall"])
    assert found["good"] == ScoreResult(id="good", scores={"overall": 0.5})
    assert found["bad"].scores is None
    assert reason in (found["bad"].error or "")


def test_missing_repeated_and_unknown_ids_are_named() -> None:
    results = [
        {"id": "b", "scores": {"x": 1}},
        {"id": "b", "scores": {"x": 2}},
        {"id": "zz", "scores": {"x": 3}},
        7,
        {},
    ]
    found = match_results(["a", "b"], results, None)
    assert found["a"].error == "expected one result for this item, got 0; 3 results are for unknown ids, such as 'zz'"
    assert (found["b"].error or "").startswith("expected one result for this item, got 2")


@given(st.lists(st.sampled_from("abcdef?!"), max_size=10))
def test_an_item_has_a_score_exactly_when_it_was_answered_once_in_whatever_order(answered: list[str]) -> None:
    results = [{"id": name, "scores": {"x": float(ord(name))}} for name in answered]
    found = match_results(list("abcdef"), results, ["x"])
    assert list(found) == list("abcdef")
    for name, result in found.items():
        expected = {"x": float(ord(name))} if answered.count(name) == 1 else None
        assert (result.id, result.scores) == (name, expected)
