"""FLUX.2-klein: distilled, no guidance, any number of references."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.rl.families.parts import FLUX2_SETTINGS

SETTINGS = FLUX2_SETTINGS
REFERENCES = (0, 1, 2, 3)
GUIDANCE: dict[str, dict[str, Any]] = {"off": {}}


def build(folder: Path, tiny_editor: Path) -> None:
    shutil.copytree(tiny_editor, folder)
