"""Scores in every form that judges give them, and everything that must not become one."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import UserError
from rm.protocols.parsing import ParseLevel, Scale, read_rubric, read_score_list

TEN = Scale(0, 10)
JSON, SCAN, REPAIR, WORDS = ParseLevel.JSON, ParseLevel.SCAN, ParseLevel.REPAIR, ParseLevel.WORDS

READ = [
    ('{"score": 8}', 8, JSON),
    ('{"reason": "fine", "score": 8.5}', 8.5, JSON),
    ('{"score": "8"}', 8, JSON),
    ('{"score": "8/10"}', 8, JSON),
    ('{"score": "8 out of 10"}', 8, JSON),
    ('{"score": "score: 8"}', 8, JSON),
    ('{"score": "8 - good"}', 8, JSON),
    ('{"score": [8]}', 8, JSON),
    ('{"score": {"value": 8}}', 8, JSON),
    ('{"Score (1-10)": 8}', 8, JSON),
    ('{"Overall_Score": 8}', 8, JSON),
    ('{"analysis": {"text": "fine", "score": 4}}', 4, JSON),
    ('{"score": 7, "details": {"light": {"score": 3}}}', 7, JSON),
    ('{"评分": "８分", "理由": "好"}', 8, JSON),
    ('"{\\"score\\": 7}"', 7, JSON),
    ('{"instruction_score": 4, "max_score": 10}', 4, JSON),
    ('{"视觉质量评分": 4}', 4, JSON),
    ('{"quality_score": 3, "score": 8}', 8, JSON),
    ("8", 8, JSON),
    ('Here it is:\n```json\n{"score": 8}\n```\nAnything else?', 8, SCAN),
    ('```json\n{"score": 8}', 8, SCAN),
    ("```json\n8\n```", 8, SCAN),
    ('{"score": 8} I am sure: {"score": 8.0}', 8, SCAN),
    ('Use {"score": "<your score>"} as told. {"score": 8}', 8, SCAN),
    ('I saw {"boxes": [1, 2]} and {odd braces}. {"score": 8, "reason": "a } and a \\" in it"}', 8, SCAN),
    ('First {"score": 3}. Final answer: {"score": 8}', 8, SCAN),
    ('<think>{"score": 3}</think>\n{"score": 8}', 8, JSON),
    ('<thinking>{"score": 3}</thinking>The score: {"score": 8}', 8, SCAN),
    ('why not {"score": 3}</think>{"score": 8}', 8, JSON),
    ('<answer>{"score": 8}</answer> as asked', 8, JSON),
    ('{"score": 8, "reason": "fine",}', 8, REPAIR),
    ("{'score': 8, 'reason': 'it's fine'}", 8, REPAIR),
    ('{"score": 8, "reason": "a 5" frame"}', 8, REPAIR),
    ("{score: 8, reason: fine}", 8, REPAIR),
    ('{"score": 8 // out of ten\n}', 8, REPAIR),
    ("｛“评分”：８，“理由”：“好”｝", 8, REPAIR),
    ('{\\"score\\": 8, \\"reason\\": \\"x\\"}', 8, REPAIR),
    ("**Score:** 8", 8, WORDS),
    ("**Score**: 8/10", 8, WORDS),
    ("Score: 8 because the hat is red", 8, WORDS),
    ("1. The hat is red.\n2. There are 3 hats.\nScore: 6", 6, WORDS),
    ("Quality score: 5\nOverall score: 7", 7, WORDS),
    ("Quality score: 5\nFinal answer - score: 7", 7, WORDS),
    ("I give it a score of 8.", 8, WORDS),
    ("<score>8</score>", 8, WORDS),
    ("| Score | 8 |", 8, WORDS),
    ("I would rate this edit 8 out of 10.", 8, WORDS),
    ("得分：８分。", 8, WORDS),
    ("评分为 8/10，因为颜色正确", 8, WORDS),
    ("我给这张图打8分", 8, WORDS),
    ("8/10", 8, WORDS),
    ("Score - 8/10", 8, WORDS),
    ("Score 8/10.", 8, WORDS),
    ("综合评分8分", 8, WORDS),
    ("8.", 8, WORDS),
]

NOT_READ = [
    ("", "parse_error"),
    (" \n", "parse_error"),
    ("```json\n```", "parse_error"),
    ("</think>", "parse_error"),
    ('<think>{"score": 3}</think>', "parse_error"),
    ('{"score":', "truncated"),
    ('{"score": 8, "reason": "the hat', "truncated"),
    ('{"reason": "fine", "score": 8', "truncated"),
    ('Sure: ```json\n{"reason": "fine",\n', "truncated"),
    ('{"score": 8}\n{"score": 9, "rea', "truncated"),
    ('<think>first {"score": 3}', "truncated"),
    ("I can't assist with that.", "refused"),
    ("I'm sorry, but I cannot evaluate these images.", "refused"),
    ('{"error": "I am unable to help with this request"}', "refused"),
    ("抱歉，我无法评价这张图像。", "refused"),
    ("我无法对该图像进行评分", "refused"),
    ("I won't provide a rating: it is against our content policy.", "refused"),
    ("I cannot see a hat in it.", "parse_error"),
    ("评分1分表示最差", "parse_error"),
    ('{"score": 11}', "out_of_range"),
    ('{"score": -1}', "out_of_range"),
    ('{"score": "4/5"}', "out_of_range"),
    ("Score: 80", "out_of_range"),
    ('{"score": "N/A"}', "not_applicable"),
    ("N/A", "not_applicable"),
    ("不适用。", "not_applicable"),
    ("Score: N/A", "not_applicable"),
    ('{"score": null}', "parse_error"),
    ('{"score": true}', "parse_error"),
    ('{"score": NaN}', "parse_error"),
    ('{"score": Infinity}', "parse_error"),
    ('{"score": 1e999}', "parse_error"),
    ('{"score": "seven"}', "parse_error"),
    ('{"score": "7 to 8"}', "parse_error"),
    ('{"score": "3 objects"}', "parse_error"),
    ('{"score": [8, 7]}', "parse_error"),
    ('{"reason": "fine"}', "parse_error"),
    ('{"score": 3} {"score": 8}', "parse_error"),
    ('{"score": 3, "score": 8}', "parse_error"),
    ("{'score': 3, 'score': 8}", "parse_error"),
    ('{"score": 3 objects and 2 defects, "reason": "x"}', "parse_error"),
    ('{"light": {"score": 3}, "shape": {"score": 4}}', "parse_error"),
    ("There are 3 objects and 2 defects.", "parse_error"),
    ("3 objects and 2 defects, so 20 in all", "parse_error"),
    ("Score: 3 objects are missing", "parse_error"),
    ("Score: 7-8", "parse_error"),
    ("Score: 80%", "parse_error"),
    ("Score: 8, 7", "parse_error"),
    ("A score of 10 means that nothing is wrong.", "parse_error"),
    ("The maximum score: 10", "parse_error"),
    ("Light score: 3\nShape score: 4", "parse_error"),
    ("[7, 8]", "parse_error"),
    ("I would rate it high, as 8 out of 10 hats are red.", "parse_error"),
    ('{"light_score": 3, "shape_score": 4}', "parse_error"),
    ('{"max_score": 10}', "parse_error"),
]


@pytest.mark.parametrize(("reply", "score", "level"), READ)
def test_a_score_is_read(reply: str, score: float, level: ParseLevel) -> None:
    parsed = read_rubric(reply, TEN)
    assert (parsed.value, parsed.status, parsed.level) == (score, "ok", level)


@pytest.mark.parametrize(("reply", "status"), NOT_READ)
def test_what_is_no_score_has_a_name(reply: str, status: str) -> None:
    parsed = read_rubric(reply, TEN)
    assert (parsed.value, parsed.status) == (None, status)
    assert parsed.problem


@pytest.mark.parametrize(
    ("reply", "finish_reason", "expected"),
    [
        ('{"score": 8', "stop", 8),  # the model forgot the bracket
        ('{"score": 8', "length", "truncated"),
        ('{"score": 8', None, "truncated"),
        ('{"score": 8}', "length", 8),  # complete before the reply was cut
        ("Score: 8", "length", "truncated"),  # perhaps of 8.5
        ("The hat is", "length", "truncated"),
        ("", "length", "truncated"),
    ],
)
def test_how_the_reply_ended_decides_whether_it_was_cut(
    reply: str, finish_reason: str | None, expected: float | str
) -> None:
    parsed = read_rubric(reply, TEN, finish_reason=finish_reason)
    assert (parsed.value if parsed.status == "ok" else parsed.status) == expected


def test_the_reason_is_kept_in_either_language() -> None:
    assert read_rubric('{"score": 8, "reasoning": "it is red"}', TEN).rationale == "it is red"
    assert read_rubric('```\n{"评分": 8, "理由": "颜色正确"}\n```', TEN).rationale == "颜色正确"


def test_a_score_under_the_metrics_name_is_found_by_that_key() -> None:
    assert read_rubric('{"Visual Quality": 8}', TEN).status == "parse_error"
    assert read_rubric('{"Visual Quality": 8}', TEN, keys=("visual_quality",)).value == 8


@pytest.mark.parametrize("ends", [(1, 1), (5, 1), (0, math.inf), (math.nan, 1)])
def test_a_scale_needs_two_ends_in_order(ends: tuple[float, float]) -> None:
    with pytest.raises(UserError, match="minimum"):
        Scale(*ends)


LISTS: list[tuple[str, Any]] = [
    ('{"score": [8, 7], "reasoning": "x"}', (8, 7)),
    ('||V^=^V||\n{"score": [4, 5], "reasoning": ""}\n||V^=^V||', (4, 5)),
    ('{"score": ["8/10", "7"]}', (8, 7)),
    ('{"score": "[8, 7]"}', (8, 7)),
    ('{"score": 8}', (8,)),
    ("[8, 7]", (8, 7)),
    ('{"semantic_score": 8, "quality_score": 7, "reason": "x"}', (8, 7)),
    ('{"a": {"score": 4}, "b": {"score": 3}}', (4, 3)),
    ('{"scores": {"light": 8, "shape": 7}}', (8, 7)),
    ("{'score': [8, 7,]}", (8, 7)),
    ('{"评分": [８, 7]}', (8, 7)),
    ("**Score:** [8, 7]", (8, 7)),
    ("Score 1: 8\nScore 2: 7", (8, 7)),
    ('{"score": [8, "bad"]}', "parse_error"),
    ('{"score": [8, NaN]}', "parse_error"),
    ('{"score": [8, null]}', "parse_error"),
    ('{"score": [8, true]}', "parse_error"),
    ('{"score": []}', "parse_error"),
    ('{"score": [8, 11]}', "out_of_range"),
    ('{"score": [8,', "truncated"),
    ("[8, 7", "truncated"),
    ('{"score": [8, 7]} {"score": [8, 6]}', "parse_error"),
    ("The boxes are [1, 2] and [3, 4].", "parse_error"),
    ("Prompt Compliance: 4\nNaturalness: 3", "parse_error"),
    ("", "parse_error"),
    ("Sorry, I can't help with that.", "refused"),
]


@pytest.mark.parametrize(("reply", "expected"), LISTS)
def test_lists_of_scores(reply: str, expected: object) -> None:
    parsed = read_score_list(reply, TEN)
    assert (parsed.value if parsed.status == "ok" else parsed.status) == expected


def test_a_list_has_as_many_scores_as_it_must() -> None:
    assert read_score_list('{"score": [8, 7]}', TEN, count=2).value == (8, 7)
    assert read_score_list('{"score": [8, 7, 6]}', TEN, count=2).status == "parse_error"
    assert read_score_list('{"score": 8}', TEN, count=2).status == "parse_error"
    assert read_score_list("Prompt Compliance: 4\n2. Natural look: **3**", TEN, count=2).value == (4, 3)
    assert read_score_list("Things seen: 4 hats\nNatural look: 3", TEN, count=2).status == "parse_error"


WRAPPINGS = [
    "{}",
    "```json\n{}\n```",
    "Here is my verdict.\n{}\nThat is all.",
    '<think>perhaps {{"score": 1}} or {{"score": 2}}</think>\n{}',
    "There are 3 objects and 2 defects. [1] says so.\n\n```\n{}\n```",
    "<answer>{}</answer>",
    "好的，以下是评分：\n{}",
]
SCORES = st.one_of(st.integers(0, 10), st.floats(0, 10, allow_nan=False))


@given(score=SCORES, reason=st.text(), wrapping=st.sampled_from(WRAPPINGS), key=st.sampled_from(["score", "评分"]))
def test_any_rubric_json_comes_back_through_any_wrapping(score: float, reason: str, wrapping: str, key: str) -> None:
    parsed = read_rubric(wrapping.format(json.dumps({"reason": f"x{reason}", key: score})), TEN)
    assert (parsed.value, parsed.rationale) == (score, f"x{reason}")


PIECES = st.sampled_from(
    [
        *(
            '{"score": ',
            "8",
            "11",
            "-3",
            "}",
            "{",
            "[",
            "]",
            '"',
            "\\",
            "score",
            "Score: ",
            "评分：",
            "８",
            "/10",
            "NaN",
            ",",
        ),
        *(
            "<think>",
            "</think>",
            "<answer>",
            "```",
            "\n",
            " ",
            "yes",
            "A>B",
            "[[",
            "抱歉",
            "final answer",
            "'reason': 'x'",
        ),
    ]
)


@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)))
def test_nothing_raises_and_no_score_is_off_the_scale(reply: str) -> None:
    scale = Scale(1, 5)
    parsed = read_rubric(reply, scale)
    assert (parsed.value is None) == (parsed.status != "ok")
    assert parsed.value is None or 1 <= parsed.value <= 5
    several = read_score_list(reply, scale)
    assert (several.value is None) == (several.status != "ok")
    assert several.value is None or (several.value and all(1 <= score <= 5 for score in several.value))


@given(
    st.lists(
        st.sampled_from(["3 objects", "2 defects", "in 4 places", "and", "10 hats,", "at 5%", "no. 7"]), min_size=1
    )
)
def test_numbers_in_prose_are_no_scores(words: list[str]) -> None:
    assert read_rubric(f"I see {' '.join(words)} here.", TEN).status == "parse_error"


@pytest.mark.parametrize("piece", ["{", "[", '{"a":', '[{"a": "', '{"score": ' + "9" * 9999, "Score: ", '{"score": "'])
def test_long_nonsense_is_read_at_once(piece: str) -> None:
    assert read_rubric(piece * 3000, TEN).value is None
