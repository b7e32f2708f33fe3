"""What people say about questions of a checklist: a CSV file in long form, and what most of them say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from bench.ratings import csv_rows
from bench.report.examples import JudgedRun
from bench.results import Item
from bench.statistics.majority import Majority, majority_vote
from gnomon.errors import UserError
from gnomon.records import Question

Vote = Literal["yes", "no", "unsure"]
VOTES: tuple[Vote, ...] = ("yes", "no", "unsure")
REQUIRED = ("case", "question", "rater", "value")
OPTIONAL = ("generator", "seed")


@dataclass(frozen=True)
class RatedQuestion:
    """A question about one picture, and what people say that they see.

    Attributes:
        model: the label of the picture's run.
        item: case id and seed.
        question: of the case.
        votes: by rater; a rater who gave none is not in it.
    """

    model: str
    item: Item
    question: Question
    votes: Mapping[str, Vote]

    def majority(self, on_tie: Vote | None) -> Majority[Vote]:
        """Return what most of them say, "unsure" left out; a tie counts as `on_tie`, and has no value where None."""
        abstentions: tuple[Vote, ...] = ("unsure",)
        return majority_vote(list(self.votes.values()), abstentions=abstentions, on_tie=on_tie)


def read_votes(path: Path, runs: Sequence[JudgedRun]) -> list[RatedQuestion]:
    """Return the questions that people answered, in the order of the file.

    The columns are case, question, rater and value (yes, no or unsure in any case; empty where there is none), with
    generator where there are several runs and seed where a run has repeats.

    Args:
        path: the file.
        runs: those that it is about.

    Raises:
        UserError: names file and line of what is wrong: the header, an empty name, a generator, picture or question
            that the runs do not have, another value, a second row of one rater about one question; or the file, where
            it cannot be read or holds no row.
    """
    by_label = {one.label: one for one in runs}
    found: dict[tuple[str, Item, str], tuple[Question, dict[str, Vote]]] = {}
    lines: dict[tuple[str, Item, str, str], int] = {}
    for line, row in csv_rows(path, REQUIRED, OPTIONAL):
        where = f"{path}:{line}"
        for column in ("case", "question", "rater"):
            if not row[column]:
                raise UserError(f"{where}: expected a name in the column {column}, got an empty cell; fill it in")
        judged = _run_of(row.get("generator", ""), by_label, where)
        item = _item_of(row["case"], row.get("seed", ""), judged, where)
        question = _question_of(row["question"], judged, item, where)
        key = judged.label, item, question.id
        first = lines.setdefault((*key, row["rater"]), line)
        if first != line:
            raise UserError(
                f"{where}: expected one row per question and rater, got a second one of {row['rater']!r} about "
                f"{question.id!r} (the first is in line {first}); delete one of them"
            )
        votes = found.setdefault(key, (question, {}))[1]
        if (vote := _vote_of(row["value"], where)) is not None:
            votes[row["rater"]] = vote
    if not found:
        raise UserError(f"expected answers of people in {path}, got a header without rows; add a row per answer")
    return [RatedQuestion(model, item, question, votes) for (model, item, _), (question, votes) in found.items()]


def _run_of(name: str, by_label: Mapping[str, JudgedRun], where: str) -> JudgedRun:
    if not name and len(by_label) == 1:
        return next(iter(by_label.values()))
    if name not in by_label:
        raise UserError(
            f"{where}: expected one of {', '.join(by_label)} in the column generator, got {name!r}; name models there "
            "as their runs do"
        )
    return by_label[name]


def _item_of(case_id: str, seed: str, judged: JudgedRun, where: str) -> Item:
    run = judged.run
    if case_id not in run.cases:
        raise UserError(f"{where}: expected a case of {run.path} in the column case, got {case_id!r}")
    if not seed and run.config.repeats == 1:
        return case_id, run.seed
    seeds = range(run.seed, run.seed + run.config.repeats)
    for known in seeds:
        if seed == str(known):
            return case_id, known
    raise UserError(f"{where}: expected a seed from {seeds[0]} to {seeds[-1]} in the column seed, got {seed!r}")


def _question_of(name: str, judged: JudgedRun, item: Item, where: str) -> Question:
    questions = judged.run.cases[item[0]].questions
    for question in questions:
        if question.id == name:
            return question
    known = ", ".join(question.id for question in questions[:5]) or "it has none"
    raise UserError(f"{where}: expected a question of case {item[0]!r} ({known}) in the column question, got {name!r}")


def _vote_of(text: str, where: str) -> Vote | None:
    if not text:
        return None
    for vote in VOTES:
        if text.lower() == vote:
            return vote
    raise UserError(
        f"{where}: expected {', '.join(VOTES)} or an empty cell in the column value, got {text!r}; write what is seen, "
        "whatever answer the question expects"
    )
