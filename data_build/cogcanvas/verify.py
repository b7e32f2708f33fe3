"""The stage verify: a model checks every draft in three respects, and people may overrule it.

A draft that fails a check is turned down; the stage write then writes the next one. What people say about a scene's
latest draft counts before the model: one who takes it out does so, else one who keeps it lets it pass. Graphs that
contradict themselves cannot be let pass. Source: Nguyen et al. 2026 (arXiv 2606.15867), section 3.3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, get_args

from pydantic import Field

from data_build.answers import ask_missing
from data_build.cogcanvas.asking import ask, require_model, run_config
from data_build.cogcanvas.drafts import CHECKS, CheckAnswer, Course, Problem, WrittenScene, check_asked
from data_build.cogcanvas.folder import VERIFY, WRITE, BuildFolder
from data_build.cogcanvas.material import Material
from data_build.cogcanvas.settings import VerifySettings, WriteSettings
from data_build.cogcanvas.terms import PACKAGE
from data_build.cogcanvas.write import pictures_of, read_courses, scene_materials
from data_build.stages import counts_text, require_output, write_report
from data_build.texts import load_texts, texts_hash
from data_build.votes import KeepReview, LineProblem, ProblemKind, Votes, read_votes, unknown_item
from gnomon.errors import UserError
from gnomon.images import UnreadableImageError
from gnomon.jsonl import read_records, write_records
from gnomon.records import Record
from gnomon.runs import RunFolder
from gnomon.sheets import write_sheet
from rm.protocols.templates import compose, quoted
from rm.vlm.conversation import Conversation, GenerationParameters

if TYPE_CHECKING:
    from PIL import Image

COMMAND = "data build cogcanvas, verify"
TEXTS, KEY = "verify", "check"
ANSWERS, DECISIONS, PROBLEMS, REVIEW = "checks.jsonl", "decisions.jsonl", "problems.jsonl", "review.csv"
MAX_TOKENS = 512
SHOWN = ("outcome", "prompt", "problems")
"""Columns of the sheet that reviewers look at."""

Outcome = Literal["passed", "overridden", "taken_out", "given_up", "unchecked", "to_check", "to_write", "unusable"]
KEPT: tuple[Outcome, ...] = ("passed", "overridden")


class CheckReply(Record):
    """What a model says of a draft."""

    passes: bool
    explanation: str | None = Field(default=None, max_length=2000)


class DraftReview(KeepReview):
    """Whether one person keeps one draft, whatever the model says."""

    draft: str = Field(min_length=1)

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about."""
        return (self.draft,)


class SceneDecision(Record):
    """What becomes of one scene.

    Attributes:
        scene: its id.
        outcome: why it is kept or not; "unchecked" got no answer to a check, "to_check" and "to_write" wait for the
            stages, "unusable" has a reference that is gone or one identity twice.
        draft: id of the latest draft.
        written: what it says, where the scene is kept.
        override: who let it pass and why, where people did.
        problems: of its last draft, or of the scene.
    """

    scene: str
    outcome: Outcome
    draft: str | None = None
    written: WrittenScene | None = None
    override: str | None = None
    problems: list[str] = Field(default_factory=list)

    @property
    def is_kept(self) -> bool:
        """Whether there will be a case."""
        return self.outcome in KEPT


class VerifyReport(Record):
    """Counts and rates.

    Attributes:
        num_scenes: all.
        num_kept: those that go on.
        outcomes: scenes by outcome.
        num_drafts: drafts that were checked by the model or turned down by our rules.
        rejections: by check, drafts that it turned down and those that it answered about.
        rules: drafts that our own rules turned down, by rule.
        attempts: scenes that are kept, by the number of their drafts.
        problems: lines of reviews that do not count.
        num_waiting: scenes that wait for another draft.
    """

    num_scenes: int
    num_kept: int
    outcomes: dict[str, int]
    num_drafts: int
    rejections: dict[str, tuple[int, int]]
    rules: dict[str, int]
    attempts: dict[str, int]
    problems: dict[str, int]
    num_waiting: int


