"""Model folders in diffusers' format: loading them whole or not at all, their own settings, and their fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from diffusers import DiffusionPipeline, ModularPipeline
from transformers import PreTrainedTokenizerBase, ProcessorMixin

from gnomon.errors import UserError
from gnomon.hub import cached_file, reason_of
from gnomon.optional import require
from rl.identity import content_hash_of_files
from rl.lora import block_linears
from rm.vlm.processor import image_only

SETTINGS_FILE = "gnomon.json"
GUIDANCE = "guidance_scale"
_INDICES = ("model_index.json", "modular_model_index.json")
_MODEL_FILES = (".safetensors", ".json", ".txt", ".jinja", ".model")
# Inputs of a pipeline that the generator gives it case by case, or by arguments of its own.
_OWN_INPUTS = frozenset(
    {"prompt", "image", "generator", "latents", "num_inference_steps", "height", "width", "output_type"}
)
_SETTINGS = ("pipeline_kwargs", "num_inference_steps", "height", "width")


def model_hash(folder: Path) -> str | None:
    """Hash all that a model is made of, as `content_hash_of_files` does; None for a name on the hub.

    That is its weights, but also configs, vocabularies and templates: a schedule with another shift makes other
    pictures too. The folder's own settings count where they are used, see `DiffusersGenerator.fingerprint`.
    """
    if not folder.is_dir():
        return None
    files = [path for path in folder.rglob("*") if path.suffix in _MODEL_FILES and path != folder / SETTINGS_FILE]
    return content_hash_of_files(folder, files)


def read_settings(folder: Path) -> dict[str, Any]:
    """Read the defaults that a model folder gives for itself; empty without the file.

    Raises:
        UserError: for a file that is no JSON mapping, and for keys that nobody reads.
    """
    path = folder / SETTINGS_FILE
    if not path.is_file():
        return {}
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UserError(f"expected JSON in {path}: {error}") from error
    unknown = sorted(set(settings) - set(_SETTINGS)) if isinstance(settings, dict) else ["(no mapping)"]
    if unknown:
        raise UserError(f"expected only {', '.join(_SETTINGS)} in {path}, got {', '.join(unknown)}")
    if not isinstance(settings.get("pipeline_kwargs", {}), dict):
        raise UserError(f"expected a mapping of names to values at pipeline_kwargs in {path}, got a list or value")
    return dict(settings)


def positive(name: str, *values: Any) -> int | None:
    """Return the first value that is given; None when none is.

    Raises:
        UserError: when it is not a whole number above 0.
    """
    value = next((value for value in values if value is not None), None)
    if value is not None and (type(value) is not int or value < 1):
        raise UserError(f"expected {name} >= 1 (argument of the generator, or in {SETTINGS_FILE}), got {value!r}")
    return value


def load_pipeline(model: str, revision: str | None, dtype: torch.dtype, skip_blocks: Sequence[str] = ()) -> Any:
    """Load a `ModularPipeline` with all its components, frozen and in eval mode.

    Args:
        model: a folder in diffusers' format, or a name on the hub.
        revision: of `model`; parts that its index takes from other repositories keep the revision named there.
        dtype: of the weights.
        skip_blocks: names of blocks that are left out, with the components that only they need.

    Raises:
        UserError: when there is no such model or block, or a part of it cannot be loaded.
    """
    at = {"revision": revision, "local_files_only": only_local(model, revision)}
    try:
        pipeline: Any = ModularPipeline.from_pretrained(model, **at)
        if skip_blocks:
            blocks = _without(pipeline.blocks, skip_blocks)
            pipeline = type(pipeline)(blocks=blocks, pretrained_model_name_or_path=model, **at)
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise UserError(f"could not load a modular pipeline from {model}: {reason_of(error)}") from error
    # Diffusers' own loop only warns about a component that fails, which then fails later inside a block. Some that
    # blocks could use (a control net) are not part of a model, and have no place to be loaded from.
    for name, spec in _specs(pipeline):
        if getattr(pipeline, name, None) is None:
            _load_component(pipeline, name, spec, model, revision, dtype)
    for component in pipeline.components.values():
        if isinstance(component, torch.nn.Module):
            component.requires_grad_(False).eval()
    return pipeline


def only_local(model: str, revision: str | None) -> bool:
    """Say whether a model is to be loaded without the hub: from a folder, or from the cache of a hub out of reach.

    Raises:
        UserError: when it is nowhere, or a folder with a revision.
    """
    if model and Path(model).is_dir():
        if revision is not None:
            raise UserError(f"expected no revision for {model}, which is a folder and has only one, got {revision!r}")
        return True
    return cached_file("model folder", model, _INDICES, revision) is not None


def _specs(pipeline: Any) -> list[tuple[str, Any]]:
    specs = ((name, pipeline.get_component_spec(name)) for name in pipeline.pretrained_component_names)
    return [(name, spec) for name, spec in specs if spec.pretrained_model_name_or_path]


def _load_component(pipeline: Any, name: str, spec: Any, model: str, revision: str | None, dtype: torch.dtype) -> None:
    """Load one component: of the model, whose revision it shares, or of another repository that the index names."""
    source = spec.pretrained_model_name_or_path
    # Without this, only the index comes from the revision, and all weights from the main branch.
    revision = revision if source == model else spec.revision
    options: dict[str, Any] = {"revision": revision, "local_files_only": only_local(source, revision)}
    if isinstance(spec.type_hint, type) and issubclass(spec.type_hint, ProcessorMixin):
        # The whole processor would want torchvision for the videos that nobody gives it.
        spec.type_hint = image_only(spec.type_hint)
        options["backend"] = "pil"
    else:
        options["dtype"] = dtype
    try:
        component = spec.load(**options)
        _check_vocabulary(component)
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(
            f"expected {name} in {source}{f'/{spec.subfolder}' if spec.subfolder else ''}, but it could not be loaded: "
            f"{reason_of(error)}. If you can do without, name its block in skip_blocks (there are: "
            f"{', '.join(pipeline.blocks.sub_blocks)})"
        ) from error
    pipeline.update_components(**{name: component})


def _check_vocabulary(component: Any) -> None:
    """Refuse a tokenizer that transformers makes up where the files are missing: every text is empty to it."""
    tokenizer = getattr(component, "tokenizer", component)
    if not isinstance(tokenizer, PreTrainedTokenizerBase):
        return
    if not set(tokenizer.get_vocab()) - set(tokenizer.get_added_vocab()) - set(tokenizer.all_special_tokens):
        raise ValueError("there is no vocabulary (tokenizer.json, vocab.json, ...)")


def _without(blocks: Any, names: Sequence[str]) -> Any:
    for name in names:
        if name not in blocks.sub_blocks:
            raise UserError(f"expected skip_blocks among {', '.join(blocks.sub_blocks)}, got {name!r}")
        blocks.sub_blocks.pop(name)
    return blocks


def has_classic_pipeline(model: str, revision: str | None) -> bool:
    """Say whether a model can be loaded as a classic pipeline, not only as a modular one."""
    try:
        DiffusionPipeline.load_config(model, revision=revision, local_files_only=only_local(model, revision))
    except OSError:
        return False
    return True


def has_guider(pipeline: Any) -> bool:
    """Say whether classifier-free guidance is a component of the pipeline, which holds its scale."""
    return getattr(pipeline, "guider", None) is not None


def set_guidance(pipeline: Any, pipeline_kwargs: Mapping[str, Any]) -> None:
    """Hand `guidance_scale` to the pipeline's guider, where it has one; elsewhere it is an input of the pipeline."""
    if has_guider(pipeline) and GUIDANCE in pipeline_kwargs:
        scale = float(pipeline_kwargs[GUIDANCE])
        # Some guiders are off until asked; a scale of 0 means off too, where distilled models are called with it.
        pipeline.update_components(guider=pipeline.guider.new(guidance_scale=scale, enabled=scale > 1))


