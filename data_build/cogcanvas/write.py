"""The stage write: a model writes each scene's prompt with its graphs, and again where a draft was turned down.

The first start writes the first drafts. After the stage verify, another start writes the next draft of each scene that
was turned down, and the model is told why. A draft that breaks our own rules is followed by the next one at once.
Source: Nguyen et al. 2026 (arXiv 2606.15867), sections 3.3 and 3.4.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from data_build.answers import Answered, ask_missing
from data_build.cogcanvas.asking import ask, require_model, run_config
from data_build.cogcanvas.attributes import read_references
from data_build.cogcanvas.drafts import CheckAnswer, Course, Draft, WrittenScene, follow
from data_build.cogcanvas.folder import SAMPLE, WRITE, BuildFolder
from data_build.cogcanvas.material import Material, materials
from data_build.cogcanvas.scenes import read_scenes
from data_build.cogcanvas.settings import WriteSettings
from data_build.cogcanvas.terms import PACKAGE
from data_build.stages import counts_text, require_output, write_report
from data_build.texts import load_texts, texts_hash
from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, load_image
from gnomon.jsonl import read_records
from gnomon.records import Record
from gnomon.runs import RunFolder
from rm.protocols.templates import compose, quoted
from rm.vlm.conversation import Conversation, GenerationParameters

if TYPE_CHECKING:
    from PIL import Image

COMMAND = "data build cogcanvas, write"
TEXTS, KEY = "write", "scene"
DRAFTS = "drafts.jsonl"


class WriteReport(Record):
    """Counts: scenes by what is to be done next, drafts by status and by what was wrong with them, unusable scenes.

    `num_waiting` counts scenes whose next draft got no answer.
    """

    num_scenes: int
    states: dict[str, int]
    statuses: dict[str, int]
    problems: dict[str, int]
    left_out: dict[str, int]

    @property
    def num_waiting(self) -> int:
        """Scenes that another start may write."""
        return self.states.get("to_write", 0)


def write_drafts(folder: BuildFolder, settings: WriteSettings) -> WriteReport:
    """Write every draft that is missing; run again to go on after a stop, or after the stage verify.

    Raises:
        UserError: without a model or scenes, and where no scene can be used.
    """
    vlm = require_model(settings.vlm, WRITE)
    parameters = settings.parameters or GenerationParameters()
    config = run_config(vlm, parameters, texts_hash(PACKAGE, TEXTS))
    found, problems = scene_materials(folder)
    with RunFolder.open(folder.stage(WRITE), command=COMMAND, config=config, seed=parameters.seed or 0) as run:
        asked_before: set[tuple[str, str]] = set()
        while True:
            courses = read_courses(folder, found, settings.max_attempts)
            waiting = {name: course for name, course in courses.items() if course.state == "to_write"}
            waiting = {name: one for name, one in waiting.items() if (one.about, one.asked) not in asked_before}
            if not waiting:
                break
            _write(folder, run, settings, parameters, found, waiting)
            asked_before |= {(one.about, one.asked) for one in waiting.values()}
        report = _report(run.read(Draft, DRAFTS), courses, problems)
        write_report(run, report, report_lines(report))
    if not courses:
        raise UserError(f"no scene can be used: {counts_text(report.left_out)}; run the stage {SAMPLE} again")
    return report


def scene_materials(folder: BuildFolder) -> tuple[dict[str, Material], dict[str, str]]:
    """Return the scenes with their references, and what is wrong with those that cannot be used.

    Raises:
        UserError: where a stage before did not run.
    """
    return materials(read_scenes(require_output(folder.scenes, SAMPLE)), read_references(folder))


def read_courses(folder: BuildFolder, found: Mapping[str, Material], max_attempts: int) -> dict[str, Course]:
    """Return how far every scene has come, by what lies in the folders of the stages write and verify."""
    drafts = {(one.about, one.asked): one for one in _lines(folder.drafts, Draft)}
    checks = {(one.about, one.asked): one for one in _lines(folder.checks, CheckAnswer)}
    return {name: follow(material, drafts, checks, max_attempts) for name, material in found.items()}


def pictures_of(folder: BuildFolder, material: Material) -> tuple[list[str], list[Image.Image]]:
    """Return captions and pictures that a model is shown of a scene: the place and the items, and nobody's face.

    Raises:
        UnreadableImageError: where one cannot be opened any more.
    """
    shown = [material.background, *material.items]
    captions = ["Place", *(f"Item {quoted(item.name)}" for item in material.items)]
    return captions, [load_image(one.picture.path(folder)) for one in shown]


def ask_for_scene(
    material: Material, course: Course, captions: Sequence[str], pictures: Sequence[Image.Image]
) -> Conversation:
    """Return the question for a scene's next draft."""
    texts = load_texts(PACKAGE, TEXTS)
    told = dict.fromkeys(quoted(problem.message) for each in course.problems for problem in each)
    problems = "\n".join([texts["problems"], *(f"- {message}" for message in told)]) + "\n" if told else ""
    values = {"scene": material.text(), "problems": problems}
    return compose(texts, language="en", references=pictures, candidates=[], values=values, names=captions)


def _write(
    folder: BuildFolder,
    run: RunFolder,
    settings: WriteSettings,
    parameters: GenerationParameters,
    found: Mapping[str, Material],
    waiting: Mapping[str, Course],
) -> None:
    """Ask for the next draft of some scenes."""
    by_about = {course.about: (found[name], course) for name, course in waiting.items()}

    def ask_some(names: Sequence[str]) -> list[Draft]:
        conversations, drafts = {}, {}
        for name in names:
            material, course = by_about[name]
            try:
                conversations[name] = ask_for_scene(material, course, *pictures_of(folder, material))
            except UnreadableImageError as error:
                drafts[name] = Draft(about=name, asked=course.asked, status="unreadable_image", reason=str(error))
        for name, said in ask(require_model(settings.vlm, WRITE), parameters, KEY, WrittenScene, conversations).items():
            drafts[name] = Draft(
                about=name,
                asked=by_about[name][1].asked,
                status=said.reading.status,
                reason=said.reading.problem,
                raw=said.raw,
                written=said.reading.value,
            )
        return [drafts[name] for name in names]

    wanted = {course.about: course.asked for course in waiting.values()}
    ask_missing(run, DRAFTS, Draft, wanted, ask_some, batch_size=settings.batch_size, description="writing prompts")


def _lines(path: Path, model: type[Answered]) -> list[Answered]:
    return read_records(path, model, drop_torn_tail=True) if path.exists() else []


def _report(drafts: Sequence[Draft], courses: Mapping[str, Course], left_out: Mapping[str, str]) -> WriteReport:
    own = Counter(problem.kind for course in courses.values() for each in course.problems for problem in each)
    return WriteReport(
        num_scenes=len(courses) + len(left_out),
        states=dict(Counter(course.state for course in courses.values()).most_common()),
        statuses=dict(Counter(draft.status for draft in drafts).most_common()),
        problems=dict(own.most_common()),
        left_out=dict(Counter(reason.partition(":")[0] for reason in left_out.values()).most_common()),
    )


def report_lines(report: WriteReport) -> list[str]:
    """Return the report for people."""
    lines = [
        f"{report.num_scenes:,} scenes: {counts_text(report.states)}",
        f"drafts: {counts_text(report.statuses)}",
    ]
    if report.problems:
        lines.append(f"what was wrong with drafts: {counts_text(report.problems)}")
    if report.left_out:
        lines.append(f"scenes that cannot be used: {counts_text(report.left_out)}")
    return lines
