"""`gnomon rl fit | rollout | export`. Everything heavy is imported inside the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from gnomon.errors import UserError
from gnomon.runs import read_manifest


def fit(argv: list[str]) -> None:
    """Train a generator's LoRA on a reward: LightningCLI over trainer, model and data, and a run folder.

    Flags beside LightningCLI's: `--out DIR` (required), `--tracker csv|tensorboard|wandb`. Run again with the same
    command, it goes on after the last finished iteration, or says that it is finished. Adapters are written to
    `DIR/lora/best` (by held-out reward), `DIR/lora/last` and `DIR/lora/ema` (the running average, with `--model.ema`),
    the curve to `DIR/curve.jsonl`. `--dry-run` prints config, batches and memory, and trains nothing.

    Args:
        argv: the arguments after `gnomon rl fit`.

    Raises:
        UserError: when the folder belongs to another run or is in use, or something in the config cannot be had.
    """
    from rl.training import train

    train(argv)


def rollout(
    model: str,
    cases: str,
    out: str,
    *,
    reward: str | None = None,
    lora: str | None = None,
    num_prompts: int = 3,
    num_candidates: int = 6,
    sampler: Literal["flow_sde", "dance_sde", "cps"] = "flow_sde",
    noise_level: float = 0.9,
    window_first: int = 0,
    window_size: int = 3,
    language: str = "en",
    seed: int = 0,
) -> None:
    """Sample groups of candidates and draw them as one picture, each with its reward.

    Args:
        model: the generator's folder, or its name on the hub.
        cases: folder of cases.
        out: the picture to write (PNG).
        reward: folder of a reward model; without it no rewards are shown.
        lora: adapter on top of the model.
        num_prompts: rows of the grid, one case each.
        num_candidates: candidates per row.
        sampler: how the stochastic steps are made.
        noise_level: of those steps.
        window_first: first stochastic step.
        window_size: number of stochastic steps.
        language: of the instructions.
        seed: of the candidates and the choice of cases.

    Raises:
        UserError: when something cannot be loaded, or a number is out of its range.
    """
    from gnomon.datasets import read_cases
    from gnomon.images import save_png
    from rl.data import load_references, prompt_indices
    from rl.generator import DiffusersGenerator
    from rl.grid import GridRow, draw_grid
    from rl.rewards import RewardModelReward, apply_reward
    from rl.rollouts import candidate_seeds, sample_group_trajectories
    from rl.samplers import StochasticSampler

    if min(num_prompts, num_candidates, window_size) < 1:
        raise UserError("expected num_prompts, num_candidates and window_size above 0")
    try:
        steps = StochasticSampler(sampler, noise_level)
    except ValueError as error:
        raise UserError(str(error)) from error
    all_cases = read_cases(cases)
    if not all_cases:
        raise UserError(f"expected at least one case in {cases}, got none")
    generator = DiffusersGenerator(model, lora=lora, language=language)
    window = _window(window_first, window_size, generator.num_inference_steps)
    judge = None if reward is None else RewardModelReward(reward, language=language)
    chosen = [all_cases[index] for index in prompt_indices(len(all_cases), min(num_prompts, len(all_cases)), seed, 0)]
    rows = []
    for case in chosen:
        references = load_references(cases, case)
        conditioning = generator.condition([case], [references]).expand(num_candidates)
        seeds = candidate_seeds(seed, 0, [case], num_candidates)
        images = sample_group_trajectories(generator, conditioning, seeds, window, steps).images
        rewards = None
        if judge is not None:
            rewards = apply_reward(
                judge,
                cases=[case] * num_candidates,
                references=[references] * num_candidates,
                images=images,
                max_failed_share=1.0,
            ).total.tolist()
        rows.append(GridRow(generator.text(case), references, images, rewards))
    save_png(draw_grid(rows), out)
    print(f"wrote {out}")


def _window(first: int, size: int, num_steps: int) -> range:
    window = range(first, first + size)
    if window.start < 0 or window.stop > num_steps - 1:
        raise UserError(
            f"expected window_first and window_size to lie in the first {num_steps - 1} of {num_steps} steps (the last "
            f"one is never stochastic), got {window}"
        )
    return window


def export(run: str, out: str, *, which: Literal["best", "last", "ema"] = "best") -> None:
    """Write a run's LoRA in diffusers' format, after the stock pipeline has shown that it does what ours does.

    Args:
        run: folder of `gnomon rl fit`.
        out: folder for `pytorch_lora_weights.safetensors`.
        which: the best on held-out cases, the last, or the running average of a run with `model.ema`.

    Raises:
        UserError: when the run has no such adapter, or it does not load into the stock pipeline.
    """
    from rl.export import export_lora

    manifest = read_manifest(run)
    if manifest is None or manifest.command != "rl fit":
        raise UserError(f"expected a folder of `gnomon rl fit` at {run}")
    report = export_lora(Path(run), Path(out), which, manifest.config)
    print(
        f"wrote {out}/pytorch_lora_weights.safetensors: {report.pipeline} with it makes our picture "
        f"(up to {report.difference:.1e} of a pixel's range) and changes that of the base model by {report.change:.2g}"
    )
