"""The blocks of diffusers' Modular pipelines: which of them run, and one step of their loops with gradients.

What is peculiar to the young Modular API stands here and in :mod:`rl.generator`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from diffusers.modular_pipelines import LoopSequentialPipelineBlocks
from diffusers.modular_pipelines.modular_pipeline import BlockState, PipelineState
from PIL.Image import Image, alpha_composite
from PIL.Image import new as new_image
from torch import Tensor

from gnomon.errors import UserError


@dataclass(frozen=True)
class Workflow:
    """The blocks of a pipeline that run for some inputs; `draws_latents` is one of those before the loop."""

    before: list[Any]
    draws_latents: Any
    loop: Any
    after: list[Any]


def find_workflow(pipeline: Any, given: frozenset[str]) -> Workflow:
    """Return the blocks that run when these inputs are given.

    Raises:
        UserError: when the family is none that can be driven, or the workflow starts from a picture.
    """
    chosen = pipeline.blocks.get_execution_blocks(**dict.fromkeys(given, True))
    blocks = list(chosen.sub_blocks.values())
    loops = [place for place, block in enumerate(blocks) if isinstance(block, LoopSequentialPipelineBlocks)]
    before, after = blocks[: loops[0]] if loops else [], blocks[loops[0] + 1 :] if loops else []
    draws = [place for place, block in enumerate(before) if _draws_latents(block)]
    name = type(pipeline).__name__
    if len(loops) != 1 or "denoiser" not in blocks[loops[0]].sub_blocks or len(draws) != 1:
        raise UserError(
            f"expected a pipeline with one denoising loop that has a 'denoiser' block, and one block that draws "
            f"its latents, got {name} with {len(loops)} and {len(draws)}; this family is not supported"
        )
    if any(_changes_latents(block) for block in before[draws[0] + 1 :]):
        raise UserError(
            f"{name} would begin with the given picture and some noise (image to image), and not look at it; "
            "give cases without references, or a pipeline for editing"
        )
    return Workflow(before, before[draws[0]], blocks[loops[0]], after)


def run_denoiser(loop: Any, pipeline: Any, block_state: BlockState, step: int) -> None:
    """Let a loop make its preparations and take one step, up to and with its denoiser, with gradients.

    What loops prepare differs (caches, further inputs of the model), so that it is the loop's own code that runs; only
    its schedule is cut to one step, and its step to the blocks before the new latents.
    """
    timesteps = block_state.timesteps

    def until_denoiser(pipeline: Any, block_state: BlockState, *, t: Tensor, **_: int) -> tuple[Any, BlockState]:
        block_state.timesteps = timesteps
        for name, block in loop.sub_blocks.items():
            _differentiable(block)(pipeline, block_state, i=step, t=t)
            if name == "denoiser":
                break
        return pipeline, block_state

    once = copy(loop)
    once.get_block_state = lambda _state: block_state
    once.set_block_state = lambda _state, _block_state: None
    once.loop_step = until_denoiser
    once.set_progress_bar_config(disable=True)
    block_state.timesteps = timesteps[step : step + 1]
    _differentiable(once)(pipeline, PipelineState())


def _differentiable(block: Any) -> Callable[..., Any]:
    # Diffusers decorates the blocks with no_grad; below the decorator they are differentiable.
    return partial(getattr(type(block).__call__, "__wrapped__", type(block).__call__), block)


def input_names(block: Any) -> list[str]:
    """Name what a block reads from the pipeline's state."""
    return [parameter.name for parameter in block.inputs if parameter.name is not None]


def _draws_latents(block: Any) -> bool:
    return "latents" in block.intermediate_output_names and "generator" in input_names(block)


def _changes_latents(block: Any) -> bool:
    # Z-Image's block does not declare that it does; the schedule that is cut for it gives it away.
    return "latents" in block.intermediate_output_names or "strength" in input_names(block)


def without_opacity(picture: Image) -> Image:
    """Put a picture that has opacity on white, as Qwen-Image 2.1 (which makes such) does with its references."""
    if picture.mode != "RGBA":
        return picture
    return alpha_composite(new_image("RGBA", picture.size, "white"), picture).convert("RGB")


def checked_sigmas(sigmas: Tensor, num_steps: int) -> Tensor:
    """Copy a schedule to the CPU, float32 `[steps + 1]`.

    Raises:
        UserError: when it does not decrease to 0 in so many steps.
    """
    sigmas = sigmas.detach().to("cpu", torch.float32)
    if len(sigmas) != num_steps + 1 or sigmas[-1] != 0 or bool((sigmas.diff() >= 0).any()):
        raise UserError(
            f"expected a flow-matching schedule of {num_steps} steps that decreases to 0, got {sigmas.tolist()}; "
            "pipelines with another kind of scheduler are not supported"
        )
    return sigmas.clone()
