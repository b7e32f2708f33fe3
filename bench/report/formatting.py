"""How numbers are written in a report: three decimals, two from ten on, a real minus sign, a dash for nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.report.blocks import Cell, Measured, Noted
from gnomon.statistics import Estimate

NOTHING = "–"
DECIMALS, DECIMALS_FROM_TEN = 3, 2


@dataclass(frozen=True)
class Shown:
    """A cell as text, with quieter lines below it (the interval, the coverage)."""

    text: str
    details: tuple[str, ...] = ()


def number(value: float) -> str:
    """Return `value` with three decimals, from ten on with two, whole numbers of type int without."""
    decimals = DECIMALS if abs(value) < 10 else DECIMALS_FROM_TEN
    text = str(value) if isinstance(value, int) else f"{value:.{decimals}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def interval(estimate: Estimate) -> str:
    """Return "0.41 to 0.53", or what is known instead where there are fewer than two clusters."""
    if estimate.ci_low is None or estimate.ci_high is None:
        return "no interval"
    return f"{number(estimate.ci_low)} to {number(estimate.ci_high)}"


def show(cell: Cell) -> Shown:
    """Return the cell as it is read in a table."""
    if cell is None:
        return Shown(NOTHING)
    if isinstance(cell, Estimate):
        return Shown(number(cell.value), (interval(cell),))
    if isinstance(cell, Measured):
        whole = show(cell.estimate)
        return Shown(whole.text, (*whole.details, *cell.notes))
    if isinstance(cell, Noted):
        return Shown(cell.text, tuple(cell.notes))
    return Shown(cell if isinstance(cell, str) else number(cell))


def show_score(value: float | str | None) -> str:
    """Return a score under a picture as text."""
    return show(value).text


def is_numeric_column(cells: Sequence[Cell]) -> bool:
    """Return whether a column holds numbers only (and dashes), so that it is aligned to the right."""
    return any(cell is not None for cell in cells) and not any(isinstance(cell, str | Noted) for cell in cells)
