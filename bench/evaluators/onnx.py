"""Networks from ONNX files that take square pictures, run by onnxruntime (`gnomon[offline]` brings it)."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gnomon.errors import UserError
from gnomon.hashing import file_hash
from gnomon.optional import require
from rm.devices import check_device, own_device

PROVIDERS = {"cuda": "CUDAExecutionProvider", "cpu": "CPUExecutionProvider"}


class OnnxModel:
    """A network with one input [n, 3, side, side]; what counts is its first output.

    It takes as many threads as torch does, so that ranks on one machine do not fight over its cores.

    Args:
        path: the file.
        device: "cpu", or "cuda" (this rank's device), for which onnxruntime-gpu has to be installed.

    Attributes:
        side: of the pictures, in pixels.
        output_shape: what comes out for each picture.

    Raises:
        UserError: when onnxruntime is not installed, the file is no such network, or for an unknown device.
    """

    def __init__(self, path: str | Path, *, device: str = "cpu") -> None:
        self._runtime: Any = require("onnxruntime", feature="a network from an ONNX file", extra="offline")
        self._path, self._device = Path(path), check_device(device)
        if PROVIDERS.get(self._device.type) not in self._runtime.get_available_providers():
            raise UserError(
                f"expected a device that onnxruntime has, got {device!r}; on GPUs it needs: pip install onnxruntime-gpu"
            )
        if not self._path.is_file():
            raise UserError(f"expected an ONNX file at {path}, there is no such file")
        session = self._opened("cpu")
        shape, *more = [each.shape for each in session.get_inputs()]
        # Axes without a fixed size have a name, or none, in place of a number.
        if more or len(shape) != 4 or shape[1] != 3 or not isinstance(shape[3], int) or shape[2] != shape[3]:
            raise UserError(f"expected one input [n, 3, side, side] of {path}, got {[shape, *more]}")
        self.side: int = shape[3]
        self._takes_one = shape[0] == 1
        self.output_shape = _run(session, np.zeros((1, 3, self.side, self.side), np.float32)).shape[1:]

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the file."""
        return file_hash(self._path)

    def run(self, pictures: NDArray[Any]) -> NDArray[np.float32]:
        """Return the first output, float32 [n, ...], for pictures [n, 3, side, side]; n is 1 at least."""
        batch = np.ascontiguousarray(pictures, dtype=np.float32)
        parts = np.split(batch, len(batch)) if self._takes_one else [batch]
        return np.concatenate([_run(self._session, part) for part in parts])

    @cached_property
    def _session(self) -> Any:
        return self._opened(self._device.type)

    def _opened(self, kind: str) -> Any:
        options = self._runtime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        provider: Any = PROVIDERS[kind]
        if kind == "cuda":
            provider = (provider, {"device_id": own_device(self._device).index or 0})
        try:
            return self._runtime.InferenceSession(str(self._path), options, providers=[provider])
        except Exception as error:  # onnxruntime's own classes share no other ancestor
            raise UserError(f"expected a network that onnxruntime runs at {self._path}: {error}") from error


def _run(session: Any, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.asarray(session.run(None, {session.get_inputs()[0].name: pictures})[0], np.float32)
    return found
