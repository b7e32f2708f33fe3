"""Scores over HTTP: what goes over the wire, for both sides.

A request is `POST <url>/v1/score` with a :class:`ScoreRequest` as JSON, the answer a :class:`ScoreResponse`. Results
may come in any order, they are matched by id. A service that cannot score an item says so in that item's `error`; there
is no number for "failed". Only JSON goes over the wire. The client is in :mod:`rm.service_client`.
"""

from __future__ import annotations

import base64
import io
import math
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Self

from PIL import Image
from pydantic import Field, Strict, ValidationError, model_validator

from gnomon.images import to_rgb
from gnomon.records import Record

PATH = "/v1/score"
FORMATS = ("PNG", "JPEG", "WEBP")  # few: each decoder is something that a stranger's bytes may attack


class ScoreItem(Record):
    """One picture to score.

    Attributes:
        id: unique in its request.
        instruction: what was asked for.
        references: the pictures that the instruction refers to, base64 of PNG files, in the case's order.
        candidate: the picture that was made, base64 of a PNG file.
        meta: what else a service may use.
    """

    id: str = Field(min_length=1)
    instruction: str
    references: list[str] = Field(default_factory=list)
    candidate: str
    meta: dict[str, Any] = Field(default_factory=dict)


class ScoreRequest(Record):
    """Pictures to score in some dimensions; None asks for all that the service has."""

    items: list[ScoreItem] = Field(min_length=1)
    dimensions: list[str] | None = None

    @model_validator(mode="after")
    def _different_ids(self) -> Self:
        repeated = [item for item, count in Counter(item.id for item in self.items).items() if count > 1]
        if repeated:
            raise ValueError(f"expected different ids, got {', '.join(repeated[:3])} more than once")
        return self


class ScoreResult(Record):
    """What came of one item: finite scores by dimension, or the error that there is none; exactly one of the two."""

    id: str
    scores: dict[str, Annotated[float, Strict()]] | None = None
    error: str | None = None

    @model_validator(mode="after")
    def _scores_or_error(self) -> Self:
        if (self.scores is None) == (self.error is None):
            raise ValueError("expected either scores or an error, got both or neither")
        return self


class ScoreResponse(Record):
    """One result per item of the request, in any order."""

    results: list[ScoreResult]


def encode_picture(image: Image.Image) -> str:
    """Return a picture as base64 of an RGB PNG; raises as :func:`png_bytes`."""
    return base64.b64encode(png_bytes(image)).decode("ascii")


def png_bytes(image: Image.Image) -> bytes:
    """Return a picture as the bytes of an RGB PNG.

    Raises:
        ValueError: for pixels that have no 8-bit RGB form.
    """
    buffer = io.BytesIO()
    to_rgb(image).save(buffer, format="PNG", compress_level=1)  # it is read once, on a near machine
    return buffer.getvalue()


def decode_picture(text: str, *, max_pixels: int = 2**26) -> Image.Image:
    """Return the RGB picture of a base64 text.

    Raises:
        ValueError: when it is no base64, no PNG, JPEG or WebP, cut short, or larger than `max_pixels`.
    """
    try:
        return read_picture(base64.b64decode(text, validate=True), max_pixels=max_pixels)
    except ValueError as error:
        raise ValueError(f"expected a PNG, JPEG or WebP picture as base64: {error}") from error


def read_picture(content: bytes, *, max_pixels: int = 2**26) -> Image.Image:
    """Return the RGB picture of a file's bytes that came from elsewhere.

    Raises:
        ValueError: when it is no PNG, JPEG or WebP, cut short, or larger than `max_pixels`.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            if image.width * image.height > max_pixels:
                raise ValueError(f"{image.width} x {image.height} pixels are more than {max_pixels:,}")
            image.load()
            return to_rgb(image)
    # Broken files make Pillow raise nearly anything; see gnomon.images.load_image.
    except Exception as error:
        raise ValueError(str(error) or type(error).__name__) from error


def match_results(ids: Sequence[str], results: Sequence[Any], required: Sequence[str] | None) -> dict[str, ScoreResult]:
    """Give every id its result, whatever order and shape the results have.

    Args:
        ids: of the items that were sent.
        results: entries of the answer, unchecked.
        required: dimensions that every item's scores must hold. What else stands there is left out where it is no
            finite number: the item is none the worse. None requires nothing, but every score must be a number.

    Returns:
        One result per id. An id without a result or with several, a result in another form, a required score that is
        missing or no finite number are errors of that item; results of unknown ids are mentioned in them.
    """
    found: dict[str, list[Any]] = {name: [] for name in ids}
    strangers = []
    for result in results:
        name = result.get("id") if isinstance(result, dict) else None
        if isinstance(name, str) and name in found:
            found[name].append(result)
        else:
            strangers.append(name)
    return {name: _one_result(name, answers, strangers, required) for name, answers in found.items()}


def _one_result(name: str, answers: list[Any], strangers: list[object], required: Sequence[str] | None) -> ScoreResult:
    def failed(reason: str) -> ScoreResult:
        return ScoreResult(id=name, error=reason)

    if len(answers) != 1:
        unknown = f"; {len(strangers)} results are for unknown ids, such as {strangers[0]!r:.40}" if strangers else ""
        return failed(f"expected one result for this item, got {len(answers)}{unknown}")
    try:
        result = ScoreResult.model_validate(answers[0] if required is None else _without_gaps(answers[0], required))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        return failed(f"a result in another form: {f'{place}: ' if place else ''}{first['msg']}")
    missing = [dimension for dimension in required or () if dimension not in (result.scores or {})]
    if result.scores is not None and missing:
        return failed(f"no score for {', '.join(missing)}")
    return result


def _without_gaps(answer: dict[str, Any], required: Sequence[str]) -> dict[str, Any]:
    """Leave out scores that nobody requires and that are no finite numbers."""
    scores = answer.get("scores")
    if not isinstance(scores, dict):
        return answer
    kept = {name: score for name, score in scores.items() if name in required or _is_finite(score)}
    return {**answer, "scores": kept}


def _is_finite(score: object) -> bool:
    if isinstance(score, bool) or not isinstance(score, int | float):
        return False
    try:
        return math.isfinite(score)
    except OverflowError:  # an integer beyond all floats
        return False
