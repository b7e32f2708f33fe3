"""Rollouts and their replay: one function, so the first ratio is exactly one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from PIL.Image import Image

from gnomon.records import Case, Text
from rl.conditioning import Conditioning
from rl.generator import DiffusersGenerator
from rl.lora import add_lora
from rl.losses import kl_exact
from rl.rollouts import Trajectories, candidate_seeds, condition_rows, replay_log_prob, sample_group_trajectories
from rl.samplers import StochasticSampler

WINDOW = range(1, 3)
FLOW_SDE = StochasticSampler("flow_sde", 0.9)
SAMPLERS = [FLOW_SDE, StochasticSampler("dance_sde", 0.3), StochasticSampler("cps", 0.8)]


def make_case(name: str) -> Case:
    return Case(id=name, benchmark="toy", task="recolour", instruction=Text(en=f"make {name} red"))


@pytest.fixture
def generator(generator_settings: dict[str, Any]) -> DiffusersGenerator:
    return DiffusersGenerator(**generator_settings)


@pytest.fixture
def conditioning(generator: DiffusersGenerator, pictures: list[Image]) -> Conditioning:
    return generator.condition([make_case("a"), make_case("b")], [pictures[:1], pictures[:2]]).expand(2)


def sample(
    generator: DiffusersGenerator, conditioning: Conditioning, sampler: StochasticSampler = FLOW_SDE
) -> Trajectories:
    return sample_group_trajectories(generator, conditioning, [1, 2, 3, 4], WINDOW, sampler)


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.kind)
@pytest.mark.parametrize(("mode", "with_adapter"), [("eval", False), ("train", True), ("eval", True)])
def test_the_first_ratio_is_exactly_one_for_one_and_two_references(
    mode: str,
    with_adapter: bool,
    sampler: StochasticSampler,
    generator: DiffusersGenerator,
    conditioning: Conditioning,
) -> None:
    if with_adapter:
        add_lora(generator.transformer, rank=4, alpha=8)
        shake_adapter(generator)
    generator.transformer.train(mode == "train")
    trajectories = sample(generator, conditioning, sampler)
    for rows in ([0, 1, 2, 3], [3], [1, 2]):
        for step in WINDOW:
            transitions = trajectories.transitions(rows, step)
            with torch.no_grad():
                old = replay_log_prob(generator, transitions).log_prob
            new = replay_log_prob(generator, transitions).log_prob
            assert new.requires_grad == with_adapter
            assert torch.equal(torch.exp(new - old), torch.ones(len(rows)))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=lambda sampler: sampler.kind)
def test_a_model_in_16_bit_has_trajectories_in_32_and_the_replay_finds_what_was_drawn(
    sampler: StochasticSampler, generator_settings: dict[str, Any], pictures: list[Image]
) -> None:
    generator = DiffusersGenerator(**generator_settings, dtype="bfloat16")
    conditioning = generator.condition([make_case("a")], [pictures[:2]]).expand(4)
    trajectories = sample(generator, conditioning, sampler)
    assert trajectories.latents.dtype == torch.float32
    assert (trajectories.latents - trajectories.latents.bfloat16().float()).abs().max() > 0
    for place, step in enumerate(WINDOW):
        replay = replay_log_prob(generator, trajectories.transitions(range(4), step))
        assert (replay.log_prob - trajectories.log_probs[:, place]).abs().max() < 1e-6


def test_trajectories_are_float32_and_a_replay_of_the_whole_batch_finds_the_noise_again(
    generator: DiffusersGenerator, conditioning: Conditioning
) -> None:
    trajectories = sample(generator, conditioning)
    assert trajectories.latents.dtype == torch.float32
    assert trajectories.latents.shape == (4, 3, 16, 32)
    assert len(trajectories.images) == 4
    # The log-density of standard normal noise is near its mean; wrong latents or sigmas would be far from it.
    log_prob = replay_log_prob(generator, trajectories.transitions(range(4), 1)).log_prob
    sigmas = conditioning.sigmas
    std = 0.9 * (sigmas[1] / (1 - sigmas[1])).sqrt() * (sigmas[1] - sigmas[2]).sqrt()
    expected = -0.5 - std.log() - 0.5 * torch.log(torch.tensor(2 * torch.pi))
    torch.testing.assert_close(log_prob, expected.expand(4), atol=0.15, rtol=0)


def test_one_candidate_can_be_made_again_alone(generator: DiffusersGenerator, conditioning: Conditioning) -> None:
    together = sample(generator, conditioning)
    alone = sample_group_trajectories(generator, conditioning.select([2]), [3], WINDOW, FLOW_SDE)
    torch.testing.assert_close(together.latents[2], alone.latents[0], atol=1e-5, rtol=0)


def test_members_of_a_group_differ_and_may_share_their_first_noise(
    generator: DiffusersGenerator, conditioning: Conditioning
) -> None:
    own = sample_group_trajectories(generator, conditioning, [1, 2, 3, 4], range(0, 1), FLOW_SDE)
    assert not torch.equal(own.latents[0, 0], own.latents[1, 0])
    shared = sample_group_trajectories(generator, conditioning, [1, 2, 3, 4], range(0, 1), FLOW_SDE, same_latent=True)
    assert torch.equal(shared.latents[0, 0], shared.latents[1, 0])
    assert not torch.equal(shared.latents[0, 0], shared.latents[2, 0])
    assert not torch.equal(shared.latents[0, 1], shared.latents[1, 1])


@pytest.mark.parametrize("window", [range(3, 5), range(0, 0), range(4, 5)])
def test_a_window_that_holds_the_last_step_is_refused(
    window: range, generator: DiffusersGenerator, conditioning: Conditioning
) -> None:
    with pytest.raises(ValueError, match="never stochastic"):
        sample_group_trajectories(generator, conditioning, [1, 2, 3, 4], window, FLOW_SDE)


def test_without_a_sampler_a_rollout_is_the_generators_own_and_keeps_the_clean_latents(
    generator: DiffusersGenerator, conditioning: Conditioning
) -> None:
    trajectories = sample_group_trajectories(generator, conditioning, [1, 2, 3, 4], range(0), None)
    expected = generator.sample(conditioning, generator.initial_latents(conditioning, [1, 2, 3, 4]))
    assert trajectories.latents.shape == (4, 1, 16, 32)
    assert torch.equal(trajectories.latents[:, -1], expected)
    with pytest.raises(ValueError, match="without a sampler"):
        sample_group_trajectories(generator, conditioning, [1, 2, 3, 4], WINDOW, None)


@pytest.mark.parametrize("batch_size", [1, 3])
def test_finished_pictures_are_handed_out_at_once_and_are_those_of_the_end(
    batch_size: int, generator: DiffusersGenerator, conditioning: Conditioning
) -> None:
    generator.batch_size = batch_size
    at_the_end = sample(generator, conditioning).images
    seen: dict[int, Image] = {}
    calls: list[list[int]] = []

    def take(rows: list[int], images: list[Image]) -> None:
        calls.append(rows)
        seen.update(zip(rows, images, strict=True))

    sample_group_trajectories(generator, conditioning, [1, 2, 3, 4], WINDOW, FLOW_SDE, on_images=take)
    assert len(calls) == (4 if batch_size == 1 else 2)  # the two cases have different numbers of references
    assert [seen[row].tobytes() for row in range(4)] == [image.tobytes() for image in at_the_end]


def test_rows_of_one_case_are_conditioned_once(generator: DiffusersGenerator, pictures: list[Image]) -> None:
    a, b = make_case("a"), make_case("b")
    rows = condition_rows(generator, [b, a, b], [pictures[:2], pictures[:1], pictures[:2]])
    assert generator.num_conditionings == 2
    assert rows.case_ids == ["b", "a", "b"]
    assert rows.states[0] is rows.states[2]


def test_candidate_seeds_belong_to_names_and_not_to_positions() -> None:
    both = candidate_seeds(0, 3, [make_case("a"), make_case("b")], 2)
    assert both[2:] == candidate_seeds(0, 3, [make_case("b")], 2)
    assert len(set(both + candidate_seeds(0, 4, [make_case("a")], 2) + candidate_seeds(1, 3, [make_case("a")], 2))) == 8


def test_with_adapters_off_the_reference_is_another_policy_and_the_kl_pulls_towards_it(
    generator: DiffusersGenerator, conditioning: Conditioning
) -> None:
    transitions = sample(generator, conditioning).transitions(range(4), 1)
    names = add_lora(generator.transformer, rank=4, alpha=8)
    shake_adapter(generator)
    with torch.no_grad():
        generator.transformer.disable_adapters()  # type: ignore[operator]
        reference = replay_log_prob(generator, transitions).velocity
        generator.transformer.enable_adapters()  # type: ignore[operator]
    velocity = replay_log_prob(generator, transitions).velocity
    kl = kl_exact(velocity, reference, FLOW_SDE, transitions.sigmas)
    assert bool((kl > 0).all())
    gradients = torch.autograd.grad(kl.sum(), [generator.transformer.get_parameter(name) for name in names])
    assert all(bool((gradient != 0).any()) for gradient in gradients)


def shake_adapter(generator: DiffusersGenerator) -> None:
    """Give B, which starts at zero, some weight."""
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, parameter in generator.transformer.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.1, generator=noise)
