"""Reading ratings from CSV: what spreadsheets write, and what is wrong named by file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.ratings import read_ratings
from bench.statistics.ratings import Level, Ratings
from gnomon.errors import UserError


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "ratings.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def triples(ratings: Ratings) -> set[tuple[str, str, object]]:
    rows = zip(ratings.item, ratings.rater, ratings.code, strict=True)
    return {(ratings.items[item], ratings.raters[rater], ratings.domain[code]) for item, rater, code in rows}


def test_a_file_without_groups_is_one_group(tmp_path: Path) -> None:
    path = write(tmp_path, "item,rater,value\na,x,1\na,y,2.5\nb,x,-3e1\nb,y,\n")
    (only,) = (groups := read_ratings(path, "interval")).values()
    assert list(groups) == ["all"]
    assert triples(only) == {("a", "x", 1.0), ("a", "y", 2.5), ("b", "x", -30.0)}
    assert (only.items, only.raters, only.domain) == (("a", "b"), ("x", "y"), (-30.0, 1.0, 2.5))


def test_groups_keep_their_items_apart(tmp_path: Path) -> None:
    path = write(tmp_path, "group,item,rater,value\nm1,a,x,yes\nm2,a,x,no\nm1,a,y,yes\n")
    groups = read_ratings(path, "nominal")
    assert list(groups) == ["m1", "m2"]
    assert triples(groups["m1"]) == {("a", "x", "yes"), ("a", "y", "yes")}
    assert triples(groups["m2"]) == {("a", "x", "no")}


@pytest.mark.parametrize("level", ["nominal", "ordinal"])
def test_what_spreadsheets_write_is_read(tmp_path: Path, level: Level) -> None:
    text = '\ufeffvalue, item ,rater\r\n 3 ,"图片,一",甲\r\n\r\n,"say ""hi""\r\nthere",甲\r\n2,"图片,一",乙\r\n,,\r\n'
    (ratings,) = read_ratings(write(tmp_path, text), level).values()
    assert ratings.items == ("图片,一", 'say "hi"\r\nthere')
    assert ratings.raters == ("甲", "乙")
    expected = ("3", "2") if level == "nominal" else (3.0, 2.0)
    assert triples(ratings) == {("图片,一", "甲", expected[0]), ("图片,一", "乙", expected[1])}


HEADER = "item,rater,value\n"


@pytest.mark.parametrize(
    ("text", "level", "message"),
    [
        ("", "nominal", "expected a header item,rater,value in {path}, got an empty file"),
        ("\n  \n", "nominal", "expected a header item,rater,value in {path}, got an empty file"),
        (HEADER, "nominal", "expected ratings in {path}, got a header without rows"),
        ("item,value\na,1\n", "nominal", "{path}:1: expected the header item,rater,value and at most a column group"),
        ("item,rater,value,grup\na,x,1,g\n", "nominal", "got item,rater,value,grup"),
        ("item,rater,value,item\na,x,1,b\n", "nominal", "got item,rater,value,item"),
        ("item;rater;value\na;x;1\n", "nominal", "got item;rater;value"),
        (HEADER + "a,x,1\nb,x\n", "nominal", "{path}:3: expected 3 cells (item,rater,value), got 2"),
        (HEADER + "a,b,x,1\n", "nominal", "{path}:2: expected 3 cells (item,rater,value), got 4; put quotes"),
        (HEADER + "a,x,1\n,x,1\n", "nominal", "{path}:3: expected a name in the column item, got an empty cell"),
        (HEADER + "a,,1\n", "nominal", "{path}:2: expected a name in the column rater"),
        ("group,item,rater,value\n,a,x,1\n", "nominal", "{path}:2: expected a name in the column group"),
        (
            HEADER + 'a,x,1\n"b\nc",x,1\na,y,1\n\na,x,\n',
            "nominal",
            "{path}:7: expected one row per item and rater, got a second one of item 'a' by rater 'x' (the first is in "
            "line 2)",
        ),
        (HEADER + 'a,x,1\n"b,x,1\n', "nominal", "{path}:3: expected a row of comma-separated cells"),
        (HEADER + "a,x,1\nb,x,good\n", "ordinal", "{path}:3: expected a number, which the level ordinal compares"),
        (HEADER + "a,x,nan\n", "interval", "{path}:2: expected a number, which the level interval compares, got 'nan'"),
        (HEADER + "a,x,inf\n", "ordinal", "got 'inf'"),
        (HEADER + "a,x,1_000\n", "ordinal", "got '1_000'; leave the cell empty where a rating is missing"),
        (HEADER + 'a,x,"1,5"\n', "ordinal", "got '1,5'"),
        (HEADER.encode() + b"a,x,\xff\n", "nominal", "expected UTF-8 text in {path}"),
        ("item,rater,value\n".encode("utf-16"), "nominal", "expected UTF-8 text in {path}"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str | bytes, level: Level, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(UserError) as caught:
        read_ratings(path, level)
    assert message.format(path=path) in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected a readable CSV file at .*missing\.csv: No such file"):
        read_ratings(tmp_path / "missing.csv", "nominal")
    with pytest.raises(UserError, match="Is a directory"):
        read_ratings(tmp_path, "nominal")
