"""A tiny vision-language model whose tokenizer knows the words of a thought, and a question that it can answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from gnomon.datasets import read_comparisons, resolve
from gnomon.images import load_image
from gnomon.records import Comparison
from rm.lora import LoraOptions
from rm.thinking.asking import Order, Preference, Question
from rm.thinking.data import expand_examples
from rm.thinking.options import ColdStart, Grpo, ThinkingOptions
from rm.vlm.conversation import Conversation, Message, split_thinking
from rm.vlm.processor import image_only

_SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"]
_SPECIAL += ["<|image_pad|>", "<|video_pad|>"]
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }} "
    "{% for item in message.content %}"
    "{% if item.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ item.text }}{% endif %}"
    "{% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)
_WORDS = ["<unk>", "user", "assistant", "A", "B", "tie", "bright", "dark", "first", "second", "make", "red"]
ANSWERS: dict[str, Preference] = {"A": "A>B", "B": "B>A", "tie": "A=B"}


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(_WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        additional_special_tokens=_SPECIAL,
    )
    fast.add_tokens(["<think>", "</think>"])
    return fast


def _config(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLConfig:
    ids = tokenizer.get_vocab()
    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "head_dim": 16,
            "max_position_embeddings": 512,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]},
            "pad_token_id": ids["<|endoftext|>"],
            "eos_token_id": ids["<|im_end|>"],
        },
        vision_config={
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 8,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 32,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=ids["<|image_pad|>"],
        video_token_id=ids["<|video_pad|>"],
        vision_start_token_id=ids["<|vision_start|>"],
        vision_end_token_id=ids["<|vision_end|>"],
        tie_word_embeddings=True,
    )


@pytest.fixture(scope="session")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny base model with random weights."""
    folder = tmp_path_factory.mktemp("thinker") / "base"
    tokenizer = _tokenizer()
    image_processor = Qwen2VLImageProcessorPil(
        patch_size=8,
        merge_size=2,
        temporal_patch_size=2,
        size={"shortest_edge": 32 * 32, "longest_edge": 64 * 64},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    image_only(Qwen3VLProcessor)(image_processor, tokenizer, chat_template=_TEMPLATE).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen3VLForConditionalGeneration(_config(tokenizer))
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                # Large embeddings, which are the head's too, or no adapter could make one word much likelier.
                torch.nn.init.normal_(parameter, std=0.3 if "embed_tokens" in name else 0.1)
    model.save_pretrained(folder)
    return folder


def make_pairwise(root: Path) -> Question:
    """References, the instruction and two pictures; the answer is A, B or tie and nothing else."""

    def build(comparison: Comparison, order: Order) -> Conversation:
        sources = [load_image(resolve(root, reference.path)) for reference in comparison.references]
        shown = [load_image(resolve(root, comparison.candidates[position].path)) for position in order]
        return (Message("user", (*sources, comparison.instruction.get("en"), *shown)),)

    def read(text: str) -> Preference | None:
        return ANSWERS.get(split_thinking(text)[1])

    return Question("pairwise", "hash", build, read)


@pytest.fixture
def data(write_comparisons: Callable[..., Path], tmp_path: Path) -> Path:
    """Eight comparisons of three candidates each, with one source picture, and one more with three."""
    return write_comparisons(tmp_path / "data", 8)


@pytest.fixture
def options(thinker: Path, data: Path, tmp_path: Path) -> ThinkingOptions:
    """A run of four steps of cold start and four of GRPO."""
    return ThinkingOptions(
        base=str(thinker),
        data=str(data),
        rationales=str(write_rationales(tmp_path / "rationales.jsonl", data)),
        lora=LoraOptions(r=4, alpha=8),
        cold_start=ColdStart(steps=4, batch_size=4, micro_batch_size=2, learning_rate=1e-2, warmup_steps=0),
        grpo=Grpo(
            steps=4,
            group_size=4,
            prompts_per_step=2,
            micro_batch_size=4,
            learning_rate=1e-2,
            warmup_steps=0,
            max_completion_length=8,
            length_cache=4,
        ),
        dtype="float32",
        device="cpu",
        gradient_checkpointing=False,
        save_steps=2,
    )


def write_rationales(file: Path, data: Path, count: int = 48) -> Path:
    """Replies of the right form that agree with the labels."""
    answers: dict[str, str] = {label: word for word, label in ANSWERS.items()}
    lines: list[dict[str, Any]] = []
    for example in expand_examples(read_comparisons(data), "pairwise", "overall")[:count]:
        text = f"<think> {'bright' if example.label == 'A>B' else 'dark'} first </think> {answers[example.label]}"
        lines.append({"comparison": example.comparison.id, "order": list(example.order), "text": text})
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return file


def seeded(options: ThinkingOptions, seed: int) -> ThinkingOptions:
    """The same options with another seed."""
    return replace(options, seed=seed)


@pytest.fixture
def pairwise() -> Callable[[ThinkingOptions], Question]:
    """The function that makes the question of a run."""
    return lambda options: make_pairwise(Path(options.data))


@pytest.fixture
def pairwise_question(data: Path) -> Question:
    """The question about `data`."""
    return make_pairwise(data)