def verify_drafts(folder: BuildFolder, settings: VerifySettings, writing: WriteSettings) -> VerifyReport:
    """Check every draft that waits for it, and decide about every scene; run again to go on after a stop.

    Args:
        folder: of the build.
        settings: whom to ask, and what people say.
        writing: of the stage write, for how many drafts a scene may have.

    Raises:
        UserError: without a model or drafts, and for a file of people's that cannot be read.
    """
    vlm = require_model(settings.vlm, VERIFY)
    parameters = settings.parameters or GenerationParameters(max_tokens=MAX_TOKENS)
    config = run_config(vlm, parameters, texts_hash(PACKAGE, TEXTS))
    require_output(folder.drafts, WRITE)
    found, unusable = scene_materials(folder)
    with RunFolder.open(folder.stage(VERIFY), command=COMMAND, config=config, seed=parameters.seed or 0) as run:
        courses = read_courses(folder, found, writing.max_attempts)
        _check(folder, run, settings, parameters, found, courses)
        courses = read_courses(folder, found, writing.max_attempts)
        votes = _read_overrides(settings, courses)
        decisions = [_decision(course, name, votes) for name, course in courses.items()]
        decisions += [
            SceneDecision(scene=name, outcome="unusable", problems=[reason]) for name, reason in unusable.items()
        ]
        write_records(run.path / DECISIONS, decisions)
        write_records(run.path / PROBLEMS, votes.problems)
        columns = ["draft", *SHOWN, "reviewer", "keep", "reason"]
        write_sheet(run.path / REVIEW, columns, [_row(one, courses) for one in decisions if one.draft])
        report = _report(decisions, courses, run.read(CheckAnswer, ANSWERS), votes.problems)
        write_report(run, report, report_lines(report))
    return report


def read_decisions(folder: BuildFolder) -> list[SceneDecision]:
    """Return what became of every scene.

    Raises:
        UserError: where the stage did not run.
    """
    return read_records(require_output(folder.decisions, VERIFY), SceneDecision)


def ask_for_check(
    material: Material, prompt: str, check: str, captions: Sequence[str], pictures: Sequence[Image.Image]
) -> Conversation:
    """Return the question whether a prompt passes one check."""
    texts = load_texts(PACKAGE, TEXTS)
    values = {"scene": material.text(), "prompt": quoted(prompt), "check": texts["checks"][check]}
    return compose(texts, language="en", references=pictures, candidates=[], values=values, names=captions)


def _check(
    folder: BuildFolder,
    run: RunFolder,
    settings: VerifySettings,
    parameters: GenerationParameters,
    found: Mapping[str, Material],
    courses: Mapping[str, Course],
) -> None:
    """Ask about the drafts that wait for it."""
    waiting = {
        f"{course.about}/{check}": (found[name], course, check)
        for name, course in courses.items()
        if course.state == "to_check"
        for check in CHECKS
    }

    def ask_some(names: Sequence[str]) -> list[CheckAnswer]:
        conversations, answers = {}, {}
        for name in names:
            material, course, check = waiting[name]
            written = _written(course)
            try:
                shown = pictures_of(folder, material)
                conversations[name] = ask_for_check(material, written.prompt, check, *shown)
            except UnreadableImageError as error:
                answers[name] = CheckAnswer(
                    about=name, asked=_asked(course), status="unreadable_image", reason=str(error)
                )
        for name, said in ask(require_model(settings.vlm, VERIFY), parameters, KEY, CheckReply, conversations).items():
            value = said.reading.value
            answers[name] = CheckAnswer(
                about=name,
                asked=_asked(waiting[name][1]),
                status=said.reading.status,
                reason=said.reading.problem,
                raw=said.raw,
                passes=None if value is None else value.passes,
                explanation=None if value is None else value.explanation,
            )
        return [answers[name] for name in names]

    wanted = {name: _asked(course) for name, (_, course, _) in waiting.items()}
    ask_missing(
        run, ANSWERS, CheckAnswer, wanted, ask_some, batch_size=settings.batch_size, description="checking prompts"
    )


def _written(course: Course) -> WrittenScene:
    assert course.draft is not None
    assert course.draft.written is not None
    return course.draft.written


def _asked(course: Course) -> str:
    assert course.draft is not None
    return check_asked(course.draft)


def _read_overrides(settings: VerifySettings, courses: Mapping[str, Course]) -> Votes[DraftReview]:
    latest = [course.about for course in courses.values() if course.draft is not None]

    def refuse(line: DraftReview) -> tuple[ProblemKind, str] | None:
        return None if line.draft in latest else unknown_item(line.draft, latest)

    return read_votes(settings.overrides, DraftReview, refuse, filled_in=["keep"], shown=SHOWN)


