from __future__ import annotations

import pytest

from data_build.puzzles.settings import require_range
from gnomon.errors import UserError


@pytest.mark.parametrize("bounds", [(2, 8), (2, 2), (8, 8), (2.5, 3.5)])
def test_a_smallest_and_a_largest_number_pass(bounds: tuple[float, float]) -> None:
    require_range("sizes", bounds, 2, 8)


@pytest.mark.parametrize("bounds", [(1, 8), (2, 9), (5, 4), (float("nan"), 4), (3, float("nan"))])
def test_others_are_refused_by_name(bounds: tuple[float, float]) -> None:
    with pytest.raises(UserError, match=r"expected sizes to be a smallest and a largest number from 2 to 8, got"):
        require_range("sizes", bounds, 2, 8)


def test_without_a_largest_the_limit_is_said_so() -> None:
    require_range("sizes", (2, 10**6), 2)
    with pytest.raises(UserError, match=r"number of at least 2, got 1 and 8"):
        require_range("sizes", (1, 8), 2)
