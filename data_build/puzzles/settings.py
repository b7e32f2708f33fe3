"""Checks of a puzzle's settings, so that one that admits no instance is refused by its name."""

from __future__ import annotations

from gnomon.errors import UserError


def require_range(name: str, bounds: tuple[float, float], least: float, most: float | None = None) -> None:
    """Make sure that a setting is a smallest and a largest number.

    Args:
        name: of the setting.
        bounds: its value.
        least: that the smallest may be.
        most: that the largest may be; None for any.

    Raises:
        UserError: names the setting, what it may be and what it is.
    """
    low, high = bounds
    if not least <= low <= high or (most is not None and high > most):
        limits = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise UserError(f"expected {name} to be a smallest and a largest number {limits}, got {low} and {high}")
