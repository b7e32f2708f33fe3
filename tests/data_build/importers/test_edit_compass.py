"""Edit-Compass as released becomes a folder of cases; what cannot be used is counted and named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gnomon.cli import main
from gnomon.datasets import read_cases, read_records
from gnomon.images import load_image
from gnomon.records import Case
from tests.bench.editcompass.release import pictures_of, row, write_picture, write_release

Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "source"


@pytest.fixture
def rows(source: Path) -> Rows:
    return write_release(source)


def run(source: Path, out: Path, *more: object) -> int:
    return main(["data", "import", "edit-compass", "--from", str(source), "--out", str(out), *map(str, more)])


def test_the_whole_release_is_imported(
    rows: Rows, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run(source, out) == 0
    printed = capsys.readouterr().out
    assert f"72 cases of 72 rows in {out}" in printed
    assert "left out" not in printed
    cases = read_cases(out)
    assert {case.meta["cell"] for case in cases} == {file.split("/")[1] for file in rows}
    assert len({case.id for case in cases}) == 72
    made = {
        f"{part}/{cell}/{row['save_id']}": pictures_of(row)
        for (part, cell, _), rows_of_file in ((file.split("/"), found) for file, found in rows.items())
        for row in rows_of_file
    }
    for case in cases:
        assert [reference.path for reference in case.references] == [f"images/{path}" for path in made[case.id]]
        for reference in case.references:
            original = source / reference.path.removeprefix("images/")
            assert (out / reference.path).samefile(original)
    assert main(["data", "validate", str(out)]) == 0
    before = (out / "cases.jsonl").read_bytes()
    assert run(source, out) == 0
    assert (out / "cases.jsonl").read_bytes() == before
    assert json.loads((out / "summary.json").read_text())["num_cases"] == 72


def test_paths_may_count_from_the_part_or_the_cell_and_do_not_mix_pictures(
    rows: Rows, source: Path, tmp_path: Path
) -> None:
    for cell, prefix in (("ADD", ""), ("Remove", ""), ("Replace", "Replace/")):
        file = source / f"Part1/{cell}/{cell}.json"
        file.write_text(json.dumps([row("Part1", cell, 1, source_image=f"{prefix}1.png")]))
    assert run(source, tmp_path / "out") == 0
    found = {case.meta["cell"]: case for case in read_cases(tmp_path / "out")}
    for cell in ("ADD", "Remove", "Replace"):
        picture = np.asarray(load_image(tmp_path / "out" / found[cell].references[0].path))
        assert np.array_equal(picture, np.asarray(load_image(source / f"Part1/{cell}/1.png")))


def test_rows_that_cannot_be_used_are_counted_and_named_by_file_and_row(
    rows: Rows, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (source / "secret.png").write_bytes((source / "Part1/ADD/1.png").read_bytes())
    (source / "Part1/ADD/broken.png").write_text("no picture")
    folder = "Part1/ADD"
    bad: list[Any] = [
        row("Part1", "ADD", 1),
        row("Part1", "ADD", 1),
        row("Part1", "ADD", 2, IF="yes"),
        row("Part1", "ADD", 2, prompt_cn=""),
        row("Part1", "ADD", 2, source_image=f"{folder}/gone.png"),
        row("Part1", "ADD", 2, source_image=f"{folder}/broken.png"),
        row("Part1", "ADD", 2, source_image="../source/secret.png"),
        row("Part1", "ADD", 2, reference_image_path=["/etc/passwd"]),
        [1],
        row("Part1", "ADD", 2, prompt_en="turn <image> into {x}"),
    ]
    (source / folder / "ADD.json").write_text(json.dumps(bad))
    paint = source / "Part6/Complex_Paint_en"
    (paint / "image/2.png").unlink()
    (source / "Part1/ADD_2").mkdir()
    (source / "Part1/ADD_2/ADD_2.json").write_text(json.dumps([row("Part1", "ADD", 3)]))

    assert run(source, tmp_path / "out") == 0

    printed = capsys.readouterr().out
    assert "71 cases of 81 rows" in printed
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["num_left_out"] == {
        "duplicate": 1,
        "bad_row": 4,
        "empty_prompt": 1,
        "missing_picture": 2,
        "unreadable_picture": 1,
        "unknown_cell": 1,
    }
    problems = [json.loads(line) for line in (tmp_path / "out/problems.jsonl").read_text().splitlines()]
    assert [(item["file"], item["row"]) for item in problems] == [
        *((f"{folder}/ADD.json", number) for number in range(2, 10)),
        ("Part1/ADD_2/ADD_2.json", 1),
        ("Part6/Complex_Paint_en/Complex_Paint_en.json", 2),
    ]
    assert "already that of Part1/ADD/ADD.json, row 1" in problems[0]["message"]
    assert "image/2.png" in problems[-1]["message"]
    assert not [path for path in (tmp_path / "out").rglob("*") if "secret" in path.name or "passwd" in path.name]
    kept = next(case for case in read_cases(tmp_path / "out") if case.id == "Part1/ADD/ADD_2")
    assert kept.instruction.en == "turn <image> into {x}"


def test_the_generator_does_not_see_the_source_without_marks(rows: Rows, source: Path, tmp_path: Path) -> None:
    from bench.workflow import generate

    for file in rows:
        if "Complex_Paint" not in file:
            (source / file).unlink()
    assert run(source, tmp_path / "cases") == 0
    seen: list[list[str]] = []

    class Watching:
        def generate(self, cases: Any, references: Any, seeds: Any) -> Any:
            seen.extend([reference.role for reference in case.references] for case in cases)
            assert [len(shown) for shown in references] == [1] * len(cases)
            return [shown[0] for shown in references]

    generate(tmp_path / "cases", tmp_path / "run", Watching(), name="watching")
    assert seen == [["source"]] * 4
    kept = read_records(tmp_path / "run/cases.jsonl", Case)
    assert all(len(case.references) == 2 for case in kept)  # judges see both


def test_pictures_that_are_alike_are_written_by_their_own_paths(source: Path, tmp_path: Path) -> None:
    write_picture(source / "Part1/ADD/1.png", 1)
    (source / "Part1/ADD/ADD.json").write_text(json.dumps([row("Part1", "ADD", 1, source_image="./1.png")]))
    assert run(source, tmp_path / "out") == 0
    assert [case.references[0].path for case in read_cases(tmp_path / "out")] == ["images/Part1/ADD/1.png"]
