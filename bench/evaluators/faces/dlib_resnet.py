"""dlib's ResNet of 29 layers as a recogniser, with the weights that the npm package @vladmandic/face-api carries.

Its vectors are compared by their distance, not by the angle between them: below .6 dlib calls two faces those of one
person. The similarity is `1 - distance`, cut off at 0.

Source: King, "High Quality Face Recognition with Deep Metric Learning", dlib's blog, 2017 (the weights are CC0). In
that package they are rounded to 8 bits, which moves vectors by some .04 (measured against dlib on the same faces).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from bench.evaluators.faces.alignment import DLIB
from bench.evaluators.faces.weights import load_weights
from bench.evaluators.offline import locate, npm_file
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from rm.devices import check_device, own_device

if TYPE_CHECKING:
    from PIL import Image

_REQUIREMENT = "@vladmandic/face-api@1.7.15"
WEIGHTS = npm_file(
    "@vladmandic/face-api/model/face_recognition_model.bin",
    "b413e420d6840b2775fba32008db6f3cddb07d485967fb42cfcf379c16a8c589",
    _REQUIREMENT,
)
MANIFEST = npm_file(
    "@vladmandic/face-api/model/face_recognition_model-weights_manifest.json",
    "cbaffa501b0b9275a12b63357a6843e7e30c054e1c9151e1a5f879b26e32986b",
    _REQUIREMENT,
)

MEAN = (122.782, 117.001, 104.298)
UNITS = (
    *("conv32_1", "conv32_2", "conv32_3", "conv64_down", "conv64_1", "conv64_2", "conv64_3"),
    *("conv128_down", "conv128_1", "conv128_2", "conv256_down", "conv256_1", "conv256_2", "conv256_down_out"),
)


class _Convolution(nn.Module):
    """A convolution, then a factor and a summand per channel."""

    def __init__(self, channels: int, out_channels: int, kernel: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, out_channels, kernel, stride, 0 if stride == 2 else kernel // 2)
        self.scale = nn.Parameter(torch.ones(out_channels))
        self.shift = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.conv(x) * self.scale[:, None, None] + self.shift[:, None, None]
        return out


class _Unit(nn.Module):
    """Two convolutions around a shortcut; where it halves the size, the smaller of the two is filled up with zeros."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.conv1 = _Convolution(channels, out_channels, 3, stride)
        self.conv2 = _Convolution(out_channels, out_channels, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        out = self.conv2(F.relu(self.conv1(x)))
        shortcut = F.avg_pool2d(x, 2, 2) if self.stride == 2 else x
        out = F.pad(out, (0, shortcut.shape[3] - out.shape[3], 0, shortcut.shape[2] - out.shape[2]))
        return F.relu(out + F.pad(shortcut, (0, 0, 0, 0, 0, out.shape[1] - shortcut.shape[1])))


class DlibResNet(nn.Module):
    """Straightened faces [n, 3, 150, 150] in RGB, 0 to 255, to vectors [n, 128], which are not of unit length."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.conv32_down = _Convolution(3, 32, 7, 2)
        channels = 32
        for name in UNITS:
            out_channels = int(name.removeprefix("conv").partition("_")[0])
            self.add_module(name, _Unit(channels, out_channels, 2 if "down" in name else 1))
            channels = out_channels
        self.fc = nn.Linear(channels, 128, bias=False)
        self.register_buffer("mean", torch.tensor(MEAN)[:, None, None], persistent=False)

    def forward(self, faces: Tensor) -> Tensor:
        """Return the vectors."""
        x = F.max_pool2d(F.relu(self.conv32_down((faces - self.mean) / 256)), 3, 2)
        for name in UNITS:
            x = getattr(self, name)(x)
        out: Tensor = self.fc(x.mean(dim=(2, 3)))
        return out


class DlibRecognizer:
    """Tells faces apart by dlib's ResNet.

    Args:
        folder: with face_recognition_model.bin and its manifest; those of @vladmandic/face-api by default.
        device: where to run, such as "cpu" or "cuda" (this rank's device).
        batch_size: faces at once.

    Raises:
        UserError: when weights are missing, with what to install, or are others; and for an unknown device.
    """

    name = "dlib-resnet29, 1 - distance"
    template = DLIB

    def __init__(self, folder: str | Path | None = None, *, device: str = "cpu", batch_size: int = 32) -> None:
        self._device, self.batch_size = check_device(device), batch_size
        self._files = [Path(folder) / file.name if folder is not None else locate(file) for file in (MANIFEST, WEIGHTS)]
        self._net = DlibResNet()
        load_weights(self._net, read_quantized(*self._files), self._files[1])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights and of how faces are compared."""
        return stable_hash([self.name, 1, [file_hash(file) for file in self._files]])

    @torch.inference_mode()
    def embed(self, chips: Sequence[Image.Image]) -> NDArray[Any]:
        """Return a vector for each straightened face, float32 [faces, 128]."""
        if not chips:
            return np.zeros((0, 128), np.float32)
        device = own_device(self._device)
        pixels = torch.from_numpy(np.stack([np.asarray(chip, dtype=np.float32) for chip in chips]))
        parts = pixels.permute(0, 3, 1, 2).split(self.batch_size)
        vectors = [self._net.to(device)(part.to(device)).cpu() for part in parts]
        found: NDArray[Any] = torch.cat(vectors).numpy()
        return found

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return one less the distance, 0 at least."""
        distances = cdist(first.astype(np.float64), second.astype(np.float64))
        return np.clip(1 - distances, 0, 1)


def read_quantized(manifest: Path, weights: Path) -> dict[str, Tensor]:
    """Return the state of a :class:`DlibResNet` from TensorFlow.js' format, with filters in torch's order.

    Raises:
        UserError: when a file cannot be read, or the two do not belong together.
    """
    try:
        entries = [entry for group in json.loads(manifest.read_bytes()) for entry in group["weights"]]
        content = weights.read_bytes()
        return {_torch_name(entry["name"]): value for entry, value in _dequantized(entries, content)}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"expected weights of TensorFlow.js in {manifest} and {weights}: {error!r}") from error


def _dequantized(entries: Sequence[Mapping[str, Any]], content: bytes) -> Iterator[tuple[Mapping[str, Any], Tensor]]:
    offset = 0
    for entry in entries:
        quantization = entry.get("quantization")
        kind = np.dtype(quantization["dtype"] if quantization else entry["dtype"])
        count = int(np.prod(entry["shape"]))
        values = np.frombuffer(content, kind, count, offset).reshape(entry["shape"]).astype(np.float32)
        offset += count * kind.itemsize
        if quantization:
            values = values * np.float32(quantization["scale"]) + np.float32(quantization["min"])
        order = {4: (3, 2, 0, 1), 2: (1, 0), 1: (0,)}[values.ndim]
        yield entry, torch.from_numpy(np.ascontiguousarray(values.transpose(order)))
    if offset != len(content):
        raise ValueError(f"the manifest describes {offset} bytes, the file has {len(content)}")


def _torch_name(name: str) -> str:
    endings = {
        "conv/filters": "conv.weight",
        "conv/bias": "conv.bias",
        "scale/weights": "scale",
        "scale/biases": "shift",
    }
    for ending, ours in endings.items():
        if name.endswith(ending):
            return name.removesuffix(ending).replace("/", ".") + ours
    return "fc.weight" if name == "fc" else name
