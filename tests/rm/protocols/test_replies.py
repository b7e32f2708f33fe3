"""`gnomon rm parse` as it is typed: ids, values and statuses in order, and broken input named by file and line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gnomon.cli import main


def run(tmp_path: Path, protocol: str, lines: list[str], *flags: str) -> int:
    (tmp_path / "in.jsonl").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    command = ["rm", "parse", "--protocol", protocol, "--replies", str(tmp_path / "in.jsonl")]
    return main([*command, "--out", str(tmp_path / "deep" / "out.jsonl"), *flags])


def written(tmp_path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (tmp_path / "deep" / "out.jsonl").read_text(encoding="utf-8").splitlines()]


def saved(*replies: str | None) -> list[str]:
    return [json.dumps({"id": f"r{number}", "reply": reply}) for number, reply in enumerate(replies)]


@pytest.mark.parametrize(
    ("protocol", "replies", "values"),
    [
        ("rubric", ['{"score": 8}', "Score: 7.5", None], [8, 7.5, None]),
        ("checklist", ["Yes", '{"answer": "no"}', "maybe"], [True, False, None]),
        ("pairwise", ["[[A>B]]", "both images are bad", "图B更好", "?"], ["A>B", "A=B=Bad", "B>A", None]),
        ("score-list", ['{"score": [8, 7]}', '{"score": [8, "x"]}'], [[8, 7], None]),
    ],
)
def test_values_come_out_in_order(
    tmp_path: Path, protocol: str, replies: list[str | None], values: list[object]
) -> None:
    assert run(tmp_path, protocol, saved(*replies)) == 0
    lines = written(tmp_path)
    assert [line["id"] for line in lines] == [f"r{number}" for number in range(len(replies))]
    assert [line["value"] for line in lines] == values
    assert [line["status"] for line in lines] == ["parse_error" if value is None else "ok" for value in values]
    assert all(set(line) == {"id", "value", "status"} for line in lines)


def test_statuses_and_levels_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    replies = saved('{"score": 8}', "so: {'score': 8}", "Score: 8", "I'm sorry, I can't help.", '{"score": 11}', "")
    assert run(tmp_path, "rubric", replies) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    for row in (
        ["ok", "3"],
        ["refused", "1"],
        ["out_of_range", "1"],
        ["parse_error", "1"],
        ["repair", "1"],
        ["all", "6"],
    ):
        assert row in rows


def test_range_rule_count_and_key_are_flags(tmp_path: Path) -> None:
    assert run(tmp_path, "rubric", saved('{"grade": 30}', '{"score": 3}'), "--maximum", "25", "--key", "grade") == 0
    assert [line["status"] for line in written(tmp_path)] == ["out_of_range", "ok"]
    assert run(tmp_path, "pairwise", saved("[[A>B]] [[B>A]]"), "--rule", "first-label") == 0
    assert written(tmp_path)[0]["value"] == "A>B"
    assert run(tmp_path, "score-list", saved('{"score": [1]}'), "--count", "2") == 0
    assert written(tmp_path)[0]["status"] == "parse_error"


def test_a_finish_reason_is_used_and_other_keys_are_left_alone(tmp_path: Path) -> None:
    lines = [
        json.dumps({"id": number, "reply": '{"score": 8', "finish_reason": reason, "model": "m"})
        for number, reason in enumerate(("stop", "length", None))
    ]
    assert run(tmp_path, "rubric", lines) == 0
    assert [line["status"] for line in written(tmp_path)] == ["ok", "truncated", "truncated"]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{broken", "in.jsonl:3: expected one JSON object"),
        ('{"id": "x"}', "in.jsonl:3: missing key 'reply'"),
        ('{"id": "x", "reply": 5}', "in.jsonl:3: reply"),
        ('{"id": "r1", "reply": "Yes"}', "in.jsonl:3: expected every id once, 'r1' is also on line 2"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, problem: str
) -> None:
    assert run(tmp_path, "checklist", [*saved("Yes", "No"), line]) == 1
    assert problem in capsys.readouterr().err
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize(
    ("protocol", "flags", "code", "problem"),
    [
        ("checklist", ["--rule", "first-label"], 1, "--rule belongs to --protocol pairwise"),
        ("pairwise", ["--count", "2"], 1, "--count belongs to --protocol score-list"),
        ("checklist", ["--key", "x"], 1, "--key belongs to --protocol rubric"),
        ("rubric", ["--minimum", "10"], 1, "minimum"),
        ("poem", [], 2, "poem"),
        ("pairwise", ["--rule", "last"], 2, "last"),
    ],
)
def test_flags_that_do_not_fit_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], protocol: str, flags: list[str], code: int, problem: str
) -> None:
    assert run(tmp_path, protocol, saved("Yes"), *flags) == code
    assert problem in capsys.readouterr().err


def test_the_replies_are_not_written_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "in.jsonl"
    file.write_text(saved("Yes")[0] + "\n")
    assert main(["rm", "parse", "--protocol", "checklist", "--replies", str(file), "--out", str(file)]) == 1
    assert "--out" in capsys.readouterr().err
    assert "reply" in file.read_text()


def test_it_needs_no_torch(tmp_path: Path, repository: Path) -> None:
    (tmp_path / "in.jsonl").write_text(saved("Yes")[0] + "\n")
    command = ["rm", "parse", "--protocol", "checklist", "--replies", str(tmp_path / "in.jsonl"), "--out"]
    code = (
        f"import sys; from gnomon.cli import main; code = main({[*command, str(tmp_path / 'out.jsonl')]!r}); "
        "sys.exit(code or bool({'torch', 'transformers', 'numpy', 'PIL'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
