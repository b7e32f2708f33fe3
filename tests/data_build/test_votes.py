from __future__ import annotations

from pathlib import Path

import pytest

from data_build.votes import Opinion, Ruling, Vote, Votes, person_name, read_votes, rule, unknown_item


class Answer(Opinion):
    """A line of the tests."""

    item: str
    by: str
    keep: bool

    @property
    def person(self) -> str:
        """Who said it."""
        return person_name(self.by)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.item,)

    @property
    def answer(self) -> object:
        """What it says."""
        return self.keep


def test_sheets_and_lines_are_read_together(tmp_path: Path) -> None:
    sheet, lines = tmp_path / "ann.csv", tmp_path / "bob.jsonl"
    sheet.write_text("item,text,by,keep\na,A cat.,Ann,yes\nb,A dog.,,\nz,,Ann,no\n")
    lines.write_text('{"item": "a", "by": "bob", "keep": false}\n{"item": "b", "by": " ANN", "keep": true}\n')

    votes = read_votes(
        [sheet, lines],
        Answer,
        lambda line: None if line.item in "ab" else unknown_item(line.item, ["a", "b"]),
        filled_in=["keep"],
        shown=["text"],
    )

    assert {subject: [vote.where for vote in found] for subject, found in votes.counting.items()} == {
        ("a",): [f"{sheet}:2", f"{lines}:1"],
        ("b",): [f"{lines}:2"],
    }
    assert [(problem.line, problem.kind) for problem in votes.problems] == [(4, "unknown_item")]


def answers(**said: bool) -> list[Vote[Answer]]:
    return [Vote(f"file:{name}", Answer(item="a", by=name, keep=keep)) for name, keep in said.items()]


@pytest.mark.parametrize(
    ("counting", "contradictory", "num_reviewers", "expected"),
    [
        (answers(ann=True, bob=True), [], 2, ("approved", None)),
        (answers(ann=True), [], 2, ("too_few_reviews", "1 of 2 reviewers")),
        (answers(ann=False), answers(bob=True, bo=False), 2, ("rejected", None)),
        (answers(ann=True, cid=True), answers(bob=True), 2, ("contradictory_reviews", "bob says two things")),
        ([], [], 0, ("approved", None)),
    ],
)
def test_one_no_rejects_and_all_must_be_sure(
    counting: list[Vote[Answer]],
    contradictory: list[Vote[Answer]],
    num_reviewers: int,
    expected: tuple[Ruling, str | None],
) -> None:
    votes = Votes(counting={("a",): counting}, contradictory={("a",): contradictory})
    rejected = any(not vote.line.keep for vote in counting)

    assert rule(votes, ("a",), is_rejected=rejected, num_reviewers=num_reviewers) == expected
