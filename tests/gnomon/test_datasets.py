"""Dataset folders: what is read, what is refused at which line, and what a report counts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from gnomon.datasets import (
    dataset_hash,
    dataset_stamp,
    read_cases,
    read_comparisons,
    read_records,
    resolve,
    validate,
    write_records,
)
from gnomon.errors import UserError
from gnomon.jsonl import to_line
from gnomon.records import Case, ComparedImage, Comparison, Judgement, Label, Reference, Text


def case(name: str, *paths: str, **changes: Any) -> Case:
    references = [Reference(path=path) for path in paths]
    return Case(
        id=name,
        benchmark="b",
        task=changes.pop("task", "add"),
        instruction=Text(en="x"),
        references=references,
        **changes,
    )


def comparison(name: str, label: Label, first: str = "a.png", second: str = "b.png", **changes: Any) -> Comparison:
    return Comparison(
        id=name,
        instruction=changes.pop("instruction", Text(en="x")),
        references=[Reference(path="source.png")],
        candidates=[ComparedImage(path=first), ComparedImage(path=second)],
        judgements=[Judgement(i=0, j=1, dimension="overall", label=label)],
        group_id="g",
        **changes,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "dataset"
    folder.mkdir()
    for name, colour in (("source.png", "red"), ("a.png", "green"), ("b.png", "blue")):
        Image.new("RGB", (4, 4), colour).save(folder / name)
    return folder


def test_cases_and_comparisons_come_back(root: Path) -> None:
    cases = [case("1", "source.png", "a.png"), case("2")]
    comparisons = [comparison("1", "i"), comparison("2", "tie_good", "b.png", "a.png")]
    write_records(root / "cases.jsonl", cases)
    write_records(root / "comparisons.jsonl", comparisons)
    assert read_cases(root) == cases
    assert read_comparisons(root) == comparisons
    assert read_records(root / "cases.jsonl", Case) == cases


def test_a_dataset_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    write_records(root / "cases.jsonl", [case("1", "source.png")])
    (tmp_path / "link").symlink_to(root)
    assert read_cases(tmp_path / "link") == read_cases(root)
    assert validate(tmp_path / "link").ok


@pytest.mark.parametrize("relative", ["/etc/passwd", "../outside.png", "a/../../outside.png", "a/../a.png"])
def test_a_path_that_leaves_the_folder_is_refused(root: Path, relative: str) -> None:
    with pytest.raises(UserError, match="leaves the dataset folder"):
        resolve(root, relative)


@pytest.mark.parametrize("relative", ["", ".", "./", "a\0.png", "images\\a.png"])
def test_a_path_that_names_no_picture_is_refused(root: Path, relative: str) -> None:
    with pytest.raises(UserError, match="expected a relative path of a picture"):
        resolve(root, relative)


def test_a_link_that_leaves_the_folder_is_refused_and_one_inside_is_not(root: Path, tmp_path: Path) -> None:
    (tmp_path / "dataset_two").mkdir()  # a sibling whose name begins like the folder's
    (tmp_path / "dataset_two" / "secret.png").write_bytes(b"")
    (root / "out.png").symlink_to(tmp_path / "dataset_two" / "secret.png")
    (root / "folder").symlink_to(tmp_path / "dataset_two")
    (root / "in.png").symlink_to("a.png")
    (root / "loop.png").symlink_to("loop.png")
    for name in ("out.png", "folder/secret.png"):
        with pytest.raises(UserError, match=r"leaves the dataset folder by a link to .*secret\.png"):
            resolve(root, name)
    with pytest.raises(UserError, match=r"'loop\.png' cannot be followed"):
        resolve(root, "loop.png")
    assert resolve(root, "in.png") == root.resolve() / "a.png"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "expected one JSON object"),
        ('{"id": "2", "bench": "b"}', "missing key 'benchmark'.*unknown key 'bench'"),
        (to_line(case("1")), "duplicate id '1', first used on line 1"),
        (to_line(case("2", "gone.png")), r"missing picture 'gone\.png'"),
        (to_line(case("2", "../a.png")), r"'\.\./a\.png' leaves the dataset folder"),
    ],
)
def test_the_reader_stops_at_the_line_that_is_wrong(root: Path, line: str, message: str) -> None:
    (root / "cases.jsonl").write_text(f"{to_line(case('1', 'a.png'))}\n{line}\n")
    with pytest.raises(UserError, match=rf"cases\.jsonl:2: .*{message}.*gnomon data validate"):
        read_cases(root)


def test_a_folder_without_the_file_is_named(root: Path) -> None:
    for read in (read_cases, read_comparisons, validate, dataset_hash):
        with pytest.raises(UserError, match=r"expected a dataset folder with .*dataset; check the path"):
            read(root)


def test_a_report_lists_every_problem_with_its_line(root: Path, tmp_path: Path) -> None:
    (root / "broken.png").write_bytes((root / "a.png").read_bytes()[:40])
    (tmp_path / "outside.png").write_bytes((root / "a.png").read_bytes())
    (root / "link.png").symlink_to(tmp_path / "outside.png")
    lines = [
        to_line(case("1", "a.png")),
        "{",
        '{"id": "3", "benchmark": "b", "task": "t", "instruction": {"en": "x"}, "metric": []}',
        to_line(case("1", "a.png", "gone.png", "broken.png")),
        to_line(case("5", "link.png", "/a.png", "broken.png", "broken.png", task="move")),
    ]
    (root / "cases.jsonl").write_text("\n".join(lines))
    report = validate(root)
    found = [(problem.line, problem.message) for problem in report.problems]
    expected = [
        (2, "expected one JSON object"),
        (3, "unknown key 'metric'"),
        (4, "duplicate id '1'"),
        (4, "missing picture 'gone.png'"),
        (4, "unreadable picture: could not read the picture"),
        (5, "the path 'link.png' leaves"),
        (5, "the path '/a.png' leaves"),
        (5, "unreadable picture: could not read the picture"),
    ]
    assert [line for line, _ in found] == [line for line, _ in expected]
    for (_, message), (_, start) in zip(found, expected, strict=True):
        assert message.startswith(start)
    assert not report.ok
    assert report.records == {"cases.jsonl": 3}
    assert report.tasks == {"add": 2, "move": 1}
    assert str(report).splitlines()[0].startswith(f"{root}/cases.jsonl:2: expected one JSON object")
    assert str(report).splitlines()[-1] == f"{root}: 8 problems"


def test_labels_are_counted_per_dimension(root: Path) -> None:
    records = [comparison(str(number), "i", split="test", instruction=Text(en=str(number))) for number in range(3)]
    write_records(root / "comparisons.jsonl", [*records, comparison("tie", "tie", task="add")])
    report = validate(root)
    assert report.ok
    assert report.num_pictures == 3
    assert report.records == {"comparisons.jsonl": 4}
    assert report.splits == {"test": 3, "(none)": 1}
    assert report.labels == {"overall": {"i": 3, "tie": 1}}
    assert report.label_shares() == {"overall": {"i": 0.75, "tie": 0.25}}
    first = report.first_is_better["overall"]
    assert (first.value, first.n, first.num_clusters) == (1.0, 3, 1)


def test_one_picture_under_two_names_is_one_picture(root: Path) -> None:
    Image.new("RGB", (4, 4), "green").save(root / "a2.bmp")
    Image.new("RGB", (4, 4), "red").save(root / "source2.bmp")
    twin = comparison("2", "j", "a2.bmp").model_copy(update={"references": [Reference(path="source2.bmp")]})
    itself = comparison("3", "i", "a.png", "a2.bmp", instruction=Text(en="y"))
    write_records(root / "comparisons.jsonl", [comparison("1", "i"), twin, itself])

    found = [(problem.line, problem.message) for problem in validate(root).problems]

    assert [line for line, _ in found] == [2, 3]
    assert "'b.png' is better here, 'a.png' is better on line 1" in found[0][1]
    assert "are the same picture in 'a.png' and 'a2.bmp', yet 'i' is better" in found[1][1]


def test_pictures_of_another_folder_are_found_by_their_pixels(root: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    for name, colour in (("x.bmp", "blue"), ("y.png", "white")):
        Image.new("RGB", (4, 4), colour).save(other / name)
    write_records(other / "cases.jsonl", [case("1", "x.bmp"), case("2", "y.png", "gone.png")])
    write_records(root / "comparisons.jsonl", [comparison("1", "i"), comparison("2", "i", second="source.png")])

    (problem,) = validate(root, against=other).problems

    assert problem.line == 1
    assert problem.message.startswith(f"the picture 'b.png' has the same pixels as {other}/x.bmp")
    assert validate(root).ok
    with pytest.raises(UserError, match="expected a dataset folder"):
        validate(root, against=tmp_path)


@pytest.mark.parametrize(
    ("second", "conflict"),
    [
        (comparison("2", "i"), False),
        (comparison("2", "j", "b.png", "a.png"), False),  # the same answer with the sides changed
        (comparison("2", "j"), True),
        (comparison("2", "i", "b.png", "a.png"), True),
        (comparison("2", "tie"), True),
        (comparison("2", "j", instruction=Text(en="y")), False),
    ],
)
def test_conflicting_judgements_of_one_pair_are_found(root: Path, second: Comparison, conflict: bool) -> None:
    write_records(root / "comparisons.jsonl", [comparison("1", "i"), second])
    messages = [str(problem) for problem in validate(root).problems]
    assert len(messages) == conflict
    if conflict:
        assert messages[0].startswith(
            f"{root}/comparisons.jsonl:2: conflicting judgements of 'a.png' and 'b.png' in 'overall': "
        )
        assert "'a.png' is better on line 1" in messages[0]


def test_conflicts_inside_one_comparison_are_found_per_dimension(root: Path) -> None:
    both = [Judgement(i=0, j=1, dimension=name, label="i") for name in ("overall", "quality")]
    record = comparison("1", "i").model_copy(
        update={"judgements": [*both, Judgement(i=1, j=0, dimension="overall", label="i")]}
    )
    write_records(root / "comparisons.jsonl", [record])
    assert ["'overall'" in problem.message for problem in validate(root).problems] == [True]


@pytest.mark.parametrize("path", ["x" * 300 + ".png", "红" * 100 + ".png"])
def test_a_name_that_no_file_system_takes_is_a_problem_with_its_line(root: Path, path: str) -> None:
    write_records(root / "cases.jsonl", [case("1"), case("2", path)])
    assert [problem.line for problem in validate(root).problems] == [2]
    with pytest.raises(UserError, match=r"cases\.jsonl:2: the path .* cannot be followed: .*File name too long"):
        read_cases(root)
    for read in (read_cases, validate, dataset_hash):
        with pytest.raises(UserError, match=r"cannot look for the file .*: File name too long"):
            read(root / path)


def test_an_empty_dataset_is_a_problem(root: Path) -> None:
    (root / "cases.jsonl").write_text("\n")
    assert [problem.message for problem in validate(root).problems] == [
        "expected at least one record, the file is empty"
    ]


def test_a_dataset_hash_follows_records_and_pixels_but_not_compression(root: Path) -> None:
    write_records(root / "cases.jsonl", [case("1", "source.png", "a.png")])
    before = dataset_hash(root)
    Image.new("RGB", (4, 4), "green").save(root / "a.png", compress_level=0)
    Image.new("RGB", (4, 4), "black").save(root / "unused.png")
    assert dataset_hash(root) == before
    Image.new("RGB", (4, 4), "black").save(root / "a.png")
    changed = dataset_hash(root)
    assert changed != before
    write_records(root / "cases.jsonl", [case("2", "source.png", "a.png")])
    assert dataset_hash(root) not in {before, changed}


def test_a_stamp_changes_with_every_written_file_of_the_dataset(root: Path) -> None:
    write_records(root / "cases.jsonl", [case("1", "source.png", "a.png")])
    before = dataset_stamp(root)
    Image.new("RGB", (4, 4), "black").save(root / "unused.png")
    assert dataset_stamp(root) == before
    later = (root / "a.png").stat().st_mtime_ns + 1
    os.utime(root / "a.png", ns=(later, later))
    assert dataset_stamp(root) != before
