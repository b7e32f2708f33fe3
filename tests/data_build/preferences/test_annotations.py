from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data_build.preferences.annotations import Annotations, annotation_files, read_annotations
from data_build.preferences.pairs import ProposedPair
from gnomon.errors import UserError

DIMENSION = "visual_quality"


def read(tmp_path: Path, pairs: list[ProposedPair], *lines: Any) -> Annotations:
    file = tmp_path / "annotations.jsonl"
    file.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return read_annotations([file], pairs)


def problems(annotations: Annotations) -> list[tuple[int, str]]:
    return [(problem.line, problem.kind) for problem in annotations.problems]


def test_lines_are_told_apart_by_their_keys(tmp_path: Path, pairs: list[ProposedPair]) -> None:
    on = {"pair": pairs[0].id, "dimension": DIMENSION}

    annotations = read(
        tmp_path,
        pairs,
        {**on, "annotator": "ann", "label": "first", "comment": "sharper"},
        {**on, "by": ["ann", "bob"], "label": "tie"},
        {**on, "annotator": "eve", "valid_task": True, "agrees": False},
    )

    item = annotations.items[pairs[0].id, DIMENSION]
    assert [located.record.label for located in item.proposals.values()] == ["first"]
    assert [located.record.by for located in item.discussion.values()] == [["ann", "bob"]]
    assert [located.record.agrees for located in item.verifications.values()] == [False]
    assert annotations.problems == []
    assert len(annotations.items) == len(pairs) * 3


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "one JSON object"),
        ("[1]", "should be an object"),
        ({"annotator": "ann", "label": "third"}, "'third'"),
        ({"annotator": "ann", "label": "first", "mood": "bad"}, "unknown key"),
        ({"annotator": " ", "label": "first"}, "at least 1"),
        ({"annotator": "ann"}, "missing key"),
        ({"by": ["ann"], "label": "tie", "remove": True}, "either a label or remove"),
        ({"by": ["ann"]}, "either a label or remove"),
        ({"by": [], "label": "tie"}, "at least 1"),
        ({"annotator": "eve", "valid_task": "yes", "agrees": True}, "valid boolean"),
        ({"annotator": "eve", "valid_task": True}, "missing key"),
    ],
)
def test_a_broken_line_is_named_and_the_rest_goes_on(
    line: Any, message: str, tmp_path: Path, pairs: list[ProposedPair]
) -> None:
    on = {"pair": pairs[0].id, "dimension": DIMENSION}
    good = {**on, "annotator": "bob", "label": "tie"}

    annotations = read(tmp_path, pairs, line if isinstance(line, str) else {**on, **line}, good)

    (problem,) = annotations.problems
    assert (problem.line, problem.kind) == (1, "broken_line")
    assert message in problem.problem
    assert list(annotations.items[pairs[0].id, DIMENSION].proposals) == ["bob"]


def test_unknown_pairs_and_dimensions_are_named(tmp_path: Path, pairs: list[ProposedPair]) -> None:
    annotations = read(
        tmp_path,
        pairs,
        {"pair": "nothing", "dimension": DIMENSION, "annotator": "ann", "label": "tie"},
        {"pair": pairs[0].id, "dimension": "beauty", "annotator": "ann", "label": "tie"},
    )

    assert problems(annotations) == [(1, "unknown_pair"), (2, "unknown_dimension")]
    assert "'nothing'" in annotations.problems[0].problem
    assert "'beauty' but in instruction_awareness" in annotations.problems[1].problem


def test_a_repeated_record_counts_once(tmp_path: Path, pairs: list[ProposedPair]) -> None:
    on = {"pair": pairs[0].id, "dimension": DIMENSION}

    annotations = read(
        tmp_path,
        pairs,
        {**on, "annotator": "ann", "label": "tie"},
        {**on, "annotator": "ann ", "label": "tie", "comment": "again"},
        {**on, "by": "ann", "remove": True},
        {**on, "by": ["bob"], "remove": True},
    )

    item = annotations.items[pairs[0].id, DIMENSION]
    assert (len(item.proposals), len(item.discussion), item.contradictions) == (1, 1, [])
    assert problems(annotations) == [(2, "repeated"), (4, "repeated")]
    assert f"at {tmp_path}/annotations.jsonl:1; it counts once" in annotations.problems[0].problem


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"annotator": "ann", "label": "tie"}, {"annotator": "ann", "label": "first"}),
        ({"by": ["ann"], "label": "tie"}, {"by": ["ann"], "remove": True}),
        (
            {"annotator": "eve", "valid_task": True, "agrees": True},
            {"annotator": "eve", "valid_task": True, "agrees": False},
        ),
    ],
)
def test_a_contradiction_names_both_lines(
    first: dict[str, object], second: dict[str, object], tmp_path: Path, pairs: list[ProposedPair]
) -> None:
    on = {"pair": pairs[0].id, "dimension": DIMENSION}

    annotations = read(tmp_path, pairs, {**on, **first}, {**on, **second})

    ((text, places),) = annotations.items[pairs[0].id, DIMENSION].contradictions
    assert places == [f"{tmp_path}/annotations.jsonl:{line}" for line in (1, 2)]
    assert all(place in text for place in places)
    assert problems(annotations) == [(2, "contradictory")]


def test_nobody_verifies_what_he_or_she_proposed(tmp_path: Path, pairs: list[ProposedPair]) -> None:
    on, other = ({"pair": pair.id, "dimension": DIMENSION} for pair in pairs[:2])
    verified = {"valid_task": True, "agrees": True}

    annotations = read(
        tmp_path,
        pairs,
        {**on, "annotator": "ann", **verified},  # also when the verification comes first
        {**on, "dimension": "visual_consistency", "annotator": "ann", "label": "tie"},  # and of another dimension
        {**on, "by": ["bob"], "label": "tie"},
        {**on, "annotator": "bob", **verified},
        {**on, "annotator": "eve", **verified},
        {**other, "annotator": "ann", **verified},
    )

    assert list(annotations.items[pairs[0].id, DIMENSION].verifications) == ["eve"]
    assert list(annotations.items[pairs[1].id, DIMENSION].verifications) == ["ann"]
    assert problems(annotations) == [(1, "both_stages"), (4, "both_stages")]


def test_files_are_found_once(tmp_path: Path) -> None:
    (tmp_path / "further").mkdir()
    for name in ("b.jsonl", "further/a.jsonl", "notes.txt"):
        (tmp_path / name).write_text("")

    found = annotation_files([tmp_path, tmp_path / "b.jsonl", tmp_path / "notes.txt"])

    assert found == [tmp_path / "b.jsonl", tmp_path / "further" / "a.jsonl", tmp_path / "notes.txt"]


def test_no_annotations_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="found none"):
        annotation_files(tmp_path)
    with pytest.raises(UserError, match="there is none"):
        annotation_files(tmp_path / "nothing")
