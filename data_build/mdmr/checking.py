"""Which questions of a written checklist serve, and why the others do not. Pure functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from pydantic import Field

from data_build.mdmr.blind import BlindAnswer
from data_build.mdmr.duplicates import find_doubles
from data_build.mdmr.links import link_problem
from data_build.mdmr.replies import DraftQuestion
from data_build.mdmr.samples import SampledReference
from data_build.mdmr.settings import BlindSettings
from gnomon.records import Question, Record, Status

Outcome = Literal["kept", "parse_error", "unlinked", "duplicate", "near_duplicate", "contradictory", "blind"]


class Draft(Record):
    """One entry of a reply with a checklist; `question` is None exactly where `status` is not "ok"."""

    question: DraftQuestion | None
    status: Status = "ok"
    reason: str | None = None


class CheckedQuestion(Record):
    """One question that was written, and what became of it.

    Attributes:
        sample: the case's id.
        number: which entry of the reply it is, from 1.
        outcome: see :mod:`data_build.mdmr.checklists`.
        detail: more, for people.
        id: of the question in the case, exactly where it is kept.
        question: what was written; None where it is outside the schema.
        blind: the probabilities of :class:`data_build.mdmr.blind.BlindAnswer`; None where they are not known.
        is_flagged: whether it is kept although its words alone answer it.
    """

    sample: str
    number: int = Field(ge=1)
    outcome: Outcome
    detail: str | None = None
    id: str | None = None
    question: DraftQuestion | None = None
    blind: list[float] | None = None
    is_flagged: bool = False

    def to_question(self) -> Question:
        """Return a question that is kept as the case has it.

        Raises:
            ValueError: when it is not kept.
        """
        if self.id is None or self.question is None:
            raise ValueError(f"expected a question that is kept, {self.sample} {self.number} is {self.outcome}")
        return Question(id=self.id, **dict(self.question))


def check_drafts(
    sample: str, drafts: Sequence[Draft], references: Sequence[SampledReference], overlap: float
) -> list[CheckedQuestion]:
    """Return all questions of one checklist with all outcomes but "blind"; those that are kept have no id yet.

    Args:
        sample: the case's id.
        drafts: as they were written.
        references: of the case.
        overlap: see :func:`data_build.mdmr.duplicates.find_doubles`.
    """
    checked = [_alone(sample, number, draft, references) for number, draft in enumerate(drafts, start=1)]
    linked = [place for place, item in enumerate(checked) if item.outcome == "kept"]
    doubles = find_doubles([question for place in linked if (question := checked[place].question)], overlap)
    for place, double in zip(linked, doubles, strict=True):
        if double is not None:
            update = {"outcome": double.kind, "detail": f"of number {linked[double.other] + 1}"}
            checked[place] = checked[place].model_copy(update=update)
    return checked


def _alone(sample: str, number: int, draft: Draft, references: Sequence[SampledReference]) -> CheckedQuestion:
    if draft.question is None:
        return CheckedQuestion(sample=sample, number=number, outcome="parse_error", detail=draft.reason)
    problem = link_problem(draft.question.about, references)
    outcome: Outcome = "kept" if problem is None else "unlinked"
    return CheckedQuestion(sample=sample, number=number, outcome=outcome, detail=problem, question=draft.question)


def with_blind_answers(
    checked: Sequence[CheckedQuestion], answers: Mapping[int, BlindAnswer], settings: BlindSettings
) -> list[CheckedQuestion]:
    """Return the questions of one checklist with what a model that sees no picture says, and ids for those that stay.

    Ids are `<dimension>-<number>`, numbered within each dimension.

    Args:
        checked: of :func:`check_drafts`.
        answers: by number of the question; one without an answer that can be used is kept.
        settings: what becomes of those that their words alone answer.
    """
    result, numbers = [], Counter[str]()
    for item in checked:
        answer = answers.get(item.number)
        if item.outcome == "kept" and answer is not None and answer.expected:
            item = _seen_blindly(item, answer, settings)
        if item.outcome == "kept" and item.question is not None:
            dimension = item.question.dimension
            numbers[dimension] += 1
            item = item.model_copy(update={"id": f"{dimension}-{numbers[dimension]}"})
        result.append(item)
    return result


def _seen_blindly(item: CheckedQuestion, answer: BlindAnswer, settings: BlindSettings) -> CheckedQuestion:
    update: dict[str, object] = {"blind": answer.expected}
    if answer.is_blind(settings.confidence):
        update |= {"is_flagged": True} if settings.action == "flag" else {"outcome": "blind"}
    return item.model_copy(update=update)
