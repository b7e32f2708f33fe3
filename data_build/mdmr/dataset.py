"""The stage dataset: the benchmark itself, `cases.jsonl` with its pictures, of everything that the stages before kept.

A case has the sample's id; its pictures are named by the hash of their pixels. A sample without a question, or with a
picture that cannot be read, is no case: `left_out.jsonl` says which. Two cases of one pair know each other by
`meta.pair_id`, which one whose partner is gone does not have.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from bench.mdmr.cases import FAMILIES, NAME, CaseFacts, facts_of
from data_build.mdmr.checking import CheckedQuestion
from data_build.mdmr.folder import CHECKLISTS, DATASET, BuildFolder
from data_build.mdmr.human_filter import kept_samples
from data_build.mdmr.instructions import valid_cases
from data_build.mdmr.samples import Sample
from data_build.mdmr.settings import DatasetSettings
from data_build.stages import counts_text, require_output, write_report
from gnomon.datasets import CASES, dataset_hash, write_records
from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes
from gnomon.images import UnreadableImageError, content_hash
from gnomon.jsonl import read_records
from gnomon.progress import track
from gnomon.records import Case, Question, Record, Reference, Text
from gnomon.runs import RunFolder

COMMAND = "data build mdmr, dataset"
LEFT_OUT = "left_out.jsonl"


class LeftOut(Record):
    """A sample that is no case, and why."""

    sample: str
    reason: Literal["no_questions", "unreadable_image"]
    detail: str


class DatasetReport(Record):
    """What the benchmark holds.

    Attributes:
        num_cases: all.
        left_out: samples that are no case, by reason.
        families: cases by family.
        subtasks: cases by sub-task, by family; one without a case has 0.
        num_references: cases by number of references.
        text_languages: cases by the language of the writing in a design, where it matters.
        reference_origins: cases by whether their references are real or synthetic.
        num_pairs: pairs of cases that differ in that alone.
        instruction_languages: cases with an instruction in each language.
        num_questions: of all cases.
        dataset: hash of cases and pictures.
    """

    num_cases: int
    left_out: dict[str, int]
    families: dict[str, int]
    subtasks: dict[str, dict[str, int]]
    num_references: dict[str, int]
    text_languages: dict[str, int]
    reference_origins: dict[str, int]
    num_pairs: int
    instruction_languages: dict[str, int]
    num_questions: int
    dataset: str


def write_dataset(folder: BuildFolder, settings: DatasetSettings) -> DatasetReport:
    """Write the benchmark of what the stages before kept; run again when they changed.

    Args:
        folder: of the build.
        settings: how.

    Raises:
        UserError: where the stages before did not run, and where no case is left.
    """
    kept = kept_samples(folder)
    wanted = [case for name, case in valid_cases(folder).items() if name in kept]
    questions = _questions(folder)
    with RunFolder.open(folder.stage(DATASET), command=COMMAND, config={"split": settings.split}, seed=0) as run:
        cases, left_out = [], []
        places: dict[str, str] = {}
        for sample, instruction in track(wanted, "writing cases"):
            made = _case(run, folder, sample, instruction, questions.get(sample.id, []), places)
            if isinstance(made, LeftOut):
                left_out.append(made)
            else:
                cases.append(made.model_copy(update={"split": settings.split}))
        cases = _with_known_pairs(cases)
        write_records(run.path / LEFT_OUT, left_out)
        write_records(run.path / CASES, cases)
        if not cases:
            raise UserError(f"no case is left: {counts_text(_reasons(left_out))}; see {run.path / LEFT_OUT}")
        report = dataset_report(cases, left_out, dataset_hash(run.path))
        write_report(run, report, report_lines(report))
    return report


def _questions(folder: BuildFolder) -> dict[str, list[Question]]:
    found: dict[str, list[Question]] = {}
    for item in read_records(require_output(folder.questions, CHECKLISTS), CheckedQuestion):
        if item.outcome == "kept":
            found.setdefault(item.sample, []).append(item.to_question())
    return found


def _case(
    run: RunFolder,
    folder: BuildFolder,
    sample: Sample,
    instruction: Text,
    questions: Sequence[Question],
    places: dict[str, str],
) -> Case | LeftOut:
    """Return the case of a sample with its pictures in the folder, or why there is none."""
    if not questions:
        return LeftOut(sample=sample.id, reason="no_questions", detail="no question of its checklist can serve")
    try:
        for reference in sample.references:
            if reference.image not in places:
                places[reference.image] = _stored(run, folder, reference.image)
    except UnreadableImageError as error:
        return LeftOut(sample=sample.id, reason="unreadable_image", detail=str(error))
    facts = CaseFacts(
        bucket=sample.bucket,
        content_type=sample.content_type,
        text_language=sample.text_language,
        reference_origin=sample.reference_origin,
        pair_id=sample.pair_id,
    )
    return Case(
        id=sample.id,
        benchmark=NAME,
        task=sample.family,
        subtask=sample.subtask,
        instruction=instruction,
        references=[
            Reference(
                path=places[reference.image],
                role=reference.role,
                name=reference.name,
                attributes=reference.attributes,
            )
            for reference in sample.references
        ],
        questions=list(questions),
        meta=facts.model_dump(exclude_none=True),
    )


def _stored(run: RunFolder, folder: BuildFolder, image: str) -> str:
    """Copy a picture, which is upright, without metadata and a PNG already, and return its place."""
    file = folder.picture(image)
    place = f"images/{content_hash(file)[:32]}.png"
    if not (run.path / place).exists():  # pictures are written whole or not at all
        atomic_write_bytes(run.path / place, file.read_bytes())
    return place


def _with_known_pairs(cases: Sequence[Case]) -> list[Case]:
    """Return the cases, those whose partner is gone without the id of their pair."""
    sizes = Counter(facts_of(case).pair_id for case in cases)
    return [
        case
        if sizes[facts_of(case).pair_id] > 1
        else case.model_copy(update={"meta": {key: value for key, value in case.meta.items() if key != "pair_id"}})
        for case in cases
    ]


def _reasons(left_out: Sequence[LeftOut]) -> dict[str, int]:
    return dict(Counter(item.reason for item in left_out).most_common())


def dataset_report(cases: Sequence[Case], left_out: Sequence[LeftOut], dataset: str) -> DatasetReport:
    """Count what a benchmark holds."""
    facts = [facts_of(case) for case in cases]
    subtasks = Counter((case.task, case.subtask) for case in cases)
    pairs = Counter(fact.pair_id for fact in facts if fact.pair_id)
    return DatasetReport(
        num_cases=len(cases),
        left_out=_reasons(left_out),
        families={family: sum(case.task == family for case in cases) for family in FAMILIES},
        subtasks={family: {name: subtasks[family, name] for name in names} for family, names in FAMILIES.items()},
        num_references=_counted(str(len(case.references)) for case in cases),
        text_languages=_counted(fact.text_language for fact in facts if fact.text_language),
        reference_origins=_counted(fact.reference_origin for fact in facts),
        num_pairs=sum(size > 1 for size in pairs.values()),
        instruction_languages={
            "en": sum(case.instruction.en is not None for case in cases),
            "zh": sum(case.instruction.zh is not None for case in cases),
        },
        num_questions=sum(len(case.questions) for case in cases),
        dataset=dataset,
    )


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def report_lines(report: DatasetReport) -> list[str]:
    """Return the report for people."""
    empty = [
        f"{family}/{name}" for family, counts in report.subtasks.items() for name, count in counts.items() if not count
    ]
    lines = [
        f"{report.num_cases:,} cases with {report.num_questions:,} questions",
        *(
            f"  {family}: {report.families[family]:,} ({counts_text(counts)})"
            for family, counts in report.subtasks.items()
        ),
        f"references a case: {counts_text(report.num_references)}",
        f"references that are: {counts_text(report.reference_origins)}, pairs of both {report.num_pairs:,}",
        f"writing in designs: {counts_text(report.text_languages)}",
        f"instructions: {counts_text(report.instruction_languages)}",
    ]
    if report.left_out:
        lines.append(f"samples that are no case: {counts_text(report.left_out)}; see {LEFT_OUT}")
    if empty:
        lines.append(f"sub-tasks without a case: {', '.join(empty)}")
    return lines
