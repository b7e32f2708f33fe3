"""Control judges answer by their rule, the same in every process."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

import pytest
from PIL import Image

from gnomon.errors import UserError
from rm.vlm.conversation import Conversation, GenerationParameters, Message
from rm.vlm.scripted import CONFIDENCE, ScriptedVLM, prompt_text
from rm.vlm.wire import conversation_hash


def ask(text: str) -> Conversation:
    return (Message("system", ("rules",)), Message("user", (Image.new("RGB", (2, 2)), text)))


def said(model: ScriptedVLM, *questions: str, seed: int = 0) -> list[str]:
    return [reply.text for reply in model.generate([ask(q) for q in questions], GenerationParameters(seed=seed))]


def taken(model: ScriptedVLM, *choices: str, question: str = "q") -> str:
    (scores,) = model.choose([ask(question)], choices)
    assert scores.logprobs is not None
    assert math.fsum(map(math.exp, scores.logprobs.values())) == pytest.approx(1.0)
    best = max(scores.logprobs, key=scores.logprobs.__getitem__)
    assert scores.logprobs[best] == pytest.approx(math.log(CONFIDENCE))
    return best


def test_the_constant_judges_are_constant() -> None:
    assert said(ScriptedVLM("always_yes"), "a", "b") == ["Yes", "Yes"]
    assert said(ScriptedVLM("always_no"), "a", "b") == ["No", "No"]
    assert said(ScriptedVLM("always_first", answers=['{"winner": "A"}', "B"]), "a") == ['{"winner": "A"}']
    assert taken(ScriptedVLM("always_yes"), "no", "yes") == "yes"
    assert taken(ScriptedVLM("always_no"), "Yes", "No") == "No"
    assert taken(ScriptedVLM("always_first"), "B", "A", "tie") == "B"


def test_a_rule_without_a_fitting_choice_is_a_status() -> None:
    (scores,) = ScriptedVLM("always_yes").choose([ask("q")], ["A", "B"])
    assert (scores.logprobs, scores.status) == (None, "parse_error")


def test_the_random_judge_is_fair_and_repeats_itself() -> None:
    model, questions = ScriptedVLM("random", answers=["A", "B"]), [str(number) for number in range(400)]
    first = said(model, *questions)
    assert said(ScriptedVLM("random", answers=["A", "B"]), *questions) == first
    # Binomial(400, 1/2) is outside of 150..250 with a probability below 1e-6.
    for other in (
        first,
        said(model, *questions, seed=1),
        said(ScriptedVLM("random", answers=["A", "B"], seed=1), *questions),
    ):
        assert 150 <= other.count("A") <= 250
    for other in (said(model, *questions, seed=1), said(ScriptedVLM("random", answers=["A", "B"], seed=1), *questions)):
        assert 150 <= sum(a == b for a, b in zip(first, other, strict=True)) <= 250
    assert {taken(model, "A", "B", question=question) for question in questions} == {"A", "B"}


def test_the_random_judge_does_not_depend_on_the_process() -> None:
    code = (
        "from rm.vlm.scripted import ScriptedVLM; from rm.vlm.conversation import *\n"
        "asked = [(Message('user', (str(i),)),) for i in range(9)]\n"
        "replies = ScriptedVLM('random', answers='abcdefgh').generate(asked, GenerationParameters())\n"
        "print(''.join(reply.text for reply in replies))"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1
    assert len(runs.pop().strip()) == 9


def test_the_table_knows_prompts_and_hashes() -> None:
    table = {prompt_text(ask("a")): "by text", conversation_hash(ask("b")): "B"}
    model = ScriptedVLM("table", table=table)

    found = model.generate([ask("a"), ask("b"), ask("c")], GenerationParameters())
    scores = model.choose([ask("a"), ask("b"), ask("c")], ["A", "B"])

    assert [(reply.text, reply.status) for reply in found] == [("by text", "ok"), ("B", "ok"), ("", "api_error")]
    assert [answer.status for answer in scores] == ["parse_error", "ok", "api_error"]


def test_fingerprints_tell_rules_apart() -> None:
    models = [
        ScriptedVLM("always_yes"),
        ScriptedVLM("always_no"),
        ScriptedVLM("random"),
        ScriptedVLM("random", seed=1),
        ScriptedVLM("random", answers=["A", "B"]),
        ScriptedVLM("table", table={}),
        ScriptedVLM("table", table={"a": "b"}),
    ]
    assert len({model.fingerprint for model in models}) == len(models)


@pytest.mark.parametrize(
    ("rule", "settings", "part"),
    [
        ("always_maybe", {}, "always_maybe"),
        ("table", {}, "table exactly for"),
        ("random", {"table": {}}, "table exactly for"),
        ("random", {"answers": []}, "at least one"),
    ],
)
def test_wrong_settings_are_named(rule: Any, settings: dict[str, Any], part: str) -> None:
    with pytest.raises(UserError, match=part):
        ScriptedVLM(rule, **settings)
