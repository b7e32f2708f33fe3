from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor

from gnomon.cli import main
from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.algorithms import DiffusionNFT, FlowGRPO, GRPOGuard, Samples
from rl.generator import DiffusersGenerator
from rl.lora import add_lora
from rl.plan import VALUES_PER_TOKEN, make_plan, num_ranks, zero_stage
from rl.policy import Policy
from rl.rollouts import sample_group_trajectories
from rl.samplers import StochasticSampler
from rl.settings import LoraSettings
from rl.training import parse
from rl.weights import parameters_of_components, picture_size, transformer_size


@pytest.fixture
def arguments(tmp_path: Path, generator_settings: dict[str, Any], case_folders: tuple[Path, Path]) -> list[str]:
    settings = {
        "trainer": {"accelerator": "cpu", "accumulate_grad_batches": 2},
        "model": {
            "generator": {
                "class_path": "rl.generator.DiffusersGenerator", "init_args": {**generator_settings, "batch_size": 8}
            },
            "reward": {"class_path": "rl.rewards.RewardModelReward", "init_args": {"model": "runs/no-such-judge"}},
            "algorithm": {"class_path": "rl.algorithms.FlowGRPO"},
            "rollout": {
                "num_prompts": 3, "num_candidates": 4, "micro_batch_size": 3, "window_size": 2, "window_last": 1,
            },
            "lora": {"rank": 4, "alpha": 8},
            "ema": {"decay": 0.9},
        },
        "data": {"train": str(case_folders[0])},
    }  # fmt: skip
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(settings))
    return ["--config", str(path), "--out", str(tmp_path / "run")]


def resolved(arguments: list[str], *more: str) -> dict[str, Any]:
    return parse([*arguments, *more]).resolved_config()


