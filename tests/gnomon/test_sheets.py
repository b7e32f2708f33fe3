from __future__ import annotations

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import UserError
from gnomon.jsonl import Line
from gnomon.records import Record
from gnomon.sheets import iterate_sheet, write_sheet


class Opinion(Record):
    """A row of the tests."""

    item: str
    valid: bool
    comment: str | None = None


def rows(path: Path) -> list[Line[Opinion]]:
    return list(iterate_sheet(path, Opinion, filled_in=["valid"], shown=["text"]))


def test_a_sheet_goes_out_and_comes_back_filled_in(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    write_sheet(sheet, ["item", "text", "valid", "comment"], [{"item": "a", "text": "1, 2"}, {"item": "b"}])
    assert sheet.read_bytes().decode("utf-8-sig") == 'item,text,valid,comment\r\na,"1, 2",,\r\nb,,,\r\n'
    assert sheet.read_bytes().startswith(b"\xef\xbb\xbf")
    assert rows(sheet) == []

    sheet.write_text('comment,item,valid,text\n fine , a , Yes ,"1, 2"\n,b,,\n\n,c,0,\n', encoding="utf-8")
    assert rows(sheet) == [
        Line(2, Opinion(item="a", valid=True, comment="fine"), None),
        Line(5, Opinion(item="c", valid=False), None),
    ]


def test_what_is_wrong_with_a_row_is_said_and_the_rest_goes_on(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("item,valid\na,maybe\n,yes\nb,yes,no\nc,no\n")
    found = rows(sheet)

    assert [line.number for line in found] == [2, 3, 4, 5]
    words = ["valid: Input should be a valid boolean", "missing key 'item'", "expected 2 cells, got 3"]
    for line, word in zip(found, words, strict=False):
        assert word in (line.problem or "")
    assert found[3].record == Opinion(item="c", valid=False)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("item,valdi\na,1\n", r"sheet\.csv:1: expected a header item,valid, each once.*got item,valdi"),
        ("item,valid,valid\n", "each once"),
        ("item,valid,other\n", "and at most comment,text besides"),
        ("", "got an empty file"),
        ('item,valid\n"a,1\n', r"sheet\.csv:2: expected a row of comma-separated cells"),
    ],
)
def test_a_file_that_is_no_such_sheet_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "sheet.csv").write_text(text)
    with pytest.raises(UserError, match=words):
        rows(tmp_path / "sheet.csv")


def test_no_cell_is_a_formula_and_ids_come_back_as_they_were(tmp_path: Path) -> None:
    sheet = tmp_path / "sheet.csv"
    write_sheet(sheet, ["item", "valid"], [{"item": "=1+1", "valid": "yes"}])
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        assert list(csv.DictReader(file)) == [{"item": "'=1+1", "valid": "yes"}]

    assert [line.record for line in rows(sheet)] == [Opinion(item="=1+1", valid=True)]


@given(text=st.text(min_size=1).map(str.strip).filter(bool))
def test_any_text_survives(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    sheet = tmp_path_factory.mktemp("sheets") / "sheet.csv"
    write_sheet(sheet, ["item", "valid"], [{"item": text, "valid": "1"}])
    assert [line.record for line in rows(sheet)] == [Opinion(item=text, valid=True)]
