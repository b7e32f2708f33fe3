from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from statsmodels.stats.proportion import proportion_confint

from data_build.checklist_audit import ItemJudgement, merge_audit, validity_rate, write_audit_sheet
from gnomon.cli import main
from gnomon.errors import UserError
from gnomon.jsonl import write_records
from gnomon.records import Case, Question, Text

DIMENSIONS = ("following", "quality")


def make_cases(folder: Path, sizes: list[int]) -> Path:
    cases = [
        Case(
            id=f"case-{number}",
            benchmark="mdmr-bench",
            task="entity_fusion",
            instruction=Text(en="Put them together.", zh="放在一起。"),
            questions=[
                Question(
                    id=f"q-{place}",
                    text=Text(en=f"Is it {place}?", zh=f"是{place}吗？"),
                    dimension=DIMENSIONS[place % 2],
                    about=["instruction"],
                )
                for place in range(size)
            ],
        )
        for number, size in enumerate(sizes)
    ]
    write_records(folder / "cases.jsonl", cases)
    return folder


def judged(auditor: str, *, invalid: set[int], size: int) -> list[ItemJudgement]:
    return [
        ItemJudgement(case="case-0", question=f"q-{place}", auditor=auditor, valid=place not in invalid)
        for place in range(size)
    ]


def test_the_papers_audit_is_reproduced(tmp_path: Path) -> None:
    sizes = [30] * 62 + [29] * 38
    assert sum(sizes) == 2962
    cases = make_cases(tmp_path / "cases", sizes)
    num_cases, num_questions = write_audit_sheet(cases, tmp_path / "sheet.csv", num_cases=100)
    assert (num_cases, num_questions) == (100, 2962)

    with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    for place, row in enumerate(rows):
        row |= {"auditor": "ann", "valid": "no" if place % 80 == 7 and place < 80 * 37 else "yes"}
    with (tmp_path / "filled.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    report = merge_audit(cases, [tmp_path / "filled.csv"])

    assert report.rate is not None
    assert (report.rate.num_valid, report.rate.num_items, report.rate.num_cases) == (2925, 2962, 100)
    assert f"{100 * report.rate.value:.2f}" == "98.75"
    assert len(report.invalid) == 37
    low, high = proportion_confint(2925, 2962, method="wilson")
    assert report.rate.wilson_low == pytest.approx(low, abs=1e-12)
    assert report.rate.wilson_high == pytest.approx(high, abs=1e-12)
    assert report.rate.ci_low is not None
    assert report.rate.ci_high is not None
    assert report.rate.ci_low < 2925 / 2962 < report.rate.ci_high
    assert sum(rate.num_items for rate in report.dimensions.values()) == 2962
    assert (report.num_missing, report.num_undecided, report.num_contradictory, report.problems) == (0, 0, 0, {})


def test_the_interval_by_case_is_wider_where_faults_come_together() -> None:
    together = {(f"case-{case}", f"q-{place}"): case >= 5 for case in range(50) for place in range(20)}
    apart = {(f"case-{case}", f"q-{place}"): place % 10 != 0 for case in range(50) for place in range(20)}
    first, second = validity_rate(together), validity_rate(apart)

    assert first.value == second.value == 0.9
    assert (first.wilson_low, first.wilson_high) == (second.wilson_low, second.wilson_high)
    assert first.ci_low is not None
    assert first.ci_low < first.wilson_low
    assert [second.ci_low, second.ci_high] == pytest.approx([0.9, 0.9])


def test_where_all_are_valid_wilson_still_says_something() -> None:
    rate = validity_rate({(f"case-{case}", "q"): True for case in range(10)})

    assert (rate.value, rate.ci_low, rate.ci_high, rate.wilson_high) == (1.0, 1.0, 1.0, 1.0)
    assert rate.wilson_low == pytest.approx(10 / (10 + 1.959964**2), abs=1e-5)  # n / (n + z^2)
    assert validity_rate({("case", "q"): True}).ci_low is None


def test_people_disagree_contradict_themselves_and_leave_gaps(tmp_path: Path) -> None:
    cases = make_cases(tmp_path / "cases", [6, 3])
    ann, bob = judged("ann", invalid={1, 2}, size=5), judged("bob", invalid={1}, size=3)
    again = [line.model_copy(update={"auditor": " ANN", "valid": not line.valid}) for line in ann[4:]]
    unknown = [
        ItemJudgement(case="case-0", question="q-9", auditor="bob", valid=True),
        ItemJudgement(case="case-7", question="q-0", auditor="bob", valid=True),
    ]
    write_records(tmp_path / "ann.jsonl", [*ann, *again])
    write_records(tmp_path / "bob.jsonl", [*bob, *bob[:1], *unknown])
    report = merge_audit(cases, [tmp_path / "ann.jsonl", tmp_path / "bob.jsonl"])

    # q-0 is valid, q-1 invalid, q-2 one against one, q-3 valid by ann alone, q-4 contradictory, q-5 missing; nobody
    # judged case-1.
    assert report.rate is not None
    assert (report.rate.num_valid, report.rate.num_items) == (2, 3)
    assert (report.num_items, report.num_auditors) == (6, 2)
    assert (report.num_undecided, report.num_contradictory, report.num_missing) == (1, 1, 1)
    assert report.problems == {"unknown_item": 2, "contradictory": 1, "repeated": 1}
    assert [item.question for item in report.invalid] == ["q-1"]


def test_a_larger_sheet_holds_the_smaller_one(tmp_path: Path) -> None:
    cases = make_cases(tmp_path / "cases", [1] * 30)
    drawn = []
    for num, seed in ((5, 0), (9, 0), (5, 1)):
        write_audit_sheet(cases, tmp_path / "sheet.csv", num_cases=num, seed=seed)
        with (tmp_path / "sheet.csv").open(encoding="utf-8-sig", newline="") as file:
            drawn.append({row["case"] for row in csv.DictReader(file)})

    assert [len(some) for some in drawn] == [5, 9, 5]
    assert drawn[0] < drawn[1]
    assert drawn[0] != drawn[2]


def test_the_command_writes_and_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases, sheet = make_cases(tmp_path / "cases", [4, 4]), tmp_path / "sheet.csv"
    command = ["data", "audit-checklists", "--cases", str(cases)]

    assert main([*command, "--sheet", str(sheet)]) == 0
    assert f"8 questions of 2 cases in {sheet}" in capsys.readouterr().out
    assert main([*command, "--filled", str(sheet)]) == 1
    assert "no question was judged" in capsys.readouterr().err

    write_records(tmp_path / "ann.jsonl", judged("ann", invalid={3}, size=4))
    assert main([*command, "--filled", str(tmp_path / "ann.jsonl"), "--json", str(tmp_path / "audit.json")]) == 0
    printed = capsys.readouterr().out
    assert "4 items judged by 1 people: 4 decided, 0 undecided, 0 contradictory, 0 missing" in printed
    assert "all        3      4      75.00 %" in printed
    assert json.loads((tmp_path / "audit.json").read_text())["rate"]["num_valid"] == 3

    assert main(command) == 1
    assert "exactly one of --sheet" in capsys.readouterr().err


def test_cases_without_checklists_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected cases with questions in .*, got none"):
        write_audit_sheet(make_cases(tmp_path, [0]), tmp_path / "sheet.csv", num_cases=1)
