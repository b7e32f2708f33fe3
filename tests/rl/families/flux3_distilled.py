"""FLUX.3 after distillation: a flow map, which is also told the time that a step leads to; no guidance."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.rl.families import flux3

SETTINGS = flux3.SETTINGS
REFERENCES = flux3.REFERENCES
GUIDANCE: dict[str, dict[str, Any]] = {"off": {}}
UNREACHED = flux3.UNREACHED


def build(folder: Path, tiny_editor: Path) -> None:
    flux3.build(folder, tiny_editor, distilled=True)
