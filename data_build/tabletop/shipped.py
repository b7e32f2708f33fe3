"""Train the models that ship with the package from nothing, and write them as folders that stock libraries load.

The editor comes in two states. What the loop steers is *lazy*: the good editor after a short fine-tuning on targets of
which half are the unedited source, so that candidates of one instruction differ in kind. The good transformer lies
beside it as `transformer_diligent`, for comparison.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKLFlux2, Flux2Transformer2DModel
from torch import Tensor
from transformers import Qwen2Tokenizer, Qwen3ForCausalLM

from data_build.tabletop.edits import SIMPLE_KINDS
from data_build.tabletop.tiny_editor import (
    TEXT_LAYERS,
    TEXT_LENGTH,
    make_scheduler,
    make_text_encoder,
    make_tokenizer,
    make_transformer,
    save_pipeline,
    vocabulary_words,
)
from data_build.tabletop.train_autoencoder import train_autoencoder
from data_build.tabletop.train_editor import (
    Editor,
    Pairs,
    cached_pairs,
    encode_pairs,
    flow_matching_loss,
    measure,
    sample_pairs,
    train_editor,
)
from data_build.tabletop.training import train
from gnomon.files import atomic_write_text
from gnomon.hashing import stable_seed

DILIGENT = "transformer_diligent"
LAZY_SHARE = 0.5
"""Share of targets that are the unedited source while the editor is made lazy."""

NUM_PAIRS = 40_000
NUM_INFERENCE_STEPS = 8
SETTINGS: dict[str, Any] = {
    "pipeline_kwargs": {"max_sequence_length": TEXT_LENGTH, "text_encoder_out_layers": list(TEXT_LAYERS)},
    "num_inference_steps": NUM_INFERENCE_STEPS,
    "height": 64,
    "width": 64,
}


def ship_editor(
    folder: Path,
    *,
    out: Path,
    autoencoder_steps: int = 1300,
    editor_steps: int = 2000,
    lazy_steps: int = 400,
    num_pairs: int = NUM_PAIRS,
    kinds: Sequence[str] = SIMPLE_KINDS,
    num_check: int = 240,
    seed: int = 0,
) -> dict[str, float]:
    """Train autoencoder, editor and its lazy state, and write the pipeline folder.

    Args:
        folder: of the trainings; a second call goes on where one was stopped.
        out: of the pipeline.
        autoencoder_steps: about .35 s each on one core.
        editor_steps: about .6 s each.
        lazy_steps: about .5 s each.
        num_pairs: encoded training pairs.
        kinds: of edits that the editor learns.
        num_check: validation cases that the figures are of.
        seed: of everything.

    Returns:
        The oracle's figures on validation cases, of the diligent and of the lazy editor.
    """
    autoencoder = train_autoencoder(folder / "autoencoder", num_steps=autoencoder_steps, seed=seed).eval()
    tokenizer = make_tokenizer(vocabulary_words())
    check = sample_pairs("validation", kinds, num_check, seed)
    pairs = cached_pairs(
        folder / "editor",
        lambda: encode_pairs(sample_pairs("train", kinds, num_pairs, seed), autoencoder, tokenizer, seed),
    )
    editor = train_editor(
        folder / "editor",
        pairs,
        len(tokenizer),
        num_steps=editor_steps,
        evaluate=lambda editor: measure(editor, autoencoder, tokenizer, check[:160], seed),
        seed=seed,
    )
    figures = {f"diligent_{k}": v for k, v in measure(editor, autoencoder, tokenizer, check, seed).items()}
    diligent = {name: value.clone() for name, value in editor.transformer.state_dict().items()}
    make_lazy(folder / "lazy", editor, pairs, num_steps=lazy_steps, seed=seed)
    figures |= {f"lazy_{k}": v for k, v in measure(editor, autoencoder, tokenizer, check, seed).items()}
    write_editor(out, autoencoder, tokenizer, editor.text_encoder, editor.transformer, diligent)
    return figures


def make_lazy(
    folder: Path, editor: Editor, pairs: Pairs, *, num_steps: int, batch_size: int = 64, seed: int = 0
) -> None:
    """Fine-tune the transformer on targets of which `LAZY_SHARE` are the unedited source."""
    editor.text_encoder.requires_grad_(False)

    def compute_loss(step: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(stable_seed(seed, "lazy", step))
        rows = torch.randint(len(pairs), (batch_size,), generator=generator)
        lazy = torch.rand(batch_size, generator=generator) < LAZY_SHARE
        return flow_matching_loss(editor, pairs, rows, generator, unedited=lazy)

    optimizers: list[torch.optim.Optimizer] = [torch.optim.AdamW(editor.transformer.parameters(), lr=3e-4)]
    train(editor, optimizers, compute_loss, folder=folder, num_steps=num_steps, average_decay=0.99)
    editor.text_encoder.requires_grad_(True)


def write_editor(
    out: Path,
    autoencoder: AutoencoderKLFlux2,
    tokenizer: Qwen2Tokenizer,
    text_encoder: Qwen3ForCausalLM,
    transformer: Flux2Transformer2DModel,
    diligent: dict[str, Tensor] | None = None,
) -> None:
    """Write the pipeline folder, weights of text encoder and transformers in half precision.

    A second transformer, `diligent`, lies beside the first where there is one. The configs say float32, so that stock
    `from_pretrained` computes in it.
    """
    halved = make_transformer()
    halved.load_state_dict(transformer.state_dict())
    text = make_text_encoder(text_encoder.config.vocab_size)
    text.load_state_dict(text_encoder.state_dict())
    save_pipeline(out, autoencoder, tokenizer, text.half(), halved.half())
    if diligent is not None:
        halved.float().load_state_dict(diligent)
        halved.half().save_pretrained(out / DILIGENT, safe_serialization=True)
    _without_origin(out / "vae" / "config.json")
    config = out / "text_encoder" / "config.json"
    settings = json.loads(config.read_text(encoding="utf-8"))
    atomic_write_text(config, json.dumps({**settings, "dtype": "float32"}, indent=2) + "\n")
    atomic_write_text(out / "gnomon.json", json.dumps(SETTINGS, indent=2) + "\n")
    make_scheduler().save_pretrained(out / "scheduler")


def _without_origin(config: Path) -> None:
    """Drop the folder that a part was last loaded from, which diffusers notes in its config."""
    settings = json.loads(config.read_text(encoding="utf-8"))
    settings.pop("_name_or_path", None)
    atomic_write_text(config, json.dumps(settings, indent=2) + "\n")


def ship_judge(folder: Path, *, out: Path, num_steps: int = 2200, num_check: int = 256, seed: int = 0) -> None:
    """Pretrain the judge's base and write it with its processor, weights in half precision.

    Args:
        folder: of the training; a second call goes on where one was stopped.
        out: of the model.
        num_steps: about .6 s each on one core.
        num_check: observations that the curve's check is on.
        seed: of everything.
    """
    from data_build.tabletop.tiny_judge import save_judge_base
    from data_build.tabletop.train_judge import train_judge_base

    base, processor = train_judge_base(folder, num_steps=num_steps, num_check=num_check, seed=seed)
    save_judge_base(out, base.half(), processor)
    config = out / "config.json"
    text = config.read_text(encoding="utf-8").replace('"float16"', '"float32"')
    atomic_write_text(config, text)
