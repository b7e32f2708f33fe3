"""Small ONNX files, written byte by byte after onnx.proto, so that tests need no package but the one that runs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

_FLOAT = 1


def write_means(path: Path, *, side: int, batch: int | None = None) -> Path:
    """Write a network from pictures to the mean of each channel [n, 3]."""
    nodes = [_node("GlobalAveragePool", ["x"], ["mean"]), _node("Flatten", ["mean"], ["y"])]
    return _write(path, nodes, _value("x", [batch, 3, side, side]), _value("y", [batch, 3]))


def write_pixels(path: Path, *, side: int, classes: int) -> Path:
    """Write a network from pictures to scores [n, classes, side, side]: class 0 is the red channel, the others 0."""
    weight = np.zeros((classes, 3, 1, 1), np.float32)
    weight[0, 0] = 1
    nodes = [_node("Conv", ["x", "w"], ["y"])]
    return _write(path, nodes, _value("x", [None, 3, side, side]), _value("y", [None, classes, side, side]), weight)


def _write(path: Path, nodes: Sequence[bytes], x: bytes, y: bytes, weight: np.ndarray | None = None) -> Path:
    initializer = b"" if weight is None else _field(5, _tensor("w", weight))
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"g") + initializer + _field(11, x) + _field(12, y)
    opset = _field(8, _number(2, 17))
    path.write_bytes(_number(1, 8) + _field(7, graph) + opset)
    return path


def _varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + _varint(rest) if rest else bytes([low])


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _node(kind: str, inputs: Sequence[str], outputs: Sequence[str]) -> bytes:
    names = b"".join(_field(1, name.encode()) for name in inputs) + b"".join(
        _field(2, name.encode()) for name in outputs
    )
    return names + _field(4, kind.encode())


def _value(name: str, shape: Sequence[int | None]) -> bytes:
    sides = b"".join(_field(1, _field(2, b"n") if side is None else _number(1, side)) for side in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _number(1, _FLOAT) + _field(2, sides)))


def _tensor(name: str, value: np.ndarray) -> bytes:
    sides = b"".join(_number(1, side) for side in value.shape)
    return sides + _number(2, _FLOAT) + _field(8, name.encode()) + _field(9, value.astype("<f4").tobytes())
