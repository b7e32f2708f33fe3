"""Loading models: revisions, blocks that are left out, and four bits."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import huggingface_hub.constants
import pytest
import torch
from diffusers import Flux2Transformer2DModel
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.generator import DiffusersGenerator
from rl.loading import load_pipeline, quantize_nf4
from rl.lora import add_lora, block_linears

CASE = Case(id="a", benchmark="toy", task="recolour", instruction=Text(en="make it red"))


@pytest.fixture
def hub(tiny_editor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Fill a hub cache with two revisions of a model whose transformers differ, and go offline."""
    cache = tmp_path / "hub"
    root = cache / "models--someone--editor"
    for name, digit, scale in (("main", "a", 1.0), ("second", "b", 2.0)):
        commit = digit * 40
        (root / "refs").mkdir(parents=True, exist_ok=True)
        (root / "refs" / name).write_text(commit)
        shutil.copytree(tiny_editor, root / "snapshots" / commit)
        transformer = Flux2Transformer2DModel.from_pretrained(tiny_editor / "transformer")
        transformer.proj_out.weight.data *= scale
        transformer.save_pretrained(root / "snapshots" / commit / "transformer")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(cache))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    return "someone/editor"


# Diffusers 0.42 asks huggingface_hub for something that it has stopped to do.
@pytest.mark.filterwarnings("ignore:The `local_dir_use_symlinks` argument")
def test_a_revision_is_that_of_the_weights_and_not_of_the_index_alone(hub: str) -> None:
    first, second = (load_pipeline(hub, revision, torch.float32) for revision in (None, "second"))
    torch.testing.assert_close(2 * first.transformer.proj_out.weight, second.transformer.proj_out.weight)


def test_a_block_that_does_not_exist_cannot_be_left_out(tiny_editor: Path) -> None:
    with pytest.raises(UserError, match=r"among text_encoder, .*'prompt_upsampler'"):
        load_pipeline(str(tiny_editor), None, torch.float32, ["prompt_upsampler"])


def test_four_bits_are_those_of_the_library_and_only_in_the_blocks(tiny_editor: Path) -> None:
    bitsandbytes: Any = pytest.importorskip("bitsandbytes")
    transformer: Any = load_pipeline(str(tiny_editor), None, torch.float32).transformer
    weights = {name: transformer.get_submodule(name).weight.clone() for name in block_linears(transformer)}
    others = {name: value.clone() for name, value in transformer.named_parameters() if name[:-7] not in weights}
    quantize_nf4(transformer, torch.float32)
    transformer.to("cpu")
    for name, weight in weights.items():
        packed = transformer.get_submodule(name).weight
        assert packed.numel() * 2 == weight.numel()
        # The same blocks of 64 by the library's own function, apart from any layer.
        expected = bitsandbytes.functional.dequantize_4bit(
            *bitsandbytes.functional.quantize_4bit(weight, blocksize=64, quant_type="nf4", compress_statistics=False)
        )
        found = bitsandbytes.functional.dequantize_4bit(packed.data, packed.quant_state)
        assert torch.equal(found, expected)
        assert 0 < (found - weight).abs().max() < 0.25 * weight.abs().max()
    assert all(torch.equal(value, transformer.get_parameter(name)) for name, value in others.items())


def test_a_generator_in_four_bits_has_a_first_ratio_of_one_and_gradients_in_every_adapter_tensor(
    generator_settings: dict[str, Any], pictures: list[Image]
) -> None:
    pytest.importorskip("bitsandbytes")
    generator = DiffusersGenerator(**generator_settings, quantize="nf4")
    assert generator.fingerprint != DiffusersGenerator(**generator_settings).fingerprint
    names = add_lora(generator.transformer, rank=2, alpha=4)
    with torch.no_grad():
        for name in names:
            generator.transformer.get_parameter(name).normal_(std=0.3, generator=torch.Generator().manual_seed(0))
    conditioning = generator.condition([CASE], [pictures[:1]])
    latents = generator.initial_latents(conditioning, [1])
    with torch.no_grad():
        before = generator.velocity(conditioning, latents, 0)
    generator.transformer.train()
    velocity = generator.velocity(conditioning, latents, 0)
    assert torch.equal(before, velocity)
    found = torch.autograd.grad(velocity.square().mean(), [generator.transformer.get_parameter(name) for name in names])
    assert all(bool((value != 0).any()) for value in found)
