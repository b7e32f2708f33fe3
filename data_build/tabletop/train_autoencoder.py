"""Train the tiny editor's autoencoder: on drawn scenes, or on whatever pictures are handed in."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKLFlux2
from einops import rearrange
from torch import Tensor
from torch.nn import functional

from data_build.tabletop.draw import draw_array
from data_build.tabletop.oracle import read_scene
from data_build.tabletop.tiny_editor import make_autoencoder
from data_build.tabletop.training import mixed_precision, muon_and_adam, train
from data_build.tabletop.world import COLOURS, GRID, GROUNDS, KINDS, SIZES, Scene, Shape
from gnomon.hashing import stable_seed

Draw = Callable[[random.Random, int], Tensor]
"""Draws so many pictures as [count, 3, 64, 64] in -1..1."""

LATENT_NOISE = 0.05
"""Noise added to the latents in training, so that small errors of the editor do not show in the picture."""


def sample_any_scene(rng: random.Random) -> Scene:
    """Draw a scene with up to sixteen shapes, names repeating at will: denser than edits lead to, to learn faster."""
    cells = rng.sample([(row, column) for row in range(GRID) for column in range(GRID)], rng.randint(0, 16))
    shapes = [
        Shape(rng.choice(KINDS), rng.choice(list(COLOURS)), rng.choice(SIZES), row, column) for row, column in cells
    ]
    return Scene(rng.choice(list(GROUNDS)), tuple(shapes))


def pictures_of(scenes: Sequence[Scene]) -> Tensor:
    """Draw scenes as [batch, 3, 64, 64] in -1..1."""
    drawn = torch.from_numpy(np.stack([draw_array(scene) for scene in scenes]))
    return rearrange(drawn, "b h w c -> b c h w").contiguous() / 127.5 - 1


def draw_any_scenes(rng: random.Random, count: int) -> Tensor:
    """Draw pictures of dense scenes."""
    return pictures_of([sample_any_scene(rng) for _ in range(count)])


def train_autoencoder(
    folder: Path,
    *,
    num_steps: int,
    batch_size: int = 32,
    seed: int = 0,
    draw: Draw = draw_any_scenes,
    evaluate: Callable[[AutoencoderKLFlux2], dict[str, float]] | None = None,
    start: AutoencoderKLFlux2 | None = None,
) -> AutoencoderKLFlux2:
    """Train, or go on in `folder`; return the averaged model with its whitening statistics set.

    Args:
        folder: of checkpoint and curve.
        num_steps: optimizer steps.
        batch_size: pictures a step.
        seed: of everything that is drawn.
        draw: the pictures to learn.
        evaluate: the curve's figures of a model; by default how well it reproduces scenes.
        start: a model to train on in place of an untrained one; it is changed.
    """
    torch.manual_seed(seed)
    model = make_autoencoder() if start is None else start

    def compute_loss(step: int) -> dict[str, Tensor]:
        rng = random.Random(stable_seed(seed, "autoencoder", step))
        pictures = draw(rng, batch_size)
        with mixed_precision():
            latents = model.encode(pictures).latent_dist.mode()
            generator = torch.Generator().manual_seed(stable_seed(seed, "latent-noise", step))
            noise = torch.randn(latents.shape, generator=generator) * LATENT_NOISE
            decoded = model.decode(latents + noise).sample.float()
        squared = functional.mse_loss(decoded, pictures)
        spread = (latents.float() ** 2).mean()
        loss = squared + 0.1 * functional.l1_loss(decoded, pictures) + 1e-3 * functional.relu(spread - 1)
        return {"loss": loss, "squared_error": squared, "latent_power": spread}

    held_out = [sample_any_scene(random.Random(stable_seed(seed, "autoencoder-check", n))) for n in range(128)]
    optimizers = muon_and_adam(model, muon_rate=4e-3, adam_rate=3e-3, adam_names=("conv_in", "decoder.conv_out"))
    train(
        model,
        optimizers,
        compute_loss,
        folder=folder,
        num_steps=num_steps,
        average_decay=0.998,
        evaluate=lambda: measure(model, held_out) if evaluate is None else evaluate(model),
        evaluate_every=500,
    )
    set_whitening(model, seed, draw)
    return model


@torch.no_grad()
def measure(model: AutoencoderKLFlux2, scenes: Sequence[Scene]) -> dict[str, float]:
    """Return the peak signal-to-noise ratio in dB and the share of pictures that the oracle reads back as drawn."""
    from PIL import Image

    pictures = pictures_of(scenes)
    decoded = model.decode(model.encode(pictures).latent_dist.mode()).sample.clamp(-1, 1)
    error = float(functional.mse_loss(decoded, pictures)) / 4
    bytes_ = ((decoded + 1) * 127.5).round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    readings = [read_scene(Image.fromarray(array)) for array in bytes_]
    right = [r.ground == s.ground and r.cells == s.cells() for r, s in zip(readings, scenes, strict=True)]
    return {"psnr": -10 * float(np.log10(error)), "read_back": float(np.mean(right))}


@torch.no_grad()
def set_whitening(model: AutoencoderKLFlux2, seed: int, draw: Draw = draw_any_scenes, num_pictures: int = 2048) -> None:
    """Set the batch-norm statistics that the pipeline whitens tokens with, from `num_pictures` drawn pictures."""
    rng = random.Random(stable_seed(seed, "whitening"))
    folded = []
    for _ in range(num_pictures // 64):
        latents = model.encode(draw(rng, 64)).latent_dist.mode()
        folded.append(rearrange(latents, "b c (h i) (w j) -> (b h w) (c i j)", i=2, j=2))
    tokens = torch.cat(folded)
    model.bn.running_mean.copy_(tokens.mean(0))
    model.bn.running_var.copy_(tokens.var(0))
