"""Train the tiny editor: text encoder and transformer together, by flow matching on encoded pairs.

The pipeline of diffusers is followed to the letter (token order, position ids, stacked hidden states, sigma as the
time), so that the trained weights run in it unchanged; a test compares the two.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKLFlux2, Flux2Transformer2DModel
from PIL import Image
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import Qwen2Tokenizer, Qwen3ForCausalLM

from data_build.tabletop.edits import (
    Edit,
    NoSuchEditError,
    apply_edit,
    sample_edit,
    sample_scene_for,
    split_of,
)
from data_build.tabletop.oracle import score
from data_build.tabletop.phrases import describe
from data_build.tabletop.tiny_editor import (
    TEXT_LAYERS,
    TEXT_LENGTH,
    decode_tokens,
    encode_pictures,
    make_text_encoder,
    make_transformer,
)
from data_build.tabletop.train_autoencoder import pictures_of
from data_build.tabletop.training import mixed_precision, muon_and_adam, train
from data_build.tabletop.world import GRID, Scene
from gnomon.hashing import stable_seed
from gnomon.records import Split

CHANGED_WEIGHT = 4.0
"""Extra weight of the tokens that an edit changes: they are few, and copying the others is learned at once."""

CHINESE_SHARE = 0.35


class Editor(nn.Module):
    """Text encoder and transformer under one roof, called as `Flux2KleinPipeline` calls them."""

    def __init__(self, text_encoder: Qwen3ForCausalLM, transformer: Flux2Transformer2DModel) -> None:
        super().__init__()
        self.text_encoder = text_encoder
        self.transformer = transformer

    def encode_text(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Return the stacked hidden states [batch, text tokens, layers x hidden]."""
        output = self.text_encoder.model(
            input_ids=input_ids, attention_mask=attention_mask, output_hidden_states=True, use_cache=False
        )
        stacked = torch.stack([output.hidden_states[layer] for layer in TEXT_LAYERS], dim=2)
        return stacked.flatten(2)

    def velocity(self, noisy: Tensor, references: Tensor, text: Tensor, sigma: Tensor) -> Tensor:
        """Return the velocity [batch, tokens, 32] of noisy tokens.

        Args:
            noisy: [batch, tokens, 32].
            references: clean tokens of the reference pictures in order, [batch, references x tokens, 32].
            text: what `encode_text` returned.
            sigma: noise levels [batch] in 0..1.
        """
        batch, tokens, _ = noisy.shape
        image_ids = torch.cat([_grid_ids(0), *(_grid_ids(10 * (n + 1)) for n in range(references.shape[1] // tokens))])
        text_ids = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(text.shape[1]))
        predicted: Tensor = self.transformer(
            hidden_states=torch.cat([noisy, references], dim=1),
            timestep=sigma,
            guidance=None,
            encoder_hidden_states=text,
            txt_ids=text_ids.expand(batch, -1, -1),
            img_ids=image_ids.expand(batch, -1, -1),
            return_dict=False,
        )[0]
        return predicted[:, :tokens]


def _grid_ids(time: int) -> Tensor:
    return torch.cartesian_prod(torch.tensor([time]), torch.arange(GRID), torch.arange(GRID), torch.arange(1))


@dataclass(frozen=True)
class Pairs:
    """Encoded training pairs: pictures as tokens, instructions as token ids, and which cells change."""

    sources: Tensor  # [pairs, 16, 32], half precision
    targets: Tensor  # [pairs, 16, 32], half precision
    input_ids: Tensor  # [pairs, 24]
    attention_mask: Tensor  # [pairs, 24]
    changed: Tensor  # [pairs, 16], bool

    def __len__(self) -> int:
        """Return the number of pairs."""
        return len(self.sources)


def sample_pairs(
    split: Split, kinds: Sequence[str], count: int, seed: int, edits_per_scene: int = 4
) -> list[tuple[Scene, Edit]]:
    """Draw `count` scene-edit pairs of a split; several edits share a scene, so that fewer pictures are encoded."""
    rng = random.Random(stable_seed(seed, "editor-pairs", split))
    pairs: list[tuple[Scene, Edit]] = []
    while len(pairs) < count:
        scene = sample_scene_for(rng, "two_step" if "two_step" in kinds else kinds[0])
        for kind in rng.sample(list(kinds), min(edits_per_scene, len(kinds))):
            try:
                edit = sample_edit(rng, scene, kind)
            except NoSuchEditError:
                continue
            if split_of(scene, edit) == split:
                pairs.append((scene, edit))
    return pairs[:count]


@torch.no_grad()
def encode_pairs(
    pairs: Sequence[tuple[Scene, Edit]], autoencoder: AutoencoderKLFlux2, tokenizer: Qwen2Tokenizer, seed: int
) -> Pairs:
    """Encode pictures and texts; a scene that several pairs share is encoded once."""
    scenes = [scene for scene, _ in pairs]
    targets = [apply_edit(scene, edit) for scene, edit in pairs]
    unique = list(dict.fromkeys([*scenes, *targets]))
    tokens = torch.cat(
        [
            encode_pictures(autoencoder, pictures_of(unique[start : start + 256])).half()
            for start in range(0, len(unique), 256)
        ]
    )
    place = {scene: index for index, scene in enumerate(unique)}
    rng = random.Random(stable_seed(seed, "editor-texts"))
    texts = [describe(edit, rng).get("zh" if rng.random() < CHINESE_SHARE else "en") for _, edit in pairs]
    ids = tokenizer(texts, padding="max_length", max_length=TEXT_LENGTH, return_tensors="pt")
    return Pairs(
        sources=tokens[[place[scene] for scene in scenes]],
        targets=tokens[[place[scene] for scene in targets]],
        input_ids=ids["input_ids"],
        attention_mask=ids["attention_mask"],
        changed=torch.from_numpy(np.stack([changed_cells(a, b) for a, b in zip(scenes, targets, strict=True)])),
    )


def changed_cells(source: Scene, target: Scene) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Return [16] booleans: where the two scenes look different."""
    if source.ground != target.ground:
        return np.ones(GRID * GRID, bool)
    before, after = source.cells(), target.cells()
    return np.array([before.get(divmod(n, GRID)) != after.get(divmod(n, GRID)) for n in range(GRID * GRID)])


def flow_matching_loss(
    editor: Editor, pairs: Pairs, rows: Tensor, generator: torch.Generator, unedited: Tensor | None = None
) -> dict[str, Tensor]:
    """Return the weighted flow-matching loss of some pairs; where `unedited` [rows] is true the target is the source.

    With x_s = (1 - s) x_0 + s e the velocity is e - x_0 (Lipman et al., 2023; the sign of diffusers). Noise levels are
    logit-normal with more weight on high noise, where an edit is decided.
    """
    clean, references = pairs.targets[rows].float(), pairs.sources[rows].float()
    if unedited is not None:
        clean = torch.where(unedited[:, None, None], references, clean)
    noise = torch.randn(clean.shape, generator=generator)
    sigma = torch.sigmoid(0.8 + 1.2 * torch.randn(len(rows), generator=generator))
    noisy = torch.lerp(clean, noise, sigma[:, None, None])
    # The unfused attention is the faster one in bfloat16 on a CPU, as long as sequences are short.
    with mixed_precision(), sdpa_kernel(SDPBackend.MATH):
        text = editor.encode_text(pairs.input_ids[rows], pairs.attention_mask[rows])
        predicted = editor.velocity(noisy, references, text, sigma).float()
    squared = ((predicted - (noise - clean)) ** 2).mean(-1)  # [batch, 16]
    weight = 1 + CHANGED_WEIGHT * pairs.changed[rows]
    changed = (squared * pairs.changed[rows]).sum() / pairs.changed[rows].sum()
    return {"loss": (squared * weight).sum() / weight.sum(), "error": squared.mean(), "error_changed": changed}


def train_editor(
    folder: Path,
    pairs: Pairs,
    num_words: int,
    *,
    num_steps: int,
    evaluate: Callable[[Editor], dict[str, float]],
    batch_size: int = 64,
    unedited_share: float = 0.0,
    seed: int = 0,
) -> Editor:
    """Train from nothing, or go on in `folder`; return the averaged editor.

    Args:
        folder: of checkpoint and curve.
        pairs: what to learn.
        num_words: size of the tokenizer's vocabulary.
        num_steps: optimizer steps.
        evaluate: the curve's figures of an editor.
        batch_size: pairs a step.
        unedited_share: of the targets that are the source instead.
        seed: of everything that is drawn.
    """
    torch.manual_seed(seed)
    editor = Editor(make_text_encoder(num_words), make_transformer())

    def compute_loss(step: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(stable_seed(seed, "editor", step))
        rows = torch.randint(len(pairs), (batch_size,), generator=generator)
        lazy = torch.rand(batch_size, generator=generator) < unedited_share if unedited_share else None
        return flow_matching_loss(editor, pairs, rows, generator, unedited=lazy)

    train(
        editor,
        muon_and_adam(
            editor, muon_rate=2e-3, adam_rate=2e-3, adam_names=("embed", "modulation", "proj_out", "norm_out")
        ),
        compute_loss,
        folder=folder,
        num_steps=num_steps,
        average_decay=0.998,
        evaluate=lambda: evaluate(editor),
        evaluate_every=500,
    )
    return editor


def cached_pairs(folder: Path, make: Callable[[], Pairs]) -> Pairs:
    """Encode the training pairs once and keep them beside the checkpoint."""
    path = folder / "pairs.pt"
    if path.exists():
        return Pairs(**torch.load(path, weights_only=True))
    pairs = make()
    folder.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    torch.save(pairs.__dict__, temporary)
    temporary.replace(path)
    return pairs


@torch.no_grad()
def sample(
    editor: Editor, references: Tensor, text: Tensor, generator: torch.Generator, num_inference_steps: int = 8
) -> Tensor:
    """Sample clean tokens [batch, 16, 32] by Euler steps uniform in sigma."""
    sigmas = torch.linspace(1, 0, num_inference_steps + 1)
    tokens = torch.randn((len(references), GRID * GRID, references.shape[-1]), generator=generator)
    for sigma, following in pairwise(sigmas):
        velocity = editor.velocity(tokens, references, text, sigma.expand(len(tokens)))
        tokens = tokens + (following - sigma) * velocity
    return tokens


@torch.no_grad()
def measure(
    editor: Editor,
    autoencoder: AutoencoderKLFlux2,
    tokenizer: Qwen2Tokenizer,
    cases: Sequence[tuple[Scene, Edit]],
    seed: int,
) -> dict[str, float]:
    """Return the oracle's mean scores and success, overall and per kind, on sampled edits of `cases`."""
    pairs = encode_pairs(cases, autoencoder, tokenizer, seed)
    text = editor.encode_text(pairs.input_ids, pairs.attention_mask)
    generator = torch.Generator().manual_seed(stable_seed(seed, "editor-measure"))
    pictures = to_pictures(decode_tokens(autoencoder, sample(editor, pairs.sources.float(), text, generator)))
    scores = [score(p, scene, apply_edit(scene, edit)) for p, (scene, edit) in zip(pictures, cases, strict=True)]
    result = {
        name: float(np.mean([getattr(s, name) for s in scores]))
        for name in ("instruction", "consistency", "quality", "overall", "success")
    }
    for kind in sorted({edit.kind for _, edit in cases}):
        of_kind = [s.success for s, (_, edit) in zip(scores, cases, strict=True) if edit.kind == kind]
        result[f"success_{kind}"] = float(np.mean(of_kind))
    return result


def to_pictures(decoded: Tensor) -> list[Image.Image]:
    """Turn [batch, 3, height, width] in -1..1 into RGB pictures, rounded to bytes as the pipeline does."""
    scaled = (decoded / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).float().numpy()
    return [Image.fromarray((array * 255).round().astype(np.uint8)) for array in scaled]
