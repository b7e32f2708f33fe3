"""Vision models of transformers: weights, preprocessing as the checkpoint says it, and a fingerprint of both.

Pictures go through the PIL backend of transformers on every machine, so that a score does not depend on whether
torchvision is installed. Two families that transformers prepares with torchvision alone get their own settings over the
same backend here; they differ from torchvision's by the rounding of resized pixels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import AutoConfig, AutoImageProcessor, PreTrainedModel
from transformers.image_processing_backends import PilBackend
from transformers.image_utils import PILImageResampling

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.hub import cached_file, reason_of
from rm.devices import check_device, own_device
from rm.storage import base_fingerprint
from rm.vlm.loading import DTYPES


class _DINOv3(PilBackend):
    """What DINOv3 checkpoints leave out of their files."""

    resample = PILImageResampling.BILINEAR
    image_mean, image_std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
    size = {"height": 224, "width": 224}  # noqa: RUF012  # transformers reads these off the class
    do_resize = do_rescale = do_normalize = do_convert_rgb = True


class _SAM3(PilBackend):
    """What SAM 3 checkpoints leave out of their files."""

    resample = PILImageResampling.BILINEAR
    image_mean, image_std = [0.5, 0.5, 0.5], [0.5, 0.5, 0.5]
    size = {"height": 1008, "width": 1008}  # noqa: RUF012
    do_resize = do_rescale = do_normalize = do_convert_rgb = True


_WITHOUT_PIL: dict[str, type[PilBackend]] = {"dinov3_vit": _DINOv3, "sam3": _SAM3}


class VisionModel:
    """A model and its image processor, on this process's device.

    Args:
        auto: the class that loads the model: AutoModel or one of its kin.
        what: what is loaded, with its article, for messages.
        name: a folder, or a name on the hub.
        revision: commit, tag or branch on the hub.
        dtype: of weights and computation: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda" (this rank's device); the model is moved there when it is first used.

    Attributes:
        name: of the model, without its folder or owner.
        source: where it was loaded from.
        config: the model's.
        processor: the image processor.

    Raises:
        UserError: when there is no such model, or no such device.
    """

    def __init__(
        self, auto: Any, what: str, name: str | Path, *, revision: str | None, dtype: str, device: str
    ) -> None:
        if dtype not in DTYPES:
            raise UserError(f"expected dtype {', '.join(DTYPES)}, got {dtype!r}")
        self.source = str(Path(name).resolve() if Path(name).is_dir() else name)
        self.revision, self._dtype = revision, dtype
        self.name, self._device = Path(self.source).name, check_device(device)
        options: dict[str, Any] = {} if revision is None else {"revision": revision}
        noun = what.partition(" ")[2]
        if not Path(self.source).is_dir() and cached_file(noun, self.source, ["config.json"], revision) is not None:
            options["local_files_only"] = True  # the hub does not answer, and its cache has the model
        try:
            self.config = AutoConfig.from_pretrained(self.source, **options)
            self.processor: Any = _image_processor(self.source, self.config.model_type, options)
            model: PreTrainedModel = auto.from_pretrained(self.source, dtype=DTYPES[dtype], **options)
        except (OSError, ValueError, ImportError, RuntimeError) as error:  # RuntimeError: weights of other shapes
            raise UserError(
                f"expected {what} that {auto.__name__} loads at {self.source}: {reason_of(error)}"
            ) from error
        self._model = model.requires_grad_(False).eval()

    @property
    def fingerprint(self) -> str:
        """Hash of weights, preprocessing and precision."""
        settings = self.processor.to_dict()
        # The type's name says which backend wrote the file, not what happens to pixels.
        preprocessing = {key: value for key, value in settings.items() if key != "image_processor_type"}
        commit = getattr(self.config, "_commit_hash", None) or self.revision
        return stable_hash([base_fingerprint(self.source), commit, self._dtype, preprocessing])

    @property
    def model(self) -> Any:
        """The model, on the device."""
        device = own_device(self._device)
        if self._model.device != device:
            self._model.to(device)
        return self._model

    def prepare(self, images: list[Image.Image], **settings: Any) -> torch.Tensor:
        """Return pictures as the model takes them: shape (picture, 3, height, width), on the device.

        Args:
            images: RGB, 8 bits a channel, so that values are scaled to 0..1 exactly once, by the image processor.
            settings: what the image processor shall do otherwise than its checkpoint says.

        Raises:
            ValueError: for pictures of an impossible shape.
        """
        pixels: torch.Tensor = self.processor(images, return_tensors="pt", **settings)["pixel_values"]
        return pixels.to(self.model.device, DTYPES[self._dtype])


def _image_processor(name: str, model_type: str, options: dict[str, Any]) -> Any:
    if model_type in _WITHOUT_PIL:
        return _WITHOUT_PIL[model_type].from_pretrained(name, **options)
    return AutoImageProcessor.from_pretrained(name, backend="pil", **options)
