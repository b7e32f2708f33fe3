"""EfficientNet-Lite0 with its published ImageNet weights: classes, one vector for a picture, or one for each cell.

Architecture: EfficientNet-B0 (Tan and Le 2019, arXiv 1905.11946) without squeeze-and-excitation and with ReLU6 in place
of swish. Conventions of the weights: RGB of 224 x 224, (pixel - 127) / 128, padding as TensorFlow's SAME, epsilon of
batch normalisation 1e-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn
from torch.nn.functional import pad, relu6

from bench.evaluators.offline import EFFICIENTNET_LITE0, locate

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

SIZE = 224
DIMENSION = 1280
NUM_CLASSES = 1000

_STAGES = (  # expansion, kernel, stride, channels, repeats
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


class _SameConv(nn.Conv2d):
    """A convolution without bias, padded so that the output has ceil(input / stride) cells; the odd one goes last."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__(inputs, outputs, kernel, stride, groups=groups, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        kernel, stride = self.kernel_size[0], self.stride[0]
        vertical, horizontal = (max((-(-side // stride) - 1) * stride + kernel - side, 0) for side in x.shape[-2:])
        sides = (horizontal // 2, horizontal - horizontal // 2, vertical // 2, vertical - vertical // 2)
        return super().forward(pad(x, sides))


def _norm(channels: int) -> nn.BatchNorm2d:
    return nn.BatchNorm2d(channels, eps=1e-3)


class _Block(nn.Module):
    """An inverted residual: expand, filter each channel, project."""

    def __init__(self, inputs: int, outputs: int, expansion: int, kernel: int, stride: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expands, self.is_residual = expansion > 1, stride == 1 and inputs == outputs
        if self.expands:
            self.expand_conv, self.bn0 = _SameConv(inputs, inner, 1), _norm(inner)
        self.depthwise_conv, self.bn1 = _SameConv(inner, inner, kernel, stride, groups=inner), _norm(inner)
        self.project_conv, self.bn2 = _SameConv(inner, outputs, 1), _norm(outputs)

    def forward(self, x: Tensor) -> Tensor:
        inner = relu6(self.bn0(self.expand_conv(x))) if self.expands else x
        inner = relu6(self.bn1(self.depthwise_conv(inner)))
        projected: Tensor = self.bn2(self.project_conv(inner))
        return projected + x if self.is_residual else projected


class EfficientNetLite0(nn.Module):
    """The network; parts are named as in the published weights, without their leading underscores."""

    def __init__(self) -> None:
        super().__init__()
        self.conv_stem, self.bn0 = _SameConv(3, 32, 3, 2), _norm(32)
        blocks, inputs = [], 32
        for expansion, kernel, stride, channels, repeats in _STAGES:
            for repeat in range(repeats):
                blocks.append(_Block(inputs, channels, expansion, kernel, stride if repeat == 0 else 1))
                inputs = channels
        self.blocks = nn.ModuleList(blocks)
        self.conv_head, self.bn1 = _SameConv(inputs, DIMENSION, 1), _norm(DIMENSION)
        self.fc = nn.Linear(DIMENSION, NUM_CLASSES)

    def after_block(self, x: Tensor, block: int) -> Tensor:
        """Return the features after a block (0..15), which ends linearly: shape (picture, channel, row, column)."""
        x = relu6(self.bn0(self.conv_stem(x)))
        for layer in self.blocks[: block + 1]:
            x = layer(x)
        return x

    def last_map(self, x: Tensor) -> Tensor:
        """Return the features before they are pooled: shape (picture, 1280, row, column), in 0..6."""
        return relu6(self.bn1(self.conv_head(self.after_block(x, len(self.blocks) - 1))))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of ImageNet's classes: shape (picture, 1000)."""
        logits: Tensor = self.fc(self.last_map(x).mean((-2, -1)))
        return logits


def load_lite0(path: str | Path | None = None) -> EfficientNetLite0:
    """Return the network with the published weights, for inference.

    Args:
        path: of the weights; they are looked for where packages are by default.

    Raises:
        UserError: when they are not there, see :func:`bench.evaluators.offline.locate`.
    """
    state = torch.load(locate(EFFICIENTNET_LITE0, path), map_location="cpu", weights_only=True)
    network = EfficientNetLite0()
    network.load_state_dict({name.replace("._", ".").removeprefix("_"): value for name, value in state.items()})
    return network.requires_grad_(False).eval()


def lite0_pixels(images: Sequence[Picture], size: tuple[int, int] = (SIZE, SIZE)) -> Tensor:
    """Return RGB pictures, resized to (width, height) as a whole, as the network takes them."""
    arrays: list[NDArray[np.float32]] = [
        np.asarray(image.resize(size, Image.Resampling.BICUBIC), dtype=np.float32) for image in images
    ]
    return (torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2) - 127) / 128
