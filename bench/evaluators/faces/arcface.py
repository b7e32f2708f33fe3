"""ArcFace recognisers: the IR-SE residual networks from their state dicts, and any network from an ONNX file.

Sources: Deng et al. 2019 (arXiv 1801.07698), ArcFace and its improved residual units; Hu et al. 2018 (arXiv
1709.01507), squeeze and excitation. Layers are called as in the widely used `model_ir_se50.pth`, so that it loads as it
is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from bench.evaluators.cosine import cosines
from bench.evaluators.faces.alignment import ARCFACE
from bench.evaluators.faces.weights import load_weights, read_state
from bench.evaluators.onnx import OnnxModel
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from rm.devices import check_device, own_device

if TYPE_CHECKING:
    from PIL import Image

MIDDLE = 127.5
"""Colours are brought from 0..255 to -1..1."""

Unit = tuple[int, int, int]
"""Channels in, channels out, stride."""


class _SqueezeExcitation(nn.Module):
    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Conv2d(channels, squeezed, 1, bias=False), nn.Conv2d(squeezed, channels, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        weights: Tensor = self.fc2(torch.relu(self.fc1(x.mean(dim=(2, 3), keepdim=True)))).sigmoid()
        return x * weights


class _Unit(nn.Module):
    def __init__(self, channels: int, out_channels: int, stride: int, squeezed: int) -> None:
        super().__init__()
        self.shortcut_layer: nn.Module = nn.MaxPool2d(1, stride)
        if channels != out_channels:
            projection = nn.Conv2d(channels, out_channels, 1, stride, bias=False)
            self.shortcut_layer = nn.Sequential(projection, nn.BatchNorm2d(out_channels))
        self.res_layer = nn.Sequential(
            nn.BatchNorm2d(channels),
            nn.Conv2d(channels, out_channels, 3, 1, 1, bias=False),
            nn.PReLU(out_channels),
            nn.Conv2d(out_channels, out_channels, 3, stride, 1, bias=False),
            nn.BatchNorm2d(out_channels),
            _SqueezeExcitation(out_channels, squeezed),
        )

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.res_layer(x) + self.shortcut_layer(x)
        return out


class IrSe(nn.Module):
    """Straightened faces [n, 3, 112, 112] in RGB, -1 to 1, to vectors of unit length [n, dimensions].

    Args:
        units: of the body; IR-SE50 has 24, of 64, 128, 256 and 512 channels.
        dimensions: of the vectors.
        squeezed: channels that the excitation of each unit is squeezed to; a 16th of the unit's in the published ones.
    """

    def __init__(self, units: Sequence[Unit], dimensions: int, squeezed: Sequence[int]) -> None:
        super().__init__()
        first, last = units[0][0], units[-1][1]
        self.input_layer = nn.Sequential(
            nn.Conv2d(3, first, 3, 1, 1, bias=False), nn.BatchNorm2d(first), nn.PReLU(first)
        )
        self.body = nn.Sequential(*(_Unit(*unit, width) for unit, width in zip(units, squeezed, strict=True)))
        side = ARCFACE.size
        for *_, stride in units:
            side = (side - 1) // stride + 1
        self.output_layer = nn.Sequential(
            nn.BatchNorm2d(last),
            nn.Dropout(0.5),
            nn.Flatten(),
            nn.Linear(last * side * side, dimensions),
            nn.BatchNorm1d(dimensions),
        )

    def forward(self, faces: Tensor) -> Tensor:
        """Return the vectors."""
        vectors: Tensor = self.output_layer(self.body(self.input_layer(faces)))
        return nn.functional.normalize(vectors)


def stages(widths: Sequence[int], depths: Sequence[int]) -> list[Unit]:
    """Return the units of a body: each stage halves the size in its first unit.

    Args:
        widths: channels of each stage; the first is also that of the input.
        depths: units of each stage.
    """
    inputs = [widths[0], *widths[:-1]]
    return [
        (before if place == 0 else width, width, 2 if place == 0 else 1)
        for before, width, depth in zip(inputs, widths, depths, strict=True)
        for place in range(depth)
    ]


IR_SE50 = stages((64, 128, 256, 512), (3, 4, 14, 3))


def ir_se_of(state: Mapping[str, Tensor]) -> IrSe:
    """Return the network that a state dict belongs to, whatever its depth and widths; without its weights.

    Raises:
        KeyError: when the state dict is of another network.
    """
    shapes: list[tuple[int, int]] = []
    while (weight := state.get(f"body.{len(shapes)}.res_layer.1.weight")) is not None:
        shapes.append((weight.shape[1], weight.shape[0]))
    widths = list(dict.fromkeys(out for _, out in shapes))
    depths = [sum(out == width for _, out in shapes) for width in widths]
    squeezed = [state[f"body.{place}.res_layer.5.fc1.weight"].shape[0] for place in range(len(shapes))]
    if not shapes:
        raise KeyError("body.0.res_layer.1.weight")
    return IrSe(stages(widths, depths), state["output_layer.3.weight"].shape[0], squeezed)


class IrSeRecognizer:
    """Tells faces apart by an IR-SE network trained with ArcFace, such as IR-SE50.

    Args:
        weights: its state dict, as safetensors or by `torch.save`.
        name: for people.
        device: where to run, such as "cpu" or "cuda" (this rank's device).
        batch_size: faces at once.

    Raises:
        UserError: when the file holds no such network; and for an unknown device.
    """

    template = ARCFACE

    def __init__(
        self, weights: str | Path, *, name: str = "arcface-ir-se50", device: str = "cpu", batch_size: int = 32
    ) -> None:
        self.name, self._weights, self.batch_size = name, Path(weights), batch_size
        self._device = check_device(device)
        state = read_state(weights)
        try:
            self._net = ir_se_of(state)
        except KeyError as error:
            raise UserError(f"expected the state dict of an IR-SE network in {weights}, it has no {error}") from error
        load_weights(self._net, state, weights)
        self._dimensions = len(state["output_layer.3.bias"])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the weights and of how faces are shown."""
        return stable_hash(["ir-se", 1, file_hash(self._weights)])

    @torch.inference_mode()
    def embed(self, chips: Sequence[Image.Image]) -> NDArray[Any]:
        """Return a vector of unit length for each straightened face, float32 [faces, dimensions]."""
        if not chips:
            return np.zeros((0, self._dimensions), np.float32)
        device = own_device(self._device)
        parts = torch.from_numpy(pixels_of(chips)).split(self.batch_size)
        vectors = torch.cat([self._net.to(device)(part.to(device)).cpu() for part in parts])
        found: NDArray[Any] = vectors.numpy()
        return found

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return cosines."""
        return cosines(first, second)


class OnnxRecognizer:
    """Tells faces apart by an ONNX file that takes one picture [n, 3, side, side], such as those of InsightFace.

    Args:
        path: the file.
        name: for people; the file's name by default.
        mean: taken from colours of 0..255.
        std: by which they are divided then.
        channels: their order, "rgb" or "bgr".
        device: where to run, such as "cpu" or "cuda" (this rank's device).

    Raises:
        UserError: when the file is no such network, onnxruntime is not installed, or for an unknown device.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        mean: float = MIDDLE,
        std: float = MIDDLE,
        channels: Literal["rgb", "bgr"] = "rgb",
        device: str = "cpu",
    ) -> None:
        self._model = OnnxModel(path, device=device)
        self._settings = (mean, std, channels)
        self.name = name or f"arcface ({Path(path).stem})"
        self.template = ARCFACE.scaled(self._model.side)
        if len(self._model.output_shape) != 1:
            raise UserError(f"expected one vector a face as first output of {path}, got {self._model.output_shape}")
        (self._dimensions,) = self._model.output_shape

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the file and of how faces are shown."""
        return stable_hash(["onnx-face", 1, self._model.fingerprint, list(self._settings)])

    def embed(self, chips: Sequence[Image.Image]) -> NDArray[Any]:
        """Return a vector of unit length for each straightened face, float32 [faces, dimensions]."""
        mean, std, channels = self._settings
        if not chips:
            return np.zeros((0, self._dimensions), np.float32)
        pixels = pixels_of(chips, mean=mean, std=std)
        vectors = self._model.run(pixels if channels == "rgb" else pixels[:, ::-1])
        found: NDArray[Any] = nn.functional.normalize(torch.from_numpy(vectors)).numpy()
        return found

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return cosines."""
        return cosines(first, second)


def pixels_of(chips: Sequence[Image.Image], *, mean: float = MIDDLE, std: float = MIDDLE) -> NDArray[np.float32]:
    """Return pictures of one size as numbers, float32 [n, 3, height, width]; n is 1 at least."""
    pixels = (np.stack([np.asarray(chip, dtype=np.float32) for chip in chips]) - np.float32(mean)) / np.float32(std)
    return np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))
