"""Mapping files: which picture belongs to which case, and every row that is wrong by its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.mapping import ByMapping
from gnomon.errors import UserError
from gnomon.records import Case, Text


def case(case_id: str) -> Case:
    return Case(id=case_id, benchmark="b", task="t", instruction=Text(en="do"))


FORMS = {
    "list.json": json.dumps([{"case_id": "a", "path": "x/1.png"}, {"case_id": "图,1", "path": "2.png"}]),
    "object.json": json.dumps({"a": "x/1.png", "图,1": "2.png"}),
    "lines.jsonl": '{"case_id": "a", "path": "x/1.png"}\n\n{"case_id": "图,1", "path": "2.png"}\n',
    "table.csv": 'case_id,path\na,x/1.png\n"图,1",2.png\n',
    "excel.csv": '\ufeffcase_id,path\r\na,./x/1.png\r\n"图,1",2.png\r\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_says_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMS[name].encode())
    (tmp_path / "x").mkdir()
    (tmp_path / "x/1.png").write_bytes(b"")
    mapping = ByMapping(tmp_path / name)
    mapping.check([case("a"), case("图,1"), case("c")])
    assert not mapping.has_seeds
    assert mapping.find(str(tmp_path), case("a"), 5) == [f"{tmp_path}/x/1.png"]
    assert mapping.find(str(tmp_path), case("图,1"), 0) == []
    assert mapping.name(case("图,1"), 0) == "2.png"
    assert mapping.name(case("c"), 0) == f"for case 'c' in {name}"


def test_a_column_of_seeds_tells_repeats_apart(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("case_id,path,seed\na,1.png,0\na,2.png,1\n")
    mapping = ByMapping(tmp_path / "m.csv")
    assert mapping.has_seeds
    assert [mapping.name(case("a"), seed) for seed in range(3)] == [
        "1.png",
        "2.png",
        "for case 'a' with seed 2 in m.csv",
    ]


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("m.csv", "case_id,path\na,1.png\na,2.png\n", "m.csv:3: case 'a' has a path already, '1.png'"),
        ("m.csv", "case_id,path\na,/etc/x.png\n", "m.csv:2: expected a path below the folder"),
        ("m.csv", "case_id,path\na,../x.png\n", "got '../x.png'"),
        ("m.csv", "case_id,path\na,\n", "m.csv:2: missing key 'path'"),
        ("m.csv", "case_id,path\na,b,c\n", "m.csv:2: unknown key '(more)'"),
        ("m.csv", "case_id,path,seed\na,1.png,one\n", "m.csv:2: seed: "),
        ("m.csv", "case_id,path,seed\na,1.png,0\nb,1.png,\n", "a seed in every row or in none"),
        ("m.csv", "id,path\na,1.png\n", "m.csv:1: expected the columns"),
        ("m.csv", "", "m.csv:1: expected the columns"),
        ("m.csv", 'case_id,path\n"a,1.png\n', "m.csv: unexpected end of data"),
        ("m.jsonl", '{"case_id": "a"}\n', "m.jsonl:1: missing key 'path'"),
        ("m.jsonl", '{"case_id": "a", "path": "x", "note": 1}\n', "m.jsonl:1: unknown key 'note'"),
        ("m.json", '{"a": "1.png", "a": "2.png"}', "'a' twice"),
        ("m.json", '["a"]', "m.json, row 1: record: "),
        ("m.json", '{"a": 3}', "m.json, row 1: path: "),
        ("m.json", '"a"', "expected a list of rows"),
        ("m.json", "{", "expected JSON in"),
        ("m.tsv", "", "ends in .json, .jsonl, .csv"),
    ],
)
def test_a_wrong_row_is_named(tmp_path: Path, name: str, content: str, named: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(UserError) as raised:
        ByMapping(tmp_path / name)
    assert named in str(raised.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    for name in ("m.csv", "m.json", "m.jsonl"):
        with pytest.raises(UserError, match=name):
            ByMapping(tmp_path / name)
    (tmp_path / "m.csv").write_bytes(b"case_id,path\n\xff,x\n")
    with pytest.raises(UserError, match=r"readable mapping file at .*m\.csv"):
        ByMapping(tmp_path / "m.csv")


def test_all_wrong_rows_are_counted_and_some_shown(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("case_id,path\n" + "".join(f"{place},/x\n" for place in range(5)))
    with pytest.raises(UserError, match=r"m\.csv:2: .*m\.csv:3: .*m\.csv:4: .*; and 2 more\. Mend"):
        ByMapping(tmp_path / "m.csv")


def test_unknown_ids_come_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("case_id,path\ncase_0,1.png\ncase-1,2.png\n")
    with pytest.raises(UserError, match=r"m\.csv:2: no case has the id 'case_0' \(did you mean 'case-0'\?\)"):
        ByMapping(tmp_path / "m.csv").check([case("case-0"), case("case-1")])
