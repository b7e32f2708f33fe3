"""The words of the protocols, about the right pictures in the right order, and their own readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.datasets import read_comparisons, resolve
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.records import Reference
from rm.thinking.asking import make_question


def _shown(conversation: Any) -> list[Any]:
    return [part for message in conversation for part in message.content if not isinstance(part, str)]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_pairwise_question_is_the_protocols_and_shows_the_pictures_in_the_order_asked_for(
    language: str, data: Path
) -> None:
    from rm.pictures import Pictures
    from rm.protocols.pairwise import PairwiseQuestion

    record = read_comparisons(data)[0]
    question = make_question("pairwise", "overall", language, data)
    source = load_image(resolve(data, record.references[0].path))
    shown = [load_image(resolve(data, record.candidates[position].path)) for position in (2, 0)]
    expected = PairwiseQuestion("overall", language).build(
        record.instruction.get(language), Pictures((source,), tuple(shown), ())
    )
    conversation = question.build_conversation(record, (2, 0))
    for one, other in zip(conversation, expected, strict=True):
        assert [p for p in one.content if isinstance(p, str)] == [p for p in other.content if isinstance(p, str)]
    for picture, wanted in zip(_shown(conversation), [source, *shown], strict=True):
        assert np.array_equal(np.asarray(picture), np.asarray(wanted))
    assert question.prompt_hash == PairwiseQuestion("overall", language).prompt_hash


@pytest.mark.parametrize(
    ("reply", "reading"),
    [
        ('<think>B? no.</think>{"winner": "A"}', "A>B"),
        ('<think>x</think>{"reason": "r", "winner": "B"}', "B>A"),
        ('<think>x</think>{"winner": "both good"}', "A=B"),
        ('<think>x</think>{"winner": "both bad"}', "A=B"),
        ('<think>x</think>{"winner": "A"}{"winner": "B"}', None),
        ("<think>A is better", None),
        ("<think>x</think>hm", None),
    ],
)
def test_a_preference_is_read_behind_the_thought(reply: str, reading: str | None, data: Path) -> None:
    assert make_question("pairwise", "overall", "en", data).read(reply) == reading


def test_a_rubric_question_shows_one_picture_and_reads_a_score_on_its_scale(data: Path) -> None:
    record = read_comparisons(data)[0]
    question = make_question("rubric", "overall", "en", data)
    pictures = _shown(question.build_conversation(record, (1,)))
    assert np.array_equal(np.asarray(pictures[-1]), np.asarray(load_image(resolve(data, record.candidates[1].path))))
    assert len(pictures) == 2
    assert question.read('<think>10</think>{"reason": "r", "score": 7}') == 7
    assert question.read('<think>x</think>{"score": 11}') is None


def test_a_picture_that_cannot_be_shown_ends_the_run_with_its_comparison(data: Path) -> None:
    record = read_comparisons(data)[0]
    broken = record.model_copy(update={"references": [Reference(path="comparisons.jsonl")]})
    with pytest.raises(UserError, match="comparison 'c0-0'"):
        make_question("pairwise", "overall", "en", data).build_conversation(broken, (0, 1))


def test_a_metric_without_a_rubric_is_refused(data: Path) -> None:
    with pytest.raises(UserError, match="beauty"):
        make_question("pairwise", "beauty", "en", data)
