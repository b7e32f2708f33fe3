from __future__ import annotations

import random
from pathlib import Path

import torch

from data_build.tabletop.draw import draw_array
from data_build.tabletop.tiny_editor import encode_pictures, make_autoencoder
from data_build.tabletop.train_autoencoder import (
    measure,
    pictures_of,
    sample_any_scene,
    set_whitening,
    train_autoencoder,
)


def test_pictures_are_the_drawn_ones_in_minus_one_to_one() -> None:
    scene = sample_any_scene(random.Random(0))
    (picture,) = pictures_of([scene])
    back = (picture.permute(1, 2, 0) + 1) * 127.5
    assert torch.allclose(back, torch.from_numpy(draw_array(scene)), atol=1e-3)


def test_whitened_tokens_have_mean_zero_and_unit_variance() -> None:
    torch.manual_seed(0)
    model = make_autoencoder().eval()
    set_whitening(model, seed=0, num_pictures=128)
    rng = random.Random(1)
    with torch.no_grad():
        tokens = encode_pictures(model, pictures_of([sample_any_scene(rng) for _ in range(64)])).flatten(0, 1)
    assert tokens.mean(0).abs().max() < 0.6
    assert 0.3 < tokens.var(0).mean() < 3


def test_steps_bring_the_error_down(tmp_path: Path) -> None:
    scenes = [sample_any_scene(random.Random(n)) for n in range(8)]
    before = measure(train_autoencoder(tmp_path / "a", num_steps=1, batch_size=4), scenes)["psnr"]
    after = measure(train_autoencoder(tmp_path / "b", num_steps=40, batch_size=4), scenes)["psnr"]
    assert after > before + 1
