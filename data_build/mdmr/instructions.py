"""The stage instruct: a model looks at each sample, says whether it makes a good case, and writes the instruction.

A sample is asked about again when it changed, or its last answer failed in a way that may pass
(:data:`bench.folder.TRIED_AGAIN`); everything else stays as it was answered. Source: MDMR-Bench, the third step of its
construction.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial

from data_build.answers import Answer, ask_missing
from data_build.mdmr.asking import INSTRUCTION_SCHEMA, PACKAGE, ask_for_instruction
from data_build.mdmr.folder import INSTRUCT, SAMPLE, BuildFolder
from data_build.mdmr.replies import CheckedCase, read_case
from data_build.mdmr.samples import Sample, read_samples
from data_build.mdmr.settings import InstructSettings
from data_build.stages import counts_text, require_output, write_report
from data_build.texts import texts_hash
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.images import UnreadableImageError, load_image
from gnomon.jsonl import read_records
from gnomon.records import Record, Text
from gnomon.runs import RunFolder
from gnomon.sheets import write_sheet
from rm.protocols.asking import raw_text, read_reply
from rm.vlm.conversation import VLM, GenerationParameters

COMMAND = "data build mdmr, instruct"
INSTRUCTIONS = "instructions.jsonl"
REVIEW = "review.csv"
SHOWN = ("family", "subtask", "references", "en", "zh")
"""Columns of the sheet that reviewers look at."""


class CaseAnswer(Answer):
    """What a model says of one sample; `case` is None exactly where `status` is not "ok"."""

    case: CheckedCase | None = None


class InstructReport(Record):
    """Counts: samples, answers by status, and what is wrong with those that are no good case.

    `num_without_partner` counts good second ones of pairs whose first one has no instruction to share.
    """

    num_samples: int
    num_valid: int
    num_without_partner: int
    statuses: dict[str, int]
    problems: dict[str, int]


def write_instructions(folder: BuildFolder, settings: InstructSettings) -> InstructReport:
    """Have every sample checked and instructed; run again to go on after a stop.

    Args:
        folder: of the build.
        settings: whom to ask, and how.

    Raises:
        UserError: without a model or samples, where the folder holds another run, and where no sample got an
            instruction.
    """
    vlm = settings.vlm
    if vlm is None:
        raise UserError("expected a model under instruct.vlm, got none")
    samples = {sample.id: sample for sample in read_samples(require_output(folder.samples, SAMPLE))}
    parameters = replace(settings.parameters or GenerationParameters(), schema=INSTRUCTION_SCHEMA)
    config = {
        "model": {vlm.name: vlm.fingerprint},
        "parameters": asdict(parameters),
        "texts": texts_hash(PACKAGE, "instruct"),
    }
    with RunFolder.open(folder.stage(INSTRUCT), command=COMMAND, config=config, seed=parameters.seed or 0) as run:

        def ask(names: Sequence[str]) -> list[CaseAnswer]:
            return _ask(folder, vlm, parameters, [samples[name] for name in names])

        wanted = {name: _asked(sample) for name, sample in samples.items()}
        answers = ask_missing(
            run, INSTRUCTIONS, CaseAnswer, wanted, ask, batch_size=settings.batch_size, description="instructing"
        )
        valid = _with_shared_instructions(list(samples.values()), answers)
        write_sheet(
            run.path / REVIEW,
            ["sample", *SHOWN, "reviewer", "keep", "reason"],
            [_row(sample, instruction) for sample, instruction in valid.values()],
        )
        report = _report(list(answers.values()), len(valid))
        write_report(run, report, report_lines(report))
    if not report.num_valid:
        raise UserError(
            f"no sample got an instruction: {counts_text(report.statuses | report.problems)}; see {folder.instructions}"
        )
    return report


def _asked(sample: Sample) -> str:
    return stable_hash(sample)


def _ask(
    folder: BuildFolder, vlm: VLM, parameters: GenerationParameters, samples: Sequence[Sample]
) -> list[CaseAnswer]:
    """Ask about some samples; one whose pictures cannot be read is not asked about."""
    conversations, answers = {}, {}
    for sample in samples:
        try:
            pictures = [load_image(folder.picture(reference.image)) for reference in sample.references]
        except UnreadableImageError as error:
            answers[sample.id] = CaseAnswer(
                about=sample.id, asked=_asked(sample), status="unreadable_image", reason=str(error)
            )
            continue
        conversations[sample.id] = ask_for_instruction(sample, pictures)
    replies = vlm.generate(list(conversations.values()), parameters) if conversations else []
    by_id = {sample.id: sample for sample in samples}
    for name, reply in zip(conversations, replies, strict=True):
        reading = read_reply(reply, partial(read_case, num_references=len(by_id[name].references)))
        answers[name] = CaseAnswer(
            about=name,
            asked=_asked(by_id[name]),
            case=reading.value,
            status=reading.status,
            reason=reading.problem,
            raw=raw_text(reply),
        )
    return [answers[sample.id] for sample in samples]


def valid_cases(folder: BuildFolder) -> dict[str, tuple[Sample, Text]]:
    """Return the samples that make up good cases, with their instructions, by id.

    Two samples of one pair have one instruction, the first one's; the second one is left out where the first one has
    none.

    Raises:
        UserError: where the stage did not run.
    """
    file = require_output(folder.instructions, INSTRUCT)
    last = {(answer.about, answer.asked): answer for answer in read_records(file, CaseAnswer, drop_torn_tail=True)}
    samples = read_samples(require_output(folder.samples, SAMPLE))
    answers = {sample.id: last[key] for sample in samples if (key := (sample.id, _asked(sample))) in last}
    return _with_shared_instructions(samples, answers)


def _with_shared_instructions(
    samples: Sequence[Sample], answers: Mapping[str, CaseAnswer]
) -> dict[str, tuple[Sample, Text]]:
    first = first_of_pairs(samples)
    found = {}
    for sample in samples:
        own, instruction = (_instruction(answers.get(name)) for name in (sample.id, first[sample.id]))
        if own is not None and instruction is not None:
            found[sample.id] = (sample, instruction)
    return found


def first_of_pairs(samples: Iterable[Sample]) -> dict[str, str]:
    """Return for each sample the first one of its pair, which is itself where it has none."""
    first: dict[str, str] = {}
    return {
        sample.id: first.setdefault(sample.pair_id, sample.id) if sample.pair_id else sample.id for sample in samples
    }


def _instruction(answer: CaseAnswer | None) -> Text | None:
    return answer.case.instruction if answer is not None and answer.case is not None else None


def _row(sample: Sample, instruction: Text) -> dict[str, str]:
    return {
        "sample": sample.id,
        "family": sample.family,
        "subtask": sample.subtask,
        "references": " ".join(f"../sample/images/{reference.image}.png" for reference in sample.references),
        "en": instruction.en or "",
        "zh": instruction.zh or "",
    }


def _report(answers: Sequence[CaseAnswer], num_valid: int) -> InstructReport:
    problems = Counter(answer.case.problem for answer in answers if answer.case is not None and answer.case.problem)
    return InstructReport(
        num_samples=len(answers),
        num_valid=num_valid,
        num_without_partner=sum(_instruction(answer) is not None for answer in answers) - num_valid,
        statuses=dict(sorted(Counter(answer.status for answer in answers).items())),
        problems=dict(problems.most_common()),
    )


def report_lines(report: InstructReport) -> list[str]:
    """Return the report for people."""
    lines = [
        f"{report.num_valid:,} of {report.num_samples:,} samples have an instruction",
        f"replies: {counts_text(report.statuses)}",
        f"no good cases: {counts_text(report.problems)}",
    ]
    if report.num_without_partner:
        lines.append(f"second of a pair whose first one has no instruction: {report.num_without_partner:,}")
    return lines