def test_a_dry_run_prints_config_batches_and_memory_and_leaves_nothing_behind(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rl", "fit", *arguments, "--dry-run"]) == 0
    output = capsys.readouterr().out
    assert "num_candidates: 4" in output
    assert "3 prompts x 4 candidates = 12 samples" in output
    assert "8 micro-batches (4 x 3 samples at 2 steps), 2 per optimizer step = 4 optimizer steps" in output
    # 12 samples in 2 batches of at most 8 for 5 steps; each micro-batch is replayed and trained.
    assert "26 forward passes (10 to sample, 8 to replay, 8 to train, 0 of copies and reference) and 8 back" in output
    assert "12 samples x 4 x 512 numbers" in output
    assert "together, on the accelerator" in output
    assert not (tmp_path / "run").exists()


def test_ranks_share_samples_and_zero_shares_memory(arguments: list[str]) -> None:
    def sizes(*more: str) -> dict[str, float]:
        plan = make_plan(resolved(arguments, "--trainer.devices", "2", *more))
        return {part.what.split(":")[0]: part.size for part in plan.memory}

    alone = {part.what.split(":")[0]: part.size for part in make_plan(resolved(arguments)).memory}
    ddp, zero2 = sizes("--trainer.strategy", "ddp"), sizes("--trainer.strategy", "deepspeed_stage_2")
    zero3 = sizes("--trainer.strategy", "deepspeed_stage_3_offload")
    assert ddp["latents"] == alone["latents"] / 2
    assert ddp["transformer"] == zero2["transformer"] == 2 * zero3["transformer"]
    assert ddp["adapter"] == zero2["adapter"] == 2 * zero3["adapter"]
    assert ddp["its gradients"] == 2 * zero2["its gradients"] == 2 * zero3["its gradients"]
    assert ddp["AdamW's moments"] == 2 * ddp["adapter"]
    assert zero2["AdamW's moments and main weights"] == 1.5 * ddp["adapter"]
    plan = make_plan(resolved(arguments, "--trainer.devices", "2"))
    assert (plan.layout.num_ranks, plan.layout.micro_batches_per_rank, plan.passes.sampling) == (2, 4, 5)


def test_copies_kl_and_windows_count(arguments: list[str]) -> None:
    nft = make_plan(resolved(arguments, "--model.algorithm", "rl.algorithms.DiffusionNFT"))
    copies = next(part for part in nft.memory if "copies" in part.what)
    adapter = next(part for part in nft.memory if part.what.startswith("adapter"))
    assert copies.size == 2 * adapter.size  # the sampling policy and the average
    assert nft.passes.replay == 0
    assert nft.passes.other >= nft.passes.training
    assert any("12 samples x 1 x 512 numbers" in part.what for part in nft.memory)
    kl = make_plan(resolved(arguments, "--model.algorithm.init_args.kl_weight", "0.1"))
    assert kl.passes.other == kl.passes.training == 8


def test_sizes_are_those_of_the_loaded_model(generator_settings: dict[str, Any], pictures: list[Any]) -> None:
    folder = Path(generator_settings["model"])
    generator = DiffusersGenerator(**generator_settings)
    for name, count in parameters_of_components(folder).items():
        component: torch.nn.Module = getattr(generator.pipeline, name)
        # What is tied is stored once, and buffers are stored too.
        state = {tensor.data_ptr(): tensor.numel() for tensor in component.state_dict().values()}
        assert count == sum(state.values()), name
    size = transformer_size(folder, LoraSettings(rank=4, alpha=8))
    names = add_lora(generator.transformer, rank=4, alpha=8)
    assert size.adapter == sum(generator.transformer.get_parameter(name).numel() for name in names)
    assert (size.hidden, size.blocks) == (32, 2)
    picture = picture_size(folder, 64, 64)
    case = Case.model_validate(
        {"id": "a", "benchmark": "toy", "task": "t", "instruction": {"en": "a"}, "references": [], "metrics": []}
    )
    latents = generator.initial_latents(generator.condition([case], [[pictures[0]]]), [0])
    assert (picture.elements, picture.tokens) == (latents.numel(), latents.shape[1])


@pytest.mark.parametrize("algorithm", [FlowGRPO(), GRPOGuard(), DiffusionNFT()], ids=lambda one: type(one).__name__)
def test_micro_batches_keep_as_many_latents_as_the_estimate_says(
    algorithm: Any, generator_settings: dict[str, Any], pictures: list[Any]
) -> None:
    policy = Policy(DiffusersGenerator(**generator_settings), LoraSettings(rank=4, alpha=8), copies=algorithm.copies)
    case = Case(id="a", benchmark="toy", task="t", instruction=Text(en="a"))
    conditioning = policy.generator.condition([case], [pictures[:1]]).expand(4)
    window, sampler = (range(1, 3), StochasticSampler("flow_sde", 0.7)) if algorithm.stochastic else (range(0), None)
    trajectories = sample_group_trajectories(policy.generator, conditioning, [1, 2, 3, 4], window, sampler)
    samples = Samples(trajectories, torch.ones(4), torch.ones(4, dtype=torch.bool), seed=0, iteration=0)
    with torch.no_grad():
        batches = algorithm.micro_batches(policy, samples, 2)
    kept: dict[int, int] = {}
    for part in [*batches, *(batch.transitions for batch in batches if algorithm.stochastic)]:
        for value in vars(part).values():
            if isinstance(value, Tensor) and value.shape[1:] == trajectories.latents.shape[2:]:
                kept[value.untyped_storage().data_ptr()] = value.untyped_storage().nbytes()
    elements = trajectories.latents[0, 0].numel()
    assert sum(kept.values()) == 4 * 4 * elements * algorithm.num_kept_latents(len(window))


def test_components_that_the_index_does_not_name_and_16_bit_doubles_do_not_count(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    (tmp_path / "model_index.json").write_text(json.dumps({"_class_name": "X", "vae": ["diffusers", "Y"]}))
    for name in ("vae/a.safetensors", "vae/a.fp16.safetensors", "other/a.safetensors"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        save_file({"weight": torch.zeros(3, 4)}, tmp_path / name)
    assert parameters_of_components(tmp_path) == {"vae": 12}


def test_values_per_token_are_about_what_a_block_keeps() -> None:
    from diffusers import Flux2Transformer2DModel

    num_samples, tokens, text, hidden = 2, 64, 16, 128
    model = Flux2Transformer2DModel(
        in_channels=16, num_layers=2, num_single_layers=4, attention_head_dim=32, num_attention_heads=4,
        joint_attention_dim=32, timestep_guidance_channels=16, axes_dims_rope=(8, 8, 8, 8), guidance_embeds=False,
    )  # fmt: skip
    add_lora(model, rank=4, alpha=4)
    kept: dict[int, int] = {}
    weights = {parameter.data_ptr() for parameter in model.parameters()}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        output = model(
            hidden_states=torch.randn(num_samples, tokens, 16),
            encoder_hidden_states=torch.randn(num_samples, text, 32),
            timestep=torch.full((num_samples,), 0.5),
            img_ids=torch.zeros(tokens, 4),
            txt_ids=torch.zeros(text, 4),
            return_dict=False,
        )[0]
    values = sum(kept.values()) / 4 / (num_samples * (tokens + text) * hidden * 6)
    assert output.requires_grad
    assert values == pytest.approx(VALUES_PER_TOKEN, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"devices": 2, "num_nodes": 3}, 6),
        ({"devices": [0, 1]}, 2),
        ({"devices": "0,1,2"}, 3),
        ({"devices": "4"}, 4),
        ({"devices": "auto", "accelerator": "cpu"}, 1),
        ({"devices": -1, "accelerator": "cpu"}, 1),
    ],
)
def test_ranks_are_counted_from_the_trainers_settings(settings: dict[str, Any], expected: int) -> None:
    assert num_ranks(settings) == expected


