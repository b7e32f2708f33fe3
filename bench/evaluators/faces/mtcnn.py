"""MTCNN: three small networks, each of which looks closer at what the one before proposed.

Source: Zhang et al. 2016, "Joint Face Detection and Alignment Using Multitask Cascaded Convolutional Networks", arXiv
1604.02878. The weights are those that the package facenet-pytorch carries (MIT); the layers have its names. Boxes are
half-open in pixels, [left, right) x [top, bottom); what lies beyond the picture is black.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.nn.functional as F
from PIL import Image as PillowImage
from torch import Tensor, nn

from bench.evaluators.faces.face import Face
from bench.evaluators.faces.weights import load_weights, read_state
from bench.evaluators.offline import locate, target_file
from bench.evaluators.vision.boxes import suppressed
from gnomon.hashing import file_hash, stable_hash
from rm.devices import check_device, own_device

if TYPE_CHECKING:
    from PIL import Image

_REQUIREMENT = "facenet-pytorch==2.6.0"
PROPOSAL = target_file(
    "facenet_pytorch/data/pnet.pt", "a2a71925e0b9996a42f63e47efc1ca19043e69558b5c523b978d611dfae49c8f", _REQUIREMENT
)
REFINEMENT = target_file(
    "facenet_pytorch/data/rnet.pt", "bbb937de72efc9ef83b186c49f5f558467a1d7e3453a8ece0d71a886633f6a86", _REQUIREMENT
)
OUTPUT = target_file(
    "facenet_pytorch/data/onet.pt", "165bfbe42940416ccfb977545cf0e976d5bf321f67083ae2aaaa5c764280118d", _REQUIREMENT
)

CELL, STRIDE, PYRAMID = 12, 2, 0.709
"""The proposal network sees 12 pixels, moves by 2, and the picture is halved in area from step to step."""
PROPOSED, REFINED = 0.6, 0.7
"""Scores that let a box go on to the next network."""
_AT_ONCE = 512


class ProposalNet(nn.Module):
    """Pictures [n, 3, h, w] to scores [n, h', w'] and corrections [n, 4, h', w'] of a box at every other pixel."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 10, 3), nn.PReLU(10)
        self.conv2, self.prelu2 = nn.Conv2d(10, 16, 3), nn.PReLU(16)
        self.conv3, self.prelu3 = nn.Conv2d(16, 32, 3), nn.PReLU(32)
        self.conv4_1, self.conv4_2 = nn.Conv2d(32, 2, 1), nn.Conv2d(32, 4, 1)

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores and corrections."""
        x = F.max_pool2d(self.prelu1(self.conv1(pictures)), 2, 2, ceil_mode=True)
        x = self.prelu3(self.conv3(self.prelu2(self.conv2(x))))
        return self.conv4_1(x).softmax(dim=1)[:, 1], self.conv4_2(x)


class RefinementNet(nn.Module):
    """Crops [n, 3, 24, 24] to scores [n] and corrections [n, 4]."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 28, 3), nn.PReLU(28)
        self.conv2, self.prelu2 = nn.Conv2d(28, 48, 3), nn.PReLU(48)
        self.conv3, self.prelu3 = nn.Conv2d(48, 64, 2), nn.PReLU(64)
        self.dense4, self.prelu4 = nn.Linear(576, 128), nn.PReLU(128)
        self.dense5_1, self.dense5_2 = nn.Linear(128, 2), nn.Linear(128, 4)

    def forward(self, crops: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores and corrections."""
        x = F.max_pool2d(self.prelu1(self.conv1(crops)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu2(self.conv2(x)), 3, 2, ceil_mode=True)
        x = self.prelu4(self.dense4(_flattened(self.prelu3(self.conv3(x)))))
        return self.dense5_1(x).softmax(dim=1)[:, 1], self.dense5_2(x)


class OutputNet(nn.Module):
    """Crops [n, 3, 48, 48] to scores [n], corrections [n, 4] and landmarks [n, 10], first all x and then all y."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.prelu1 = nn.Conv2d(3, 32, 3), nn.PReLU(32)
        self.conv2, self.prelu2 = nn.Conv2d(32, 64, 3), nn.PReLU(64)
        self.conv3, self.prelu3 = nn.Conv2d(64, 64, 3), nn.PReLU(64)
        self.conv4, self.prelu4 = nn.Conv2d(64, 128, 2), nn.PReLU(128)
        self.dense5, self.prelu5 = nn.Linear(1152, 256), nn.PReLU(256)
        self.dense6_1, self.dense6_2, self.dense6_3 = nn.Linear(256, 2), nn.Linear(256, 4), nn.Linear(256, 10)

    def forward(self, crops: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, corrections and landmarks."""
        x = F.max_pool2d(self.prelu1(self.conv1(crops)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu2(self.conv2(x)), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.prelu3(self.conv3(x)), 2, 2, ceil_mode=True)
        x = self.prelu5(self.dense5(_flattened(self.prelu4(self.conv4(x)))))
        return self.dense6_1(x).softmax(dim=1)[:, 1], self.dense6_2(x), self.dense6_3(x)


class MtcnnDetector:
    """Finds faces by MTCNN.

    Args:
        folder: with pnet.pt, rnet.pt and onet.pt; those of facenet-pytorch by default.
        min_face: the smallest face to look for, in pixels.
        min_score: of a face, in 0..1. At .95 no face was seen in photographs without one.
        device: where to run, such as "cpu" or "cuda" (this rank's device).

    Raises:
        UserError: when weights are missing, with what to install, or are others; and for an unknown device.
    """

    name = "mtcnn"

    def __init__(
        self, folder: str | Path | None = None, *, min_face: int = 20, min_score: float = 0.95, device: str = "cpu"
    ) -> None:
        self.min_face, self.min_score = min_face, min_score
        self._device = check_device(device)
        self._files = [
            Path(folder) / file.name if folder is not None else locate(file) for file in (PROPOSAL, REFINEMENT, OUTPUT)
        ]
        self._proposal, self._refinement, self._output = ProposalNet(), RefinementNet(), OutputNet()
        for net, file in zip((self._proposal, self._refinement, self._output), self._files, strict=True):
            load_weights(net, read_state(file), file)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights and settings."""
        return stable_hash(["mtcnn", 1, [file_hash(file) for file in self._files], self.min_face, self.min_score])

    @torch.inference_mode()
    def detect(self, image: Image.Image) -> list[Face]:
        """Return the faces in an RGB picture, the surest first."""
        device = own_device(self._device)
        for net in (self._proposal, self._refinement, self._output):
            net.to(device)
        pixels = _pixels(image, device)
        boxes = self._refine(pixels, self._propose(image, device))
        scores, corrections, points = self._seen(self._output, pixels, boxes, 48)
        good = scores > self.min_score
        boxes, scores, corrections, points = boxes[good], scores[good], corrections[good], points[good]
        size = _size(boxes)
        landmarks = boxes[:, None, :2] + points.unflatten(1, (2, 5)).transpose(1, 2) * size[:, None]
        boxes = boxes + corrections * size.repeat(1, 2)
        kept = suppressed(boxes.cpu().numpy(), scores.cpu().numpy(), 0.7, of_smaller=True)
        return [_face(boxes[place], landmarks[place], scores[place]) for place in kept]

    def _propose(self, image: Image.Image, device: torch.device) -> Tensor:
        """Return boxes [n, 4] from the proposal network over a pyramid of scales."""
        found, scores = [], []
        scale = CELL / self.min_face
        while min(image.size) * scale >= CELL:
            size = (int(image.width * scale) + 1, int(image.height * scale) + 1)
            pixels = _pixels(image.resize(size, PillowImage.Resampling.BOX), device)
            score, correction = self._proposal(pixels[None])
            rows, columns = torch.nonzero(score[0] >= PROPOSED, as_tuple=True)
            corner = torch.stack([columns, rows], dim=1) * STRIDE / scale
            boxes = torch.cat([corner, corner + CELL / scale], dim=1)
            boxes = boxes + correction[0, :, rows, columns].T * CELL / scale
            at_scale = score[0, rows, columns]
            kept = suppressed(boxes.cpu().numpy(), at_scale.cpu().numpy(), 0.5)
            found.append(boxes[kept])
            scores.append(at_scale[kept])
            scale *= PYRAMID
        if not found:
            return torch.zeros(0, 4, device=device)
        boxes = torch.cat(found)
        kept = suppressed(boxes.cpu().numpy(), torch.cat(scores).cpu().numpy(), 0.7)
        return _squared(boxes[kept])

    def _refine(self, pixels: Tensor, boxes: Tensor) -> Tensor:
        """Return those of the boxes that the second network agrees to, corrected."""
        scores, corrections = self._seen(self._refinement, pixels, boxes, 24)
        good = scores > REFINED
        boxes, scores, corrections = boxes[good], scores[good], corrections[good]
        kept = suppressed(boxes.cpu().numpy(), scores.cpu().numpy(), 0.7)
        return _squared(boxes[kept] + corrections[kept] * _size(boxes[kept]).repeat(1, 2))

    def _seen(self, net: nn.Module, pixels: Tensor, boxes: Tensor, side: int) -> tuple[Tensor, ...]:
        """Return what a network says of the content of boxes."""
        crops = [_crop(pixels, box, side) for box in boxes.int().tolist()]
        batch = torch.stack(crops) if crops else pixels.new_zeros(0, 3, side, side)
        parts = [net(part) for part in batch.split(_AT_ONCE)]
        return tuple(torch.cat(values) for values in zip(*parts, strict=True))


def _pixels(image: Image.Image, device: torch.device) -> Tensor:
    """Return an RGB picture [3, height, width], from -1 to 1."""
    return (torch.from_numpy(np.array(image, dtype=np.float32)).permute(2, 0, 1).to(device) - 127.5) / 128


def _flattened(x: Tensor) -> Tensor:
    """Return [n, c, h, w] as [n, w h c], the order in which the dense layers were trained."""
    return x.permute(0, 3, 2, 1).flatten(1)


def _size(boxes: Tensor) -> Tensor:
    """Return widths and heights [n, 2]."""
    return boxes[:, 2:] - boxes[:, :2]


def _squared(boxes: Tensor) -> Tensor:
    """Return squares of whole pixels around the same middles, as large as the longer side and never empty."""
    side = _size(boxes).amax(dim=1, keepdim=True).round().clamp(min=1)
    corner = ((boxes[:, :2] + boxes[:, 2:]) / 2 - side / 2).round()
    return torch.cat([corner, corner + side], dim=1)


def _crop(pixels: Tensor, box: list[int], side: int) -> Tensor:
    """Return the content of a square of whole pixels [3, side, side], black beyond the picture."""
    left, top, right, bottom = box
    height, width = pixels.shape[1:]
    inside = pixels[:, max(0, top) : max(0, bottom), max(0, left) : max(0, right)]
    beyond = [max(0, -left), max(0, right - width), max(0, -top), max(0, bottom - height)]
    if not inside.numel():
        return pixels.new_full((3, side, side), -127.5 / 128)
    padded = F.pad(inside, beyond, value=-127.5 / 128) if any(beyond) else inside
    return F.interpolate(padded[None], (side, side), mode="area")[0]


def _face(box: Tensor, landmarks: Tensor, score: Tensor) -> Face:
    left, top, right, bottom = box.tolist()
    left_eye, right_eye, nose, left_mouth, right_mouth = ((x, y) for x, y in landmarks.tolist())
    return Face((left, top, right, bottom), (left_eye, right_eye, nose, left_mouth, right_mouth), float(score))
