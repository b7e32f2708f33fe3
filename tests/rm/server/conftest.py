"""A server of :class:`MeanColour`, with settings that a test may override."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from rm.server.app import create_app
from tests.rm.server.serving import MeanColour, serving


@pytest.fixture
def scorer() -> MeanColour:
    return MeanColour()


@pytest.fixture
def address(scorer: MeanColour, options: dict[str, Any]) -> Iterator[str]:
    with serving(create_app(scorer, **options)) as url:
        yield url


@pytest.fixture
def options() -> dict[str, Any]:
    """Return settings of the server; a test overrides them by parametrizing."""
    return {}
