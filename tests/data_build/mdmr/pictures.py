"""Pictures that no perceptual hash takes for another one, and tags for them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
from PIL import Image


def picture(seed: int, width: int = 64, height: int = 48) -> Image.Image:
    """Return patches of lots' colours: large ones, so that a smaller or noisy copy has nearly the same hash."""
    patches = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    return Image.fromarray(patches).resize((width, height), Image.Resampling.BICUBIC)


def encoded(image: Image.Image, form: str = "PNG") -> bytes:
    """Return the bytes of a picture's file."""
    buffer = io.BytesIO()
    image.save(buffer, form)
    return buffer.getvalue()


def tags(category: str = "objects", *entities: tuple[str, str], **changes: Any) -> dict[str, Any]:
    """Return tags as JSON has them."""
    return {
        "category": category,
        "entities": [{"kind": kind, "name": name} for kind, name in entities],
        "attributes": {},
        "caption": "A picture.",
        **changes,
    }
