"""A trained adapter is asked like any other local model, with the prompts that it was trained on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gnomon.datasets import read_comparisons
from rm.thinking.asking import Question, make_question
from rm.thinking.options import ThinkingOptions
from rm.thinking.prompts import template_variables
from rm.thinking.training import train
from rm.vlm.conversation import GenerationParameters
from rm.vlm.processor import control_tokens, render_chat, template_messages


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize(("protocol", "order"), [("pairwise", (1, 0)), ("rubric", (1,))])
def test_training_shows_the_text_that_the_judge_is_asked_with(
    protocol: str, order: tuple[int, ...], thinking: bool, thinker: Path, data: Path
) -> None:
    from rm.vlm.local import LocalVLM

    vlm = LocalVLM(thinker)
    processor = vlm.encoder.processor
    processor.chat_template = str(processor.chat_template) + "{% if enable_thinking %}<think>{% endif %}"
    question = make_question("pairwise" if protocol == "pairwise" else "rubric", "overall", "en", data)
    conversation = question.build_conversation(read_comparisons(data)[0], order)
    messages, _ = template_messages(conversation, control_tokens(processor))
    text = render_chat(processor, messages, **template_variables(processor, thinking))
    assert text == vlm.prompt_text(conversation, thinking=thinking)


def test_the_adapter_changes_what_a_local_model_says_and_thinks(
    options: ThinkingOptions, pairwise: Callable[[ThinkingOptions], Question], data: Path, tmp_path: Path
) -> None:
    from rm.vlm.local import LocalVLM

    cold = replace(options.cold_start, steps=24, batch_size=8, micro_batch_size=8)
    train(replace(options, cold_start=cold, grpo=replace(options.grpo, steps=0)), tmp_path / "run", pairwise)
    question = pairwise(options)
    asked = [question.build_conversation(record, (0, 1)) for record in read_comparisons(data)]
    plain, judge = LocalVLM(options.base), LocalVLM(options.base, adapter=tmp_path / "run" / "adapter")
    assert plain.fingerprint != judge.fingerprint
    replies = judge.generate(asked, GenerationParameters(max_tokens=10))
    assert [reply for reply in replies if reply.thinking and question.read(reply.text)] == replies
    assert not any(reply.thinking for reply in plain.generate(asked, GenerationParameters(max_tokens=10)))
