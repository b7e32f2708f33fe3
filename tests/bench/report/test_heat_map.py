"""A heat map as SVG: numbers in cells, gaps, and what is refused."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from bench.report.heat_map import plot_heat_map


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag == "text"]


def test_every_cell_holds_its_number_and_deeper_cells_are_higher() -> None:
    svg = plot_heat_map(
        ["entity_fusion", "b"], ["one", "two <b>"], [[0.0, 100.0], [42.25, None]], title="t", highest=100
    )
    assert {"entity fusion", "b", "one", "two <b>", "0.0", "100.0", "42.2", "–"} <= set(texts(svg))
    opacities = [float(found) for found in re.findall(r"opacity: ([\d.]+)", svg)]
    assert len(opacities) == 3
    assert opacities[0] < opacities[2] < opacities[1]
    assert svg.startswith('<svg role="img" aria-label="t"')
    assert "currentColor" in svg
    assert "#010203" not in svg


def test_shares_have_two_decimals() -> None:
    assert "0.25" in texts(plot_heat_map(["a"], ["b"], [[0.25]], title="t", highest=1))


@pytest.mark.parametrize(
    ("values", "message"), [([[1.0]], "expected 1 x 2 values"), ([[1.0, 101.0]], "expected values from 0 to 100")]
)
def test_what_does_not_fit_is_refused(values: list[list[float | None]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        plot_heat_map(["a"], ["b", "c"], values, title="t", highest=100)
