"""Cases with their pictures, scores and rationales: the best and the worst of a run, or a spread over it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bench.folder import BenchRun, JudgeFile
from bench.report.blocks import Detail, Findings, GalleryRow, Picture, PictureGroup, Table
from bench.report.cells import Verdicts
from bench.report.checklists import checklist_table, cut
from bench.report.findings import candidate_findings
from bench.results import Item
from bench.scores import Scores, scores_of
from gnomon.datasets import resolve
from gnomon.records import Candidate, Case, Verdict

QUESTIONS = "questions"
"""What the verdicts of a judge of questions are called together."""


@dataclass(frozen=True)
class JudgedRun:
    """A run with all that its pages show: read once.

    Attributes:
        run: the run.
        label: its name on the page.
        judges: the judges that worked on it.
        verdicts: the last verdicts.
        scores: of each judge by name, the derived ones included.
        candidates: by case id.
    """

    run: BenchRun
    label: str
    judges: Sequence[JudgeFile]
    verdicts: Verdicts
    scores: Mapping[str, Scores]
    candidates: Mapping[str, list[Candidate]] = field(default_factory=dict)

    @property
    def seeing(self) -> list[JudgeFile]:
        """The judges that look at pictures; what the others say is no matter of any one picture."""
        return [judge for judge in self.judges if judge.looks]

    @classmethod
    def read(cls, run: BenchRun, label: str = "") -> JudgedRun:
        """Read the verdicts and candidates of a run; the label is the generator's name where none is given."""
        judges, verdicts = run.judges(), run.verdicts()
        scores = {judge.name: scores_of(run, verdicts, judge) for judge in judges}
        candidates: dict[str, list[Candidate]] = {}
        for candidate in run.candidates():
            candidates.setdefault(candidate.case_id, []).append(candidate)
        return cls(run, label or run.config.generator, judges, verdicts, scores, candidates)

    def column(self, judge: str, metric: str) -> str:
        """Return what a metric is called beside a picture: with its judge where several that look have it."""
        having = [other for other in self.seeing if metric in (*other.metrics, *self.scores.get(other.name, ()))]
        return metric if len(having) < 2 else f"{judge} {metric}"

    def verdicts_of(self, judge: JudgeFile) -> dict[str, list[Verdict]]:
        """Return the verdicts of one judge by metric; those of a judge of questions together: cases have their own."""
        by_metric = {
            metric: list(by_item.values())
            for (fingerprint, metric), by_item in self.verdicts.items()
            if fingerprint == judge.fingerprint
        }
        if judge.asks_questions:
            return {QUESTIONS: [verdict for found in by_metric.values() for verdict in found]}
        return {metric: by_metric[metric] for metric in judge.metrics if metric in by_metric}

    def answer(self, judge: JudgeFile, item: Item, question: str) -> Verdict | None:
        """Return what a judge of questions said to one of them about a picture; None where it was not asked yet."""
        return self.verdicts.get((judge.fingerprint, question), {}).get(item)


def labels(runs: Sequence[BenchRun]) -> list[str]:
    """Return a name for each run that no other has: the generator's, with the folder where two share it."""
    counts = Counter(run.config.generator for run in runs)
    folders = Counter((run.config.generator, run.path.name) for run in runs)

    def label(run: BenchRun) -> str:
        name = run.config.generator
        if counts[name] == 1:
            return name
        return f"{name} ({run.path.name if folders[name, run.path.name] == 1 else run.path})"

    return [label(run) for run in runs]


def evenly_spread(case_ids: Sequence[str], count: int) -> list[str]:
    """Return at most `count` of the ids, spread evenly and in order."""
    step = max(1, len(case_ids) / count) if count else 1
    return [case_ids[int(position * step)] for position in range(min(count, len(case_ids)))]


