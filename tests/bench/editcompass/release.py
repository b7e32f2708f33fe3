"""A small copy of Edit-Compass as it is released: all 36 task cells, two cases each, with tiny pictures."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from PIL import Image

PARTS: dict[str, list[str]] = {
    "Part1": [
        *("ADD", "Remove", "Replace", "Change_color_size", "Style_Transfer", "Extract", "Change_Material"),
        *("Change_Background", "Visual_Text_CN", "Visual_Text_EN"),
    ],
    "Part2": ["Action", "Move", "Swap", "Object_Interaction", "Emotion_Change"],
    "Part3": ["Casual", "Temporal", "Chemical", "Math", "Game"],
    "Part4": [
        *("Knapsack", "Convex_Hull", "Maximum_Submatrix", "Global_Longest_Word", "Longest_Word", "Maximum_Bonus"),
        *("Number_Link", "Optimal_Path", "Global_Word", "Word"),
    ],
    "Part5": ["Multi_Image_Aware", "Multi_Image_Composition", "Virtual_Try_On"],
    "Part6": ["Complex_Instruction", "Complex_Paint_en", "Complex_Paint_cn"],
}
REASONING = ("Part3", "Part4")


def row(part: str, cell: str, number: int, **changes: Any) -> dict[str, Any]:
    """One row as it stands in `<part>/<cell>/<cell>.json`."""
    folder = f"{part}/{cell}"
    marked = {"Complex_Paint_en": "EN/", "Complex_Paint_cn": "CN/"}.get(cell, "")
    made: dict[str, Any] = {
        "save_id": f"{cell}_{number}",
        "source_image": f"{folder}/{marked}{number}.png",
        "prompt_en": f"{cell}: do number {number}",
        "prompt_cn": f"{cell}：做第 {number} 件事",
        "edit_type": cell.lower(),
        "sub_type": "first" if number == 1 else "second",
        "hints": f"the answer is {number}" if part in REASONING else "",
        "IF": True,
        "WA": part in REASONING,
        "URC": cell != "Style_Transfer",
        "IC": part != "Part4" and cell != "Style_Transfer",
        "VQ": True,
    }
    if part == "Part5":
        made |= {
            "reference_image_path": [f"{folder}/{number}_a.png", f"{folder}/{number}_b.png"],
            "prompt_en_2": f"judges read this about {number}",
            "prompt_cn_2": f"评判者读这个 {number}",
        }
    return made | changes


def write_picture(path: Path, seed: int) -> None:
    """A picture that no other seed has."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (8, 8), (seed % 251, seed // 251, 77)).save(path)


def pictures_of(made: dict[str, Any]) -> list[str]:
    """All files that a row's case needs."""
    source = made["source_image"]
    clean = [source.replace(f"/{mark}/", "/image/") for mark in ("EN", "CN") if f"/{mark}/" in source]
    return [source, *clean, *made.get("reference_image_path", [])]


def write_release(root: Path) -> dict[str, list[dict[str, Any]]]:
    """Write the release below `root` and return the rows by file."""
    written, seed = {}, 0
    for part, cells in PARTS.items():
        for cell in cells:
            rows = [row(part, cell, number) for number in (1, 2)]
            for path in (path for made in rows for path in pictures_of(made)):
                write_picture(root / path, seed)
                seed += 1
            file = f"{part}/{cell}/{cell}.json"
            (root / file).write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
            written[file] = rows
    return written
