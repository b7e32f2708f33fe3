"""The stage checklists: a model writes yes/no questions for every case, and those that cannot serve are left out.

Every question that was written is in `questions.jsonl` with what became of it:

    kept            it is part of the case
    parse_error     outside the schema: a dimension, a level, a language or a link is missing, or it is no question
    unlinked        it is about a reference or an attribute that there is not
    duplicate       it repeats another one's words
    near_duplicate  nearly so
    contradictory   another one has the same words and expects the other answer; neither is kept
    blind           its words alone answer it, see :mod:`data_build.mdmr.blind`

Nothing is invented: a case that is left without questions in a dimension is in `incomplete.jsonl`. Two cases of one
pair have one checklist. The rules may be changed and the stage run again without a model being asked anew. Source:
MDMR-Bench, checklists of global and atomic questions in five dimensions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from pydantic import Field

from data_build.answers import Answer, ask_missing
from data_build.mdmr.asking import CHECKLIST_SCHEMA, PACKAGE, ask_for_checklist
from data_build.mdmr.blind import BlindAnswer, BlindQuestion, ask_all_blindly
from data_build.mdmr.checking import CheckedQuestion, Draft, check_drafts, with_blind_answers
from data_build.mdmr.checklist_report import ChecklistReport, checklist_report, missing_dimensions, report_lines
from data_build.mdmr.folder import CHECKLISTS, BuildFolder
from data_build.mdmr.human_filter import kept_samples
from data_build.mdmr.instructions import first_of_pairs, valid_cases
from data_build.mdmr.replies import read_questions
from data_build.mdmr.samples import Sample
from data_build.mdmr.settings import ChecklistSettings
from data_build.stages import counts_text, write_report
from data_build.texts import texts_hash
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.images import UnreadableImageError, load_image
from gnomon.jsonl import write_records
from gnomon.records import Text
from gnomon.runs import RunFolder
from rm.protocols.asking import raw_text, read_reply
from rm.vlm.conversation import VLM, GenerationParameters

COMMAND = "data build mdmr, checklists"
WRITTEN, BLIND, INCOMPLETE = "checklists.jsonl", "blind.jsonl", "incomplete.jsonl"
QUESTIONS = "questions.jsonl"
MAX_TOKENS = 8192  # thirty questions in two languages with all their keys


class ChecklistAnswer(Answer):
    """The checklist that a model wrote for one case; none exactly where `status` is not "ok"."""

    drafts: list[Draft] = Field(default_factory=list)


Cases = Mapping[str, tuple[Sample, Text]]
"""Samples and their instructions, by id."""


def write_checklists(folder: BuildFolder, settings: ChecklistSettings) -> ChecklistReport:
    """Have a checklist written for every sample that is kept, and check it; run again to go on after a stop.

    Args:
        folder: of the build.
        settings: whom to ask, and how.

    Raises:
        UserError: without a model, where the stages before did not run, the folder holds another run, or no case got
            a question.
    """
    vlm = settings.vlm
    if vlm is None:
        raise UserError("expected a model under checklists.vlm, got none")
    kept = kept_samples(folder)
    cases = {name: case for name, case in valid_cases(folder).items() if name in kept}
    first = first_of_pairs(sample for sample, _ in cases.values())
    parameters = replace(settings.parameters or GenerationParameters(max_tokens=MAX_TOKENS), schema=CHECKLIST_SCHEMA)
    config = {
        "model": {vlm.name: vlm.fingerprint},
        "parameters": asdict(parameters),
        "num_questions": settings.num_questions,
        "texts": {name: texts_hash(PACKAGE, name) for name in ("checklist", "blind")},
    }
    with RunFolder.open(folder.stage(CHECKLISTS), command=COMMAND, config=config, seed=parameters.seed or 0) as run:
        own = {name: case for name, case in cases.items() if first[name] == name}
        written = _write(run, folder, vlm, own, parameters, settings)
        drafted = {
            name: check_drafts(name, answer.drafts, own[name][0].references, settings.overlap)
            for name, answer in written.items()
        }
        blind = _ask_blindly(run, vlm, own, drafted, settings)
        checked = {name: with_blind_answers(drafted[name], blind[name], settings.blind) for name in own}
        by_case = {name: [item.model_copy(update={"sample": name}) for item in checked[first[name]]] for name in cases}
        write_records(run.path / QUESTIONS, [item for items in by_case.values() for item in items])
        write_records(run.path / INCOMPLETE, missing_dimensions(by_case))
        statuses = [written[first[name]].status for name in cases]
        answers = [answer for of_case in blind.values() for answer in of_case.values()]
        report = checklist_report(by_case, statuses, answers, settings.blind)
        write_report(run, report, report_lines(report))
    if not report.outcomes.get("kept"):
        raise UserError(
            f"no case got a question: replies {counts_text(report.statuses)}, questions "
            f"{counts_text(report.outcomes)}; see {folder.stage(CHECKLISTS)}"
        )
    return report


def _write(
    run: RunFolder,
    folder: BuildFolder,
    vlm: VLM,
    cases: Cases,
    parameters: GenerationParameters,
    settings: ChecklistSettings,
) -> dict[str, ChecklistAnswer]:
    def ask(names: Sequence[str]) -> list[ChecklistAnswer]:
        asked = {name: cases[name] for name in names}
        return _ask(folder, vlm, asked, parameters, settings.num_questions)

    wanted = {name: stable_hash(case) for name, case in cases.items()}
    return ask_missing(
        run, WRITTEN, ChecklistAnswer, wanted, ask, batch_size=settings.batch_size, description="writing checklists"
    )


def _ask(
    folder: BuildFolder, vlm: VLM, cases: Cases, parameters: GenerationParameters, num_questions: int
) -> list[ChecklistAnswer]:
    """Ask for the checklists of some cases; a case whose pictures cannot be read is not asked about."""
    conversations, answers = {}, {}
    for name, (sample, instruction) in cases.items():
        try:
            pictures = [load_image(folder.picture(reference.image)) for reference in sample.references]
        except UnreadableImageError as error:
            asked = stable_hash(cases[name])
            answers[name] = ChecklistAnswer(about=name, asked=asked, status="unreadable_image", reason=str(error))
            continue
        conversations[name] = ask_for_checklist(sample, instruction, pictures, num_questions)
    replies = vlm.generate(list(conversations.values()), parameters) if conversations else []
    for name, reply in zip(conversations, replies, strict=True):
        reading = read_reply(reply, partial(read_questions, num_references=len(cases[name][0].references)))
        answers[name] = ChecklistAnswer(
            about=name,
            asked=stable_hash(cases[name]),
            drafts=[
                Draft(question=entry.value, status=entry.status, reason=entry.problem) for entry in reading.value or ()
            ],
            status=reading.status,
            reason=reading.problem,
            raw=raw_text(reply),
        )
    return [answers[name] for name in cases]


def _ask_blindly(
    run: RunFolder,
    vlm: VLM,
    cases: Cases,
    drafted: Mapping[str, Sequence[CheckedQuestion]],
    settings: ChecklistSettings,
) -> dict[str, dict[int, BlindAnswer]]:
    """Return what a model that sees no picture says to the questions that are left, by case and number."""
    asked = {
        name: {
            item.number: BlindQuestion(cases[name][1], item.question)
            for item in items
            if item.outcome == "kept" and item.question is not None and settings.blind.action != "off"
        }
        for name, items in drafted.items()
    }
    by_key = {question.key: question for questions in asked.values() for question in questions.values()}
    answers = ask_missing(
        run,
        BLIND,
        BlindAnswer,
        {key: key for key in by_key},
        lambda keys: ask_all_blindly(vlm, [by_key[key] for key in keys]),
        batch_size=settings.batch_size * settings.num_questions,
        description="asking without pictures",
    )
    return {name: {number: answers[item.key] for number, item in items.items()} for name, items in asked.items()}
