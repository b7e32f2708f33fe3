"""What all importers share: rows that cannot be used, paths that leave, links, limits, memory and the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from PIL import Image

from data_build.importers.rows import find_files, iterate_rows
from data_build.importers.table import IMPORTERS
from gnomon.cli import main
from gnomon.datasets import read_comparisons
from gnomon.errors import UserError


def run(*argv: object) -> int:
    return main(["data", "import", *map(str, argv)])


def row(number: int, **changes: Any) -> dict[str, Any]:
    return {"prompt": f"p{number}", "path1": "one.png", "path2": "two.png", **changes}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    folder.mkdir()
    for name, colour in (("one.png", "red"), ("two.png", "blue")):
        Image.new("RGB", (4, 4), colour).save(folder / name)
    (folder / "train.json").write_text(json.dumps([row(0), row(1), row(2)]))
    return folder


def test_a_set_is_imported_by_name(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run("hpdv3", "--from", source, "--out", out) == 0
    assert f"3 comparisons of 3 rows in {out}" in capsys.readouterr().out
    found = read_comparisons(out)
    assert [item.id for item in found] == [f"hpdv3-train-{number:07d}" for number in (1, 2, 3)]
    assert {item.source for item in found} == {"MizzenAI/HPDv3"}
    assert (out / "images/one.png").samefile(source / "one.png")  # a link, no second copy
    before = (out / "comparisons.jsonl").read_bytes()
    assert run("hpdv3", "--from", source, "--out", out) == 0
    assert (out / "comparisons.jsonl").read_bytes() == before
    assert main(["data", "validate", str(out)]) == 0


def test_only_so_many_rows_are_read(source: Path, tmp_path: Path) -> None:
    assert run("hpdv3", "--from", source, "--out", tmp_path / "out", "--limit", 2) == 0
    assert len(read_comparisons(tmp_path / "out")) == 2


def test_rows_that_cannot_be_used_are_counted_and_named(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "broken.png").write_text("no picture")
    lines = [
        json.dumps(row(1)),
        "{broken",
        json.dumps(row(2, path1="gone.png")),
        json.dumps(row(3, path1="broken.png")),
        json.dumps(row(4, path1="../secret.png")),
        json.dumps(row(5, path1="/etc/passwd")),
        json.dumps(row(6, prompt="")),
        json.dumps(row(7, path2=None)),
        json.dumps([1]),
        json.dumps(row(9, path1=f"{'long' * 99}.png")),
        json.dumps(row(10, prompt="half a character: \ud83d")),
        "[" * 100_000,
        json.dumps(row(8)),
    ]
    (source / "train.json").unlink()
    (source / "train.jsonl").write_text("\n".join(lines))

    assert run("hpdv3", "--from", source, "--out", tmp_path / "out") == 0

    assert "rows left out: bad_row 7, missing_picture 3, unreadable_picture 1" in capsys.readouterr().out
    problems = [json.loads(line) for line in (tmp_path / "out/problems.jsonl").read_text().splitlines()]
    assert [(item["file"], item["row"]) for item in problems] == [("train.jsonl", number) for number in range(2, 13)]
    assert json.loads((tmp_path / "out/summary.json").read_text())["num_rows"] == 13
    assert not [path for path in (tmp_path / "out").rglob("*") if "secret" in path.name or "passwd" in path.name]
    assert len(read_comparisons(tmp_path / "out")) == 2


def test_a_set_without_a_usable_row_is_an_error_with_the_first_reason(
    source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("mmrb2", "--from", source, "--out", tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert "none of 3 can be used (bad_row: 3; the first: train.json, row 1: " in error
    assert not (tmp_path / "out/comparisons.jsonl").exists()


def test_a_folder_without_files_and_a_file_that_is_broken_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found none; check --from"):
        find_files(tmp_path, frozenset())
    broken = {"a.json": b"[1", "b.parquet": b"PAR1", "c.json": b"\xff", "d.json": b'{"a": 1}', "e.json": b"[" * 10**5}
    for name, content in broken.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=name):
            list(iterate_rows(tmp_path / name, name))


@pytest.mark.parametrize("argv", [["hpdv4"], ["hpdv3"], ["hpdv3", "--from", "x", "--out", "y", "--limits", "3"]])
def test_a_wrong_command_line_is_refused(argv: list[str]) -> None:
    assert run(*argv) == 2


def test_every_set_is_named(capsys: pytest.CaptureFixture[str], repository: Path) -> None:
    assert run("--help") == 0
    help_text = capsys.readouterr().out
    assert main(["data", "list"]) == 0
    listed = capsys.readouterr().out
    for text in (help_text, listed, (repository / "docs/datasets.md").read_text()):
        assert all(name in text for name in IMPORTERS)


def test_hidden_files_are_no_rows(source: Path) -> None:
    for name in (".cache/notes.json", ".hidden.json"):
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text("{}")
    assert find_files(source, frozenset()) == [source / "train.json"]
    assert find_files(source / "train.json", frozenset()) == [source / "train.json"]


def test_parquet_files_are_read_some_rows_at_a_time(tmp_path: Path) -> None:
    size, count = 2**18, 400  # 100 MB in all, which do not compress, in row groups of 5 MB
    file = tmp_path / "big.parquet"
    schema = pa.schema([("picture", pa.binary())])
    with pq.ParquetWriter(file, schema, compression="none") as writer:
        for start in range(0, count, 20):
            rows = [{"picture": (number).to_bytes(4, "big") * (size // 4)} for number in range(start, start + 20)]
            writer.write_table(pa.Table.from_pylist(rows, schema))
    before = pa.total_allocated_bytes()

    for number, found in enumerate(iterate_rows(file, file.name)):
        assert found.data["picture"][:4] == number.to_bytes(4, "big")
        assert pa.total_allocated_bytes() - before < 30 * 2**20

    assert found.number == count


def test_symbolic_links_of_a_download_cache_are_followed(source: Path, tmp_path: Path) -> None:
    blobs = tmp_path / "blobs"
    blobs.mkdir()
    (source / "one.png").rename(blobs / "abc")
    (source / "one.png").symlink_to(blobs / "abc")
    assert run("hpdv3", "--from", source, "--out", tmp_path / "out") == 0
    assert not (tmp_path / "out/images/one.png").is_symlink()
    read_comparisons(tmp_path / "out")
