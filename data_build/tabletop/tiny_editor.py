"""The tiny editor's parts, all of FLUX.2-klein's real classes: autoencoder, tokenizer, text encoder, transformer.

One token of the transformer is one 16 x 16 cell of the tabletop: the autoencoder shrinks eightfold and the pipeline
folds 2 x 2 latents into a token of 32 channels.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLFlux2, FlowMatchEulerDiscreteScheduler, Flux2KleinPipeline, Flux2Transformer2DModel
from einops import rearrange
from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer, Qwen3Config, Qwen3ForCausalLM

from data_build.tabletop.phrases import CHINESE, COLOUR_ZH, COMPARATIVE, ENGLISH, GROUND_ZH, KIND_ZH, SIZE_ZH
from data_build.tabletop.world import COLOURS, GROUNDS, KINDS, SIZES

LATENT_CHANNELS = 8
TOKEN_CHANNELS = 4 * LATENT_CHANNELS
TEXT_LENGTH = 24
"""Longest instruction in tokens; the text encoder always gets this many, padded on the right."""

TEXT_LAYERS = (1, 2, 3)
"""The hidden states of the text encoder that the pipeline stacks for the transformer."""

CALL_ARGUMENTS: dict[str, Any] = {"max_sequence_length": TEXT_LENGTH, "text_encoder_out_layers": TEXT_LAYERS}
"""What a stock pipeline call needs beside the prompt and the picture."""


def make_autoencoder() -> AutoencoderKLFlux2:
    """Return an untrained autoencoder for 64 x 64 pictures, without attention."""
    return AutoencoderKLFlux2(
        block_out_channels=(16, 16, 32, 48),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=8,
        sample_size=64,
        mid_block_add_attention=False,
    )


def make_text_encoder(vocabulary: int, hidden: int = 96) -> Qwen3ForCausalLM:
    """Return an untrained three-layer Qwen3; the language-model head is tied and never used."""
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocabulary,
            hidden_size=hidden,
            intermediate_size=3 * hidden,
            num_hidden_layers=len(TEXT_LAYERS),
            num_attention_heads=4,
            num_key_value_heads=4,
            head_dim=hidden // 4,
            max_position_embeddings=64,
            tie_word_embeddings=True,
        )
    )


def make_transformer(
    text_hidden: int = 96, heads: int = 4, double: int = 1, single: int = 4
) -> Flux2Transformer2DModel:
    """Return an untrained FLUX.2 transformer of heads x 32 channels."""
    return Flux2Transformer2DModel(
        in_channels=TOKEN_CHANNELS,
        num_layers=double,
        num_single_layers=single,
        attention_head_dim=32,
        num_attention_heads=heads,
        joint_attention_dim=len(TEXT_LAYERS) * text_hidden,
        timestep_guidance_channels=64,
        mlp_ratio=3.0,
        axes_dims_rope=(8, 8, 8, 8),
        rope_theta=2000,
        guidance_embeds=False,
    )


def make_scheduler() -> FlowMatchEulerDiscreteScheduler:
    """Return the schedule: uniform in sigma, since the pictures are small and the tokens few."""
    return FlowMatchEulerDiscreteScheduler(shift=1.0, use_dynamic_shifting=False)


def vocabulary_words() -> list[str]:
    """Return every word that a phrasing can hold, English ones also with the blank before them."""
    english = {word for texts in ENGLISH.values() for text in texts for word in _plain(text).split()}
    english |= {*KINDS, *COLOURS, *SIZES, *GROUNDS, *(pair[0] for pair in COMPARATIVE.values()), "a", "the"}
    chinese = {piece for texts in CHINESE.values() for text in texts for piece in _plain(text).split()}
    chinese |= {*KIND_ZH.values(), *COLOUR_ZH.values(), *SIZE_ZH.values(), *GROUND_ZH.values()}
    chinese |= {pair[1] for pair in COMPARATIVE.values()} | {"，"}
    return sorted(english | {f" {word}" for word in english} | chinese)


def _plain(template: str) -> str:
    """Return a phrasing without its fields and punctuation."""
    for field in ("{first}", "{second}"):
        template = template.replace(field, " ")
    while "{" in template:
        start, end = template.index("{"), template.index("}")
        template = template[:start] + " " + template[end + 1 :]
    return template.replace(",", " ").replace("，", " ")


def make_tokenizer(words: Iterable[str]) -> Qwen2Tokenizer:
    """Train a byte-level BPE whose merges never cross a word, so that each word of the world becomes one token."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=2000,
        min_frequency=1,
        special_tokens=specials,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(list(words), trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer)
    vocabulary = fast.get_vocab()
    merges: Any = [tuple(pair) for pair in _merges(tokenizer)]  # it also takes pairs, which survive blanks
    made = Qwen2Tokenizer(
        vocab=vocabulary, merges=merges, unk_token="<|endoftext|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>"
    )
    made.chat_template = "{{ messages[0]['content'] }}"
    return made


def _merges(tokenizer: Any) -> list[list[str]]:
    import json

    pairs = json.loads(tokenizer.to_str())["model"]["merges"]
    return [pair.split(" ") if isinstance(pair, str) else list(pair) for pair in pairs]


def encode_pictures(autoencoder: AutoencoderKLFlux2, pictures: torch.Tensor) -> torch.Tensor:
    """Encode pictures [batch, 3, height, width] in -1..1 to whitened tokens [batch, tokens, 32], as pipelines do."""
    latents = autoencoder.encode(pictures).latent_dist.mode()
    folded = rearrange(latents, "b c (h i) (w j) -> b (c i j) h w", i=2, j=2)
    mean, std = _whitening(autoencoder)
    tokens: torch.Tensor = rearrange((folded - mean) / std, "b c h w -> b (h w) c")
    return tokens


def decode_tokens(autoencoder: AutoencoderKLFlux2, tokens: torch.Tensor) -> torch.Tensor:
    """Decode whitened tokens [batch, tokens, 32] of square pictures to [batch, 3, height, width] in -1..1."""
    side = int(tokens.shape[1] ** 0.5)
    mean, std = _whitening(autoencoder)
    folded = rearrange(tokens, "b (h w) c -> b c h w", h=side) * std + mean
    latents = rearrange(folded, "b (c i j) h w -> b c (h i) (w j)", i=2, j=2)
    decoded: torch.Tensor = autoencoder.decode(latents).sample
    return decoded


def _whitening(autoencoder: AutoencoderKLFlux2) -> tuple[torch.Tensor, torch.Tensor]:
    mean = autoencoder.bn.running_mean.view(1, -1, 1, 1)
    variance = autoencoder.bn.running_var.view(1, -1, 1, 1)
    return mean, torch.sqrt(variance + autoencoder.config.batch_norm_eps)


def save_pipeline(
    folder: Path,
    autoencoder: AutoencoderKLFlux2,
    tokenizer: Qwen2Tokenizer,
    text_encoder: Qwen3ForCausalLM,
    transformer: Flux2Transformer2DModel,
) -> None:
    """Save the parts as a `Flux2KleinPipeline` folder that stock diffusers loads."""
    pipeline = Flux2KleinPipeline(
        scheduler=make_scheduler(),
        vae=autoencoder,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        transformer=transformer,
        is_distilled=True,
    )
    pipeline.save_pretrained(folder, safe_serialization=True)
