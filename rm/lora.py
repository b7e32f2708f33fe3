"""Which linear layers of a vision-language model get a LoRA adapter."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from peft import LoraConfig, PeftModel, get_peft_model
from torch import nn
from transformers import PreTrainedModel

from gnomon.errors import UserError

# How transformers names the parts, over all families; a merger may sit inside the vision tower, so it is asked first.
PARTS = {
    "merger": ("merger", "merger_list", "deepstack_merger_list", "multi_modal_projector", "connector", "embed_vision"),
    "vision": ("visual", "vision_tower", "vision_model", "vision_encoder"),
    "language": ("language_model", "text_model"),
}


@dataclass(frozen=True)
class LoraOptions:
    """A LoRA adapter (Hu et al. 2021, arXiv 2106.09685).

    Attributes:
        r: rank.
        alpha: the update is scaled by alpha / r.
        dropout: on the adapter's input, in training.
        targets: parts whose linear layers are adapted, joined by "+": language, vision, merger.
    """

    r: int = 64
    alpha: int = 128
    dropout: float = 0.0
    targets: str = "language"


def part_of(name: str) -> str | None:
    """Return the part that a module belongs to by its dotted name, None outside all parts (the lm_head)."""
    segments = set(name.split("."))
    return next((part for part, names in PARTS.items() if segments & set(names)), None)


def target_names(model: nn.Module, targets: str) -> list[str]:
    """Return the dotted names of all linear layers in the parts `targets`.

    Raises:
        UserError: for an unknown part, and for one without linear layers.
    """
    if unknown := set(targets.split("+")) - set(PARTS):
        raise UserError(f"expected lora.targets out of {'+'.join(sorted(PARTS))}, got {'+'.join(sorted(unknown))!r}")
    names: list[str] = []
    for part in targets.split("+"):
        matched = [
            name for name, module in model.named_modules() if isinstance(module, nn.Linear) and part_of(name) == part
        ]
        if not matched:
            raise UserError(
                f"lora.targets: no linear layer of {type(model).__name__} belongs to {part!r}; choose other targets"
            )
        names += matched
    return names


def add_lora(model: PreTrainedModel, options: LoraOptions) -> PeftModel:
    """Freeze `model` and return it with a fresh adapter (which is the identity until it is trained).

    Raises:
        UserError: when nothing matches.
    """
    config = LoraConfig(
        r=options.r,
        lora_alpha=options.alpha,
        lora_dropout=options.dropout,
        target_modules=target_names(model, options.targets),
        bias="none",
    )
    with _peft_is_behind():
        return get_peft_model(model, config)


def load_lora(model: PreTrainedModel, folder: str, *, trainable: bool = False) -> PeftModel:
    """Return `model` with the adapter that PEFT saved in `folder`, frozen unless it is to be trained further."""
    with _peft_is_behind():
        return PeftModel.from_pretrained(model, folder, is_trainable=trainable)


@contextmanager
def _peft_is_behind() -> Iterator[None]:
    """Hide one deprecation that nobody here can act on: peft 0.21 asks transformers 5.24 by an old name."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`is_gradient_checkpointing` is deprecated", FutureWarning)
        yield