def _decision(course: Course, name: str, votes: Votes[DraftReview]) -> SceneDecision:
    last = course.problems[-1] if course.state == "given_up" and course.problems else ()
    problems = [f"{problem.kind}: {problem.message}" for problem in last]
    problems += [f"{one.about.rpartition('/')[2]}: {one.status}, {one.reason}" for one in course.unchecked]
    written = course.draft.written if course.draft is not None else None
    outcome: Outcome = "unchecked" if course.unchecked else course.state
    lines = [vote.line for vote in votes.counting.get((course.about,), [])]
    against, favour = ([line for line in lines if line.keep is keep] for keep in (False, True))
    override = None
    if against:
        outcome, problems = "taken_out", [f"{line.person}: {line.reason or 'no reason'}" for line in against]
    elif favour and outcome != "passed" and written is not None and _may_pass(last):
        outcome = "overridden"
        override = "; ".join(f"{line.person}: {line.reason or 'no reason'}" for line in favour)
    return SceneDecision(
        scene=name,
        outcome=outcome,
        draft=course.about if course.draft is not None else None,
        written=written if outcome in KEPT else None,
        override=override,
        problems=problems,
    )


def _may_pass(problems: Sequence[Problem]) -> bool:
    """Tell whether only the model found fault with a draft: what our rules find cannot be asked about."""
    return all(problem.kind in CHECKS for problem in problems)


def _row(decision: SceneDecision, courses: Mapping[str, Course]) -> dict[str, str]:
    draft = courses[decision.scene].draft
    prompt = draft.written.prompt if draft is not None and draft.written is not None else ""
    return {
        "draft": decision.draft or "",
        "outcome": decision.outcome,
        "prompt": prompt,
        "problems": "; ".join(decision.problems),
    }


def _report(
    decisions: Sequence[SceneDecision],
    courses: Mapping[str, Course],
    answers: Sequence[CheckAnswer],
    problems: Sequence[LineProblem],
) -> VerifyReport:
    last = {(answer.about, answer.asked): answer for answer in answers}.values()
    of_check = {check: [one for one in last if one.about.endswith(f"/{check}")] for check in CHECKS}
    rules = [
        {problem.kind for problem in each} - set(CHECKS) for course in courses.values() for each in course.problems
    ]
    kept = [decision for decision in decisions if decision.is_kept]
    outcomes = Counter(decision.outcome for decision in decisions)
    return VerifyReport(
        num_scenes=len(decisions),
        num_kept=len(kept),
        outcomes={outcome: outcomes[outcome] for outcome in get_args(Outcome) if outcomes[outcome]},
        num_drafts=len({one.about.rpartition("/")[0] for one in last}) + sum(bool(kinds) for kinds in rules),
        rejections={
            check: (sum(one.passes is False for one in each), sum(one.passes is not None for one in each))
            for check, each in of_check.items()
        },
        rules=dict(Counter(kind for kinds in rules for kind in kinds).most_common()),
        attempts=dict(sorted(Counter(str(courses[one.scene].num_attempts) for one in kept).items())),
        problems=dict(Counter(problem.kind for problem in problems).most_common()),
        num_waiting=outcomes["to_write"],
    )


def report_lines(report: VerifyReport) -> list[str]:
    """Return the report for people."""
    lines = [
        f"{report.num_kept:,} of {report.num_scenes:,} scenes are kept: {counts_text(report.outcomes)}",
        f"drafts: {report.num_drafts:,}; drafts of the scenes that are kept: {counts_text(report.attempts)}",
    ]
    for check, (rejected, answered) in report.rejections.items():
        rate = f"{rejected / answered:.1%}" if answered else "no answer"
        lines.append(f"  turned down for {check}: {rejected:,} of {answered:,} ({rate})")
    if report.rules:
        lines.append(f"  turned down by rules: {counts_text(report.rules)}")
    if report.num_waiting:
        lines.append(f"{report.num_waiting:,} scenes wait for another draft: run the stages {WRITE} and {VERIFY} again")
    if report.problems:
        lines.append(f"lines of reviews that do not count: {counts_text(report.problems)}; see {PROBLEMS}")
    return lines


def require_kept(decisions: Sequence[SceneDecision], folder: BuildFolder) -> list[SceneDecision]:
    """Return the scenes that are kept.

    Raises:
        UserError: where there are none.
    """
    kept = [decision for decision in decisions if decision.is_kept]
    if not kept:
        outcomes = Counter[str](decision.outcome for decision in decisions)
        raise UserError(f"no scene is kept: {counts_text(outcomes)}; see {folder.decisions}")
    return kept
