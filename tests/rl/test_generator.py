"""The generator against the stock pipelines of diffusers, on a tiny FLUX.2-klein of the real classes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from diffusers import Flux2KleinPipeline
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.conditioning import form_of
from rl.generator import DiffusersGenerator
from rl.loading import model_hash
from rl.lora import add_lora, save_lora

SETTINGS: dict[str, Any] = {"num_inference_steps": 4, "height": 64, "width": 64}


def make_case(name: str, text: str = "make it red") -> Case:
    return Case(id=name, benchmark="toy", task="recolour", instruction=Text(en=text, zh="变红"))


@pytest.fixture(scope="module")
def kwargs() -> dict[str, Any]:
    return {"max_sequence_length": 12, "text_encoder_out_layers": [1, 2]}


@pytest.fixture(scope="module")
def generator(tiny_editor: Path, kwargs: dict[str, Any]) -> DiffusersGenerator:
    return DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs)


@pytest.fixture(scope="module")
def stock(tiny_editor: Path) -> Any:
    pipeline: Any = Flux2KleinPipeline.from_pretrained(tiny_editor)
    pipeline.set_progress_bar_config(disable=True)
    return pipeline


@pytest.mark.parametrize("num_references", [0, 1, 2])
def test_our_ode_is_the_stock_pipeline_and_the_modular_one(
    num_references: int, generator: DiffusersGenerator, stock: Any, kwargs: dict[str, Any], pictures: list[Image]
) -> None:
    references = pictures[:num_references]
    conditioning = generator.condition([make_case("a")], [references])
    ours = generator.sample(conditioning, generator.initial_latents(conditioning, [7]))
    call = {"prompt": "make it red", "image": references or None, **SETTINGS, **kwargs}

    final: list[torch.Tensor] = []

    def keep(_pipeline: Any, _step: int, _timestep: Any, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        final.append(values["latents"])
        return {}

    stock(**call, generator=torch.Generator().manual_seed(7), output_type="latent", callback_on_step_end=keep)
    torch.testing.assert_close(ours, final[-1], atol=1e-5, rtol=0)

    (picture,) = generator.generate([make_case("a")], [references], [7])
    for theirs in (
        stock(**call, generator=torch.Generator().manual_seed(7)).images[0],
        generator.pipeline(**call, generator=torch.Generator().manual_seed(7), output="images")[0],
    ):
        assert np.abs(np.asarray(picture).astype(int) - np.asarray(theirs).astype(int)).max() <= 1


def test_a_batch_of_cases_with_other_texts_and_numbers_of_references_equals_one_by_one(
    generator: DiffusersGenerator, pictures: list[Image]
) -> None:
    cases = [make_case("a"), make_case("b", "make it blue"), make_case("c", "remove it"), make_case("d", "add it")]
    references = [pictures[:1], pictures[:2], pictures[1:2], []]
    conditioning = generator.condition(cases, references)
    latents = generator.initial_latents(conditioning, [1, 2, 3, 4])
    together = generator.velocity(conditioning, latents, 1)
    assert generator.decode(conditioning, latents)[3].size == (64, 64)
    for row in range(4):
        alone = generator.velocity(conditioning.select([row]), latents[row : row + 1], 1)
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=0)
    assert (together[0] - together[2]).abs().max() > 1e-3


def test_references_of_equal_token_count_but_other_shape_are_not_put_into_one_batch(
    generator: DiffusersGenerator, pictures: list[Image]
) -> None:
    wide, tall = pictures[0].resize((128, 64)), pictures[0].resize((64, 128))
    conditioning = generator.condition([make_case("a")] * 3, [[wide], [tall], [wide]])
    assert conditioning.rows_by_form() == [[0, 2], [1]]
    latents = generator.initial_latents(conditioning, [1, 1, 1])
    alone = generator.velocity(conditioning.select([1]), latents[1:2], 0)
    torch.testing.assert_close(generator.velocity(conditioning, latents, 0)[1], alone[0], atol=1e-5, rtol=0)


def test_two_prompts_give_two_embeddings(generator: DiffusersGenerator, pictures: list[Image]) -> None:
    conditioning = generator.condition([make_case("a"), make_case("b", "make it blue")], [pictures[:1]] * 2)
    first, second = conditioning.batch("loop")["prompt_embeds"]
    assert not torch.equal(first, second)


def test_conditioning_is_computed_once_per_case_and_shared_by_the_group(
    tiny_editor: Path, kwargs: dict[str, Any], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs)
    conditioning = generator.condition([make_case("a"), make_case("b")], [pictures[:1]] * 2).expand(3)
    assert generator.num_conditionings == 2
    assert conditioning.case_ids == ["a", "a", "a", "b", "b", "b"]
    assert len({id(state) for state in conditioning.states}) == 2


def test_velocity_carries_gradients_into_the_transformer_and_conditioning_carries_none(
    tiny_editor: Path, kwargs: dict[str, Any], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs)
    generator.transformer.requires_grad_(True)
    conditioning = generator.condition([make_case("a"), make_case("b")], [pictures[:1], pictures[:2]])
    velocity = generator.velocity(conditioning, generator.initial_latents(conditioning, [1, 2]), 0)
    parameters = dict(generator.transformer.named_parameters())
    # Raises for a parameter that took no part.
    gradients = torch.autograd.grad(velocity.square().mean(), list(parameters.values()))
    assert any(bool((gradient != 0).any()) for gradient in gradients)
    assert not conditioning.select([0]).batch("loop")["prompt_embeds"].requires_grad


def test_seeds_decide_alone_and_the_global_generator_is_left_alone(
    generator: DiffusersGenerator, pictures: list[Image]
) -> None:
    before = torch.get_rng_state()
    conditioning = generator.condition([make_case("a")] * 3, [pictures[:1]] * 3)
    latents = generator.initial_latents(conditioning, [5, 6, 5])
    assert torch.equal(latents[0], latents[2])
    assert not torch.equal(latents[0], latents[1])
    assert torch.equal(before, torch.get_rng_state())


def test_the_batch_size_of_forward_passes_changes_no_picture(
    tiny_editor: Path, kwargs: dict[str, Any], pictures: list[Image]
) -> None:
    cases, references = [make_case("a"), make_case("b", "x"), make_case("c", "y")], [pictures[:1]] * 3
    images = [
        DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs, batch_size=size).generate(
            cases, references, [1, 2, 3]
        )
        for size in (1, 2, 8)
    ]
    for other in images[1:]:
        for ours, theirs in zip(images[0], other, strict=True):
            assert np.abs(np.asarray(ours).astype(int) - np.asarray(theirs).astype(int)).max() <= 1


def test_cases_of_different_sizes_are_made_one_size_after_the_other_and_refused_as_one_batch(
    tiny_editor: Path, kwargs: dict[str, Any], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(str(tiny_editor), num_inference_steps=2, pipeline_kwargs=kwargs)
    cases = [make_case(name) for name in "abc"]
    references = [pictures[:1], [pictures[0].resize((128, 96))], pictures[1:2]]
    together = generator.generate(cases, references, [1, 2, 3])
    assert [picture.size for picture in together] == [(64, 64), (128, 96), (64, 64)]
    for row in range(3):
        (alone,) = generator.generate(cases[row : row + 1], references[row : row + 1], [row + 1])
        difference = np.abs(np.asarray(alone).astype(int) - np.asarray(together[row]).astype(int))
        assert difference.max() <= 1
    conditioning = generator.condition(cases, references)
    message = "one size, .* for 'a' and .* for 'b'; set height and width"
    with pytest.raises(UserError, match=message):
        _ = conditioning.sigmas
    with pytest.raises(UserError, match=message):
        generator.initial_latents(conditioning, [1, 2, 3])
    with pytest.raises(ValueError, match="expected 3 seeds"):
        generator.draw(conditioning, [1, 2])


def test_the_settings_file_of_a_model_gives_defaults_that_arguments_override(
    tiny_editor: Path, kwargs: dict[str, Any], pictures: list[Image], tmp_path: Path
) -> None:
    folder = tmp_path / "editor"
    shutil.copytree(tiny_editor, folder)
    (folder / "gnomon.json").write_text(json.dumps({"pipeline_kwargs": kwargs, **SETTINGS}))
    from_file = DiffusersGenerator(str(folder))
    assert (from_file.num_inference_steps, from_file.height, from_file.width) == (4, 64, 64)
    assert DiffusersGenerator(str(folder), num_inference_steps=2).num_inference_steps == 2
    (picture,) = from_file.generate([make_case("a")], [pictures[:1]], [7])
    explicit = DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs)
    assert picture == explicit.generate([make_case("a")], [pictures[:1]], [7])[0]

    for settings, message in (({"steps": 4}, "steps"), ({"num_inference_steps": "4"}, "num_inference_steps .*got '4'")):
        (folder / "gnomon.json").write_text(json.dumps(settings))
        with pytest.raises(UserError, match=message):
            DiffusersGenerator(str(folder))


def test_instructions_come_in_the_language_asked_for(tiny_editor: Path, generator: DiffusersGenerator) -> None:
    assert generator.text(make_case("a")) == "make it red"
    chinese = DiffusersGenerator(str(tiny_editor), language="zh")
    assert chinese.text(make_case("a")) == "变红"
    mixed = DiffusersGenerator(str(tiny_editor), language="mixed")
    texts = [mixed.text(make_case(str(number))) for number in range(20)]
    assert set(texts) == {"make it red", "变红"}
    assert texts == [mixed.text(make_case(str(number))) for number in range(20)]


def test_the_fingerprint_tells_settings_and_weights_apart(
    tiny_editor: Path, generator: DiffusersGenerator, kwargs: dict[str, Any]
) -> None:
    again = DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs)
    assert again.fingerprint == generator.fingerprint
    other = DiffusersGenerator(str(tiny_editor), **{**SETTINGS, "num_inference_steps": 3}, pipeline_kwargs=kwargs)
    assert other.fingerprint != generator.fingerprint


def test_the_hash_of_a_model_sees_another_schedule_and_not_the_settings_that_arguments_override(
    tiny_editor: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "editor"
    shutil.copytree(tiny_editor, folder)
    assert model_hash(folder) == model_hash(tiny_editor)
    (folder / "gnomon.json").write_text(json.dumps(SETTINGS))
    assert model_hash(folder) == model_hash(tiny_editor)
    schedule = folder / "scheduler" / "scheduler_config.json"
    schedule.write_text(schedule.read_text().replace('"shift": 3.0', '"shift": 2.0'))
    assert model_hash(folder) != model_hash(tiny_editor)
    assert model_hash(Path("owner/name")) is None


def test_the_fingerprint_tells_adapters_apart_given_as_folder_or_as_file(
    tiny_editor: Path, kwargs: dict[str, Any], tmp_path: Path
) -> None:
    sources = []
    for seed in (0, 1):
        generator = DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs)
        add_lora(generator.transformer, rank=2, alpha=2, seed=seed)
        sources.append(str(save_lora(generator.pipeline, tmp_path / str(seed))))
    # The same name, overwritten with another adapter: what a run's "last" is.
    moving = tmp_path / "last.safetensors"
    found = []
    for source in sources:
        shutil.copyfile(source, moving)
        found.append(DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs, lora=str(moving)))
    assert len({one.fingerprint for one in found}) == 2
    folder = DiffusersGenerator(str(tiny_editor), **SETTINGS, pipeline_kwargs=kwargs, lora=str(tmp_path / "1"))
    assert folder.fingerprint not in {generator.fingerprint, found[0].fingerprint}


def test_encoders_are_on_the_device_only_while_they_are_needed_and_change_no_number(
    tiny_editor: Path, kwargs: dict[str, Any], pictures: list[Image], monkeypatch: pytest.MonkeyPatch
) -> None:
    moves: list[tuple[str, str]] = []
    move = torch.nn.Module.to

    def watched(self: torch.nn.Module, *args: Any, **named: Any) -> Any:
        moves.append((type(self).__name__, str(args[0])))
        return move(self, *args, **named)

    monkeypatch.setattr(torch.nn.Module, "to", watched)
    settings = {"model": str(tiny_editor), **SETTINGS, "pipeline_kwargs": kwargs}
    generator, plain = DiffusersGenerator(**settings, offload_encoders=True), DiffusersGenerator(**settings)
    # There is one device here; "cpu:0" is the same by another name.
    monkeypatch.setattr(type(generator), "device", property(lambda self: torch.device("cpu:0")))
    moves.clear()
    conditioning = generator.condition([make_case("a")], [pictures[:1]])
    encoders = {name for name, _ in moves}
    assert len(encoders) == 2
    assert "Flux2Transformer2DModel" not in encoders
    assert sorted(moves) == sorted((name, device) for name in encoders for device in ("cpu:0", "cpu"))
    assert [device for _, device in moves] == ["cpu:0", "cpu:0", "cpu", "cpu"]
    latents = generator.sample(conditioning, generator.initial_latents(conditioning, [1]))
    assert len(moves) == 4
    image = generator.decode(conditioning, latents)[0]
    assert moves[4:] == [("AutoencoderKLFlux2", "cpu:0"), ("AutoencoderKLFlux2", "cpu")]
    assert image == plain.generate([make_case("a")], [pictures[:1]], [1])[0]


@pytest.mark.gpu
def test_encoders_leave_the_gpu(tiny_editor: Path, kwargs: dict[str, Any], pictures: list[Image]) -> None:
    settings = {"model": str(tiny_editor), **SETTINGS, "pipeline_kwargs": kwargs, "device": "cuda"}
    generator = DiffusersGenerator(**settings, offload_encoders=True)
    (image,) = generator.generate([make_case("a")], [pictures[:1]], [1])
    assert generator.device.type == "cuda"
    assert generator.pipeline.text_encoder.device.type == generator.pipeline.vae.device.type == "cpu"
    assert image == DiffusersGenerator(**settings).generate([make_case("a")], [pictures[:1]], [1])[0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model": "/no/such/folder"}, "no/such/folder"),
        ({"dtype": "int8"}, "dtype"),
        ({"language": "fr"}, "language"),
        ({"batch_size": 0}, "batch_size"),
        ({"num_inference_steps": 0}, "num_inference_steps >= 1 .*got 0"),
        ({"height": 0}, "height >= 1"),
        ({"width": -64}, "width >= 1"),
        ({"pipeline_kwargs": {"num_inference_steps": 4, "prompt": "x"}}, "without num_inference_steps, prompt"),
        ({"pipeline_kwargs": {"max_length": 3}}, "max_length"),
        ({"pipeline_kwargs": {"guidance_scale": 2.0}}, "guidance_scale"),
        ({"quantize": "int3"}, "quantize"),
        ({"skip_blocks": ["upsampler"]}, "upsampler"),
        ({"lora": "/no/such/lora"}, "expected a folder or file with a LoRA at '/no/such/lora', there is none"),
        ({"device": "gpu"}, "expected a device that torch has here, .*got 'gpu'"),
        ({"device": "cuda:99"}, "expected a device that torch has here, .*got 'cuda:99'"),
        ({"revision": "main"}, "expected no revision for .*tiny_editor.*got 'main'"),
    ],
)
def test_bad_settings_name_the_thing(change: dict[str, Any], message: str, tiny_editor: Path) -> None:
    with pytest.raises(UserError, match=message):
        DiffusersGenerator(**{"model": str(tiny_editor), **change})


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.rmtree(folder / "vae"), "expected vae in .*/vae, .*no file named config.json"),
        (lambda folder: (folder / "vae" / "diffusion_pytorch_model.safetensors").unlink(), "expected vae in .*/vae, "),
        (lambda folder: shutil.rmtree(folder / "transformer"), "expected transformer in .*no file named config.json"),
        (lambda folder: _cut(folder / "transformer" / "diffusion_pytorch_model.safetensors"), "transformer.*not fully"),
        (lambda folder: _cut(folder / "text_encoder" / "model.safetensors"), "expected text_encoder in .*not fully"),
        # Transformers makes a tokenizer out of nothing, to which all instructions are the same.
        (lambda folder: shutil.rmtree(folder / "tokenizer"), "expected tokenizer in .*there is no vocabulary"),
        (lambda folder: (folder / "tokenizer" / "tokenizer.json").unlink(), "tokenizer in .*there is no vocabulary"),
        (lambda folder: (folder / "model_index.json").write_text("[]"), "could not load a modular pipeline from"),
        (lambda folder: (folder / "model_index.json").write_text("{"), "model_index.json.*line 1 column 2"),
        (
            lambda folder: (folder / "gnomon.json").write_text('{"pipeline_kwargs": [1]}'),
            "expected a mapping of names to values at pipeline_kwargs in .*gnomon.json",
        ),
    ],
)
def test_a_damaged_folder_is_refused_with_the_part_and_the_reason_in_one_line(
    damage: Callable[[Path], object], message: str, tiny_editor: Path, tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    folder = tmp_path / "editor"
    shutil.copytree(tiny_editor, folder)
    damage(folder)
    with pytest.raises(UserError, match=message) as raised:
        DiffusersGenerator(str(folder))
    assert "\n" not in str(raised.value)
    assert "Traceback" not in caplog.text


def test_the_form_of_a_single_number_is_its_value() -> None:
    one, other = torch.tensor(1.5), torch.tensor(2.5)
    assert form_of("guidance", one) == form_of("guidance", one.clone()) != form_of("guidance", other)
