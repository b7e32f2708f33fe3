"""A picture of groups: one row per case, its references, its candidates and their rewards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image, ImageDraw, ImageFont

TILE = 128
_GAP, _LINE = 8, 20
_INK, _BEST = (32, 32, 32), (0, 128, 64)


@dataclass(frozen=True)
class GridRow:
    """One case: its instruction, pictures, candidates and, where there is a judge, one reward per candidate."""

    title: str
    references: Sequence[Image.Image]
    candidates: Sequence[Image.Image]
    rewards: Sequence[float] | None = None


def draw_grid(rows: Sequence[GridRow]) -> Image.Image:
    """Draw the rows under each other: references, a gap, candidates with their rewards below, the best in green.

    Raises:
        ValueError: without rows.
    """
    if not rows:
        raise ValueError("expected at least one row to draw")
    columns = max(len(row.references) + len(row.candidates) for row in rows)
    height = _LINE + TILE + _LINE + _GAP
    canvas = Image.new("RGB", (columns * (TILE + _GAP) + 3 * _GAP, len(rows) * height + _GAP), "white")
    draw = ImageDraw.Draw(canvas)
    font = ImageFont.load_default(size=13)
    for index, row in enumerate(rows):
        _draw_row(canvas, draw, font, row, top=_GAP + index * height)
    return canvas


def _draw_row(
    canvas: Image.Image,
    draw: ImageDraw.ImageDraw,
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    row: GridRow,
    top: int,
) -> None:
    # The font that comes with Pillow has no Chinese; a box per character would say less than this.
    title = row.title if row.title.isascii() else row.title.encode("ascii", "replace").decode()
    draw.text((_GAP, top), title, fill=_INK, font=font)
    finite = [reward for reward in row.rewards or () if math.isfinite(reward)]
    left = _GAP
    for picture in row.references:
        canvas.paste(_tile(picture), (left, top + _LINE))
        left += TILE + _GAP
    left += 2 * _GAP
    for place, picture in enumerate(row.candidates):
        canvas.paste(_tile(picture), (left, top + _LINE))
        if row.rewards is not None:
            reward = row.rewards[place]
            best = bool(finite) and reward == max(finite)
            text = f"{reward:.3f}" if math.isfinite(reward) else "failed"
            draw.text((left, top + _LINE + TILE + 2), text, fill=_BEST if best else _INK, font=font)
        left += TILE + _GAP


def _tile(picture: Image.Image) -> Image.Image:
    scale = TILE / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    scaled = picture.resize(size, Image.Resampling.NEAREST if scale > 1 else Image.Resampling.LANCZOS)
    tile = Image.new("RGB", (TILE, TILE), (240, 240, 240))
    tile.paste(scaled, ((TILE - scaled.width) // 2, (TILE - scaled.height) // 2))
    return tile
