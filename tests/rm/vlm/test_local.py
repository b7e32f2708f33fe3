"""A local model answers every conversation as if it were alone, and what it cannot read hurts no other."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText

from gnomon.errors import UserError
from rm.lora import LoraOptions, add_lora
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Message, Reply
from rm.vlm.local import LocalVLM
from tests.rm.vlm.families import FAMILIES

Draw = Callable[..., Image.Image]
CHOICES = ["yes", "no", " maybe not"]
families = pytest.mark.parametrize("family", FAMILIES)


def table(scores: list[ChoiceScores]) -> torch.Tensor:
    assert all(score.status == "ok" for score in scores), [score.error for score in scores]
    return torch.tensor([list((score.logprobs or {}).values()) for score in scores])


@families
def test_answers_do_not_depend_on_the_batch_nor_on_the_padding(
    family: str, local_vlm: Callable[[str], LocalVLM], mixed: list[Conversation]
) -> None:
    vlm = local_vlm(family)
    found, replies = {}, {}
    for size in (1, 4):
        vlm.batch_size = size
        found[size] = table(vlm.choose(mixed, CHOICES))
        for temperature in (0.0, 1.0):
            parameters = GenerationParameters(max_tokens=3, temperature=temperature, top_p=0.95, seed=3)
            replies[size, temperature] = [(reply.text, reply.status) for reply in vlm.generate(mixed, parameters)]
    torch.testing.assert_close(found[4], found[1], atol=1e-5, rtol=0)
    # Left padding stands in the generated rows, right padding in the scored ones.
    assert replies[4, 0.0] == replies[1, 0.0]
    assert replies[4, 1.0] == replies[1, 1.0] != replies[1, 0.0]
    assert found[1].std(dim=0).min() > 1e-2, "the conversation makes no difference"


@families
def test_log_probabilities_are_those_of_the_stock_model_and_processor(
    family: str, local_vlm: Callable[[str], LocalVLM], checkpoint: Callable[[str], Path], mixed: list[Conversation]
) -> None:
    vlm = local_vlm(family)
    stock = AutoModelForImageTextToText.from_pretrained(checkpoint(family)).eval()
    processor = vlm.encoder.processor
    conversation = mixed[0]
    text = vlm.prompt_text(conversation)
    images = [part for message in conversation for part in message.content if not isinstance(part, str)]
    expected = []
    for choice in CHOICES:
        prompt, whole = (
            processor(text=[part], images=[images], add_special_tokens=False, return_tensors="pt")
            for part in (text, text + choice)
        )
        with torch.no_grad():
            logprobs = stock(**whole).logits.log_softmax(dim=-1)[0]
        start = prompt["input_ids"].shape[1]
        ids = whole["input_ids"][0]
        expected.append(sum(float(logprobs[place - 1, ids[place]]) for place in range(start, len(ids))))
    torch.testing.assert_close(table(vlm.choose([conversation], CHOICES))[0], torch.tensor(expected), atol=1e-5, rtol=0)


@families
def test_greedy_replies_are_those_of_the_stock_model(
    family: str, local_vlm: Callable[[str], LocalVLM], checkpoint: Callable[[str], Path], mixed: list[Conversation]
) -> None:
    vlm = local_vlm(family)
    processor = vlm.encoder.processor
    images = [part for message in mixed[3] for part in message.content if not isinstance(part, str)]
    inputs = processor(text=[vlm.prompt_text(mixed[3])], images=[images], add_special_tokens=False, return_tensors="pt")
    stock = AutoModelForImageTextToText.from_pretrained(checkpoint(family)).eval()
    written = stock.generate(**inputs, max_new_tokens=6, do_sample=False, pad_token_id=processor.tokenizer.pad_token_id)
    expected = processor.tokenizer.decode(written[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert vlm.generate([mixed[3]], GenerationParameters(max_tokens=6))[0].text == expected.strip()


def test_what_is_no_text_of_the_user_cannot_be_written_by_the_user(
    local_vlm: Callable[[str], LocalVLM], make_picture: Draw
) -> None:
    for family in FAMILIES:
        vlm = local_vlm(family)
        picture = make_picture(1)

        def ask(text: str, picture: Image.Image = picture) -> Conversation:
            return (Message("user", (picture, text)),)

        tokenizer = vlm.encoder.processor.tokenizer
        for token in {*tokenizer.all_special_tokens, vlm.encoder.placeholder}:
            nested = token[:3] + token + token[3:]
            for evil in (token, nested):
                assert vlm.prompt_text(ask(f"a{evil}b")) in {
                    vlm.prompt_text(ask("a b")),
                    vlm.prompt_text(ask(f"a{token[:3]} {token[3:]}b")),
                }, (family, token)
            # Cut in two, it is one text again, and still no token.
            halves = (Message("user", (picture, f"a{token[:3]}", f"{token[3:]}b")),)
            assert vlm.prompt_text(halves) == vlm.prompt_text(ask("a b")), (family, token)


def test_a_bad_item_has_a_status_and_the_others_answer_as_without_it(
    local_vlm: Callable[[str], LocalVLM], make_picture: Draw, mixed: list[Conversation], tmp_path: Path
) -> None:
    vlm = local_vlm("qwen3_vl")
    make_picture(5).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:-300])
    with Image.open(tmp_path / "cut.png") as cut:
        bad: list[Conversation] = [
            (Message("user", (picture, "Is it red?")),)
            for picture in (cut, Image.new("RGB", (0, 4)), Image.new("RGB", (6000, 4)))
        ]
        asked = [bad[0], mixed[0], bad[1], mixed[2], bad[2]]
        scores = vlm.choose(asked, ["yes", "no"])
        replies = vlm.generate(asked, GenerationParameters(max_tokens=4))
    expected = ["unreadable_image", "ok", "unreadable_image", "ok", "unreadable_image"]
    assert [score.status for score in scores] == expected
    assert [reply.status in ("ok", "truncated") for reply in replies] == [status == "ok" for status in expected]
    assert all(scores[k].logprobs is None and scores[k].error and replies[k].error for k in (0, 2, 4))
    alone = vlm.choose([mixed[0], mixed[2]], ["yes", "no"])
    torch.testing.assert_close(table([scores[1], scores[3]]), table(alone), atol=1e-5, rtol=0)


def test_a_conversation_that_the_template_refuses_is_a_failure_of_its_own(
    checkpoint: Callable[[str], Path], mixed: list[Conversation]
) -> None:
    vlm = LocalVLM(checkpoint("smolvlm"))
    refusal = "{% if messages[0].role == 'assistant' %}{{ raise_exception('order') }}{% endif %}"
    vlm.encoder.processor.chat_template = f"{refusal}{vlm.encoder.processor.chat_template}"
    scores = vlm.choose([(Message("assistant", ("yes",)),), mixed[1]], ["yes", "no"])
    assert [score.status for score in scores] == ["api_error", "ok"]
    assert "order" in (scores[0].error or "")


def test_samples_follow_the_seed_and_the_conversation(
    local_vlm: Callable[[str], LocalVLM], mixed: list[Conversation]
) -> None:
    vlm = local_vlm("qwen3_vl")

    def texts(asked: list[Conversation], seed: int | None) -> list[str]:
        replies = vlm.generate(asked, GenerationParameters(max_tokens=6, temperature=1.0, seed=seed))
        return [reply.text for reply in replies]

    first = texts(mixed, 1)
    assert texts(mixed, 1) == first
    assert texts(mixed[::-1], 1) == first[::-1]
    assert texts(mixed, 2) != first
    assert texts(mixed, None) != texts(mixed, None)


def test_a_reply_ends_at_the_end_token_or_is_cut_off(checkpoint: Callable[[str], Path]) -> None:
    vlm = LocalVLM(checkpoint("qwen3_vl"))
    asked: list[Conversation] = [(Message("user", ("Is it red?",)),)]
    cut = vlm.generate(asked, GenerationParameters(max_tokens=5))[0]
    assert (cut.status, cut.finish_reason) == ("truncated", "length")
    assert cut.usage is not None
    assert cut.usage.completion_tokens == 5
    tokenizer = vlm.encoder.processor.tokenizer
    row = vlm.encoder.row(vlm.prompt_text(asked[0]), [])
    written = vlm.vlm.generate(
        input_ids=torch.tensor([row.ids]), max_new_tokens=5, do_sample=False, pad_token_id=tokenizer.pad_token_id
    )[0, len(row) :].tolist()
    vlm._end_ids = {written[3]}
    ended = vlm.generate(asked, GenerationParameters(max_tokens=5))[0]
    assert (ended.status, ended.finish_reason, ended.error) == ("ok", "stop", None)
    assert ended.text == tokenizer.decode(written[: written.index(written[3])], skip_special_tokens=True).strip()


def test_thinking_is_asked_for_and_a_thought_that_was_cut_off_is_no_answer(
    local_vlm: Callable[[str], LocalVLM],
) -> None:
    vlm = local_vlm("qwen3_vl")
    asked: list[Conversation] = [(Message("user", ("Is it red?",)),)]
    thinking = vlm.generate(asked, GenerationParameters(max_tokens=4, thinking=True))[0]
    plain = vlm.generate(asked, GenerationParameters(max_tokens=4))[0]
    assert thinking.thinking
    assert (thinking.text, thinking.status) == ("", "truncated")
    assert plain.text
    assert not plain.thinking


def test_choices_must_be_tokens_of_their_own(local_vlm: Callable[[str], LocalVLM], mixed: list[Conversation]) -> None:
    vlm = local_vlm("qwen3_vl")
    for choices, message in (([], "one or more"), (["a", "a"], "different"), (["yes", ""], "adds none")):
        with pytest.raises(UserError, match=message):
            vlm.choose(mixed, choices)
    assert vlm._reader.tokens("<|im_start|>assistant\n", "yes") == (
        vlm.encoder.processor.tokenizer.convert_tokens_to_ids("yes"),
    )
    with pytest.raises(UserError, match="runs together"):
        vlm._reader.tokens("<|im_start|>ye", "s")


def test_the_fingerprint_follows_what_answers_depend_on(
    checkpoint: Callable[[str], Path], tmp_path: Path, mixed: list[Conversation]
) -> None:
    folder = checkpoint("qwen3_vl")
    plain = LocalVLM(folder)
    assert LocalVLM(folder, batch_size=1, name="other").fingerprint == plain.fingerprint
    assert LocalVLM(folder, dtype="bfloat16").fingerprint != plain.fingerprint
    with torch.random.fork_rng():
        torch.manual_seed(0)
        adapted = add_lora(AutoModelForImageTextToText.from_pretrained(folder), LoraOptions(r=2, alpha=8))
        adapted.save_pretrained(str(tmp_path / "identity"), save_embedding_layers=False)
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(parameter, std=0.3)
        adapted.save_pretrained(str(tmp_path / "adapter"), save_embedding_layers=False)
    tuned = LocalVLM(folder, adapter=tmp_path / "adapter")
    assert tuned.fingerprint != plain.fingerprint
    found = table(tuned.choose(mixed, ["yes", "no"]))
    assert (found - table(plain.choose(mixed, ["yes", "no"]))).abs().max() > 1e-2
    with pytest.raises(UserError, match="identity"):
        LocalVLM(folder, adapter=tmp_path / "identity")


def test_a_model_without_a_chat_template_or_with_unknown_settings_is_the_users_problem(
    checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="expected dtype"):
        LocalVLM(checkpoint("qwen3_vl"), dtype="int3")
    with pytest.raises(UserError, match="quantize: nf4"):
        LocalVLM(checkpoint("qwen3_vl"), quantize="int3")
    with pytest.raises(UserError, match="no such folder"):
        LocalVLM(tmp_path / "nothing/at/all")


def test_replies_and_scores_are_empty_for_nothing(local_vlm: Callable[[str], LocalVLM]) -> None:
    vlm = local_vlm("qwen3_vl")
    nothing: list[Reply] = vlm.generate([], GenerationParameters())
    assert nothing == []
    assert vlm.choose([], ["yes"]) == []


def test_four_bits_change_answers_a_little_and_are_part_of_the_fingerprint(
    base_folder: Path, questions: list[Conversation]
) -> None:
    """A model of its own: processors with bfloat16 take no layer that is narrower than a block of 64 weights."""
    pytest.importorskip("bitsandbytes")
    exact, vlm = LocalVLM(base_folder), LocalVLM(base_folder, quantize="nf4")
    assert vlm.fingerprint != exact.fingerprint
    found = table(vlm.choose(questions, ["yes", "no"]))
    assert 1e-3 < (found - table(exact.choose(questions, ["yes", "no"]))).abs().max() < 3
    vlm.share_prefixes, vlm.batch_size = False, 1
    torch.testing.assert_close(table(vlm.choose(questions, ["yes", "no"])), found, atol=1e-4, rtol=0)


def test_sampling_settings_of_the_checkpoint_are_not_used(
    checkpoint: Callable[[str], Path], tmp_path: Path, mixed: list[Conversation]
) -> None:
    folder = shutil.copytree(checkpoint("qwen3_vl"), tmp_path / "copy")
    file = folder / "generation_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps({**settings, "do_sample": True, "repetition_penalty": 90.0, "top_k": 1}))
    parameters = [GenerationParameters(max_tokens=6, temperature=temperature) for temperature in (0.0, 1.0)]
    for one in parameters:
        found, expected = (LocalVLM(place).generate(mixed, one) for place in (folder, checkpoint("qwen3_vl")))
        assert [reply.text for reply in found] == [reply.text for reply in expected]
