"""The pages of a run and of a comparison, from real run folders."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from bench.report.pages import write_comparison_page, write_run_page
from bench.workflow import compare, generate, judge

MakeDataset = Callable[..., Path]


def test_the_page_of_a_run_shows_counts_intervals_and_pictures(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    generate(make_dataset(6, instruction="<script>alert(1)</script>"), run, brightness.NoisyCopy(), name="copy <b>")
    (run / "images/case-0_0.png").unlink()
    judge(run, brightness.BrightnessJudge())
    html = write_run_page(run, num_examples=3).read_text()
    assert "<script" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; 5" in html
    assert "copy &lt;b&gt; on grey" in html
    assert "1 missing_<wbr>output" in html
    assert "n = 5 of 6" in html
    assert html.count('class="row"') == 3
    assert html.count("<svg") == 2
    assert "<td>missing_<wbr>output</td>" in html
    best, worst = html.index("The best"), html.index("The worst")
    assert re.findall(r"case (case-\d)<", html[best:worst])[0] != re.findall(r"case (case-\d)<", html[worst:])[0]


def test_what_does_not_apply_is_no_failure(make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path) -> None:
    run = tmp_path / "run"
    generate(make_dataset(3), run, brightness.NoisyCopy(), name="copy", max_references=0)
    judge(run, brightness.BrightnessJudge())
    html = write_run_page(run).read_text()
    assert '<div class="tile neutral"><dt>not_<wbr>applicable</dt><dd class="value">3</dd>' in html
    assert "Failures by kind" not in html


def test_a_run_that_was_not_judged_has_a_page_too(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    generate(make_dataset(2), tmp_path / "run", brightness.NoisyCopy(), name="copy")
    html = write_run_page(tmp_path / "run").read_text()
    assert html.count('class="row"') == 2
    assert (tmp_path / "run/results.json").exists()


def test_the_page_of_a_comparison_shows_differences_and_both_pictures(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root = make_dataset(6)
    for name, offset in (("before", 0), ("after", 51)):
        generate(root, tmp_path / name, brightness.NoisyCopy(offset), name=name)
        judge(tmp_path / name, brightness.BrightnessJudge())
    folders = (tmp_path / "before", tmp_path / "after", tmp_path / "out")
    html = write_comparison_page(*folders, compare(*folders)).read_text()
    assert '<div class="tile good"><dt>brightness</dt><dd class="value">+0.200</dd>' in html
    assert html.count("<img") == 18
    assert "6 pairs" in html


def test_two_runs_of_one_generator_are_told_apart_in_their_comparison(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root = make_dataset(2)
    folders = (tmp_path / "old", tmp_path / "new", tmp_path / "out")
    for folder in folders[:2]:
        generate(root, folder, brightness.NoisyCopy(), name="copy")
        judge(folder, brightness.BrightnessJudge())
    html = write_comparison_page(*folders, compare(*folders)).read_text()
    assert "copy (new) minus copy (old), paired by case" in html
