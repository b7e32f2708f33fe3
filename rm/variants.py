"""One judge asked in several ways: an evaluation for each form of rubrics, compared with the first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gnomon.errors import UserError
from rm.protocols.rubric import FORMS, RubricForm, RubricJudge
from rm.scorers import PairScorer, PointwiseScorer


@dataclass(frozen=True)
class Variant:
    """One evaluation.

    Attributes:
        scorer: the judge.
        out: its run folder.
        against: run folder of the evaluation that it is compared with.
        rubrics: the form that is asked for; None for the judge as it is.
    """

    scorer: PairScorer
    out: Path
    against: str | None
    rubrics: str | None = None


def variants_of(scorer: PairScorer, out: str | Path, *, against: str | None, rubrics: str | None) -> list[Variant]:
    """Return the evaluations to run, one after the other.

    Args:
        scorer: the judge.
        out: the run folder; with rubrics, the folder of one run folder for each form, under its name.
        against: run folder of another judge.
        rubrics: names of forms, separated by commas; the first one is what the others are compared with. They share the
            judge's model.

    Raises:
        UserError: for an unknown name or one that is given twice, a judge without such forms, or an `against` beside
            several forms.
    """
    if rubrics is None:
        return [Variant(scorer, Path(out), against)]
    given = [name.strip() for name in rubrics.split(",")]
    names = [form for name in given for form in FORMS if form == name]
    if len(names) < len(given) or len(set(names)) < len(names):
        raise UserError(f"expected each of {', '.join(FORMS)} at most once as --rubrics, got {rubrics!r}")
    if against is not None and len(names) > 1:
        raise UserError(
            "expected --against or several --rubrics, got both; several are compared with the first of them"
        )
    if not isinstance(scorer, PointwiseScorer) or not isinstance(scorer.judge, RubricJudge):
        raise UserError(
            f"expected a judge of class rm.protocols.rubric.RubricJudge for --rubrics, {scorer.name} has no other "
            "rubrics; leave --rubrics out"
        )
    return list(_variants(scorer.judge, scorer.root, Path(out), names, against))


def _variants(
    judge: RubricJudge, root: Path, out: Path, names: Sequence[RubricForm], against: str | None
) -> Iterator[Variant]:
    for number, name in enumerate(names):
        other = str(out / names[0]) if number else against
        yield Variant(PointwiseScorer(judge.with_rubrics(name), root), out / name, other, name)
