"""Drawings as SVG: what is in them, read as XML."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable

import numpy as np
import pytest

from bench.report.plots import (
    MAX_SERIES,
    Bar,
    Series,
    plot_bars,
    plot_curves,
    plot_grouped_bars,
    plot_histogram,
    plot_radar,
)


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter() if element.tag == "text"]


def test_a_curve_has_labels_legend_and_one_band_for_each_series_with_bounds() -> None:
    with_band = Series("judge <reward> $5 & $6", [0, 4, 8], [0.1, 0.2, 0.3], [0.0, 0.1, 0.2], [0.2, 0.3, 0.4])
    without = Series("oracle", [0, 4, 8], [0.3, None, 0.2])
    svg = plot_curves([with_band, without], title="Reward", x_label="iteration", y_label="score (0..1)")
    assert {"Reward", "iteration", "score (0..1)", "judge <reward> $5 & $6", "oracle"} <= set(texts(svg))
    assert svg.count("FillBetween") == 1
    assert svg.startswith('<svg role="img" aria-label="Reward"')


def test_drawings_hold_no_address_and_take_the_pages_ink() -> None:
    svg = plot_bars([Bar("a", 0.5, 0.4, 0.6)], title="t", x_label="x")
    assert "http" not in svg
    assert "currentColor" in svg
    assert "#010203" not in svg
    targets = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', svg))
    assert targets <= set(re.findall(r'id="([^"]+)"', svg))


def test_equal_data_gives_an_equal_drawing() -> None:
    bars = [Bar("a", 0.5, 0.4, 0.6), Bar("b", -0.1)]
    assert plot_bars(bars, title="t", x_label="x") == plot_bars(bars, title="t", x_label="x")


def test_a_bar_without_interval_has_no_whisker_and_long_labels_are_shortened() -> None:
    both = plot_bars([Bar("a" * 40, 0.5, 0.4, 0.6), Bar("b", 0.2)], title="t", x_label="x")
    assert any(text == "a" * 23 + "…" for text in texts(both))


def test_histogram_names_each_group_with_its_size() -> None:
    values = np.random.default_rng(0).normal(size=50)
    svg = plot_histogram({"before": list(values), "after": [1.0], "empty": []}, title="t", x_label="reward")
    assert {"before (n = 50)", "after (n = 1)"} <= set(texts(svg))
    assert not any("empty" in text for text in texts(svg))


def test_grouped_bars_name_groups_and_series_and_leave_a_place_empty() -> None:
    first, second = [Bar("add", 0.5, 0.4, 0.6), Bar("remove", 0.2)], [Bar("remove", 0.3)]
    svg = plot_grouped_bars(["add", "remove"], {"one": first, "two": second}, title="t", x_label="mean")
    assert {"add", "remove", "one", "two", "mean"} <= set(texts(svg))


def test_a_radar_names_its_spokes_and_a_gap_opens_its_line() -> None:
    whole = plot_radar(["add", "visual_text", "style"], {"one": [0.5, 0.2, 0.9]}, title="t")
    assert {"add", "visual text", "style"} <= set(texts(whole))
    both = plot_radar(["a", "b", "c"], {"one": [0.5, 0.2, 0.9], "two": [0.5, None, 0.9]}, title="t")
    assert {"one", "two"} <= set(texts(both))


def test_a_radar_of_negative_values_or_other_lengths_is_refused() -> None:
    for values in ([0.1, -0.1, 0.2], [0.1, 0.2]):
        with pytest.raises(ValueError, match="expected 3 values of at least 0"):
            plot_radar(["a", "b", "c"], {"one": values}, title="t")


def test_more_series_than_can_be_told_apart_are_refused() -> None:
    many = {str(position): [Bar("a", 0.1)] for position in range(MAX_SERIES + 1)}
    with pytest.raises(ValueError, match=f"1 to {MAX_SERIES} series"):
        plot_grouped_bars(["a"], many, title="t", x_label="x")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: plot_curves([], title="t", x_label="x", y_label="y"),
        lambda: plot_bars([], title="t", x_label="x"),
        lambda: plot_histogram({"a": []}, title="t", x_label="x"),
    ],
)
def test_nothing_to_draw_is_refused(draw: Callable[[], str]) -> None:
    with pytest.raises(ValueError, match="expected at least one"):
        draw()


def test_curves_with_unequal_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match="got 2 and 1"):
        plot_curves([Series("a", [0, 1], [0])], title="t", x_label="x", y_label="y")


def test_sizes_are_ticked_as_they_are_on_a_logarithmic_axis() -> None:
    svg = plot_curves(
        [Series("family", [0.8, 8, 235], [0.4, 0.5, 0.6])], title="t", x_label="x", y_label="y", logarithmic=True
    )
    assert [text for text in texts(svg) if text in ("0.8", "8", "235")] == ["0.8", "8", "235"]
    places = [float(place) for place in re.findall(r'<use [^>]*x="([\d.]+)" y="[\d.]+"', svg)][:3]
    assert (places[1] - places[0]) / (places[2] - places[1]) == pytest.approx(
        math.log(10) / math.log(235 / 8), rel=0.01
    )


def test_curves_from_zero_show_it_and_numbers_have_no_offset() -> None:
    """Three values that differ by a thousandth: without zero their differences would fill the drawing."""
    curve = Series("a", [2, 3, 4], [99.998, 99.999, 100.0])
    for from_zero in (True, False):
        drawing = plot_curves([curve], title="t", x_label="x", y_label="y", from_zero=from_zero)
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", drawing)
        assert ("0" in texts) == from_zero
        assert not any(text.startswith("+") for text in texts)
