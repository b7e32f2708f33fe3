"""JSON lines: what is written comes back, and a broken line is named."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gnomon.errors import UserError
from gnomon.jsonl import read_parts, read_records, to_line, write_records
from gnomon.records import Candidate, Case, Text

texts = st.text(st.characters(exclude_categories=["Cs"]))
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
metas = st.dictionaries(texts, scalars | st.lists(scalars, max_size=3), max_size=3)
cases = st.builds(
    Case,
    id=texts.filter(bool),
    benchmark=texts,
    task=texts,
    instruction=st.builds(Text, en=texts.filter(bool), zh=st.none() | texts),
    meta=metas,
)


@settings(max_examples=50)
@given(st.lists(cases, max_size=4))
def test_records_come_back_as_they_were_written(records: list[Case]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.jsonl"
        write_records(path, records)
        assert path.read_bytes().count(b"\n") == len(records)
        assert read_records(path, Case) == records


def test_what_people_write_by_hand_is_read(tmp_path: Path) -> None:
    line = '{"case_id": "a", "generator": "g", "seed": 1, "path": null}'
    (tmp_path / "by_hand.jsonl").write_bytes(f"\ufeff{line}\r\n\n  \n{line}".encode())
    assert (
        read_records(tmp_path / "by_hand.jsonl", Candidate)
        == [Candidate(case_id="a", generator="g", seed=1, path=None)] * 2
    )


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"case_id": "a", ', r"expected one JSON object on this line: .* at column 18"),
        ('{"case_id": "a", "case_id": "b"}', r"expected every key once, got 'case_id' twice"),
        ('{"case_id": "a", "generator": "g", "seed": 1}', r"missing key 'path'"),
        (
            '{"case_id": "a", "generator": "g", "seed": 1, "path": null, "pth": "x"}',
            r"unknown key 'pth'",
        ),
        (
            '{"case_id": "a", "generator": "g", "seed": "one", "path": null}',
            r"seed: Input should be a valid integer.*, got 'one'",
        ),
        (
            '{"case_id": "a", "generator": "g", "seed": 1, "path": null, "sampling": {"eta": NaN}}',
            r"expected finite numbers, got NaN",
        ),
        ("[1]", r"record: Input should be an object"),
        ("[" * 100_000, r"maximum recursion depth"),
    ],
)
def test_a_broken_line_is_named_with_file_and_line(tmp_path: Path, line: str, message: str) -> None:
    good = '{"case_id": "a", "generator": "g", "seed": 1, "path": null}'
    (tmp_path / "broken.jsonl").write_text(f"{good}\n\n{line}\n{good}\n")
    with pytest.raises(UserError, match=rf"broken\.jsonl:3: {message}"):
        read_records(tmp_path / "broken.jsonl", Candidate)


def test_bytes_that_are_no_utf_8_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b'{"case_id": "\xe9"}\n')
    with pytest.raises(UserError, match=r"latin\.jsonl:1: expected UTF-8, got the byte 0xe9 at column 14"):
        read_records(tmp_path / "latin.jsonl", Candidate)


def test_a_torn_tail_is_dropped_only_on_request_and_only_at_the_end(tmp_path: Path) -> None:
    record = Candidate(case_id="a", generator="g", seed=1, path=None)
    path = tmp_path / "torn.jsonl"
    path.write_text(to_line(record) + "\n" + to_line(record)[:20])
    assert read_records(path, Candidate, drop_torn_tail=True) == [record]
    with pytest.raises(UserError, match=r":2: "):
        read_records(path, Candidate)
    path.write_text(to_line(record)[:20] + "\n" + to_line(record))
    with pytest.raises(UserError, match=r":1: "):
        read_records(path, Candidate, drop_torn_tail=True)


@pytest.mark.parametrize("ours", [True, False])
def test_of_each_record_only_a_part_is_kept(tmp_path: Path, ours: bool) -> None:
    path = tmp_path / "candidates.jsonl"
    write_records(path, [Candidate(case_id=name, generator="g", seed=0, path=None) for name in "ab"])
    path.write_bytes(path.read_bytes() + b"\n{torn")

    assert read_parts(path, Candidate, lambda one: one.case_id, drop_torn_tail=True, ours=ours) == ["a", "b"]
    with pytest.raises(UserError, match=r"candidates.jsonl:4: "):
        read_parts(path, Candidate, lambda one: one.case_id, ours=ours)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"expected a readable file at .*none\.jsonl: No such file"):
        read_records(tmp_path / "none.jsonl", Candidate)


@pytest.mark.parametrize("value", [float("nan"), {1: "x"}, {"when": object()}])
def test_what_json_cannot_hold_is_refused_and_the_old_file_stays(tmp_path: Path, value: Any) -> None:
    path = tmp_path / "records.jsonl"
    write_records(path, [{"meta": 1}])
    with pytest.raises(ValueError, match="meta"):
        write_records(path, [{"meta": value}])
    assert path.read_text() == '{"meta": 1}\n'
