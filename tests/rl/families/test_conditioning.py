"""What a case is conditioned on: each instruction for itself, encoded once, in any batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.records import Case, Text
from rl.conditioning import Conditioning
from rl.export import stock_inputs, stock_pipeline
from rl.generator import DiffusersGenerator
from rl.loading import has_guider


def count_encoders(pipeline: Any) -> Counter[str]:
    """Count the forward passes of all text encoders, image encoders and the encoder of the VAE from now on."""
    calls: Counter[str] = Counter()
    for name, component in pipeline.components.items():
        part = component.encoder if name == "vae" else component
        if isinstance(part, torch.nn.Module) and name != "transformer":
            part.register_forward_pre_hook(lambda _module, _inputs, name=name: calls.update([name]))
    return calls


def embeddings(conditioning: Conditioning, name: str = "prompt_embeds") -> Tensor | None:
    """Return the embeddings `[tokens, channels]` of a single row; Z-Image keeps them in a list."""
    rows = conditioning.batch("loop").get(name)
    return None if rows is None else rows[0]


def test_two_instructions_in_one_batch_give_two_embeddings_and_two_velocities(
    family: Any, guidance: str, num_references: int, cases: list[Case], pictures: list[Image],
    family_generator: Callable[[Any, str], DiffusersGenerator],
) -> None:  # fmt: skip
    generator = family_generator(family, guidance)
    conditioning = generator.condition(cases, [pictures[:num_references]] * 2)
    first, second = (embeddings(conditioning.select([row])) for row in (0, 1))
    assert first is not None
    assert second is not None
    assert first.shape != second.shape or not torch.equal(first, second)
    latents = generator.initial_latents(conditioning, [1, 1])
    assert torch.equal(latents[0], latents[1])
    together = generator.velocity(conditioning, latents, 0)
    assert (together[0] - together[1]).abs().max() > 1e-4
    for row in (0, 1):
        alone = generator.velocity(conditioning.select([row]), latents[row : row + 1], 0)
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=0)


def test_negative_and_positive_embeddings_differ(
    family: Any, cases: list[Case], pictures: list[Image],
    family_generator: Callable[[Any, str], DiffusersGenerator],
) -> None:  # fmt: skip
    if "on" not in family.guidance:
        return
    generator = family_generator(family, "on")
    conditioning = generator.condition(cases[:1], [pictures[: family.references[-1]]])
    positive, negative = embeddings(conditioning), embeddings(conditioning, "negative_prompt_embeds")
    assert (negative is not None) == has_guider(generator.pipeline)  # without one, guidance is an input of the model
    if negative is not None:
        assert positive is not None
        assert positive.shape != negative.shape or not torch.equal(positive, negative)


def test_encoders_run_once_per_case_as_often_as_in_the_stock_pipeline_for_one_picture(
    family: Any, guidance: str, num_references: int, cases: list[Case], pictures: list[Image]
) -> None:
    references = pictures[:num_references]
    generator = DiffusersGenerator(**family.arguments(guidance))
    stock = stock_pipeline(generator, modular=True)
    once = count_encoders(stock)
    stock(**stock_inputs(stock, generator, cases[0], references, 1), output="images")
    calls = count_encoders(generator.pipeline)
    conditioning = generator.condition(cases, [references] * 2).expand(3)
    assert calls == Counter({name: 2 * count for name, count in once.items()})
    assert all(count == 1 for name, count in once.items() if name.startswith("text_encoder") and guidance == "off")
    assert once["vae"] == num_references
    latents = generator.initial_latents(conditioning, list(range(6)))
    generator.decode(conditioning, generator.sample(conditioning, latents))
    assert calls == Counter({name: 2 * count for name, count in once.items()})


def test_instructions_of_one_length_share_a_batch_and_stay_apart_in_it(
    family: Any, guidance: str, cases: list[Case], pictures: list[Image],
    family_generator: Callable[[Any, str], DiffusersGenerator],
) -> None:  # fmt: skip
    generator = family_generator(family, guidance)
    other = cases[0].model_copy(update={"id": "c", "instruction": Text(en="make it big")})
    conditioning = generator.condition([cases[0], other], [pictures[: family.references[0]]] * 2)
    assert conditioning.rows_by_form() == [[0, 1]]
    latents = generator.initial_latents(conditioning, [1, 1])
    together = generator.velocity(conditioning, latents, 1)
    assert (together[0] - together[1]).abs().max() > 1e-4
    for row in (0, 1):
        alone = generator.velocity(conditioning.select([row]), latents[:1], 1)
        torch.testing.assert_close(together[row], alone[0], atol=1e-5, rtol=0)


def leaves(value: Any) -> list[Any]:
    """List the tensors of a state, whatever they are packed in."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    return [value] if isinstance(value, Tensor) else []


def test_making_a_picture_leaves_all_models_as_they_were_so_that_the_next_case_is_conditioned_alike(
    family: Any, cases: list[Case], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(**family.arguments("off"), dtype="bfloat16")
    models = {name: part for name, part in generator.pipeline.components.items() if isinstance(part, torch.nn.Module)}

    def state() -> dict[str, tuple[torch.dtype, bool]]:
        return {
            f"{name}.{key}": (value.dtype, model.training)
            for name, model in models.items()
            for key, value in model.named_parameters()
        }

    references = pictures[: family.references[-1]]
    before, first = state(), generator.condition(cases[:1], [references])
    generator.decode(first, generator.initial_latents(first, [1]))
    assert state() == before
    again = generator.condition(cases[:1], [references])
    assert again.states[0].form == first.states[0].form
    found, expected = (leaves(one.batch("loop")) for one in (again, first))
    assert len(found) == len(expected) > 0
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
