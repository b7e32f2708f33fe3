"""Pretrain the judge's base on facts about pictures, densely: every cell of every picture teaches.

The prompt is the reward model's own, so that what LoRA training starts from has seen its layout. Auxiliary heads on the
picture tokens name each cell's content and say whether it changed and is as asked; three words after the end token
answer whether the edit was done, the rest kept and the picture clean. The auxiliary heads are dropped afterwards.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import ProcessorMixin
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLForConditionalGeneration

from data_build.tabletop.observations import (
    COLOUR_CLASSES,
    GROUND_CLASSES,
    KIND_CLASSES,
    SIZE_CLASSES,
    Observation,
    sample_observation,
)
from data_build.tabletop.tiny_judge import make_judge_base, make_processor
from data_build.tabletop.training import mixed_precision, muon_and_adam, train
from data_build.tabletop.world import GRID
from gnomon.hashing import stable_seed
from rm.prompt import PromptEncoder, PromptTemplate

CELLS = GRID * GRID
CLASS_COUNTS = (len(KIND_CLASSES), len(COLOUR_CLASSES), len(SIZE_CLASSES), len(GROUND_CLASSES))
CELL_WEIGHT = 10.0
"""Weight of a cell that holds or held something against an empty one."""


class Pretraining(nn.Module):
    """The base with its auxiliary heads."""

    def __init__(self, base: Qwen3VLForConditionalGeneration) -> None:
        super().__init__()
        hidden: int = base.lm_head.in_features
        self.base = base
        self.content_head = nn.Linear(hidden, sum(CLASS_COUNTS))
        self.relation_head = nn.Linear(hidden, 2)


def encode_observations(
    observations: Sequence[Observation], encoder: PromptEncoder
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return model inputs and labels of a batch; the answers stand as three words after the end token."""
    texts = []
    for observation in observations:
        answer = "".join(" yes" if good else " no" for good in observation.answers)
        texts.append(encoder.render(observation.instruction, 1) + answer)
    images = [[observation.source, observation.candidate] for observation in observations]
    inputs = dict(
        encoder.processor(text=texts, images=images, padding=True, add_special_tokens=False, return_tensors="pt")
    )
    labels = {
        "source": torch.from_numpy(np.stack([observation.source_classes for observation in observations])),
        "candidate": torch.from_numpy(np.stack([observation.candidate_classes for observation in observations])),
        "changed": torch.from_numpy(np.stack([observation.changed for observation in observations])).float(),
        "right": torch.from_numpy(np.stack([observation.right for observation in observations])).float(),
    }
    return inputs, labels


def pretraining_loss(
    model: Pretraining, inputs: dict[str, Tensor], labels: dict[str, Tensor], encoder: PromptEncoder
) -> dict[str, Tensor]:
    """Return the loss terms and the accuracies of a batch."""
    with mixed_precision():
        states = model.base.model(**inputs).last_hidden_state
        logits = model.base.lm_head(states)
    states, logits = states.float(), logits.float()
    ids = inputs["input_ids"]
    batch = len(ids)
    pictures = states[ids == model.base.config.image_token_id].view(batch, 2, CELLS, -1)
    content = model.content_head(pictures)
    busy = 1 + CELL_WEIGHT * ((labels["source"][..., 0] > 0) | (labels["candidate"][..., 0] > 0)).float()
    targets = torch.stack([labels["source"], labels["candidate"]], dim=1)
    terms: dict[str, Tensor] = {}
    content_loss = torch.zeros(())
    for name, part, target in zip(
        ("kind", "colour", "size", "ground"), content.split(CLASS_COUNTS, dim=-1), targets.unbind(-1), strict=True
    ):
        losses = functional.cross_entropy(part.flatten(0, 2), target.flatten(), reduction="none").view(batch, 2, CELLS)
        content_loss = content_loss + (losses * busy[:, None]).sum() / (2 * busy.sum())
        hit = (part.argmax(-1) == target).float()
        terms[f"accuracy_{name}"] = (hit * (busy[:, None] - 1)).sum() / (2 * (busy - 1).sum())
    relation = model.relation_head(pictures[:, 1])
    truths = torch.stack([labels["changed"], labels["right"]], dim=-1)
    weight = busy[..., None] + 5 * torch.stack([labels["changed"], 1 - labels["right"]], dim=-1)
    losses = functional.binary_cross_entropy_with_logits(relation, truths, reduction="none")
    relation_loss = (losses * weight).sum() / weight.sum()
    wrong = labels["right"] < 0.5
    terms["recall_wrong_cells"] = ((relation[..., 1] < 0) & wrong).sum() / wrong.sum().clamp(min=1)
    answer_loss, answer_accuracies = _answers(ids, logits, encoder.end_marker_id)
    for name, accuracy in zip(("done", "kept", "clean"), answer_accuracies, strict=True):
        terms[f"accuracy_{name}"] = accuracy
    terms |= {"content": content_loss, "relation": relation_loss, "answers": answer_loss}
    terms["loss"] = content_loss + 2 * relation_loss + 2 * answer_loss
    return terms


def _answers(ids: Tensor, logits: Tensor, end_marker_id: int) -> tuple[Tensor, list[Tensor]]:
    """Return the cross-entropy of the three words after the end token, and the accuracy of each."""
    start = (ids == end_marker_id).int().argmax(dim=1)
    rows = torch.arange(len(ids))
    losses, accuracies = [], []
    for offset in range(3):
        predicted, wanted = logits[rows, start + offset], ids[rows, start + offset + 1]
        losses.append(functional.cross_entropy(predicted, wanted))
        accuracies.append((predicted.argmax(-1) == wanted).float().mean())
    return torch.stack(losses).mean(), accuracies


def train_judge_base(
    folder: Path, *, num_steps: int, batch_size: int = 48, num_check: int = 256, seed: int = 0
) -> tuple[Qwen3VLForConditionalGeneration, ProcessorMixin]:
    """Pretrain from nothing, or go on in `folder`; return the averaged base and its processor.

    The curve's check is on `num_check` observations.
    """
    torch.manual_seed(seed)
    processor = make_processor()
    base = make_judge_base(processor)
    base.set_attn_implementation("eager")  # at these sizes twice as fast in bfloat16 on a CPU as the fused kernel
    model = Pretraining(base)
    encoder = PromptEncoder(processor, PromptTemplate())

    def compute_loss(step: int) -> dict[str, Tensor]:
        rng = random.Random(stable_seed(seed, "judge-base", step))
        batch = [sample_observation(rng) for _ in range(batch_size)]
        return pretraining_loss(model, *encode_observations(batch, encoder), encoder)

    rng = random.Random(stable_seed(seed, "judge-base-check"))
    check = encode_observations([sample_observation(rng) for _ in range(num_check)], encoder)

    def evaluate() -> dict[str, float]:
        terms = pretraining_loss(model, *check, encoder)
        return {f"check_{name}": float(value) for name, value in terms.items()}

    train(
        model,
        muon_and_adam(model, muon_rate=2e-3, adam_rate=2e-3, adam_names=("embed", "head", "patch_embed", "pos_embed")),
        compute_loss,
        folder=folder,
        num_steps=num_steps,
        average_decay=0.998,
        evaluate=evaluate,
        evaluate_every=500,
    )
    return model.base, processor
