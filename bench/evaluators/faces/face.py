"""What a face in a picture is, and what finds, cleans and recognises one.

Points are in pixels of the picture: (0, 0) is its upper left corner, (0.5, 0.5) the middle of its first pixel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from numpy.typing import NDArray

if TYPE_CHECKING:
    from PIL import Image

    from bench.evaluators.faces.alignment import Template

Point = tuple[float, float]


@dataclass(frozen=True)
class Face:
    """A face that was found.

    Attributes:
        box: left, top, right, bottom; may leave the picture.
        landmarks: of the eye on the left of the picture, the eye on the right, the tip of the nose, the left and the
            right corner of the mouth.
        score: of the detector, 0 to 1.
    """

    box: tuple[float, float, float, float]
    landmarks: tuple[Point, Point, Point, Point, Point]
    score: float

    @property
    def area(self) -> float:
        """The box's area in square pixels."""
        left, top, right, bottom = self.box
        return max(0.0, right - left) * max(0.0, bottom - top)


class FaceDetector(Protocol):
    """Finds faces.

    Attributes:
        name: for people.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the answer depends on."""

    def detect(self, image: Image.Image) -> list[Face]:
        """Return the faces in an RGB picture of any size, in any order."""


class FaceRecognizer(Protocol):
    """Tells whose a face is, by vectors that can be compared.

    Attributes:
        name: for people; says how similarities are made where they are no cosines.
        template: how faces have to be straightened.
    """

    name: str
    template: Template

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the vectors and similarities depend on."""

    def embed(self, chips: Sequence[Image.Image]) -> NDArray[Any]:
        """Return a vector for each straightened face, float32 [faces, dimensions]; any number of faces, also none."""

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return how alike two sets of vectors are, pair by pair, float64 [first, second]; 1 is the same face."""


class FaceParser(Protocol):
    """Says which pixels of a straightened face do not belong to it.

    Attributes:
        name: for people.
        size: the side of the square pictures that it takes, in pixels.
    """

    name: str
    size: int

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the masks depend on."""

    def excluded(self, faces: Sequence[Image.Image]) -> list[NDArray[Any]]:
        """Return for each straightened face of `size` which pixels do not count, bool [size, size]."""
