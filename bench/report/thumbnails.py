"""Pictures inside the page as data URIs: small ones to the pixel, others scaled down and compressed."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from gnomon.images import UnreadableImageError, load_image, to_rgb

MAX_SIDE = 256  # px; twice the width at which the page shows a picture, for dense screens
WIDE_SIDE = 512  # px of a picture that something is drawn over
SMALL_SIDE = 128  # px; pictures up to this are enlarged with hard edges, so that their true pixels are seen
QUALITY = 85  # of WebP


@dataclass(frozen=True)
class Thumbnail:
    """What the page shows of a picture: a data URI, or the reason why there is none."""

    uri: str | None
    reason: str = ""
    small: bool = False


def thumbnail(image: Image.Image | Path | None, *, wide: bool = False) -> Thumbnail:
    """Return `image` scaled down to at most 256 px a side, 512 px where it is wide, as a data URI; never enlarged.

    A small picture is a PNG; a larger one is a WebP, in which a photograph takes a tenth of the bytes.

    A report must come out whatever happened to a picture, so a missing or broken one is said and does not raise.
    """
    if image is None:
        return Thumbnail(None, "no picture")
    try:
        picture = to_rgb(image) if isinstance(image, Image.Image) else load_image(image)
    except UnreadableImageError as error:
        return Thumbnail(None, "picture missing" if isinstance(error.__cause__, FileNotFoundError) else "unreadable")
    except (ValueError, OSError):  # of a picture in memory: pixels without a known white, or a file cut short
        return Thumbnail(None, "unreadable")
    small = max(picture.size) <= SMALL_SIDE
    side = WIDE_SIDE if wide else MAX_SIDE
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    kind = "png" if small else "webp"
    if small:
        picture.save(buffer, format="PNG", optimize=True)
    else:
        picture.save(buffer, format="WEBP", quality=QUALITY)
    return Thumbnail(f"data:image/{kind};base64," + base64.b64encode(buffer.getvalue()).decode(), small=small)
