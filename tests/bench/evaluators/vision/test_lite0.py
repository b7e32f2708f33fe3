"""EfficientNet-Lite0: padding by hand, sizes, and classes of real photographs."""

from __future__ import annotations

import pytest
import torch
from PIL import Image
from torch import nn

from bench.evaluators.offline import EFFICIENTNET_LITE0
from bench.evaluators.vision.lite0 import EfficientNetLite0, _SameConv, lite0_pixels, load_lite0
from tests.bench.evaluators.photographs import need, photograph


@pytest.mark.parametrize(
    ("kernel", "stride", "side", "expected"),
    [
        (3, 1, 4, [3, 6, 9, 7]),  # one zero on each side
        (3, 2, 4, [6, 7]),  # the only zero goes last
        (3, 2, 5, [3, 9, 9]),
        (5, 2, 4, [10, 9]),
    ],
)
def test_padding_is_as_tensorflow_has_it(kernel: int, stride: int, side: int, expected: list[float]) -> None:
    convolution = _SameConv(1, 1, kernel, stride)
    nn.init.zeros_(convolution.weight)
    convolution.weight.data[0, 0, kernel // 2] = 1  # sums of rows
    row = torch.arange(1.0, side + 1)
    picture = row.expand(1, 1, side, side)
    with torch.no_grad():
        found = convolution(picture)
    assert found.shape[-2:] == (len(expected), len(expected))
    assert found[0, 0, 0].tolist() == expected


def test_the_network_is_as_large_as_published_and_its_maps_shrink_by_eight_and_thirty_two() -> None:
    network = EfficientNetLite0().eval()
    assert sum(weight.numel() for weight in network.parameters()) == 4_652_008
    with torch.no_grad():
        pixels = lite0_pixels([Image.new("RGB", (50, 80))])
        assert pixels.shape == (1, 3, 224, 224)
        assert float(pixels.min()) == float(pixels.max()) == pytest.approx(-127 / 128)
        assert network.after_block(pixels, 4).shape == (1, 40, 28, 28)
        assert network.last_map(pixels).shape == (1, 1280, 7, 7)
        assert network(pixels).shape == (1, 1000)


def test_classes_of_photographs_are_those_of_the_published_weights() -> None:
    need(EFFICIENTNET_LITE0)
    network = load_lite0()
    with torch.no_grad():
        flower = network(lite0_pixels([photograph("flower")])).softmax(-1)[0]
    assert int(flower.argmax()) == 985  # daisy
    pictures = [photograph("cat"), photograph("coffee")]
    with torch.no_grad():
        found = network(lite0_pixels(pictures)).softmax(-1)
    assert found.argmax(-1).tolist() == [285, 967]  # Egyptian cat, espresso
    assert found.amax(-1).tolist() == pytest.approx([0.77, 0.90], abs=0.02)
