"""The command that checks a folder: table, JSON, exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from gnomon.cli import main
from gnomon.datasets import write_records
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "set"
    folder.mkdir()
    for name, colour in (("a.png", "green"), ("b.png", "blue")):
        Image.new("RGB", (4, 4), colour).save(folder / name)
    labels: list[Label] = [*["i"] * 30, *["tie"] * 10]  # type: ignore[list-item]
    records = [
        Comparison(
            id=str(number),
            instruction=Text(en=str(number)),
            candidates=[ComparedImage(path="a.png"), ComparedImage(path="b.png")],
            judgements=[Judgement(i=0, j=1, dimension="overall", label=label)],
            group_id=str(number),
        )
        for number, label in enumerate(labels)
    ]
    write_records(folder / "comparisons.jsonl", records)
    return folder


def test_the_table_says_whether_the_place_gives_answers_away(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["data", "validate", str(folder)]) == 0
    printed = capsys.readouterr().out
    (line,) = [line for line in printed.splitlines() if line.startswith("overall")]
    assert line.split() == [
        *("overall", "40", "75.0%", "0.0%", "25.0%", "0.0%", "0.0%", "100.0%", "100.0%", "to", "100.0%"),
        *("the", "place", "gives", "answers", "away"),
    ]


def test_everything_is_written_as_json(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    assert main(["data", "validate", str(folder), "--json", str(out)]) == 0
    report = json.loads(out.read_text())
    assert report["ok"] is True
    assert report["labels"] == {"overall": {"i": 30, "tie": 10}}
    assert report["first_is_better"]["overall"]["value"] == 1.0
    assert report["problems"] == []


def test_a_shared_picture_is_an_error(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["data", "validate", str(folder), "--against", str(folder), "--json", str(tmp_path / "report.json")]
    assert main(argv) == 1
    assert "comparisons.jsonl:1: the picture 'a.png' has the same pixels as" in capsys.readouterr().out
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["ok"] is False
    assert len(report["problems"]) == 80
    assert report["problems"][0]["line"] == 1
