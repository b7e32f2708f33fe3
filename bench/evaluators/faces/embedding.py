"""From a picture to the faces in it and a vector for each: detected, straightened, cleaned, recognised."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image as PillowImage

from bench.evaluators.faces.alignment import align
from bench.evaluators.faces.face import Face, FaceDetector, FaceParser, FaceRecognizer
from gnomon.hashing import stable_hash

if TYPE_CHECKING:
    from PIL import Image

NEUTRAL = (127, 127, 127)
"""What stands where pixels do not count: the middle of the range, which recognisers see as (nearly) zero."""


class FaceEmbedder:
    """Finds the faces in pictures and embeds them.

    Args:
        detector: finds them.
        recognizer: makes vectors of them.
        parser: says which pixels do not count; all do without one.

    Attributes:
        name: the backends, for people.
    """

    def __init__(self, detector: FaceDetector, recognizer: FaceRecognizer, parser: FaceParser | None = None) -> None:
        self.detector, self.recognizer, self.parser = detector, recognizer, parser
        self.name = " + ".join([detector.name, recognizer.name, *([parser.name] if parser is not None else [])])

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that vectors depend on."""
        parser = None if self.parser is None else self.parser.fingerprint
        return stable_hash(["faces", 1, self.detector.fingerprint, self.recognizer.fingerprint, parser])

    def all_faces(self, image: Image.Image) -> tuple[list[Face], NDArray[Any]]:
        """Return the faces in an RGB picture from left to right, and a vector for each [faces, dimensions]."""
        faces = sorted(self.detector.detect(image), key=lambda face: (face.box, face.landmarks))
        return faces, self.recognizer.embed(self._chips(image, faces))

    def largest_face(self, image: Image.Image) -> NDArray[Any]:
        """Return the vector of the largest face in an RGB picture [1, dimensions]; [0, dimensions] without a face."""
        faces = self.detector.detect(image)
        largest = sorted(faces, key=lambda face: (-face.area, face.box))[:1]
        return self.recognizer.embed(self._chips(image, largest))

    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        """Return the vector of the largest face in each RGB picture [pictures, dimensions], NaN without a face."""
        found = [self.largest_face(image) for image in images]
        return np.concatenate([vector if len(vector) else np.full((1, vector.shape[1]), np.nan) for vector in found])

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return how alike vectors are, as the recogniser has it; NaN where one is NaN."""
        usable, others = ~np.isnan(first).any(axis=1), ~np.isnan(second).any(axis=1)
        found = np.full((len(first), len(second)), np.nan)
        found[np.ix_(usable, others)] = self.recognizer.similarity(first[usable], second[others])
        return found

    def _chips(self, image: Image.Image, faces: Sequence[Face]) -> list[Image.Image]:
        template = self.recognizer.template
        chips = [align(image, face.landmarks, template) for face in faces]
        if self.parser is None or not chips:
            return chips
        large = [align(image, face.landmarks, template.scaled(self.parser.size)) for face in faces]
        return [_cleaned(chip, mask) for chip, mask in zip(chips, self.parser.excluded(large), strict=True)]


def _cleaned(chip: Image.Image, excluded: NDArray[Any]) -> Image.Image:
    """Return a straightened face whose excluded pixels are grey; the mask may be larger than the picture."""
    # Averaged down, so that a pixel counts for as much as lies inside the face.
    mask = PillowImage.fromarray((excluded * 255).astype(np.uint8)).resize(chip.size, PillowImage.Resampling.BOX)
    return PillowImage.composite(PillowImage.new("RGB", chip.size, NEUTRAL), chip, mask)
