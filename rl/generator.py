"""One generator for the flow-matching pipelines of diffusers, with a velocity that carries gradients.

Diffusers' Modular pipelines are sequences of blocks: encode texts and pictures, prepare latents and time steps, a
denoising *loop*, decode. `DiffusersGenerator` runs the blocks before the loop once per case and keeps their state (the
conditioning), drives the loop's `denoiser` block with samplers of ours, and decodes with the blocks behind the loop.
Rollout, replay and inference call the same `velocity` on the same tensors; no pipeline is copied. All that depends on
the young Modular API is here, in :mod:`rl.blocks` and in :mod:`rl.conditioning`; tests hold it equal to the stock
pipelines. docs/generators.md says which families there are and what each takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from diffusers.modular_pipelines.modular_pipeline import BlockState, PipelineState
from PIL.Image import Image
from torch import Tensor

from bench.generators import check_language, instruction_in
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.hub import reason_of
from gnomon.records import Case
from rl.blocks import Workflow, checked_sigmas, find_workflow, input_names, run_denoiser, without_opacity
from rl.conditioning import CaseState, Conditioning, form_of
from rl.loading import (
    check_inputs,
    has_guider,
    load_pipeline,
    model_hash,
    needs_negative_prompt,
    positive,
    quantize_nf4,
    read_settings,
    run_where_transformer_is,
    set_guidance,
)
from rl.lora import adapter_hash, check_lora_fits, find_lora
from rl.samplers import ode_step

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
_PREDICTION = "noise_pred"


def _check_arguments(dtype: str, language: str, batch_size: int, quantize: str | None, device: str) -> None:
    if dtype not in _DTYPES:
        raise UserError(f"expected dtype {', '.join(_DTYPES)}, got {dtype!r}")
    check_language(language)
    if batch_size < 1:
        raise UserError(f"expected batch_size >= 1, got {batch_size}")
    if quantize not in (None, "nf4"):
        raise UserError(f"expected quantize 'nf4' or nothing, got {quantize!r}")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"expected a device that torch has here, such as 'cpu', got {device!r}: {reason}") from error


class DiffusersGenerator:
    """Makes and edits pictures with any flow-matching pipeline that diffusers has modular blocks for.

    A model folder may hold a `gnomon.json` with `pipeline_kwargs`, `num_inference_steps`,
    `height` and `width`; arguments given here win over it.

    Attributes:
        pipeline: the loaded `ModularPipeline`, with its components as attributes.
        num_conditionings: how many cases went through the blocks before the loop so far.
    """

    def __init__(
        self,
        model: str,
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        num_inference_steps: int | None = None,
        height: int | None = None,
        width: int | None = None,
        pipeline_kwargs: dict[str, Any] | None = None,
        skip_blocks: Sequence[str] = (),
        language: str = "en",
        batch_size: int = 32,
        lora: str | None = None,
        quantize: Literal["nf4"] | None = None,
        offload_encoders: bool = False,
    ) -> None:
        """Load the pipeline.

        Args:
            model: a folder in diffusers' format, or a name on the Hugging Face hub.
            revision: branch, tag or commit on the hub.
            dtype: "float32", "bfloat16" or "float16".
            device: where the models live.
            num_inference_steps: sampling steps; default from `gnomon.json`, else 8.
            height: of the pictures, in pixels; default from `gnomon.json`, else what the pipeline takes (mostly the
                size of the first reference).
            width: likewise.
            pipeline_kwargs: further inputs of the pipeline, such as `max_sequence_length`; also `guidance_scale` of
                its guider, where it has one.
            skip_blocks: blocks of the pipeline that are left out, such as the `prompt_upsampler` of FLUX.3, which
                rewrites every instruction with a language model of its own.
            language: of the instructions: "en", "zh" or "mixed" (per case, by a hash of its id).
            batch_size: largest number of samples in one forward pass without gradients, and in one decoding.
            lora: a LoRA in diffusers' format that is loaded on top: a folder, a file, or a name on the hub.
            quantize: "nf4" holds the linear layers of the transformer's blocks in four bits (needs bitsandbytes).
            offload_encoders: keep everything but the transformer on the CPU, and bring it to the device only while
                cases are conditioned and pictures decoded.

        Raises:
            UserError: when model or LoRA cannot be loaded, a setting is out of its range, or the pipeline has no
                such input.
        """
        _check_arguments(dtype, language, batch_size, quantize, device)
        settings = read_settings(Path(model))
        self.model = model
        self.dtype = _DTYPES[dtype]
        self.language = language
        self.batch_size = batch_size
        self.num_inference_steps: int = (
            positive("num_inference_steps", num_inference_steps, settings.get("num_inference_steps")) or 8
        )
        self.height = positive("height", height, settings.get("height"))
        self.width = positive("width", width, settings.get("width"))
        self.pipeline_kwargs: dict[str, Any] = {**settings.get("pipeline_kwargs", {}), **(pipeline_kwargs or {})}
        self.num_conditionings = 0
        self._workflows: dict[frozenset[str], Workflow] = {}
        self.revision = revision
        self.skip_blocks = tuple(skip_blocks)
        self.pipeline = load_pipeline(model, revision, self.dtype, self.skip_blocks)
        self._parameters: list[Any] = [one for one in self.pipeline.blocks.inputs if one.name is not None]
        check_inputs(self.pipeline, self.pipeline_kwargs, {parameter.name for parameter in self._parameters})
        set_guidance(self.pipeline, self.pipeline_kwargs)
        if needs_negative_prompt(self.pipeline):
            self.pipeline_kwargs.setdefault("negative_prompt", "")
        self._take_steps_of_schedule(num_inference_steps)
        self.quantize = quantize
        if quantize == "nf4":
            quantize_nf4(self.transformer, self.dtype)
        self.offload_encoders = offload_encoders
        if offload_encoders:
            run_where_transformer_is(self.pipeline)
        self.to(device)
        self._lora: dict[str, str] | None = None
        if lora is not None:
            self.load_lora(lora)

    def _take_steps_of_schedule(self, asked: int | None) -> None:
        """Take the number of steps from a schedule that is among the inputs, or comes with the checkpoint."""
        sigmas = self.pipeline_kwargs.get("sigmas") or self.pipeline.config.get("sample_sigmas")
        if not sigmas:
            return
        if asked not in (None, len(sigmas)):
            raise UserError(
                f"expected num_inference_steps {len(sigmas)} or none, since the schedule of {self.model} is "
                f"{list(sigmas)}, got {asked}"
            )
        self.num_inference_steps = len(sigmas)

    @property
    def transformer(self) -> torch.nn.Module:
        """The model that predicts velocities."""
        transformer: torch.nn.Module = self.pipeline.transformer
        return transformer

    @property
    def device(self) -> torch.device:
        """Where the transformer is."""
        return next(self.transformer.parameters()).device

    def to(self, device: str | torch.device) -> None:
        """Move all models to `device`; with `offload_encoders` the transformer alone."""
        if not self.offload_encoders:
            self.pipeline.to(device)
            return
        self.transformer.to(device)
        for module in self._encoders():
            module.to("cpu")

    def _encoders(self, blocks: Sequence[Any] | None = None) -> list[torch.nn.Module]:
        """Return all models but the transformer, or those of them that some blocks need."""
        names = self.pipeline.components
        if blocks is not None:
            names = dict.fromkeys(spec.name for block in blocks for spec in block.expected_components)
        found = (getattr(self.pipeline, name, None) for name in names)
        return [model for model in found if isinstance(model, torch.nn.Module) and model is not self.transformer]

    @contextmanager
    def _on_device(self, models: list[torch.nn.Module]) -> Iterator[None]:
        """Bring models that `offload_encoders` keeps on the CPU to the transformer's device for a while."""
        if not self.offload_encoders:
            yield
            return
        try:
            for model in models:
                model.to(self.device)
            yield
        finally:
            for model in models:
                model.to("cpu")

    def load_lora(self, lora: str) -> None:
        """Load a LoRA, of a folder, a file or the hub, as any user of diffusers would.

        Raises:
            UserError: when there is none, the pipeline cannot take one, or not all of its weights found a place.
        """
        found = find_lora(lora)
        try:
            self.pipeline.load_lora_weights(found)
        except (AttributeError, OSError, RuntimeError, ValueError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            raise UserError(f"could not load the LoRA at {lora} into {self.model}: {reason_of(error)}") from error
        check_lora_fits(self.pipeline, found)
        self._lora = {"name": lora, "weights": adapter_hash(self.transformer)}

    @property
    def fingerprint(self) -> str:
        """Tell generators apart that make other pictures: by settings, adapter and a sample of the model's bytes."""
        settings = {
            "model": self.model,
            "revision": self.revision,
            "weights": model_hash(Path(self.model)),
            "lora": self._lora,
            "skip_blocks": self.skip_blocks,
            "quantize": self.quantize,
            "dtype": str(self.dtype),
            "num_inference_steps": self.num_inference_steps,
            "height": self.height,
            "width": self.width,
            "pipeline_kwargs": self.pipeline_kwargs,
            "language": self.language,
        }
        return stable_hash(settings)

    def text(self, case: Case) -> str:
        """Return the instruction in the language that this generator asks in."""
        return instruction_in(case, self.language)

    @torch.no_grad()
    def condition(self, cases: Sequence[Case], references: Sequence[Sequence[Image]]) -> Conditioning:
        """Run the blocks before the loop, once per case.

        Args:
            cases: what to make.
            references: per case its pictures, in the order of `case.references`; may be empty.

        Returns:
            One row per case; see `Conditioning.expand` for groups.

        Raises:
            ValueError: when the lengths differ.
            UserError: when the pipeline takes no references, or not this case with so many of them.
        """
        if len(cases) != len(references):
            raise ValueError(f"expected references for each of {len(cases)} cases, got {len(references)}")
        with self._without_autocast(), self._on_device(self._encoders()):
            return Conditioning(
                tuple(self._condition(case, list(pictures)) for case, pictures in zip(cases, references, strict=True))
            )

    def _without_autocast(self) -> torch.autocast:
        # A trainer's mixed precision is meant for the transformer; texts and pictures are encoded as they always are.
        return torch.autocast(self.device.type, enabled=False)

    def _condition(self, case: Case, pictures: list[Image]) -> CaseState:
        self.num_conditionings += 1
        inputs: dict[str, Any] = {
            "prompt": self.text(case),
            "num_inference_steps": self.num_inference_steps,
            "height": self.height,
            "width": self.width,
            # Only latents that are thrown away are drawn from it, but the global generator stays untouched.
            "generator": torch.Generator().manual_seed(0),
            **self.pipeline_kwargs,
        }
        if pictures:
            if "image" not in {parameter.name for parameter in self._parameters}:
                raise UserError(
                    f"expected a pipeline that takes references, since case '{case.id}' has {len(pictures)}, got "
                    f"{type(self.pipeline).__name__} (of {self.model}); choose a model for editing"
                )
            inputs["image"] = pictures if len(pictures) > 1 else pictures[0]
        key = frozenset(name for name, value in inputs.items() if value is not None)
        workflow = self._workflow(key)
        state = PipelineState()
        for parameter in self._parameters:
            state.set(parameter.name, inputs.get(parameter.name, parameter.default), parameter.kwargs_type)
        if has_guider(self.pipeline):
            # A guider remembers the last step of the last case, and may have been off there.
            self.pipeline.guider.set_state(step=None, num_inference_steps=None, timestep=None)
        before_latents: dict[str, Any] = {}
        try:
            for block in workflow.before:
                if block is workflow.draws_latents:
                    before_latents = {name: state.get(name) for name in input_names(block)}
                _, state = block(self.pipeline, state)
        except (RuntimeError, ValueError, TypeError, AttributeError) as error:
            if isinstance(error, torch.OutOfMemoryError):
                raise
            name = type(self.pipeline).__name__
            raise UserError(
                f"{name} could not take case '{case.id}' with {len(pictures)} references: {error}"
            ) from error
        loop_state = {
            key: value for key, value in vars(workflow.loop.get_block_state(state)).items() if key != "latents"
        }
        names = {name for block in workflow.after for name in input_names(block)}
        after_state = {name: state.get(name) for name in sorted(names - {"latents"})}
        latents: Tensor = state.get("latents")
        return CaseState(
            case_id=case.id,
            workflow=key,
            loop=loop_state,
            after=after_state,
            before_latents=before_latents,
            sigmas=checked_sigmas(self.pipeline.scheduler.sigmas, len(state.get("timesteps"))),
            latent_shape=tuple(latents.shape[1:]),
            latent_dtype=latents.dtype,
            form=(key, tuple(latents.shape), form_of("loop", loop_state), form_of("after", after_state)),
        )

    def _workflow(self, given: frozenset[str]) -> Workflow:
        """Return the blocks that run when these inputs are given."""
        if given not in self._workflows:
            self._workflows[given] = find_workflow(self.pipeline, given)
        return self._workflows[given]

    @torch.no_grad()
    def initial_latents(self, conditioning: Conditioning, seeds: Sequence[int]) -> Tensor:
        """Draw the noise that sampling starts from, one generator per row.

        A row depends on its seed alone, and is the noise that the stock pipeline starts from when it is called with
        `generator=torch.Generator().manual_seed(seed)`.

        Args:
            conditioning: the rows.
            seeds: one per row, 0..2^63 - 1.

        Returns:
            float32 `[rows, tokens, channels]` on the device of the model.

        Raises:
            ValueError: when the lengths differ.
            UserError: when the rows make pictures of different sizes.
        """
        if len(seeds) != len(conditioning):
            raise ValueError(f"expected {len(conditioning)} seeds, one per row, got {len(seeds)}")
        conditioning.check_one_size()
        rows = []
        for case_state, seed in zip(conditioning.states, seeds, strict=True):
            block = self._workflow(case_state.workflow).draws_latents
            state = PipelineState()
            for name, value in case_state.before_latents.items():
                state.set(name, value)
            state.set("generator", torch.Generator().manual_seed(seed))
            rows.append(block(self.pipeline, state)[1].get("latents"))
        return torch.cat(rows).float()

    def velocity(self, conditioning: Conditioning, latents: Tensor, step: int) -> Tensor:
        """Predict the velocity of latents at a step of the schedule, with guidance where the pipeline has it.

        Gradients reach the transformer unless the caller turns them off. Rows of different form (another number or
        size of references) go through the model one form after the other.

        Args:
            conditioning: one state per row.
            latents: float32 `[rows, tokens, channels]`.
            step: index into `conditioning.sigmas`, 0..steps - 1.

        Returns:
            float32 `[rows, tokens, channels]`.
        """
        groups = conditioning.rows_by_form()
        if len(groups) == 1:
            return self._velocity(conditioning, latents, step)
        parts = [self._velocity(conditioning.select(rows), latents[rows], step) for rows in groups]
        order = torch.tensor([row for rows in groups for row in rows], device=latents.device)
        return torch.cat(parts).index_select(0, order.argsort())

    def _velocity(self, conditioning: Conditioning, latents: Tensor, step: int) -> Tensor:
        first = conditioning.states[0]
        block_state = BlockState(**conditioning.batch("loop"), latents=latents.to(first.latent_dtype))
        run_denoiser(self._workflow(first.workflow).loop, self.pipeline, block_state, step)
        prediction: Tensor = getattr(block_state, _PREDICTION)
        return prediction.float()

    def decode(self, conditioning: Conditioning, latents: Tensor) -> list[Image]:
        """Turn clean latents `[rows, tokens, channels]` into pictures, in the order of the rows."""
        return [without_opacity(picture) for picture in self._decode(conditioning, latents, "pil")]

    def decode_pixels(self, conditioning: Conditioning, latents: Tensor) -> np.ndarray:
        """Turn clean latents into pixels `[rows, height, width, 3]` in 0..1, before they are rounded to 8 bits."""
        return np.stack(self._decode(conditioning, latents, "np"))

    @torch.no_grad()
    def _decode(self, conditioning: Conditioning, latents: Tensor, output_type: str) -> list[Any]:
        blocks = [block for state in conditioning.states for block in self._workflow(state.workflow).after]
        with self._on_device(self._encoders(blocks)):
            return self._decode_here(conditioning, latents, output_type)

    def _decode_here(self, conditioning: Conditioning, latents: Tensor, output_type: str) -> list[Any]:
        pictures: dict[int, Any] = {}
        for rows in self.chunks(conditioning):
            part = conditioning.select(rows)
            state = PipelineState()
            for name, value in part.batch("after").items():
                state.set(name, value)
            state.set("latents", latents[rows].to(part.states[0].latent_dtype))
            state.set("output_type", output_type)
            with self._without_autocast():
                for block in self._workflow(part.states[0].workflow).after:
                    _, state = block(self.pipeline, state)
            pictures.update(zip(rows, state.get("images"), strict=True))
        return [pictures[row] for row in range(len(conditioning))]

    def chunks(self, conditioning: Conditioning) -> list[list[int]]:
        """Cut rows into batches of one form and at most `batch_size` samples."""
        return [
            rows[start : start + self.batch_size]
            for rows in conditioning.rows_by_form()
            for start in range(0, len(rows), self.batch_size)
        ]

    @torch.no_grad()
    def sample(self, conditioning: Conditioning, latents: Tensor) -> Tensor:
        """Walk the ODE from initial latents to clean ones, float32 `[rows, tokens, channels]`."""
        sigmas = conditioning.sigmas
        result = torch.empty_like(latents)
        for rows in self.chunks(conditioning):
            part, current = conditioning.select(rows), latents[rows]
            for step in range(len(sigmas) - 1):
                current = ode_step(current, self.velocity(part, current, step), sigmas[step], sigmas[step + 1])
            result[rows] = current
        return result

    def generate(
        self, cases: Sequence[Case], references: Sequence[Sequence[Image]], seeds: Sequence[int]
    ) -> list[Image]:
        """Make one picture per case with the ODE sampler: :meth:`condition`, then :meth:`draw`.

        Args:
            cases: what to make; a case may stand here several times with different seeds.
            references: per case its pictures.
            seeds: one per case.

        Returns:
            RGB pictures in the order of `cases`.
        """
        return self.draw(self.condition(cases, references), seeds)

    def draw(self, conditioning: Conditioning, seeds: Sequence[int]) -> list[Image]:
        """Make one picture per row with the ODE sampler; they may be of different sizes.

        The picture of a seed is that of the stock pipeline with `generator=torch.Generator().manual_seed(seed)`.

        Args:
            conditioning: the rows.
            seeds: one per row.

        Returns:
            RGB pictures in the order of the rows.
        """
        if len(seeds) != len(conditioning):
            raise ValueError(f"expected {len(conditioning)} seeds, one per row, got {len(seeds)}")
        pictures: dict[int, Image] = {}
        for rows in self.chunks(conditioning):
            part = conditioning.select(rows)
            latents = self.sample(part, self.initial_latents(part, [seeds[row] for row in rows]))
            pictures.update(zip(rows, self.decode(part, latents), strict=True))
        return [pictures[row] for row in range(len(conditioning))]
