"""Judges by rubric: values, failures at their place, samples, and expected scores against closed forms."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest

from gnomon.errors import UserError
from gnomon.images import content_hash
from gnomon.records import Verdict
from rm.judge import Judge, JudgeRequest
from rm.protocols.rubric import ExpectedScoreJudge, RubricJudge, expected_value, score_choices
from rm.protocols.templates import load_aspects
from rm.vlm.conversation import ChoiceScores, GenerationParameters, Reply

Ask = Callable[..., JudgeRequest]
Make = Callable[..., Any]


def good(score: float) -> Reply:
    return Reply(json.dumps({"reason": f"it is {score}", "score": score}), seconds=0.5)


def test_each_request_gets_its_verdict_at_its_place(ask: Ask, listed: Make) -> None:
    vlm = listed(
        [
            good(8),
            Reply("no JSON"),
            Reply("", "refused", error="filtered"),
            Reply("", "api_error", error="502"),
            good(11),
            Reply('{"score": 7, "rea', "truncated"),
            Reply('{"score": 6}', "truncated"),
            Reply("8", thinking="so"),
        ]
    )
    judge: Judge = RubricJudge(vlm, batch_size=3)
    requests = [ask(1), ask(None), ask(2), ask("broken"), ask(3), ask("lost"), ask(1), ask(1, "taste"), ask(2), ask(3)]
    requests += [ask(None, status="refused"), ask(1, "visual_quality"), ask(2)]
    verdicts = judge.judge(requests)
    assert [(verdict.value, verdict.status) for verdict in verdicts] == [
        (8, "ok"),
        (None, "missing_output"),
        (None, "parse_error"),
        (None, "unreadable_image"),
        (None, "refused"),
        (None, "missing_output"),
        (None, "api_error"),
        (None, "not_applicable"),
        (None, "out_of_range"),
        (None, "truncated"),
        (None, "refused"),
        (6, "ok"),
        (8, "ok"),
    ]
    assert all(verdict.rationale for verdict in verdicts if verdict.status != "ok")
    assert [verdict.metric for verdict in verdicts] == [request.metric for request in requests]
    assert {verdict.judge for verdict in verdicts} == {judge.fingerprint}
    first = verdicts[0]
    root = requests[0].root
    assert (first.rationale, first.raw, first.seconds) == ("it is 8", good(8).text, 0.5)
    assert first.image_hashes == [content_hash(root / "0.png"), content_hash(root / "1.png")]
    assert first.prompt_hash != verdicts[-2].prompt_hash
    assert verdicts[-1].raw == "<think>so</think>8"
    assert Verdict.model_validate_json(first.model_dump_json()) == first


def test_the_question_shows_the_pictures_and_quotes_the_instruction(ask: Ask, listed: Make) -> None:
    vlm = listed([good(1), good(1)])
    request = ask(2)
    RubricJudge(vlm, metrics=["overall"], scale=(1, 5)).judge([request])
    system, user = vlm.asked[0]
    words = "".join(part for part in user.content if isinstance(part, str))
    shown = [part for part in user.content if not isinstance(part, str)]
    assert [content_hash(picture) for picture in shown] == [
        content_hash(request.root / name) for name in ("0.png", "2.png")
    ]
    assert "Source image 1:" in words
    assert json.dumps(request.case.instruction.en) in words
    assert "from 1 to 5" in words
    assert "data" in "".join(str(part) for part in system.content)
    RubricJudge(vlm, metrics=["overall"], language="zh").judge([request])
    chinese = "".join(part for part in vlm.asked[1][1].content if isinstance(part, str))
    assert '"变红"' in chinese
    assert not any(
        "{" + name + "}" in words + chinese for name in ("instruction", "minimum", "low", "look", "question")
    )


def test_the_short_form_asks_two_questions_of_which_the_lower_score_counts(ask: Ask, listed: Make) -> None:
    texts = ['{"reasoning": "why", "score": [8, 5]}', '{"score": [8]}', '{"score": [8, 11]}', '{"score": 8}', "well"]
    vlm = listed([Reply(text) for text in texts])
    judge = RubricJudge(vlm, metrics=["overall", "visual_quality"], rubrics="viescore-style")
    verdicts = judge.judge([ask(1), ask(2), ask(3), ask(1, "visual_quality"), ask(2)])
    assert [(verdict.value, verdict.status) for verdict in verdicts] == [
        (5, "ok"),
        (None, "parse_error"),
        (None, "out_of_range"),
        (None, "parse_error"),
        (None, "parse_error"),
    ]
    assert verdicts[0].rationale == "why"
    words = ["".join(part for part in talk[1].content if isinstance(part, str)) for talk in vlm.asked[0:4:3]]
    for text, metric in zip(words, ("overall", "visual_quality"), strict=True):
        assert all(question in text for question in load_aspects(metric, "en").values())
        assert "from 0 (worst) to 10 (best)" in text
        assert "{first}" not in text


def test_another_form_keeps_all_else(listed: Make) -> None:
    judge = RubricJudge(
        listed([]),
        metrics=["overall"],
        scale=(1, 5),
        samples=2,
        parameters=GenerationParameters(temperature=0.5),
        language="zh",
        name="mine",
        batch_size=3,
    )
    short = judge.with_rubrics("viescore-style")
    assert (short.name, short.batch_size, short.vlm) == ("mine, viescore-style", 3, judge.vlm)
    assert short.fingerprint != judge.fingerprint
    assert short.with_rubrics("ours").fingerprint == judge.fingerprint
    assert short.with_rubrics("ours").name == "mine"


def test_the_mean_is_over_the_samples_that_succeed_and_counts_the_others(ask: Ask, listed: Make) -> None:
    vlm = listed([good(4), good(6), Reply("nothing"), good(7), good(5), Reply("", "refused")])
    judge = RubricJudge(vlm, samples=3, parameters=GenerationParameters(temperature=0.7, seed=5))
    two, three = judge.judge([ask(1), ask(2)])
    assert [parameters.seed for parameters in vlm.parameters] == [5, 6, 7]
    assert (two.value, three.value) == (4.5, 6.5)
    assert (two.rationale or "").startswith("mean of 2 of 3 samples, failed: 1 parse_error\nit is 4")
    assert (three.rationale or "").startswith("mean of 2 of 3 samples, failed: 1 refused")
    assert json.loads(two.raw or "") == [good(4).text, "nothing", good(5).text]
    assert two.seconds == 1.0


def test_where_all_samples_fail_the_commonest_status_stays(ask: Ask, listed: Make) -> None:
    vlm = listed([Reply("x"), Reply("", "refused"), Reply("", "refused")])
    judge = RubricJudge(vlm, samples=3, parameters=GenerationParameters(temperature=1.0))
    verdict = judge.judge([ask(1)])[0]
    assert (verdict.value, verdict.status) == (None, "refused")
    assert verdict.rationale == "all samples failed: 2 refused, 1 parse_error"


def test_several_samples_need_a_temperature_and_a_metric_needs_a_rubric(listed: Make) -> None:
    with pytest.raises(UserError, match="samples=2 at 0"):
        RubricJudge(listed([]), samples=2)
    with pytest.raises(UserError, match="'taste'"):
        RubricJudge(listed([]), metrics=["taste"])
    with pytest.raises(UserError, match="'fr'"):
        RubricJudge(listed([]), language="fr")


def test_the_fingerprint_follows_everything_that_an_answer_depends_on(listed: Make) -> None:
    vlm = listed([])
    sampled = GenerationParameters(temperature=0.5)
    judges: list[Judge] = [
        RubricJudge(vlm),
        RubricJudge(vlm, scale=(1, 5)),
        RubricJudge(vlm, language="zh"),
        RubricJudge(vlm, rubrics="viescore-style"),
        RubricJudge(vlm, rubrics="viescore-style", scale=(1, 5)),
        RubricJudge(vlm, parameters=sampled),
        RubricJudge(vlm, parameters=sampled, samples=2),
        RubricJudge(vlm, parameters=GenerationParameters(thinking=True)),
        ExpectedScoreJudge(vlm),
        ExpectedScoreJudge(vlm, scale=(0, 5)),
    ]
    assert len({judge.fingerprint for judge in judges}) == len(judges)
    assert RubricJudge(vlm).fingerprint == RubricJudge(listed([]), batch_size=1, name="x").fingerprint


def test_the_expected_score_is_the_mean_under_the_normalised_probabilities(ask: Ask, listed: Make) -> None:
    probabilities = {"1": 0.1, "2": 0.0, "3": 0.1, "4": 0.2, "5": 0.4}
    scores = ChoiceScores({text: math.log(p) if p else -math.inf for text, p in probabilities.items()})
    vlm = listed([], [scores, ChoiceScores(None, "api_error", "down")])
    verdicts = ExpectedScoreJudge(vlm).judge([ask(1), ask(2), ask(3, "taste")])
    assert verdicts[0].value == pytest.approx((0.1 + 0.3 + 0.8 + 2.0) / 0.8)
    assert "0.8 of the probability" in (verdicts[0].rationale or "")
    assert [verdict.status for verdict in verdicts] == ["ok", "api_error", "not_applicable"]
    assert list(vlm.offered[0]) == ["1", "2", "3", "4", "5"]


def test_a_scale_to_ten_has_choices_of_which_none_begins_another() -> None:
    choices = score_choices(0, 10)
    assert choices["1."] == 1
    assert choices["10."] == 10
    assert not any(one != other and other.startswith(one) for one in choices for other in choices)
    assert list(score_choices(0, 9)) == [str(digit) for digit in range(10)]


def test_tiny_probabilities_keep_their_ratio_and_too_little_mass_is_no_score() -> None:
    outcome = expected_value({1.0: -1000.0, 3.0: -1000.0})
    assert outcome.value == 2.0
    assert expected_value({1.0: -9.0, 3.0: -9.0}, minimum_mass=0.01).status == "parse_error"
    assert expected_value({1.0: -math.inf, 3.0: -math.inf}).status == "parse_error"