def check_inputs(pipeline: Any, pipeline_kwargs: Mapping[str, Any], names: set[str]) -> None:
    """Refuse further inputs that a pipeline does not have, or that the generator sets itself.

    Args:
        pipeline: of diffusers.
        pipeline_kwargs: the further inputs.
        names: of all inputs of its blocks.

    Raises:
        UserError: names them.
    """
    own = sorted(_OWN_INPUTS & set(pipeline_kwargs))
    if own:
        raise UserError(
            f"expected pipeline_kwargs without {', '.join(own)}: cases give the texts and pictures, the generator's "
            "own arguments the number of steps and the size"
        )
    known = names - _OWN_INPUTS | ({GUIDANCE} if has_guider(pipeline) else set())
    unknown = sorted(set(pipeline_kwargs) - known)
    if unknown:
        raise UserError(
            f"{type(pipeline).__name__} has no input {', '.join(unknown)} (in pipeline_kwargs or {SETTINGS_FILE}); it "
            f"takes {', '.join(sorted(known))}"
        )


def needs_negative_prompt(pipeline: Any) -> bool:
    """Say whether guidance is on, but left out without a negative prompt.

    The text encoders of most pipelines look at the guider and take a blank prompt themselves. Where they do not, the
    guider would draw the prompted velocity towards itself, which changes nothing at twice the cost.
    """
    if not has_guider(pipeline) or hasattr(pipeline, "requires_unconditional_embeds"):
        return False
    return bool(pipeline.guider.num_conditions > 1)


def quantize_nf4(transformer: torch.nn.Module, compute_dtype: torch.dtype) -> None:
    """Hold the linear layers of a transformer's blocks in four bits (NF4, QLoRA, arXiv 2305.14314), blocks of 64.

    They are packed when they are moved to a device. Embeddings, norms and the output layer stay as they are, and so do
    the encoders, which `offload_encoders` keeps off the device. Diffusers' own loader does the same, but only where
    there is a GPU, and for all layers.

    Raises:
        UserError: when bitsandbytes is not installed.
    """
    bitsandbytes: Any = require("bitsandbytes", feature="quantize: nf4", extra="quantize")
    for name in block_linears(transformer):
        linear = transformer.get_submodule(name)
        packed = bitsandbytes.nn.Linear4bit(
            linear.in_features, linear.out_features, bias=linear.bias is not None, compute_dtype=compute_dtype,
            compress_statistics=False, quant_type="nf4", device="meta",
        )  # fmt: skip
        packed.weight = bitsandbytes.nn.Params4bit(
            linear.weight.data, requires_grad=False, compress_statistics=False, quant_type="nf4", module=packed
        )
        packed.bias = linear.bias
        packed.compute_type_is_set = True  # else the dtype of its first input would decide
        packed.support_avx512bf16_for_cpu = False  # a layout for inference, through which no gradient flows
        transformer.set_submodule(name, packed.eval())
    vars(transformer)["is_loaded_in_4bit"] = True  # how PEFT knows which kind of adapter layer it needs


def run_where_transformer_is(pipeline: Any) -> None:
    """Make a pipeline's blocks put their tensors where the transformer is, and not where the first component is."""
    kind = type(pipeline)
    device = property(lambda self: self.transformer.device)
    pipeline.__class__ = type(kind.__name__, (kind,), {"_execution_device": device, "__module__": kind.__module__})
