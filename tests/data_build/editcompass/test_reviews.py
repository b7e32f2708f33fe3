from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from data_build.editcompass.reviews import Review, Selection
from data_build.votes import Votes, read_votes
from gnomon.errors import UserError
from gnomon.jsonl import write_records


def review(item: str = "a", reviewer: str = "ann", **changes: Any) -> dict[str, Any]:
    return {"item": item, "reviewer": reviewer, "safety": True, "quality": True, "suitability": True, **changes}


def read(tmp_path: Path, lines: Sequence[Any]) -> Votes[Review]:
    write_records(tmp_path / "reviews.jsonl", lines)
    return read_votes([tmp_path / "reviews.jsonl"], Review, lambda line: None)


def test_every_person_counts_once_however_the_name_is_written(tmp_path: Path) -> None:
    votes = read(tmp_path, [review(), review(reviewer="Ann "), review(reviewer="bob"), review("b", reviewer="ann")])

    assert {subject: [vote.line.person for vote in lines] for subject, lines in votes.counting.items()} == {
        ("a",): ["ann", "bob"],
        ("b",): ["ann"],
    }
    (problem,) = votes.problems
    assert (problem.line, problem.kind) == (2, "repeated")
    assert problem.message == f"ann speaks of a at {tmp_path}/reviews.jsonl:1 as well"


def test_a_person_who_says_two_things_does_not_count(tmp_path: Path) -> None:
    votes = read(tmp_path, [review(), review(quality=False), review(), review(reviewer="bob")])

    assert [vote.where[-2:] for vote in votes.contradictory[("a",)]] == [":1", ":2", ":3"]
    assert [vote.line.person for vote in votes.counting[("a",)]] == ["bob"]
    assert [(problem.line, problem.kind) for problem in votes.problems] == [(2, "contradictory"), (3, "repeated")]


def test_a_comment_is_no_other_answer(tmp_path: Path) -> None:
    votes = read(tmp_path, [review(comment="sharp"), review(comment="very sharp")])

    assert [problem.kind for problem in votes.problems] == ["repeated"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (review(safety="yes"), "safety: "),
        (review(safety=1), "safety: "),
        (review(saftey=True), "unknown key 'saftey'"),
        ({"item": "a", "reviewer": "ann", "safety": True, "quality": True}, "missing key 'suitability'"),
        (review(reviewer=""), "reviewer: "),
        (["a"], "record: "),
    ],
)
def test_a_line_that_is_no_review_is_named(tmp_path: Path, line: object, words: str) -> None:
    (tmp_path / "reviews.jsonl").write_text(f"{json.dumps(line)}\n{json.dumps(review())}\n")
    votes = read_votes([tmp_path / "reviews.jsonl"], Review, lambda line: None)

    (problem,) = votes.problems
    assert (problem.file, problem.line, problem.kind) == (str(tmp_path / "reviews.jsonl"), 1, "bad_line")
    assert words in problem.message
    assert len(votes.counting[("a",)]) == 1


def test_files_are_read_together(tmp_path: Path) -> None:
    selection = {"item": "a", "task": "add", "proposal": "p", "by": "ann"}
    write_records(tmp_path / "1.jsonl", [selection])
    write_records(tmp_path / "2.jsonl", [selection | {"proposal": "q"}, selection | {"by": "bob"}])

    votes = read_votes([tmp_path / "1.jsonl", tmp_path / "2.jsonl"], Selection, lambda line: None)

    assert [vote.where for vote in votes.contradictory[("a", "add")]] == [
        f"{tmp_path}/1.jsonl:1",
        f"{tmp_path}/2.jsonl:1",
    ]
    assert [vote.where for vote in votes.counting[("a", "add")]] == [f"{tmp_path}/2.jsonl:2"]


def test_a_file_that_is_not_there_or_given_twice_is_an_error(tmp_path: Path) -> None:
    write_records(tmp_path / "1.jsonl", [review()])
    with pytest.raises(UserError, match="every file once"):
        read_votes([tmp_path / "1.jsonl", tmp_path / "." / "1.jsonl"], Review, lambda line: None)
    with pytest.raises(UserError, match=r"2\.jsonl"):
        read_votes([tmp_path / "2.jsonl"], Review, lambda line: None)
