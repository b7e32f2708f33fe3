from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.human_filter import FilterDecision, filter_samples, kept_samples
from data_build.mdmr.instructions import write_instructions
from data_build.mdmr.settings import FilterSettings, InstructSettings
from gnomon.errors import UserError
from gnomon.jsonl import read_records, write_records
from tests.data_build.mdmr.stages import SAMPLES, sampled
from tests.data_build.mdmr.writers import Author

NAMES = [sample.id for sample in SAMPLES]


@pytest.fixture
def build(tmp_path: Path) -> BuildFolder:
    folder = sampled(tmp_path / "build", SAMPLES)
    write_instructions(folder, InstructSettings(Author()))
    return folder


def review(sample: str, reviewer: str, keep: bool, reason: str | None = None) -> dict[str, Any]:
    return {"sample": sample, "reviewer": reviewer, "keep": keep, "reason": reason}


def outcomes(build: BuildFolder) -> dict[str, str]:
    return {line.sample: line.outcome for line in read_records(build.decisions, FilterDecision)}


def test_without_a_file_everything_stays_and_the_report_says_so(build: BuildFolder) -> None:
    report = filter_samples(build, FilterSettings())

    assert (report.num_samples, report.num_kept, report.outcomes) == (5, 5, {"not_filtered": 5})
    assert kept_samples(build) == set(NAMES)
    assert "nobody looked through them" in (build.stage("filter") / "report.txt").read_text()


def test_the_sheet_filled_in_decides(build: BuildFolder, tmp_path: Path) -> None:
    sheet = build.stage("instruct") / "review.csv"
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for row, keep in zip(rows, ["yes", "no", "", "TRUE", "1"], strict=True):
        row |= {"keep": keep, "reviewer": "Ann" if keep else "", "reason": "Too dark" if keep == "no" else ""}
    filled = tmp_path / "ann.csv"
    write_rows(filled, rows)
    report = filter_samples(build, FilterSettings([filled]))

    assert outcomes(build) == dict(
        zip(NAMES, ["approved", "rejected", "too_few_reviews", "approved", "approved"], strict=True)
    )
    assert (report.num_kept, report.reasons, report.problems) == (3, {"too dark": 1}, {})
    assert kept_samples(build) == {"fusion-1", "poster-1", "logic-1"}


def write_rows(path: Path, rows: Sequence[dict[str, str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_contradictory_repeated_and_unknown_lines_are_named_and_counted(build: BuildFolder, tmp_path: Path) -> None:
    ann = [review(name, "ann", True) for name in NAMES]
    bob = [
        review("fusion-1", "bob", True),
        review("fusion-1", "Bob ", False),
        review("hair-1", "bob", True),
        review("hair-1", "bob", True),
        review("hair-2", "bob", True),
        review("poster-1", "bob", False, "unclear"),
        {"sample": "logic-1", "reviewer": "bob"},
    ]
    write_records(tmp_path / "ann.jsonl", ann)
    write_records(tmp_path / "bob.jsonl", bob)
    report = filter_samples(build, FilterSettings([tmp_path / "ann.jsonl", tmp_path / "bob.jsonl"], num_reviewers=2))

    assert outcomes(build) == {
        "fusion-1": "contradictory_reviews",
        "hair-1": "approved",
        "hair-1-synthetic": "too_few_reviews",
        "poster-1": "rejected",
        "logic-1": "too_few_reviews",
    }
    assert report.problems == {"contradictory": 1, "repeated": 1, "unknown_item": 1, "bad_line": 1}
    problems = [json.loads(line) for line in (build.stage("filter") / "problems.jsonl").read_text().splitlines()]
    assert [(Path(line["file"]).name, line["line"], line["kind"]) for line in problems] == [
        ("bob.jsonl", 2, "contradictory"),
        ("bob.jsonl", 4, "repeated"),
        ("bob.jsonl", 5, "unknown_item"),
        ("bob.jsonl", 7, "bad_line"),
    ]
    assert "did you mean 'hair-1'" in problems[2]["message"]


def test_new_reviews_are_another_decision_in_the_same_folder(build: BuildFolder, tmp_path: Path) -> None:
    filter_samples(build, FilterSettings())
    write_records(tmp_path / "ann.jsonl", [review("fusion-1", "ann", True)])
    filter_samples(build, FilterSettings([tmp_path / "ann.jsonl"]))
    assert kept_samples(build) == {"fusion-1"}

    write_records(tmp_path / "ann.jsonl", [review("fusion-1", "ann", False)])
    with pytest.raises(UserError, match="no sample is kept: too_few_reviews 4, rejected 1"):
        filter_samples(build, FilterSettings([tmp_path / "ann.jsonl"]))


def test_what_is_missing_or_out_of_range_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"filter\.num_reviewers >= 1, got 0"):
        filter_samples(BuildFolder(tmp_path), FilterSettings(num_reviewers=0))
    with pytest.raises(UserError, match=r"of the stage instruct.*--stage instruct"):
        filter_samples(BuildFolder(tmp_path), FilterSettings())
