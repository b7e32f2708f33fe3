"""The stage questions: the yes/no questions of every scene, see :mod:`data_build.cogcanvas.questions`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from bench.cogcanvas.cases import REFERENCE_GENERATION, TASKS, TEXT_TO_IMAGE
from data_build.cogcanvas.folder import QUESTIONS, BuildFolder
from data_build.cogcanvas.material import Material
from data_build.cogcanvas.questions import Asked, questions_of
from data_build.cogcanvas.scene_graphs import SceneGraphs, read_graphs
from data_build.cogcanvas.settings import QuestionSettings
from data_build.cogcanvas.write import scene_materials
from data_build.stages import counts_text, require_output, write_report
from gnomon.jsonl import read_records, write_records
from gnomon.records import Question, Record
from gnomon.runs import RunFolder

COMMAND = "data build cogcanvas, questions"
QUESTIONS_FILE = "questions.jsonl"


class SceneQuestions(Record):
    """The questions of a scene for one task."""

    scene: str
    task: str
    questions: list[Question]


class QuestionReport(Record):
    """Counts: scenes, and questions by task, then by dimension; negated ones apart, as "<dimension>, negated"."""

    num_scenes: int
    questions: dict[str, dict[str, int]]


def write_questions(folder: BuildFolder, settings: QuestionSettings) -> QuestionReport:
    """Write the questions of every scene with graphs.

    Raises:
        UserError: where a stage before did not run.
    """
    graphs = read_graphs(folder)
    found, _ = scene_materials(folder)
    written = [
        SceneQuestions(scene=one.scene, task=task, questions=_questions(found[one.scene], one, task, settings.negated))
        for one in graphs
        if one.scene in found
        for task in TASKS
    ]
    with RunFolder.open(folder.stage(QUESTIONS), command=COMMAND, config={}, seed=0) as run:
        write_records(run.path / QUESTIONS_FILE, written)
        report = _report(written)
        write_report(run, report, report_lines(report))
    return report


def read_questions(folder: BuildFolder) -> dict[tuple[str, str], list[Question]]:
    """Return questions by scene and task.

    Raises:
        UserError: where the stage did not run.
    """
    found = read_records(require_output(folder.questions, QUESTIONS), SceneQuestions)
    return {(one.scene, one.task): one.questions for one in found}


def _questions(material: Material, graphs: SceneGraphs, task: str, negated: bool) -> list[Question]:
    """Return all questions with references; from words alone, those about attributes and bindings."""
    if task == REFERENCE_GENERATION:
        asked = Asked(material.plain, graphs.bindings, graphs.interactions, graphs.positions)
    else:
        asked = Asked(material.plain, graphs.bindings, [], [], prompt=graphs.prompt)
    return questions_of(asked, negated=negated)


def _report(written: Sequence[SceneQuestions]) -> QuestionReport:
    counts: dict[str, Counter[str]] = {task: Counter() for task in TASKS}
    for one in written:
        counts[one.task].update(
            question.dimension if question.expected else f"{question.dimension}, negated" for question in one.questions
        )
    return QuestionReport(
        num_scenes=len({one.scene for one in written}),
        questions={task: dict(sorted(counter.items())) for task, counter in counts.items()},
    )


def report_lines(report: QuestionReport) -> list[str]:
    """Return the report for people."""
    names = {REFERENCE_GENERATION: "with references", TEXT_TO_IMAGE: "from words alone"}
    return [
        f"{report.num_scenes:,} scenes have questions",
        *(f"  {names[task]}: {counts_text(counts)}" for task, counts in report.questions.items()),
    ]
