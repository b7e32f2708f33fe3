"""The stage dataset: the benchmark itself, `cases.jsonl` with its pictures, and beside it what may be passed on.

A case has its scene's id; one without references, of the task text_to_image, ends in `-text`. Pictures are upright,
without metadata, and named by the hash of their pixels. The dataset folder holds people's pictures and is for this
machine alone; what may be passed on is in `release/`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from bench.cogcanvas.cases import IDENTITY, NAME, REFERENCE_GENERATION, TASKS, TEXT_TO_IMAGE, SceneFacts
from bench.cogcanvas.positions import cycles
from data_build.cogcanvas.attributes import read_references
from data_build.cogcanvas.entries import name_key
from data_build.cogcanvas.folder import DATASET, BuildFolder
from data_build.cogcanvas.material import Material
from data_build.cogcanvas.references import DescribedReference
from data_build.cogcanvas.release import ReleasedPrompt, read_prompts, write_release
from data_build.cogcanvas.scene_graphs import SceneGraphs, read_graphs
from data_build.cogcanvas.scene_questions import read_questions
from data_build.cogcanvas.settings import DatasetSettings
from data_build.cogcanvas.terms import TERMS, terms_text
from data_build.cogcanvas.write import scene_materials
from data_build.stages import counts_text, write_report
from gnomon.datasets import CASES, dataset_hash, write_records
from gnomon.errors import UserError
from gnomon.files import atomic_write_text
from gnomon.images import UnreadableImageError, load_image, save_png
from gnomon.progress import track
from gnomon.records import Case, Question, Record, Reference, Text
from gnomon.runs import RunFolder

COMMAND = "data build cogcanvas, dataset"
LEFT_OUT = "left_out.jsonl"
METRICS = {
    REFERENCE_GENERATION: ["id_sim", "dino_sim", "clip_t", "aesthetic", "bg_sim"],
    TEXT_TO_IMAGE: ["person_count", "clip_t", "aesthetic"],
}
"""What a case is measured by beside its questions, by task."""


class LeftOut(Record):
    """A prompt that is no case, and why."""

    id: str
    reason: Literal[
        "reference_gone",
        "one_identity_twice",
        "absent_person",
        "contradictory_positions",
        "unreadable_image",
        "unknown_task",
    ]
    detail: str


class DatasetReport(Record):
    """What the benchmark holds.

    Attributes:
        num_prompts: that there are.
        num_cases: of them.
        left_out: prompts that are no case, by reason.
        tasks: cases by task.
        group_sizes: cases by number of people.
        references: pictures by role, each once.
        questions: of all cases, by dimension.
        num_overridden: cases that people let pass though a check had turned them down.
        dataset: hash of cases and pictures.
    """

    num_prompts: int
    num_cases: int
    left_out: dict[str, int]
    tasks: dict[str, int]
    group_sizes: dict[str, int]
    references: dict[str, int]
    questions: dict[str, int]
    num_overridden: int
    dataset: str


def write_dataset(folder: BuildFolder, settings: DatasetSettings) -> DatasetReport:
    """Write the benchmark of what the stages before kept, or of released prompts; run again when they changed.

    Raises:
        UserError: where the stages before did not run, for a file of prompts that cannot be read, and where no case is
            left.
    """
    references = read_references(folder)
    prompts = _own_prompts(folder) if settings.prompts is None else read_prompts(settings.prompts)
    prompts = [prompt for prompt in prompts if prompt.task in settings.tasks or prompt.task not in TASKS]
    with RunFolder.open(folder.stage(DATASET), command=COMMAND, config={"split": settings.split}, seed=0) as run:
        cases: list[Case] = []
        left_out: list[LeftOut] = []
        for prompt in track(prompts, "writing cases"):
            made = _case(folder, run, prompt, references, settings)
            if isinstance(made, LeftOut):
                left_out.append(made)
            else:
                cases.append(made)
        write_records(run.path / LEFT_OUT, left_out)
        write_records(run.path / CASES, cases)
        atomic_write_text(run.path / TERMS, terms_text())
        if not cases:
            raise UserError(f"no case is left: {counts_text(_reasons(left_out))}; see {run.path / LEFT_OUT}")
        report = dataset_report(cases, left_out, dataset_hash(run.path))
        write_report(run, report, report_lines(report))
    kept = {case.id for case in cases}
    write_release(folder, [prompt for prompt in prompts if prompt.id in kept], references)
    return report


def _own_prompts(folder: BuildFolder) -> list[ReleasedPrompt]:
    """Return a prompt of every task for each scene of this build."""
    found, _ = scene_materials(folder)
    questions = read_questions(folder)
    return [
        _prompt(found[graphs.scene], graphs, task, questions.get((graphs.scene, task), []))
        for graphs in read_graphs(folder)
        if graphs.scene in found
        for task in TASKS
    ]


def _prompt(material: Material, graphs: SceneGraphs, task: str, questions: Sequence[Question]) -> ReleasedPrompt:
    scene = material.scene
    return ReleasedPrompt(
        id=scene.id if task == REFERENCE_GENERATION else f"{scene.id}-text",
        task=task,
        prompt=Text(en=graphs.prompt),
        references=scene.references,
        facts=SceneFacts(
            bindings=graphs.bindings,
            interactions=graphs.all_interactions,
            positions=graphs.all_positions,
            object_size=scene.object_size,
            interaction_strength=scene.interaction_strength,
            override=graphs.override,
        ),
        questions=list(questions),
    )


def _case(
    folder: BuildFolder,
    run: RunFolder,
    prompt: ReleasedPrompt,
    references: Mapping[str, DescribedReference],
    settings: DatasetSettings,
) -> Case | LeftOut:
    """Return the case of a prompt with its pictures in the folder, or why there is none."""
    if (problem := _problem(prompt, references)) is not None:
        return problem
    try:
        shown = [_reference(folder, run, references[name]) for name in prompt.references]
    except UnreadableImageError as error:
        return LeftOut(id=prompt.id, reason="unreadable_image", detail=str(error))
    return Case(
        id=prompt.id,
        benchmark=NAME,
        task=prompt.task,
        instruction=prompt.prompt,
        references=shown,
        metrics=METRICS[prompt.task],
        questions=prompt.questions,
        split=settings.split,
        meta=prompt.facts.model_dump(exclude_none=True),
    )


def _problem(prompt: ReleasedPrompt, references: Mapping[str, DescribedReference]) -> LeftOut | None:
    if prompt.task not in TASKS:
        return LeftOut(id=prompt.id, reason="unknown_task", detail=f"expected {' or '.join(TASKS)}, got {prompt.task}")
    if gone := [name for name in prompt.references if name not in references]:
        return LeftOut(id=prompt.id, reason="reference_gone", detail=", ".join(gone))
    own = [references[name] for name in prompt.references]
    people = [name_key(one.name) for one in own if one.role == IDENTITY]
    if len(set(people)) < len(people):
        return LeftOut(id=prompt.id, reason="one_identity_twice", detail=", ".join(people))
    facts = prompt.facts
    named = [edge.person for edge in facts.bindings]
    named += [name for edge in facts.interactions for name in (edge.first, edge.second)]
    named += [name for edge in facts.positions for name in (edge.first, edge.second)]
    if absent := sorted({name for name in named if name_key(name) not in people}):
        return LeftOut(id=prompt.id, reason="absent_person", detail=", ".join(absent))
    if found := cycles(facts.positions):
        told = "; ".join(f" {relation} ".join(cycle) for relation, cycle in found.items())
        return LeftOut(id=prompt.id, reason="contradictory_positions", detail=told)
    return None


def _reference(folder: BuildFolder, run: RunFolder, reference: DescribedReference) -> Reference:
    place = f"images/{reference.picture.pixels[:32]}.png"
    if not (run.path / place).exists():  # pictures are written whole or not at all
        save_png(load_image(reference.picture.path(folder)), run.path / place)
    return Reference(path=place, role=reference.role, name=reference.name, attributes=reference.plain)


def _reasons(left_out: Sequence[LeftOut]) -> dict[str, int]:
    return dict(Counter(item.reason for item in left_out).most_common())


def dataset_report(cases: Sequence[Case], left_out: Sequence[LeftOut], dataset: str) -> DatasetReport:
    """Count what a benchmark holds."""
    people = Counter(str(sum(one.role == IDENTITY for one in case.references)) for case in cases)
    pictures = {(one.role, one.path) for case in cases for one in case.references}
    questions = Counter(question.dimension for case in cases for question in case.questions)
    return DatasetReport(
        num_prompts=len(cases) + len(left_out),
        num_cases=len(cases),
        left_out=_reasons(left_out),
        tasks=dict(Counter(case.task for case in cases)),
        group_sizes=dict(sorted(people.items())),
        references=dict(sorted(Counter(role for role, _ in pictures).items())),
        questions=dict(sorted(questions.items())),
        num_overridden=sum("override" in case.meta for case in cases),
        dataset=dataset,
    )


def report_lines(report: DatasetReport) -> list[str]:
    """Return the report for people."""
    lines = [
        f"{report.num_cases:,} cases of {report.num_prompts:,} prompts: {counts_text(report.tasks)}",
        f"people in a case: {counts_text(report.group_sizes)}",
        f"references: {counts_text(report.references)}",
        f"questions: {counts_text(report.questions)}",
        f"let pass by people: {report.num_overridden:,}",
    ]
    if report.left_out:
        lines.append(f"prompts that are no case: {counts_text(report.left_out)}; see {LEFT_OUT}")
    return lines
