"""What came of each subject where a generator paints them one after the other, as its candidates tell.

Such a generator writes a list of :class:`PaintedSubject` into `Candidate.sampling` under `subjects`. Shares and seconds
are means over subjects, by the number of people of the case; intervals resample whole cases.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pydantic import ValidationError

from bench.benchmarks import Score
from bench.cogcanvas.cases import people
from bench.results import SubjectResults
from bench.slices import part_cell
from gnomon.hashing import stable_seed
from gnomon.records import Candidate, Case, Record

SUBJECTS = "subjects"
"""Where in `Candidate.sampling` they are."""
ALL = "all"

_Known = tuple[str, "PaintedSubject"]


class PaintedSubject(Record):
    """One subject of a case.

    Attributes:
        reference: path of its picture.
        name: of the reference.
        tries: passes that were made for it; 0 where it had no place in the layout.
        seconds: that they took together.
        problem: why it was given up; None where it is in the picture.
    """

    reference: str
    name: str | None = None
    tries: int
    seconds: float
    problem: str | None = None


def subject_results(candidates: Iterable[Candidate], cases: Mapping[str, Case]) -> dict[str, SubjectResults]:
    """Return what came of subjects by number of people, and of all; empty where no candidate tells of any.

    Args:
        candidates: of a run.
        cases: theirs, by id.
    """
    groups: dict[str, list[_Known]] = defaultdict(list)
    for candidate in candidates:
        for subject in painted_subjects(candidate):
            groups[str(len(people(cases[candidate.case_id])))].append((candidate.case_id, subject))
    whole = [known for _, group in sorted(groups.items()) for known in group]
    return {name: _results(name, known) for name, known in [*sorted(groups.items()), (ALL, whole)] if known}


def painted_subjects(candidate: Candidate) -> list[PaintedSubject]:
    """Return the subjects that a candidate tells of; none where it has another thing under that name."""
    told = candidate.sampling.get(SUBJECTS)
    try:
        return [PaintedSubject.model_validate(one) for one in told] if isinstance(told, list) else []
    except ValidationError:
        return []


def _results(name: str, known: Sequence[_Known]) -> SubjectResults:
    given_up = [(case_id, Score(float(one.problem is not None))) for case_id, one in known]
    tried_again = [(case_id, Score(float(one.tries > 1))) for case_id, one in known]
    # What has no place is not painted, and would only make the others look faster.
    seconds = [(case_id, Score(one.seconds) if one.tries else Score(None, "not_applicable")) for case_id, one in known]
    problems = sorted(one.problem for _, one in known if one.problem is not None)
    return SubjectResults(
        given_up=part_cell(given_up, stable_seed("given up", name)),
        tried_again=part_cell(tried_again, stable_seed("tried again", name)),
        seconds=part_cell(seconds, stable_seed("seconds", name)),
        problems={problem: problems.count(problem) for problem in dict.fromkeys(problems)},
    )
