"""Annotators who agree, differ, are alone, contradict themselves, or speak of nobody."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from data_build.cogcanvas.attributes import describe_references, read_references, report_lines
from data_build.cogcanvas.references import IdentityAttributes
from data_build.cogcanvas.settings import AttributesSettings
from gnomon.errors import UserError
from tests.data_build.cogcanvas.annotator import Annotator
from tests.data_build.cogcanvas.test_attributes import curated


def fill_in(sheet: Path, file: Path, annotator: str, said: dict[str, tuple[str, str, str]]) -> Path:
    """Write a copy of a sheet with what an annotator says of some pictures."""
    rows = list(csv.DictReader(sheet.read_text(encoding="utf-8-sig").splitlines()))
    for row in rows:
        if row["id"] in said:
            row |= {"annotator": annotator, **dict(zip(("age", "gender", "ethnicity"), said[row["id"]], strict=True))}
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    return file


def test_what_all_annotators_say_replaces_the_models_words_field_by_field(tmp_path: Path) -> None:
    folder = curated(tmp_path)
    before = describe_references(folder, AttributesSettings(Annotator()))
    assert "people: audited by nobody" in report_lines(before)
    sheet = folder.stage("attributes") / "audit.csv"
    assert "young_adult" not in sheet.read_text()  # annotators do not see what the model said

    same, man, child = (
        ("young_adult", "woman", "unclear"),
        ("middle_aged", "man", "european"),
        ("child", "man", "unclear"),
    )
    ann = fill_in(
        sheet, tmp_path / "a.csv", "Ann", {"ada-bell-1": same, "ben-cole-1": man, "emil-falk-1": man, "fay-grau-1": man}
    )
    bob = fill_in(sheet, tmp_path / "b.csv", "Bob", {"ada-bell-1": same, "ben-cole-1": man, "emil-falk-1": child})
    extra = tmp_path / "c.jsonl"
    line = '{"id": "%s", "annotator": "Cy", "age": "%s", "gender": "man", "ethnicity": "unclear"}\n'
    extra.write_text(line % ("nobody-1", "child") + line % ("ada-bell-1", "old"))

    report = describe_references(folder, AttributesSettings(Annotator(), audits=[ann, bob, extra]))
    audit = report.audit
    assert (audit.num_audited, audit.num_too_few, audit.num_changed, audit.num_disputed) == (3, 1, 2, 1)
    assert audit.agreed == {"age": 2, "gender": 3, "ethnicity": 2}
    assert audit.problems == {"unknown_item": 1, "bad_line": 1}

    found = {name: one.attributes for name, one in read_references(folder).items()}
    shown = {
        name: (each.age, each.gender, each.ethnicity)
        for name, each in found.items()
        if isinstance(each, IdentityAttributes)
    }
    assert shown["ben-cole-1"] == man
    assert shown["emil-falk-1"] == ("young_adult", "man", "unclear")
    assert shown["fay-grau-1"] == same
    assert describe_references(folder, AttributesSettings(Annotator())).people == before.people


def test_a_file_that_is_no_audit_is_refused(tmp_path: Path) -> None:
    folder = curated(tmp_path)
    (tmp_path / "wrong.csv").write_text("id,name\nx,y\n")
    with pytest.raises(UserError, match="expected a header id,annotator,age,gender,ethnicity"):
        describe_references(folder, AttributesSettings(Annotator(), audits=[tmp_path / "wrong.csv"]))
