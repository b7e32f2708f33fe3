"""From reviews to cases: what every reviewer approves of is kept, and each decision names the lines that it rests on.

Edit-Compass, appendix A: five people look at every photograph (is it safe, is it good, is it suited for editing), and
one that is not approved by all is left out; people then take one of the instructions that models wrote for it. A case
with a generated source is reviewed as a whole by the same rule; so are cases by program, where they are given.

In the folder: cases.jsonl with its pictures, decisions.jsonl, problems.jsonl (lines that do not count), summary.json.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from PIL import Image
from pydantic import Field

from data_build.editcompass.items import Item, Option, read_items
from data_build.editcompass.reviews import ASPECTS, Aspect, Review, Selection
from data_build.puzzles.verify import TARGET
from data_build.votes import LineProblem, ProblemKind, Votes, read_votes, rule, unknown_item
from gnomon.datasets import CASES, resolve, write_records
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.images import content_hash, load_image, save_png
from gnomon.progress import track
from gnomon.records import Case, Record, Split
from gnomon.runs import RunFolder

DECISIONS = "decisions.jsonl"
PROBLEMS = "problems.jsonl"
SUMMARY = "summary.json"

Reason = Literal[
    "approved",
    "rejected",
    "contradictory_reviews",
    "too_few_reviews",
    "no_proposal",
    "no_selection",
    "contradictory_selections",
    "unreadable_picture",
]


class Decision(Record):
    """What becomes of one item in one task, and the lines of reviews and selections that say so.

    Attributes:
        item: a photograph or a case.
        task: of the case that it is or would be.
        kept: whether it is a case now.
        reason: why.
        aspects: what a reviewer did not approve of.
        proposal: the instruction that was taken.
        records: `file:line` of every line that counted or contradicts another.
        detail: more, for people.
    """

    item: str
    task: str
    kept: bool
    reason: Reason
    aspects: list[Aspect] = Field(default_factory=list)
    proposal: str | None = None
    records: list[str] = Field(default_factory=list)
    detail: str | None = None


class MergeSummary(Record):
    """Counts: items, decisions by reason, rejections by aspect (one may have several), and lines that do not count."""

    num_items: int
    num_decisions: int
    num_kept: int
    reasons: dict[Reason, int]
    rejected_aspects: dict[Aspect, int]
    problems: dict[ProblemKind, int]


def merge_reviews(
    items: Sequence[str | Path],
    reviews: Sequence[str | Path],
    out: str | Path,
    *,
    selections: Sequence[str | Path] = (),
    num_reviewers: int = 5,
    split: Split = "test",
) -> MergeSummary:
    """Write the cases that all reviewers approve of, and a decision about every item and task.

    Args:
        items: folders of `gnomon data propose-edits`, `gnomon data refine-scenarios`, or other cases of Edit-Compass.
        reviews: files with lines of :class:`data_build.editcompass.reviews.Review`.
        out: the folder to write; the same call again ends with the same bytes.
        selections: files with lines of :class:`data_build.editcompass.reviews.Selection`, for photographs.
        num_reviewers: people who must have approved at least; none may have disapproved.
        split: of the cases.

    Raises:
        UserError: for a folder that holds no items or an unfinished run, an item in two of them, a file that cannot be
            read, and where `out` holds something else or is in use.
    """
    if num_reviewers < 1:
        raise UserError(f"expected num_reviewers >= 1, got {num_reviewers}")
    known = read_items([Path(folder) for folder in items])
    votes = read_votes([Path(file) for file in reviews], Review, lambda line: _refuse_review(line, known))
    choices = read_votes([Path(file) for file in selections], Selection, lambda line: _refuse_selection(line, known))
    files = [*reviews, *selections]
    inputs = {
        "items": stable_hash([[item.id, item.fingerprint] for item in known.values()]),
        "reviews and selections": stable_hash([[str(file), file_hash(file)] for file in files]),
    }
    config = {"num_reviewers": num_reviewers, "split": split}
    with RunFolder.open(out, command="data merge-reviews", config=config, seed=0, inputs=inputs) as run:
        cases, decisions = [], []
        for item in track(list(known.values()), "merging reviews"):
            verdict = _reviewed(item, votes, num_reviewers)
            for option in item.options:
                decision, case = _settled(verdict.model_copy(update={"task": option.task}), item, option, choices, run)
                decisions.append(decision)
                if case is not None:
                    cases.append(case.model_copy(update={"split": split}))
        problems = [*votes.problems, *choices.problems]
        write_records(run.path / PROBLEMS, problems)
        write_records(run.path / DECISIONS, decisions)
        write_records(run.path / CASES, cases)
        summary = _summary(len(known), decisions, problems)
        run.write_json(SUMMARY, summary)
    return summary


def _refuse_review(line: Review, known: dict[str, Item]) -> tuple[ProblemKind, str] | None:
    return None if line.item in known else unknown_item(line.item, list(known))


def _refuse_selection(line: Selection, known: dict[str, Item]) -> tuple[ProblemKind, str] | None:
    if line.item not in known:
        return unknown_item(line.item, list(known))
    options = {option.task: option for option in known[line.item].options}
    if line.task not in options:
        return "unknown_item", f"{line.item} has no task {line.task!r}; it has {', '.join(options)}"
    problem = options[line.task].refuse(line.proposal)
    return None if problem is None else ("unknown_proposal", problem)


def _reviewed(item: Item, votes: Votes[Review], num_reviewers: int) -> Decision:
    """Decide by the reviews alone; a disapproval counts whatever else is missing. The task is filled in later."""
    counting = votes.counting.get((item.id,), [])
    contradictory = votes.contradictory.get((item.id,), [])
    aspects = [name for name in ASPECTS if any(not getattr(vote.line, name) for vote in counting)]
    reason, detail = rule(votes, (item.id,), is_rejected=bool(aspects), num_reviewers=num_reviewers)
    return Decision(
        item=item.id,
        task="",
        kept=reason == "approved",
        reason=reason,
        aspects=aspects,
        records=[vote.where for vote in (*counting, *contradictory)],
        detail=detail,
    )


def _chosen(verdict: Decision, option: Option, choices: Votes[Selection]) -> Decision:
    """Complete a decision by the choice of an instruction, where an approved item needs one."""
    if not verdict.kept or option.fixed is not None:
        return verdict
    subject = (verdict.item, option.task)
    counting, contradictory = choices.counting.get(subject, []), choices.contradictory.get(subject, [])
    taken = {vote.line.proposal for vote in counting}
    update: dict[str, object] = {
        "records": [*verdict.records, *(vote.where for vote in (*counting, *contradictory))],
    }
    if len(taken) == 1 and not contradictory:
        return verdict.model_copy(update=update | {"proposal": next(iter(taken))})
    reason: Reason = "contradictory_selections" if taken or contradictory else "no_selection"
    if reason == "no_selection" and not option.proposals:
        reason = "no_proposal"
    return verdict.model_copy(update=update | {"kept": False, "reason": reason})


def _settled(
    verdict: Decision, item: Item, option: Option, choices: Votes[Selection], run: RunFolder
) -> tuple[Decision, Case | None]:
    """Return the decision about an item in one task and, where it is kept, the case with its pictures in the folder."""
    decision = _chosen(verdict, option, choices)
    if not decision.kept:
        return decision, None
    case = option.case(decision.proposal)
    try:
        pictures = {path: load_image(resolve(item.root, path)) for path in _paths(case)}
    except (UserError, OSError) as error:  # OSError: a folder that may not be entered
        update = {"kept": False, "reason": "unreadable_picture", "detail": f"{item.where}: {error}"}
        return decision.model_copy(update=update), None
    return decision, _stored(case, pictures, run.path)


def _paths(case: Case) -> list[str]:
    target = case.meta.get(TARGET)
    return [*(reference.path for reference in case.references), *([target] if isinstance(target, str) else [])]


def _stored(case: Case, pictures: Mapping[str, Image.Image], out: Path) -> Case:
    """Write a case's pictures, named by their pixels, and return the case with their new places."""
    places = {}
    for path, picture in pictures.items():
        folder = "targets" if path == case.meta.get(TARGET) else "images"
        places[path] = f"{folder}/{content_hash(picture)[:32]}.png"
        if not (out / places[path]).exists():  # pictures are written whole or not at all
            save_png(picture, out / places[path])
    references = [reference.model_copy(update={"path": places[reference.path]}) for reference in case.references]
    moved = {TARGET: places[case.meta[TARGET]]} if case.meta.get(TARGET) in places else {}
    return case.model_copy(update={"references": references, "meta": case.meta | moved})


def _summary(num_items: int, decisions: Sequence[Decision], problems: Sequence[LineProblem]) -> MergeSummary:
    rejected = Counter(aspect for decision in decisions for aspect in decision.aspects)
    return MergeSummary(
        num_items=num_items,
        num_decisions=len(decisions),
        num_kept=sum(decision.kept for decision in decisions),
        reasons=dict(Counter(decision.reason for decision in decisions).most_common()),
        rejected_aspects={name: rejected[name] for name in ASPECTS if rejected[name]},
        problems=dict(Counter(problem.kind for problem in problems).most_common()),
    )
