"""Servers that run for a whole module."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest
from PIL import Image

from tests.data_build.cogcanvas.servers import Servers, serving


def picture_bytes(color: str = "teal", size: tuple[int, int] = (40, 30)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, color).save(buffer, format="PNG")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    with serving(picture_bytes()) as running:
        yield running
