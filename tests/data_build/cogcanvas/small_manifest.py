"""A small manifest with drawn pictures: people, things, things to wear and places in one colour and some noise each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

COLORS = [(200, 40, 40), (40, 160, 60), (40, 60, 200), (240, 240, 240), (128, 128, 128)]
PEOPLE = ("Ada Bell", "Ben Cole", "Cleo Dunn", "Dora Ek", "Emil Falk", "Fay Grau")
OBJECTS = ("tin whistle", "paper kite", "brass lamp")
FASHION = ("straw hat", "striped scarf")
PLACES = ("Old Harbour", "Mill Bridge")


def draw(path: Path, number: int, side: int = 64) -> None:
    """Write a picture that is unlike those of other numbers."""
    noise = np.random.default_rng(number).integers(0, 40, (side, side + number % 3, 3))
    pixels = np.clip(np.array(COLORS[number % len(COLORS)]) - 20 + noise, 0, 255)
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.astype(np.uint8)).save(path)


def write_manifest(folder: Path, *, pictures_each: int = 2, **changes: Any) -> Path:
    """Write pictures and a manifest of them, and return the manifest.

    Args:
        folder: where.
        pictures_each: of each person.
        changes: further keys of single entries, by id with `_` for `-`.
    """
    wanted = [("identity", name, pictures_each) for name in PEOPLE]
    wanted += [("object", name, 1) for name in OBJECTS]
    wanted += [("fashion", name, 1) for name in FASHION]
    wanted += [("background", name, 1) for name in PLACES]
    lines: list[dict[str, Any]] = []
    for role, name, count in wanted:
        for one in range(count):
            id = f"{name.lower().replace(' ', '-')}-{one + 1}"
            draw(folder / "pictures" / f"{id}.png", len(lines))
            entry = {"id": id, "role": role, "name": name, "path": f"pictures/{id}.png", "source": "drawn"}
            lines.append(entry | changes.get(id.replace("-", "_"), {}))
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return manifest
