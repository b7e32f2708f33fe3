"""The files of a saved reward model, and the checks that keep them together with the right base."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Protocol

import safetensors.torch
from pydantic import Field, ValidationError
from safetensors import SafetensorError
from torch import nn

from gnomon.errors import UserError
from gnomon.files import TEMPORARY_SUFFIX, writing
from gnomon.hashing import file_hash, stable_hash
from gnomon.records import Record

MANIFEST = "reward_model.json"
HEAD_FILE = "head.safetensors"
ADAPTER_FILE = "adapter_model.safetensors"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")
_TAIL_BYTES = 1 << 16


class HashedPrompts(Protocol):
    """What has a template hash and a preprocessing hash: the prompt encoder."""

    @property
    def template_hash(self) -> str:
        """Hash of everything that shapes the text."""

    @property
    def preprocessing_hash(self) -> str:
        """Hash of everything that shapes the pixels."""


class RewardModelManifest(Record):
    """What `reward_model.json` holds.

    `base` is a path relative to the folder, an absolute path or a name on the hub.
    """

    format: int = 1
    base: str
    base_fingerprint: str
    dimensions: list[str]
    template: str
    end_marker: str
    template_hash: str
    preprocessing_hash: str
    dtype: str
    quantize: Literal["nf4"] | None = None
    lora: dict[str, Any] | None
    uncertainty: bool = False
    temperatures: dict[str, float] = Field(default_factory=dict)

    def check_hashes(self, folder: Path, encoder: HashedPrompts) -> None:
        """Compare with what was loaded.

        Raises:
            UserError: when template or preprocessing is not what the model was trained with.
        """
        for what in ("template", "preprocessing"):
            if getattr(encoder, f"{what}_hash") != getattr(self, f"{what}_hash"):
                raise UserError(
                    f"{folder}: the {what} is not the one that the model was trained with (its hash differs from "
                    f"{MANIFEST}); restore the folder's files, or train again"
                )


def read_manifest(folder: Path) -> RewardModelManifest:
    """Read `reward_model.json`.

    Raises:
        UserError: when it is missing or broken.
    """
    try:
        return RewardModelManifest.model_validate_json((folder / MANIFEST).read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise UserError(f"expected a reward model with {MANIFEST}, got {folder}; `gnomon rm fit` writes one") from error
    except ValidationError as error:
        raise UserError(f"expected a {MANIFEST} of this version of gnomon in {folder}: {error}") from error


def resolve_base(name: str, *, beside: Path | None = None) -> str:
    """Return where the base model is: an existing folder as an absolute path, or a name on the hub as it is.

    Args:
        name: a path (relative ones are tried from `beside` first, then from here) or a name on the hub.
        beside: the folder of the reward model that names it.

    Raises:
        UserError: when it is neither.
    """
    tried = [] if beside is None else [beside / name]
    tried.append(Path(name))
    for folder in tried:
        if folder.is_dir():
            return str(folder.resolve())
    if _HUB_NAME.fullmatch(name) and not name.startswith("."):
        return name
    raise UserError(
        f"expected the base model in {' or '.join(str(folder) for folder in tried)}, there is no such folder; "
        "give the folder where it is as base"
    )


def relative_to(base: str, folder: Path) -> str:
    """Return how a reward model in `folder` names its base: relative if it is a folder, so that both can move."""
    if not Path(base).is_dir():
        return base
    return Path(os.path.relpath(base, folder.resolve())).as_posix()


def base_fingerprint(base: str) -> str:
    """Return a hash of the base model that is cheap for large ones: config, and names, sizes and tails of the weights.

    A name on the hub is its own fingerprint.
    """
    folder = Path(base)
    if not folder.is_dir():
        return stable_hash(base)
    weights = [[file.name, file.stat().st_size, _tail_hash(file)] for file in sorted(folder.glob("*.safetensors"))]
    return stable_hash([file_hash(folder / "config.json"), weights])


def _tail_hash(file: Path) -> str:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - _TAIL_BYTES))
        return stable_hash(stream.read().hex())


def save_head(head: nn.Module, file: Path) -> None:
    """Write the heads in float32."""
    state = {name: value.detach().float().cpu().contiguous() for name, value in head.state_dict().items()}
    safetensors.torch.save_file(state, file)


def load_head(head: nn.Module, folder: Path) -> None:
    """Fill the heads.

    Raises:
        UserError: when the file is missing or of another shape.
    """
    try:
        head.load_state_dict(safetensors.torch.load_file(folder / HEAD_FILE))
    except (OSError, SafetensorError, RuntimeError) as error:
        raise UserError(
            f"expected heads {list(head.get_parameter('weight').shape)} in {folder / HEAD_FILE}: {error}"
        ) from error


def check_adapter(folder: Path) -> None:
    """Refuse an adapter that is missing or does nothing.

    A LoRA whose B matrices are all zero is the identity: a reward model of that kind scores with the base alone, and
    such weights have been released by mistake.

    Raises:
        UserError: in both cases.
    """
    file = folder / ADAPTER_FILE
    try:
        weights = safetensors.torch.load_file(file)
    except (OSError, SafetensorError) as error:
        raise UserError(f"expected a LoRA adapter in {file}: {error}") from error
    if not any(bool(value.any()) for name, value in weights.items() if ".lora_B." in name):
        raise UserError(f"the LoRA adapter in {file} is the identity (all B matrices are zero); it was never trained")


@contextmanager
def replace_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of `folder` when the block ends well.

    Raises:
        UserError: when `folder` holds anything but a reward model.
    """
    if folder.exists() and not (folder / MANIFEST).is_file() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"expected an empty folder or a reward model to replace, got {folder}; choose another one")
    temporary = folder.with_name(f".{folder.name}-{uuid.uuid4().hex}{TEMPORARY_SUFFIX}")
    with writing(folder):
        temporary.mkdir(parents=True)
        try:
            yield temporary
            if folder.exists():
                shutil.rmtree(folder)
            temporary.rename(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def write_card(folder: Path, manifest: RewardModelManifest, notes: Mapping[str, Any]) -> None:
    """Write `README.md`, in place of the empty form that PEFT leaves."""
    lora = "none (heads only)" if manifest.lora is None else ", ".join(f"{k} {v}" for k, v in manifest.lora.items())
    precision = manifest.dtype if manifest.quantize is None else f"{manifest.dtype}, {manifest.quantize}"
    lines = [
        "---",
        "library_name: gnomon",
        f"base_model: {manifest.base}",
        "tags: [reward-model, image-editing]",
        "---",
        "",
        "# A reward model of image edits",
        "",
        "Scores an edited picture, given the instruction and the source pictures; larger is better, and only the",
        "order of scores under one instruction has a meaning.",
        "",
        f"- dimensions: {', '.join(manifest.dimensions)}",
        f"- base model: `{manifest.base}` ({precision}, frozen)",
        f"- LoRA: {lora}",
        f"- heads: {'mean and standard deviation' if manifest.uncertainty else 'one score'} per dimension",
        *(
            f"- {name}: P(first better) = sigmoid(difference / {temperature:.3g}), fitted on the validation data"
            for name, temperature in manifest.temperatures.items()
        ),
        f"- template: `{manifest.template!r}`, read at `{manifest.end_marker}`",
        *(f"- {name}: {value}" for name, value in notes.items()),
        "",
        "```python",
        "from rm.reward_model import RewardModel",
        "",
        'model = RewardModel.from_pretrained("this folder")',
        "model.score(instruction=..., references=[...], candidates=[...])",
        "```",
        "",
    ]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")
