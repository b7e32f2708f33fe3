"""Weights of vision-language models: from a folder or the hub, in a chosen precision, or with four bits a weight."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import torch
from peft import PeftModel
from torch import nn
from transformers import AutoConfig, AutoModelForImageTextToText, BitsAndBytesConfig, PreTrainedModel

from gnomon.errors import UserError
from gnomon.hub import cached_file
from gnomon.optional import require
from rm.lora import part_of

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

Quantize = Literal["nf4"]


def load_vlm(
    name: str, dtype: str, *, revision: str | None = None, quantize: str | None = None, device: str | None = None
) -> PreTrainedModel:
    """Load a vision-language model.

    Args:
        name: a folder, or a name on the hub.
        dtype: of the weights, and of the computation: "float32", "bfloat16" or "float16".
        revision: commit, tag or branch on the hub.
        quantize: "nf4" keeps the language model's linear layers in four bits (Dettmers et al. 2023, arXiv 2305.14314,
            with double quantization); the vision tower, the merger and the language-model head stay as they are.
        device: where to; None leaves it to torch.

    Raises:
        UserError: when there is no such model, for an unknown dtype or quantization, or without bitsandbytes.
    """
    if dtype not in DTYPES:
        raise UserError(f"expected dtype {', '.join(DTYPES)}, got {dtype!r}")
    if quantize not in (None, "nf4"):
        raise UserError(f"expected quantize: nf4 or null, got {quantize!r}")
    options: dict[str, Any] = {} if revision is None else {"revision": revision}
    if not Path(name).is_dir() and cached_file("model folder", name, ["config.json"], revision) is not None:
        options["local_files_only"] = True  # the hub does not answer, and its cache has the model
    if quantize is not None:
        require("bitsandbytes", feature="quantize: nf4", extra="quantize")
        options["device_map"] = {"": device or "cpu"}
    try:
        if quantize is not None:
            options["quantization_config"] = _four_bits(name, dtype, revision)
        model: PreTrainedModel = AutoModelForImageTextToText.from_pretrained(name, dtype=DTYPES[dtype], **options)
    except (OSError, ValueError) as error:
        raise UserError(
            f"expected a vision-language model that AutoModelForImageTextToText loads at {name}: {error}"
        ) from error
    if device is not None and quantize is None:
        model.to(torch.device(device))  # type: ignore[arg-type]  # transformers hides the signature
    return model


def _four_bits(name: str, dtype: str, revision: str | None) -> BitsAndBytesConfig:
    config = AutoConfig.from_pretrained(name, **({} if revision is None else {"revision": revision}))
    with torch.device("meta"):
        skeleton: nn.Module = AutoModelForImageTextToText.from_config(config)
    linear = [part for part, module in skeleton.named_modules() if isinstance(module, nn.Linear)]
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=DTYPES[dtype],
        # By their whole names: bitsandbytes looks for a name's beginning or end only.
        llm_int8_skip_modules=[part for part in linear if part_of(part) != "language"],
    )


def stock_model(vlm: nn.Module) -> Any:
    """Return the model as transformers knows it, adapter layers inside."""
    return vlm.get_base_model() if isinstance(vlm, PeftModel) else vlm