@pytest.mark.parametrize(
    ("strategy", "stage"),
    [
        ("auto", 0),
        ("ddp", 0),
        ("deepspeed", 2),
        ("deepspeed_stage_1", 1),
        ("deepspeed_stage_3_offload", 3),
        ({"class_path": "pytorch_lightning.strategies.DeepSpeedStrategy", "init_args": {"stage": 3}}, 3),
        ({"class_path": "pytorch_lightning.strategies.DDPStrategy"}, 0),
    ],
)
def test_zero_stages_are_read_from_the_strategy(strategy: Any, stage: int) -> None:
    assert zero_stage(strategy) == stage


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (("--trainer.accumulate_grad_batches", "3"), "divide the 8 micro-batches"),
        (("--trainer.devices", "5"), "5 ranks"),
        (("--model.lora.targets", "[nothing]"), "nothing matches nothing"),
        (("--model.optimizer.learning_rate", "-1"), "learning_rate"),
        (("--model.rollout.window_last", "9"), "do not fit into the 5 steps"),
        (("--model.rollout.num_prompts", "6"), "got 5; give more cases"),
        (("--model.generator.init_args.dtype", "fp16"), "init_args.dtype float32, bfloat16, float16, got 'fp16'"),
        (("--model.generator.init_args.num_inference_steps", "0"), "num_inference_steps"),
        (("--trainer.devices", "two"), "trainer.devices to be a number"),
        (("--trainer.limit_train_batches", "2"), "trainer.limit_train_batches"),
    ],
)
def test_a_dry_run_finds_what_does_not_fit(
    override: tuple[str, str], message: str, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rl", "fit", *arguments, "--dry-run", *override]) != 0
    assert message in capsys.readouterr().err


def test_a_model_on_the_hub_has_no_sizes_yet(arguments: list[str]) -> None:
    plan = make_plan(resolved(arguments, "--model.generator.init_args.model", "someone/some-editor"))
    assert not plan.memory
    assert "someone/some-editor are known once it is downloaded" in str(plan)


def test_what_a_dry_run_cannot_see_yet_is_a_note(arguments: list[str], tmp_path: Path) -> None:
    (tmp_path / "parts-elsewhere").mkdir()
    model = ["--model.generator.init_args.model", str(tmp_path / "parts-elsewhere")]
    plan = make_plan(resolved(arguments, *model, "--data.train", "runs/cases-to-come"))
    assert any("runs/cases-to-come are not there yet" in note for note in plan.notes)
    assert any("give a folder with its transformer" in note for note in plan.notes)


def test_a_transformer_that_cannot_be_read_is_named(arguments: list[str], tmp_path: Path) -> None:
    for content, message in (
        ("{", "could not read .*transformer/config.json"),
        ('{"_class_name": "Odd"}', "got 'Odd'"),
    ):
        for part in ("transformer", "vae"):
            (tmp_path / "odd" / part).mkdir(parents=True, exist_ok=True)
            (tmp_path / "odd" / part / "config.json").write_text(content)
        with pytest.raises(UserError, match=message):
            make_plan(resolved(arguments, "--model.generator.init_args.model", str(tmp_path / "odd")))
