"""A tiny random Qwen3-VL of the real classes with its processor, pictures and comparison folders."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import ComparedImage, Comparison, Judgement, Reference, Text
from rm.reward_model import RewardModel
from rm.vlm.processor import image_only

torch.set_num_threads(1)

DIMENSIONS = ["instruction_awareness", "visual_consistency", "visual_quality", "overall"]
SPECIAL_TOKENS = [
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }} "
    "{% for item in message.content %}"
    "{% if item.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ item.text }}{% endif %}"
    "{% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)
WORDS = ["<unk>", "user", "assistant", "Source", "Instruction", "Edited", ":", ".", "a", "and", "the", "to"]
WORDS += [
    "make",
    "add",
    "remove",
    "move",
    "circle",
    "square",
    "triangle",
    "background",
    "red",
    "blue",
    "left",
    "larger",
    "yes",
    "no",
]


def _tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token="<unk>",
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        additional_special_tokens=SPECIAL_TOKENS,
    )


def _config(tokenizer: PreTrainedTokenizerFast) -> Qwen3VLConfig:
    def token_id(token: str) -> int:
        return int(tokenizer.get_vocab()[token])

    return Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": 512,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [4, 2, 2]},
            "pad_token_id": token_id("<|endoftext|>"),
            "eos_token_id": token_id("<|im_end|>"),
        },
        vision_config={
            "depth": 2,
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_heads": 4,
            "patch_size": 8,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 64,
            "num_position_embeddings": 64,
            "deepstack_visual_indexes": [0],
        },
        image_token_id=token_id("<|image_pad|>"),
        video_token_id=token_id("<|video_pad|>"),
        vision_start_token_id=token_id("<|vision_start|>"),
        vision_end_token_id=token_id("<|vision_end|>"),
        tie_word_embeddings=True,
    )


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved tiny base model: random weights, drawn large enough that scores differ well above rounding."""
    folder = tmp_path_factory.mktemp("base") / "judge"
    tokenizer = _tokenizer()
    image_processor = Qwen2VLImageProcessorPil(
        patch_size=8,
        merge_size=2,
        temporal_patch_size=2,
        size={"shortest_edge": 32 * 32, "longest_edge": 128 * 128},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    image_only(Qwen3VLProcessor)(image_processor, tokenizer, chat_template=CHAT_TEMPLATE).save_pretrained(folder)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = Qwen3VLForConditionalGeneration(_config(tokenizer))
        for parameter in model.parameters():
            if parameter.ndim > 1:
                torch.nn.init.normal_(parameter, std=0.15)
    model.save_pretrained(folder)
    return folder


@pytest.fixture
def reward_model(base_folder: Path) -> RewardModel:
    """A fresh reward model with a LoRA on the language model."""
    from rm.lora import LoraOptions

    return RewardModel.from_base(base_folder, dimensions=DIMENSIONS, lora=LoraOptions(r=4, alpha=8))


@pytest.fixture(scope="session")
def make_picture() -> Callable[..., Image.Image]:
    """A function that draws a noisy picture from a seed."""

    def draw(seed: int, size: tuple[int, int] = (32, 32)) -> Image.Image:
        pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
        return Image.fromarray(pixels)

    return draw


@pytest.fixture(scope="session")
def write_comparisons(make_picture: Callable[..., Image.Image]) -> Callable[..., Path]:
    """A function that writes a comparison folder: three grey candidates each, the brighter the better."""

    def write(folder: Path, count: int = 3, *, references: int = 1, seed: int = 0) -> Path:
        records = []
        for number in range(count):
            brightness = np.random.default_rng([seed, number]).permutation([40, 128, 220])
            paths = []
            for position, level in enumerate(brightness):
                paths.append(f"images/{number}_{position}.png")
                save_png(Image.new("RGB", (32, 32), (int(level),) * 3), folder / paths[-1])
            sources = [f"images/{number}_source{position}.png" for position in range(references)]
            for position, path in enumerate(sources):
                save_png(make_picture(1000 * seed + 10 * number + position), folder / path)
            records.append(_comparison(number, paths, sources, brightness.tolist(), seed))
        write_records(folder / "comparisons.jsonl", records)
        return folder

    return write


def _comparison(number: int, paths: list[str], sources: list[str], brightness: list[int], seed: int) -> Comparison:
    judgements = [
        Judgement(
            i=i,
            j=j,
            dimension=dimension,
            label="tie" if dimension == "visual_quality" else "i" if brightness[i] > brightness[j] else "j",
            margin=None if dimension == "visual_quality" else abs(brightness[i] - brightness[j]) / 255,
        )
        for i in range(3)
        for j in range(i + 1, 3)
        for dimension in DIMENSIONS
    ]
    return Comparison(
        id=f"c{seed}-{number}",
        instruction=Text(en="make the circle red", zh="把圆变红"),
        references=[Reference(path=path) for path in sources],
        candidates=[
            ComparedImage(path=path, scores={"overall": level / 255})
            for path, level in zip(paths, brightness, strict=True)
        ],
        judgements=judgements,
        group_id=f"g{seed}-{number // 2}",
    )
