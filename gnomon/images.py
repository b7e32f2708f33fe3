"""Pictures from files of any kind to RGB with 8 bits a channel, upright, without transparency; and back.

Colour profiles are not applied: judges and generators read the numbers that stand in the file.
"""

from __future__ import annotations

import hashlib
import io
from pathlib import Path

import numpy as np
from PIL import ExifTags, Image, ImageFile, ImageOps

from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes

MAX_PIXELS = 89_478_485  # Pillow's own line between a large picture and a suspicious one (a quarter GiB of RGB)
_DEEP_GREY = ("I", "I;16", "I;16L", "I;16B", "I;16N")


class UnreadableImageError(UserError):
    """A file that is no picture, is cut short, or would fill the memory. The text holds path and reason."""


def load_image(path: str | Path, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Load a picture as RGB, 8 bits a channel: EXIF orientation applied, alpha flattened on white.

    Of an animation this is the first frame; 16-bit channels are scaled to 8 bits, not clipped.

    Args:
        path: the file.
        max_pixels: the largest width * height that is decoded. Above twice `PIL.Image.MAX_IMAGE_PIXELS`
            Pillow refuses by itself.

    Raises:
        UnreadableImageError: names the path and the reason.
    """
    return _load(path, str(path), max_pixels)


def decode_image(data: bytes, name: str, *, max_pixels: int = MAX_PIXELS) -> Image.Image:
    """Load a picture as :func:`load_image` does, from the bytes of a file: a row of a table, a member of an archive.

    Args:
        data: the whole file.
        name: what messages call it.
        max_pixels: the largest width * height that is decoded.

    Raises:
        UnreadableImageError: names the picture and the reason.
    """
    return _load(io.BytesIO(data), name, max_pixels)


def _load(file: str | Path | io.BytesIO, path: str, max_pixels: int) -> Image.Image:
    try:
        with Image.open(file) as image:
            width, height = image.size
            if width * height > max_pixels:
                raise UnreadableImageError(
                    f"expected at most {max_pixels:,} pixels in {path}, its header says {width} x {height}; "
                    "scale it down, or raise max_pixels if you trust the file"
                )
            _load_with_true_key(image, file)
            return to_rgb(image)
    except UnreadableImageError:
        raise
    except FileNotFoundError as error:
        raise UnreadableImageError(f"expected a picture at {path}, there is no such file") from error
    # A broken file makes Pillow's decoders raise nearly anything (OSError, SyntaxError, ValueError, struct.error,
    # zlib.error, IndexError, DecompressionBombError): all of it says that this file cannot be read.
    except Exception as error:
        reason = str(error).replace(f" {path!r}", "").replace(f" {file!r}", "") or type(error).__name__
        raise UnreadableImageError(f"could not read the picture {path}: {reason}; replace or convert it") from error


def _load_with_true_key(image: ImageFile.ImageFile, file: str | Path | io.BytesIO) -> None:
    """Load the pixels, and put right the transparent colour that Pillow leaves in the file's own unit.

    Pillow widens grey of 2 and 4 bits to 8 and cuts colours of 16 bits to 8, but not the colour that a PNG calls
    transparent (its tRNS chunk).
    """
    key, raw_mode = image.info.get("transparency"), _raw_mode(image)
    scale = {"L;2": 85, "L;4": 17}.get(raw_mode or "")
    if scale is not None and isinstance(key, int):
        image.info["transparency"] = key * scale % 256
    image.load()
    if raw_mode == "RGB;16B" and isinstance(key, tuple):
        image.putalpha(_alpha_of_16_bit_key(image, file, key))
        del image.info["transparency"]


def _raw_mode(image: ImageFile.ImageFile) -> str | None:
    """Return how the pixels lie in the file, in Pillow's words; None where it does not say."""
    args = image.tile[0].args if image.tile else None
    mode = args[0] if isinstance(args, tuple) and args else args
    return mode if isinstance(mode, str) else None


def _alpha_of_16_bit_key(image: Image.Image, file: str | Path | io.BytesIO, key: tuple[int, ...]) -> Image.Image:
    """Return 0 where a 16-bit RGB PNG has exactly the colour `key`, else 255.

    Pillow keeps the high bytes only, by which neighbouring colours would become transparent too. Read as if its bytes
    were swapped, the same file gives the low ones.
    """
    with Image.open(file) as swapped:
        swapped.tile = [tile._replace(args="RGB;16L") for tile in swapped.tile]
        low = np.asarray(swapped).astype(np.uint16)
    colours = np.asarray(image).astype(np.uint16) << 8 | low
    return Image.fromarray(np.where((colours == np.array(key)).all(-1), 0, 255).astype(np.uint8))


def to_rgb(image: Image.Image) -> Image.Image:
    """Return a copy of `image` as RGB, 8 bits a channel, upright, flattened on white, without metadata.

    Raises:
        ValueError: for pixels without a known white (32-bit integers above 65535, floating point).
    """
    image = _upright(image)
    if image.mode in _DEEP_GREY:
        image = _deep_grey_to_8_bit(image)
    elif image.mode == "F":
        raise ValueError("floating-point pixels have no known white")
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    rgb = image.convert("RGB")
    rgb.info.clear()
    return rgb


def _upright(image: Image.Image) -> Image.Image:
    """Return a turned copy where EXIF asks for one, else the picture itself, which Pillow would copy as well."""
    image.load()  # PNG may hold EXIF after its pixels
    if image.getexif().get(ExifTags.Base.Orientation, 1) in range(2, 9):
        return ImageOps.exif_transpose(image)
    return image


def _is_plain(image: Image.Image) -> bool:
    """Tell whether :func:`to_rgb` would only copy the pixels."""
    return image.mode == "RGB" and not image.info and not image.getexif()


def _deep_grey_to_8_bit(image: Image.Image) -> Image.Image:
    """Scale 0..65535 to 0..255 with rounding; a grey level that the file calls transparent becomes alpha 0."""
    grey = np.asarray(image).astype(np.int64)
    if grey.min() < 0 or grey.max() > 65535:
        raise ValueError(f"grey values from {grey.min()} to {grey.max()} have no known white (expected 0..65535)")
    scaled = Image.fromarray(((grey + 128) // 257).astype(np.uint8))
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        scaled.putalpha(Image.fromarray(np.where(grey == transparent, 0, 255).astype(np.uint8)))
    return scaled


def content_hash(image_or_path: Image.Image | str | Path) -> str:
    """Return the sha256 (hex) of size and RGB pixels: the same for the same picture in PNG, BMP or memory.

    Raises:
        UnreadableImageError: when a path is given and cannot be read.
    """
    if isinstance(image_or_path, Image.Image):
        image = image_or_path if _is_plain(image_or_path) else to_rgb(image_or_path)
    else:
        image = load_image(image_or_path)
    digest = hashlib.sha256(f"{image.width}x{image.height}:".encode())
    digest.update(image.tobytes())
    return digest.hexdigest()


def save_png(image: Image.Image, path: str | Path, *, compress_level: int = 6) -> None:
    """Write `image` as an RGB PNG, atomically; missing parent folders are made.

    Args:
        image: of any mode that :func:`to_rgb` takes.
        path: the file.
        compress_level: zlib's, from 0 (fastest) to 9 (smallest); the pixels are the same.

    Raises:
        UserError: when the system refuses to write.
    """
    buffer = io.BytesIO()
    to_rgb(image).save(buffer, format="PNG", compress_level=compress_level)
    atomic_write_bytes(path, buffer.getvalue())
