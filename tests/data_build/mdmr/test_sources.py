from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from data_build.mdmr.settings import Source
from data_build.mdmr.sources import Item, SourceProblem, items
from gnomon.errors import UserError
from gnomon.images import content_hash, save_png
from tests.data_build.mdmr.pictures import encoded, picture


def everything(source: Source) -> list[Item | SourceProblem]:
    return list(items("some", source, lambda member, stamp: True))


def pictures(source: Source) -> dict[str, Item]:
    return {item.member: item for item in everything(source) if isinstance(item, Item)}


def write_tar(file: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(file, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, BytesIO(content))


def test_a_folder_is_gone_through_in_order_with_what_is_said_beside_its_files(tmp_path: Path) -> None:
    save_png(picture(1), tmp_path / "b.png")
    save_png(picture(2), tmp_path / "a" / "x.png")
    save_png(picture(3), tmp_path / "a" / "y.png")
    save_png(picture(4), tmp_path / ".cache" / "hidden.png")
    (tmp_path / "b.txt").write_text("A blue b.\n")
    (tmp_path / "a" / "x.json").write_text(json.dumps({"caption": "An x.", "made_from": "b"}))
    (tmp_path / "a" / "metadata.jsonl").write_text(json.dumps({"file_name": "y.png", "caption": "A y."}) + "\n")

    found = pictures(Source(tmp_path))

    assert list(found) == ["b.png", "a/x.png", "a/y.png"]
    assert [item.caption for item in found.values()] == ["A blue b.", "An x.", "A y."]
    assert [item.made_from for item in found.values()] == [None, "b", None]
    assert content_hash(found["a/x.png"].load()) == content_hash(picture(2))


def test_the_stamp_changes_with_the_picture_and_with_what_is_said_of_it(tmp_path: Path) -> None:
    save_png(picture(1), tmp_path / "b.png")
    stamps = [pictures(Source(tmp_path))["b.png"].stamp]
    (tmp_path / "b.txt").write_text("A caption.")
    stamps.append(pictures(Source(tmp_path))["b.png"].stamp)
    save_png(picture(2, 60), tmp_path / "b.png")
    stamps.append(pictures(Source(tmp_path))["b.png"].stamp)

    assert len(set(stamps)) == 3


@pytest.mark.parametrize("bytes_only", [False, True])
def test_rows_of_parquet_files_hold_bytes_or_paths(tmp_path: Path, bytes_only: bool) -> None:
    save_png(picture(3), tmp_path / "files" / "c.png")
    (tmp_path / "data").mkdir()
    save_png(picture(3), tmp_path / "data" / "c.png")
    first, second = (encoded(picture(seed)) for seed in (1, 2))
    rows = (
        [first, second, first]
        if bytes_only
        else [
            {"bytes": first, "path": "a.png"},
            {"bytes": None, "path": "c.png"},
            {"bytes": None, "path": "../files/c.png"},
        ]
    )
    table = pa.table({"img": rows, "text": ["one", None, "three"], "more": [1, 2, 3]})
    pq.write_table(table, tmp_path / "data" / "t.parquet", row_group_size=2)

    found = pictures(Source(tmp_path / "data" / "t.parquet", image="img", caption="text"))

    assert [item.caption for item in found.values()] == ["one", None, "three"]
    assert content_hash(found["t.parquet#0"].load()) == content_hash(picture(1))
    assert content_hash(found["t.parquet#1"].load()) == content_hash(picture(2 if bytes_only else 3))
    if not bytes_only:
        assert found["t.parquet#2"].data is None
        assert "leaves the dataset folder" in (found["t.parquet#2"].problem or "")


def test_only_wanted_rows_are_read(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [encoded(picture(seed)) for seed in range(5)]}), tmp_path / "t.parquet")

    found = list(items("some", Source(tmp_path), lambda member, stamp: member.endswith("#3")))

    assert [item.member for item in found] == ["t.parquet#3"]


def test_members_of_archives_go_with_their_neighbours(tmp_path: Path) -> None:
    write_tar(
        tmp_path / "0.tar",
        {
            "d/001.jpg": encoded(picture(1), "JPEG"),
            "d/001.json": json.dumps({"caption": "One.", "made_from": "k7"}).encode(),
            "d/001.txt": b"Not this one.",
            "d/002.txt": b"Two.",
            "d/002.png": encoded(picture(2)),
            "d/003.cls": b"3",
        },
    )

    found = pictures(Source(tmp_path))

    assert {member: (item.caption, item.made_from) for member, item in found.items()} == {
        "0.tar#d/001.jpg": ("One.", "k7"),
        "0.tar#d/002.png": ("Two.", None),
    }
    assert content_hash(found["0.tar#d/002.png"].load()) == content_hash(picture(2))


def test_files_that_cannot_be_read_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    members = {f"{number}.png": encoded(picture(number)) for number in range(3)}
    write_tar(tmp_path / "cut.tar", members)
    whole = (tmp_path / "cut.tar").read_bytes()
    (tmp_path / "cut.tar").write_bytes(whole[: len(whole) // 3])
    (tmp_path / "no.tar").write_bytes(b"no archive" * 100)
    (tmp_path / "no.parquet").write_bytes(b"no table")
    pq.write_table(pa.table({"other": [1]}), tmp_path / "other.parquet")
    (tmp_path / "metadata.jsonl").write_text('{"file_name": "z.png", "caption": "A z."}\n{"file": 1}\n')
    (tmp_path / "link.png").symlink_to(tmp_path / "nowhere.png")
    save_png(picture(9), tmp_path / "z.png")
    (tmp_path / "z.json").write_text("{")

    found = everything(Source(tmp_path))

    problems = {item.member: item.message for item in found if isinstance(item, SourceProblem)}
    assert set(problems) == {"cut.tar", "no.tar", "no.parquet", "other.parquet", "metadata.jsonl", "link.png"}
    assert "line 2" in problems["metadata.jsonl"]
    assert "'image'" in problems["other.parquet"]
    good = {item.member: item for item in found if isinstance(item, Item)}
    assert set(good) == {"cut.tar#0.png", "z.png"}
    assert (good["z.png"].caption, "cannot be read" in (good["z.png"].problem or "")) == ("A z.", True)


def test_a_source_that_is_not_there_is_an_error_that_names_its_key(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"gallery\.sources\.some\.path"):
        everything(Source(tmp_path / "nowhere"))