def best_and_worst(means: Mapping[str, float], count: int) -> tuple[list[str], list[str]]:
    """Return the best cases, the best first, and the worst, the worst first: `count` together, no case in both.

    Args:
        means: a score by case id; equal ones are in the order of their ids.
        count: of cases; an odd one more is a best one.
    """
    best = sorted(means, key=lambda case_id: (-means[case_id], case_id))[: (count + 1) // 2]
    rest = [case_id for case_id in means if case_id not in set(best)]
    return best, sorted(rest, key=lambda case_id: (means[case_id], case_id))[: count // 2]


def gallery_rows(
    runs: Sequence[JudgedRun], case_ids: Sequence[str], *, found_by: Collection[str] = ()
) -> list[GalleryRow]:
    """Return a row for each case: its references, then the candidates of every run, below them the rationales.

    Args:
        runs: whose candidates are shown.
        case_ids: in the order of the rows.
        found_by: judges whose findings are drawn over larger pictures, which take room.
    """
    rows = []
    for case_id in case_ids:
        case = next(judged.run.cases[case_id] for judged in runs if case_id in judged.run.cases)
        groups = [_references(runs[0].run, case)] if case.references else []
        details: list[Detail] = []
        tables: list[Table] = []
        findings: list[Findings] = []
        for judged in runs:
            made = judged.candidates.get(case_id, [])
            groups.append(PictureGroup(judged.label, [_picture(judged, candidate) for candidate in made]))
            texts = {name: text for candidate in made for name, text in _rationales(judged, candidate).items()}
            if texts:
                details.append(Detail(f"Reasons, {judged.label}", texts))
            tables += [table for candidate in made for table in checklist_tables(judged, case, candidate)]
            findings += [one for made_one in made for one in candidate_findings(judged, case, made_one, found_by)]
        rows.append(GalleryRow(instruction(case), groups, f"{case.task}, case {case.id}", details, tables, findings))
    return rows


def checklist_tables(judged: JudgedRun, case: Case, candidate: Candidate) -> list[Table]:
    """Return what each judge of questions that looks said about a candidate."""
    item = candidate.case_id, candidate.seed
    tables = []
    for judge in judged.seeing:
        if judge.asks_questions and case.questions:
            found = {question.id: judged.answer(judge, item, question.id) for question in case.questions}
            given = {name: verdict for name, verdict in found.items() if verdict is not None}
            about = f"Checklist by {judge.name}, {judged.label}, seed {candidate.seed}"
            tables.append(checklist_table(case, given, about))
    return tables


def instruction(case: Case) -> str:
    """Return the instruction in every language that it has."""
    return " / ".join(text for text in (case.instruction.en, case.instruction.zh) if text)


def scores_of_candidate(judged: JudgedRun, candidate: Candidate) -> dict[str, float | str | None]:
    """Return scores of judges that look by the name of :meth:`JudgedRun.column`, or the status where there is none."""
    item = candidate.case_id, candidate.seed
    found: dict[str, float | str | None] = {}
    for judge in judged.seeing:
        for metric, by_item in judged.scores[judge.name].items():
            if item in by_item and by_item[item].status != "not_applicable":
                score = by_item[item]
                found[judged.column(judge.name, metric)] = score.status if score.value is None else score.value
    return found


def rationales_of_candidate(judged: JudgedRun, candidate: Candidate) -> dict[str, str]:
    """Return what judges that look wrote by the name of :meth:`JudgedRun.column`, cut to a bounded length."""
    item = candidate.case_id, candidate.seed
    found = {}
    for judge in judged.seeing:
        for metric in judge.metrics:
            verdict = judged.verdicts.get((judge.fingerprint, metric), {}).get(item)
            if verdict is not None and verdict.rationale and verdict.status != "not_applicable":
                found[judged.column(judge.name, metric)] = cut(verdict.rationale)
    return found


def _rationales(judged: JudgedRun, candidate: Candidate) -> dict[str, str]:
    found = rationales_of_candidate(judged, candidate)
    return {f"{name}, seed {candidate.seed}": text for name, text in found.items()}


def _references(run: BenchRun, case: Case) -> PictureGroup:
    several = len(case.references) > 1  # questions name them by number
    pictures = [
        Picture(
            resolve(run.root, reference.path),
            f"{number}: {reference.name or reference.role}" if several else reference.name or reference.role,
        )
        for number, reference in enumerate(case.references, start=1)
    ]
    return PictureGroup("given", pictures)


def _picture(judged: JudgedRun, candidate: Candidate) -> Picture:
    image = None if candidate.path is None else resolve(judged.run.path, candidate.path)
    return Picture(image, f"seed {candidate.seed}", scores_of_candidate(judged, candidate))
