"""Cases that are fit for a benchmark or not, and what a benchmark says of itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import bench.benchmarks
from bench.benchmarks import TABLETOP, Benchmark
from bench.description import description
from bench.validation import validate_cases
from gnomon.cli import main
from gnomon.datasets import read_cases, write_records
from gnomon.errors import UserError
from gnomon.records import Case

MakeDataset = Callable[..., Path]

GREY = Benchmark(
    "grey",
    "brightness of grey pictures",
    groups=lambda case: {"task": case.task, "category": case.meta["category"]},
    parts={"category": frozenset({"left", "middle", "right"})},
    source="drawn by a test",
    metrics={"brightness": "how bright", "redness": ""},
    derived={"overall": "the mean"},
)


@pytest.fixture
def grey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.benchmarks, "known_benchmarks", lambda: {"grey": GREY})


def change(root: Path, number: int, **fields: object) -> None:
    """Change one case, leaving the others as they are."""
    cases = read_cases(root)
    cases[number] = Case.model_validate(cases[number].model_dump() | fields)
    write_records(root / "cases.jsonl", cases)


def whole(root: Path) -> Path:
    for number, category in enumerate(("left", "middle", "right")):
        change(root, number, meta={"category": category}, metrics=["brightness"])
    return root


def test_a_whole_folder_is_valid(make_dataset: MakeDataset, grey: None) -> None:
    report = validate_cases(whole(make_dataset(3)))
    assert report.ok
    assert report.num_pictures == 3


def test_what_a_benchmark_asks_for_is_checked_beside_what_any_dataset_needs(
    make_dataset: MakeDataset, grey: None
) -> None:
    root = whole(make_dataset(3))
    change(root, 1, metrics=["brightness", "rednes"])
    change(root, 2, meta={})
    (root / "images/0.png").write_bytes(b"no picture")
    with (root / "cases.jsonl").open("a") as file:
        file.write('{"id": "case-0", "task": 3}\n')
    problems = [str(problem).removeprefix(str(root / "cases.jsonl")) for problem in validate_cases(root).problems]
    assert len(problems) == 5
    assert problems[0].startswith(":1: unreadable picture: ")
    assert problems[1] == ":1: grey has no case in the category right; means over this folder are partial"
    assert problems[2].startswith(":2: unknown metric 'rednes' of case 'case-1' (did you mean 'redness'?)")
    assert problems[3].startswith(":3: case 'case-2' has no group in grey: KeyError('category')")
    assert problems[4].startswith(":4: missing key 'benchmark'")


def test_cases_of_other_benchmarks_may_list_any_metric(make_dataset: MakeDataset) -> None:
    root = make_dataset(2)
    change(root, 0, metrics=["anything"])
    assert validate_cases(root).ok


def test_the_command_ends_with_one_where_something_is_wrong(
    make_dataset: MakeDataset, capsys: pytest.CaptureFixture[str]
) -> None:
    root = make_dataset(2)
    assert main(["bench", "validate", "--cases", str(root)]) == 0
    assert "valid" in capsys.readouterr().out
    (root / "images/1.png").unlink()
    assert main(["bench", "validate", "--cases", str(root)]) == 1
    assert "cases.jsonl:2: missing picture 'images/1.png'" in capsys.readouterr().out


def test_a_folder_without_cases_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"a folder with cases\.jsonl"):
        validate_cases(tmp_path)


def test_a_benchmark_is_described(capsys: pytest.CaptureFixture[str]) -> None:
    text = description(GREY)
    for part in ("drawn by a test", "category: left, middle, right", "brightness (how bright); redness", "overall"):
        assert part in text
    assert "missing_output" in text
    assert main(["bench", "describe", "tabletop"]) == 0
    printed = capsys.readouterr().out
    assert "gnomon data build tabletop" in printed
    assert all(metric in printed for metric in TABLETOP.metrics)
    assert main(["bench", "describe", "tabeltop"]) == 1
    assert "did you mean 'tabletop'" in capsys.readouterr().err
