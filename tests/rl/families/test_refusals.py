"""What a family cannot do is said, with the case or the pipeline by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.records import Case
from rl.generator import DiffusersGenerator


@pytest.mark.parametrize(
    ("name", "count", "message"),
    [
        ("flux_kontext", 2, "FluxKontextModularPipeline could not take case 'a' with 2 references"),
        ("qwen_image_edit", 0, "case 'a' with 0 references"),
        ("qwen_image_edit", 2, "case 'a' with 2 references"),
        ("qwen_image_edit_plus", 0, "case 'a' with 0 references"),
        ("qwen_image", 1, "image to image"),
        ("sd3", 1, "image to image"),
        ("z_image", 1, "image to image"),
    ],
)
def test_a_number_of_references_that_a_family_does_not_take_is_refused(
    name: str, count: int, message: str, cases: list[Case], pictures: list[Image],
    family_folder: Callable[[str], Path], family_module: Callable[[str], Any],
) -> None:  # fmt: skip
    generator = DiffusersGenerator(str(family_folder(name)), **family_module(name).SETTINGS)
    with pytest.raises(UserError, match=message):
        generator.condition(cases[:1], [pictures[:count]])
