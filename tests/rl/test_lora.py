"""Adapters: what is added, what is written, and what the stock pipeline makes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline
from PIL.Image import Image
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.export import our_pixels, stock_pixels, verify_lora
from rl.generator import DiffusersGenerator
from rl.lora import WEIGHTS_NAME, adapter_state, add_lora, block_linears, save_lora

CASE = Case(id="a", benchmark="toy", task="recolour", instruction=Text(en="make it red"))


@pytest.fixture
def generator(generator_settings: dict[str, Any]) -> DiffusersGenerator:
    return DiffusersGenerator(**generator_settings)


def trained(generator: DiffusersGenerator, rank: int = 4, alpha: int = 16, seed: int = 0) -> DiffusersGenerator:
    """Add an adapter that looks trained: B is not zero."""
    add_lora(generator.transformer, rank=rank, alpha=alpha, seed=seed)
    noise = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in generator.transformer.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.5, generator=noise)
    return generator


def difference(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).max())


def test_the_default_targets_are_the_linear_layers_of_the_blocks(generator: DiffusersGenerator) -> None:
    names = block_linears(generator.transformer)
    assert "transformer_blocks.0.attn.to_q" in names
    assert "transformer_blocks.0.ff_context.linear_out" in names
    assert "single_transformer_blocks.0.attn.to_qkv_mlp_proj" in names
    assert not {"x_embedder", "proj_out", "context_embedder"} & set(names)
    assert len(names) == 14


def test_a_fresh_adapter_changes_nothing_is_float32_and_comes_from_its_seed(
    generator_settings: dict[str, Any], pictures: list[Image]
) -> None:
    torch.manual_seed(0)
    state = torch.get_rng_state()
    generators = [DiffusersGenerator(**generator_settings) for _ in range(3)]
    before = our_pixels(generators[0], CASE, pictures[:1], 1)
    names = [
        add_lora(one.transformer, rank=4, alpha=8, seed=seed) for one, seed in zip(generators, (0, 0, 1), strict=True)
    ]
    assert torch.equal(state, torch.get_rng_state())
    assert difference(before, our_pixels(generators[0], CASE, pictures[:1], 1)) == 0
    first, same, other = (
        [one.transformer.get_parameter(name) for name in names[0] if "lora_A" in name] for one in generators
    )
    assert all(torch.equal(a, b) for a, b in zip(first, same, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(first, other, strict=True))
    trainable = [p for p in generators[0].transformer.parameters() if p.requires_grad]
    assert len(trainable) == len(names[0]) == 28
    assert {parameter.dtype for parameter in trainable} == {torch.float32}


@pytest.mark.gpu
def test_a_fresh_adapter_leaves_the_generators_of_accelerators_alone(generator: DiffusersGenerator) -> None:
    state = torch.cuda.get_rng_state()
    add_lora(generator.transformer, rank=4, alpha=8, seed=5)
    assert torch.equal(state, torch.cuda.get_rng_state())


def test_targets_that_match_nothing_are_an_error_even_beside_one_that_does(generator: DiffusersGenerator) -> None:
    with pytest.raises(UserError, match=r"to_nowhere matches nothing.*attn\.to_q"):
        add_lora(generator.transformer, rank=4, alpha=4, targets=["to_q", "to_nowhere"])
    names = add_lora(generator.transformer, rank=4, alpha=4, targets=["to_q"])
    assert len(names) == 2


@pytest.mark.parametrize("alpha", [4, 16])
def test_a_saved_lora_makes_the_same_picture_in_the_stock_pipeline_also_when_alpha_is_not_rank(
    alpha: int, generator: DiffusersGenerator, pictures: list[Image], tmp_path: Path
) -> None:
    base = our_pixels(generator, CASE, pictures[:2], 3)
    ours = our_pixels(trained(generator, rank=4, alpha=alpha), CASE, pictures[:2], 3)
    save_lora(generator.pipeline, tmp_path)
    name, stock = stock_pixels(generator, CASE, pictures[:2], 3, str(tmp_path))
    assert name == "Flux2KleinPipeline"
    assert difference(ours, stock) < 1e-4
    assert difference(ours, base) > 1e-2
    with safe_open(tmp_path / WEIGHTS_NAME, "pt") as file:
        assert all(key.startswith("transformer.") and ".lora_" in key for key in file.keys())  # noqa: SIM118


def test_two_saves_differ_and_the_second_replaces_the_first(generator: DiffusersGenerator, tmp_path: Path) -> None:
    trained(generator)
    first = save_lora(generator.pipeline, tmp_path).read_bytes()
    with torch.no_grad():
        next(parameter for parameter in generator.transformer.parameters() if parameter.requires_grad).add_(1.0)
    assert save_lora(generator.pipeline, tmp_path).read_bytes() != first
    assert [path.name for path in tmp_path.iterdir()] == [WEIGHTS_NAME]


def test_our_generator_loads_what_we_saved(
    generator: DiffusersGenerator, generator_settings: dict[str, Any], pictures: list[Image], tmp_path: Path
) -> None:
    save_lora(trained(generator).pipeline, tmp_path)
    loaded = DiffusersGenerator(**generator_settings, lora=str(tmp_path))
    first, second = (our_pixels(one, CASE, pictures[:1], 3) for one in (generator, loaded))
    assert difference(first, second) < 1e-4
    assert loaded.fingerprint != DiffusersGenerator(**generator_settings).fingerprint


def test_verification_passes_a_right_file_and_refuses_one_that_lost_its_alpha(
    generator: DiffusersGenerator, generator_settings: dict[str, Any], pictures: list[Image], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    save_lora(trained(generator).pipeline, tmp_path)
    report = verify_lora(tmp_path, generator_settings, CASE, pictures[:1])
    assert report.pipeline == "Flux2KleinPipeline"
    assert report.difference < 1e-4
    assert report.change > 1e-2

    load = Flux2KleinPipeline.load_lora_weights

    def load_without_settings(self: Any, folder: str, **kwargs: Any) -> None:
        state = self.lora_state_dict(folder)
        load(self, state, **kwargs)

    monkeypatch.setattr(Flux2KleinPipeline, "load_lora_weights", load_without_settings)
    with pytest.raises(UserError, match="nothing was exported"):
        verify_lora(tmp_path, generator_settings, CASE, pictures[:1])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_verification_sees_a_stock_pipeline_that_applies_nothing_also_after_training_in_16_bit(
    dtype: str, generator: DiffusersGenerator, generator_settings: dict[str, Any], pictures: list[Image],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    add_lora(generator.transformer, rank=4, alpha=4)
    with torch.no_grad():
        for name, parameter in generator.transformer.named_parameters():
            if "lora_B" in name:
                parameter.fill_(1e-3)  # an effect far below what bfloat16 rounds
    save_lora(generator.pipeline, tmp_path)
    settings = {**generator_settings, "dtype": dtype}
    report = verify_lora(tmp_path, settings, CASE, pictures[:1])
    assert report.difference < 1e-4
    assert 0 < report.change < 0.06

    monkeypatch.setattr(Flux2KleinPipeline, "load_lora_weights", lambda *_args, **_kwargs: None)
    with pytest.raises(UserError, match="another picture than without"):
        verify_lora(tmp_path, settings, CASE, pictures[:1])


def test_a_file_whose_names_fit_nothing_is_refused_and_not_loaded_as_nothing(
    generator: DiffusersGenerator, generator_settings: dict[str, Any], tmp_path: Path
) -> None:
    state = {f"unet.{name}": value for name, value in adapter_state(trained(generator).transformer).items()}
    save_file(state, tmp_path / WEIGHTS_NAME)
    with pytest.raises(UserError, match="none of its weights fit"):
        DiffusersGenerator(**generator_settings, lora=str(tmp_path))


def written(generator: DiffusersGenerator, folder: Path) -> dict[str, Tensor]:
    save_lora(trained(generator).pipeline, folder)
    weights: dict[str, Tensor] = load_file(folder / WEIGHTS_NAME)
    return weights


def rename_a_layer(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.replace(".attn.to_q.", ".attn.to_query."): value for name, value in weights.items()}


def address_half_of_the_layers_to_another_model(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name.replace("transformer.", "unet.", 1) if ".attn." in name else name: value for name, value in weights.items()
    }


def lose_a_factor(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: value for name, value in weights.items() if ".attn.to_q.lora_B" not in name}


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (rename_a_layer, "only 26 of its 28 weights fit"),
        (address_half_of_the_layers_to_another_model, "only 8 of its 28 weights fit"),
        (lose_a_factor, "1 weights are missing"),
    ],
)
def test_a_file_of_which_only_a_part_fits_is_refused_and_not_loaded_in_part(
    spoil: Callable[[dict[str, Tensor]], dict[str, Tensor]],
    message: str,
    generator: DiffusersGenerator,
    generator_settings: dict[str, Any],
    tmp_path: Path,
) -> None:
    save_file(spoil(written(generator, tmp_path)), tmp_path / WEIGHTS_NAME)
    with pytest.raises(UserError, match=message):
        DiffusersGenerator(**generator_settings, lora=str(tmp_path))


@pytest.mark.filterwarnings("ignore:Already found a `peft_config`")
def test_what_is_loaded_is_what_was_trained_to_the_bit_and_a_second_adapter_finds_its_place_too(
    generator: DiffusersGenerator, generator_settings: dict[str, Any], tmp_path: Path
) -> None:
    weights = written(generator, tmp_path)
    loaded = DiffusersGenerator(**generator_settings, lora=str(tmp_path))
    loaded.load_lora(str(tmp_path))
    for place in (0, 1):
        found = {
            name.replace(f".default_{place}.", "."): value
            for name, value in loaded.transformer.named_parameters()
            if f".default_{place}." in name
        }
        assert found.keys() == {name.removeprefix("transformer.") for name in weights}
        assert all(torch.equal(value, weights[f"transformer.{name}"]) for name, value in found.items())


def test_a_lora_of_a_larger_model_is_refused_with_its_name(
    generator: DiffusersGenerator, generator_settings: dict[str, Any], tmp_path: Path
) -> None:
    state = adapter_state(trained(generator).transformer)
    wider = {name: torch.cat([value, value], dim=1) if "lora_A" in name else value for name, value in state.items()}
    save_file({f"transformer.{name}": value.contiguous() for name, value in wider.items()}, tmp_path / WEIGHTS_NAME)
    with pytest.raises(UserError, match="could not load the LoRA at"):
        DiffusersGenerator(**generator_settings, lora=str(tmp_path))


def test_the_same_adapter_has_the_same_bytes_in_every_process(generator: DiffusersGenerator, tmp_path: Path) -> None:
    trained(generator)
    contents = {save_lora(generator.pipeline, tmp_path / str(number)).read_bytes() for number in range(8)}
    (content,) = contents
    header = content[8 : 8 + int.from_bytes(content[:8], "little")].decode()
    assert header.index('"format"') < header.index('"lora_adapter_metadata"')
    with safe_open(tmp_path / "0" / WEIGHTS_NAME, "pt") as file:
        for name, value in adapter_state(generator.transformer).items():
            assert torch.equal(file.get_tensor(f"transformer.{name}"), value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("lora", "expected a folder or file with a LoRA at 'lora', there is none"),
        ("./runs/lora", "expected a folder or file with a LoRA at './runs/lora', there is none"),
        ("runs/lora.safetensors", "expected a LoRA at runs/lora.safetensors, there is no such file"),
        # It could be on the hub.
        ("runs/lora", "found 'runs/lora' nowhere: there is no folder or file with a LoRA of this name"),
    ],
)
def test_a_lora_that_is_nowhere_is_said_to_be_so(name: str, message: str, generator: DiffusersGenerator) -> None:
    with pytest.raises(UserError, match=message):
        generator.load_lora(name)


def test_a_folder_without_a_lora_and_a_damaged_one_are_told_apart(
    generator: DiffusersGenerator, tmp_path: Path
) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(UserError, match=r"the folder holds no weights; `gnomon rl export"):
        generator.load_lora(str(tmp_path))
    save_lora(trained(generator).pipeline, tmp_path)
    file = tmp_path / WEIGHTS_NAME
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"could not load the LoRA at .*not fully covered"):
        generator.load_lora(str(tmp_path))
