"""IR-SE networks: the published layout, loaded from a state dict of any depth; and recognisers from ONNX files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor

from bench.evaluators.faces.arcface import IR_SE50, IrSe, IrSeRecognizer, OnnxRecognizer, ir_se_of, stages
from gnomon.errors import UserError
from tests.bench.evaluators.onnx_files import write_means, write_pixels

TINY = stages((4, 8), (2, 1))


def tiny() -> IrSe:
    """Return a small network whose layers all do something."""
    torch.manual_seed(0)
    net = IrSe(TINY, 16, [2, 2, 2])
    for name, value in [*net.named_parameters(), *net.named_buffers()]:
        if value.is_floating_point():
            value.data = torch.rand_like(value) * 0.5 + 0.5 if "running_var" in name else torch.randn_like(value) * 0.3
    return net.eval()


def chips(count: int) -> list[Image.Image]:
    pixels = np.random.default_rng(0).integers(0, 256, (count, 112, 112, 3), dtype=np.uint8)
    return [Image.fromarray(each) for each in pixels]


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.save(tiny().state_dict(), tmp_path / "tiny.pth")
    return tmp_path / "tiny.pth"


def by_hand(x: Tensor, state: Mapping[str, Tensor]) -> Tensor:
    """The forward pass in plain functions, from the names of the published state dict."""

    def norm(x: Tensor, name: str) -> Tensor:
        mean, variance = state[f"{name}.running_mean"], state[f"{name}.running_var"]
        shape = (1, -1, *[1] * (x.ndim - 2))
        scaled = (x - mean.reshape(shape)) / (variance.reshape(shape) + 1e-5).sqrt()
        out: Tensor = scaled * state[f"{name}.weight"].reshape(shape) + state[f"{name}.bias"].reshape(shape)
        return out

    def prelu(x: Tensor, weight: Tensor) -> Tensor:
        return torch.where(x > 0, x, x * weight[None, :, None, None])

    x = prelu(
        norm(F.conv2d(x, state["input_layer.0.weight"], padding=1), "input_layer.1"), state["input_layer.2.weight"]
    )
    for place, (channels, out_channels, stride) in enumerate(TINY):
        unit = f"body.{place}"
        residual = norm(x, f"{unit}.res_layer.0")
        residual = prelu(
            F.conv2d(residual, state[f"{unit}.res_layer.1.weight"], padding=1), state[f"{unit}.res_layer.2.weight"]
        )
        residual = norm(
            F.conv2d(residual, state[f"{unit}.res_layer.3.weight"], stride=stride, padding=1), f"{unit}.res_layer.4"
        )
        squeezed = F.relu(F.conv2d(residual.mean((2, 3), True), state[f"{unit}.res_layer.5.fc1.weight"]))
        residual = residual * F.conv2d(squeezed, state[f"{unit}.res_layer.5.fc2.weight"]).sigmoid()
        shortcut = x[:, :, ::stride, ::stride]
        if channels != out_channels:
            shortcut = norm(
                F.conv2d(x, state[f"{unit}.shortcut_layer.0.weight"], stride=stride), f"{unit}.shortcut_layer.1"
            )
        x = residual + shortcut
    x = norm(x, "output_layer.0").flatten(1)
    x = norm(x @ state["output_layer.3.weight"].T + state["output_layer.3.bias"], "output_layer.4")
    vectors: Tensor = x / x.norm(dim=1, keepdim=True)
    return vectors


def test_vectors_are_those_of_the_formulas(weights: Path) -> None:
    pixels = torch.stack([torch.from_numpy(np.array(chip)).permute(2, 0, 1) for chip in chips(3)]).double() / 127.5 - 1
    state = {name: value.double() for name, value in tiny().state_dict().items()}
    found = IrSeRecognizer(weights, batch_size=2).embed(chips(3))
    np.testing.assert_allclose(found, by_hand(pixels, state), atol=2e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)


def test_ir_se50_has_the_published_layout() -> None:
    with torch.device("meta"):
        net = IrSe(IR_SE50, 512, [width // 16 for _, width, _ in IR_SE50])
    state = net.state_dict()
    assert len(IR_SE50) == 24
    assert [unit for unit in IR_SE50 if unit[2] == 2] == [(64, 64, 2), (64, 128, 2), (128, 256, 2), (256, 512, 2)]
    shapes = {name: tuple(state[name].shape) for name in state}
    # Names and shapes as in model_ir_se50.pth.
    assert shapes["input_layer.0.weight"] == (64, 3, 3, 3)
    assert shapes["input_layer.2.weight"] == (64,)
    assert "body.0.shortcut_layer.0.weight" not in shapes  # equal widths: a strided copy
    assert shapes["body.3.shortcut_layer.0.weight"] == (128, 64, 1, 1)
    assert shapes["body.3.shortcut_layer.1.running_var"] == (128,)
    assert shapes["body.23.res_layer.3.weight"] == (512, 512, 3, 3)
    assert shapes["body.23.res_layer.5.fc1.weight"] == (32, 512, 1, 1)
    assert shapes["output_layer.3.weight"] == (512, 512 * 7 * 7)
    assert shapes["output_layer.4.running_mean"] == (512,)


def test_the_architecture_is_read_off_the_weights() -> None:
    with torch.device("meta"):
        whole = IrSe(IR_SE50, 512, [width // 16 for _, width, _ in IR_SE50]).state_dict()
        again = ir_se_of(whole).state_dict()
    assert {name: value.shape for name, value in again.items()} == {name: value.shape for name, value in whole.items()}


def test_safetensors_load_as_well(weights: Path, tmp_path: Path) -> None:
    save_file(tiny().state_dict(), tmp_path / "tiny.safetensors")
    one, other = IrSeRecognizer(weights), IrSeRecognizer(tmp_path / "tiny.safetensors")
    np.testing.assert_array_equal(one.embed(chips(2)), other.embed(chips(2)))
    assert one.fingerprint != IrSeRecognizer(_saved(tmp_path / "other.pth")).fingerprint


def _saved(path: Path) -> Path:
    torch.manual_seed(1)
    torch.save(IrSe(TINY, 16, [2, 2, 2]).state_dict(), path)
    return path


def test_no_faces_are_no_vectors(weights: Path) -> None:
    recognizer = IrSeRecognizer(weights)
    assert recognizer.embed([]).shape == (0, 16)
    assert recognizer.similarity(recognizer.embed(chips(2)), recognizer.embed([])).shape == (2, 0)


def test_what_is_no_ir_se_network_is_refused(tmp_path: Path) -> None:
    torch.save({"weight": torch.zeros(3)}, tmp_path / "other.pth")
    with pytest.raises(UserError, match=r"IR-SE network in .*other\.pth"):
        IrSeRecognizer(tmp_path / "other.pth")
    torch.save({"net": tiny()}, tmp_path / "pickled.pth")  # classes of the file's author, hence code
    with pytest.raises(UserError, match=r"weights .* at .*pickled\.pth"):
        IrSeRecognizer(tmp_path / "pickled.pth")
    state = tiny().state_dict()
    del state["body.1.res_layer.4.bias"]
    torch.save(state, tmp_path / "cut.pth")
    with pytest.raises(UserError, match=r"body\.1\.res_layer\.4\.bias"):
        IrSeRecognizer(tmp_path / "cut.pth")
    with pytest.raises(UserError, match=r"gone\.pth"):
        IrSeRecognizer(tmp_path / "gone.pth")


@pytest.mark.parametrize("batch", [None, 1])
def test_an_onnx_file_sees_colours_as_told(tmp_path: Path, batch: int | None) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'gnomon[offline]'")
    file = write_means(tmp_path / "means.onnx", side=112, batch=batch)
    images = [Image.new("RGB", (112, 112), colour) for colour in ((255, 51, 0), (0, 102, 255))]
    rgb = OnnxRecognizer(file)
    expected = np.array([[1, -0.6, -1], [-1, -0.2, 1]])
    np.testing.assert_allclose(rgb.embed(images), expected / np.linalg.norm(expected, axis=1)[:, None], atol=1e-4)
    bgr = OnnxRecognizer(file, channels="bgr", mean=0, std=255)
    expected = np.array([[0, 0.2, 1], [1, 0.4, 0]])
    np.testing.assert_allclose(bgr.embed(images), expected / np.linalg.norm(expected, axis=1)[:, None], atol=1e-4)
    assert rgb.embed([]).shape == (0, 3)
    assert rgb.fingerprint != bgr.fingerprint
    assert rgb.name == "arcface (means)"


def test_the_template_fits_the_onnx_file(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'gnomon[offline]'")
    assert OnnxRecognizer(write_means(tmp_path / "means.onnx", side=160)).template.size == 160


def test_an_onnx_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed: pip install 'gnomon[offline]'")
    with pytest.raises(UserError, match="one vector a face"):
        OnnxRecognizer(write_pixels(tmp_path / "pixels.onnx", side=8, classes=3))
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(UserError, match=r"onnxruntime runs at .*text\.onnx"):
        OnnxRecognizer(tmp_path / "text.onnx")
    with pytest.raises(UserError, match="there is no such file"):
        OnnxRecognizer(tmp_path / "gone.onnx")
