"""Studies as JSON files and as lines for a terminal."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.report.formatting import NOTHING, number
from bench.statistics.ratings import Agreement
from bench.studies.human_agreement import HumanAgreement
from bench.studies.judge_agreement import ProtocolAgreement
from bench.studies.reference_counts import CountCurve
from bench.studies.reference_origins import OriginStudy
from bench.studies.repeats import ModelRepeats
from bench.studies.reranking import Reranking
from bench.text import aligned
from gnomon.files import atomic_write_text
from gnomon.hashing import to_plain
from gnomon.statistics import Estimate

AGREEMENT_HEADER = ("judge", "of", "statistic", "value", "95 % interval", "n")


def write_study(path: Path, study: object) -> None:
    """Write a study's result as one JSON object.

    Raises:
        UserError: when the system refuses.
    """
    text = json.dumps(to_plain(study), ensure_ascii=False, allow_nan=False, indent=2)
    atomic_write_text(path, text + "\n")


def value_cells(found: Agreement | Estimate | None) -> tuple[str, str]:
    """Return a value and its interval as two cells; dashes where there is none."""
    if found is None or found.value is None:
        return NOTHING, NOTHING
    if found.ci_low is None or found.ci_high is None:
        return number(found.value), NOTHING
    return number(found.value), f"{number(found.ci_low)} to {number(found.ci_high)}"


def optional(value: float | None) -> str:
    """Return a number, or a dash where there is none."""
    return NOTHING if value is None else number(value)


def agreement_rows(of: Sequence[str], statistics: Mapping[str, Agreement]) -> tuple[list[tuple[str, ...]], list[str]]:
    """Return a row for each statistic that has a value, and a note for each that has none, or no interval.

    Args:
        of: what they are of; the first cells of each row.
        statistics: by name.
    """
    rows = [(*of, name, *value_cells(one), str(one.n_items)) for name, one in statistics.items()]
    notes = [f"{', '.join(of)}, {name}: {one.reason}" for name, one in statistics.items() if one.reason]
    return rows, notes


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return rows below a header as aligned lines."""
    return aligned([header, *rows])


def human_agreement_text(found: HumanAgreement) -> str:
    """Return how people agree, each judge at each level, and why a value is missing."""
    people = found.people
    counts = (
        f"{people.n_raters} people, {people.n_votes} votes and {people.n_unsure} unsure about {people.n_questions} "
        f"questions, {people.n_absent} votes missing: {people.n_decided} decided, {people.n_tied} tied, "
        f"{people.n_undecided} that nobody is sure of"
    )
    rule = "ties are left out" if found.on_tie is None else f"ties count as {found.on_tie}"
    rows, notes = agreement_rows(("people", "votes"), {"alpha": people.alpha})
    more, others = agreement_rows(("people", "each against the others"), people.leave_one_out)
    rows, notes = rows + more, notes + others
    more, others = agreement_rows(("people", "each against all, their own vote included"), people.with_own_vote)
    rows, notes = rows + more, notes + others
    failures = []
    for name, judge in found.judges.items():
        for unit, rates in judge.yes_rates.items():
            for what, one in (("judge", rates.judge), ("people", rates.people), ("gap", rates.gap)):
                rows.append((name, f"yes by {unit}", what, *value_cells(one), str(one.n)))
        for level, statistics in judge.levels.items():
            more, others = agreement_rows((name, level), statistics)
            rows, notes = rows + more, notes + others
        for dimension, statistics in judge.dimensions.items():
            more, others = agreement_rows((name, dimension), statistics)
            rows, notes = rows + more, notes + others
        if judge.failed:
            failures.append(f"{name}: without an answer {_counts(judge.failed)}")
    return "\n".join([counts, rule, table(AGREEMENT_HEADER, rows), *failures, *notes])


def judge_agreement_text(found: Mapping[str, ProtocolAgreement]) -> str:
    """Return the agreement of the judges of each protocol."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    for protocol, one in found.items():
        groups = {"decisions": one.decisions} if one.decisions else {}
        for name, statistics in (groups | one.metrics).items():
            named = statistics if name == "decisions" else {f"alpha, {level}": s for level, s in statistics.items()}
            more, others = agreement_rows((protocol, name), named)
            rows, notes = rows + more, notes + others
    judges = [f"{protocol}: {', '.join(one.judges)}" for protocol, one in found.items()]
    failures = [
        f"{name}: without an answer {_counts(failed)}"
        for one in found.values()
        for name, failed in one.failed.items()
        if failed
    ]
    return "\n".join([*judges, table(AGREEMENT_HEADER, rows), *failures, *notes])


def reranking_text(found: Reranking) -> str:
    """Return the models in the order of the first judge with the ranks of all, and the agreement of the orders."""
    header = ["model"]
    for judge, order in found.orders.items():
        header += [f"{judge}, {order.metric}", "rank"]
    ranks = next(iter(found.orders.values())).ranks
    rows = []
    for place in sorted(range(len(found.models)), key=lambda place: ranks[place]):
        cells = [found.models[place]]
        for order in found.orders.values():
            cells += [number(order.means[place]), f"{order.ranks[place]:g}"]
        rows.append(cells)
    agreements: list[tuple[str, ...]] = []
    notes: list[str] = []
    for one in found.agreements:
        more, others = agreement_rows((one.first, one.second), one.correlations)
        agreements, notes = agreements + more, notes + others
        swapped = ", ".join(f"{better} over {worse}" for better, worse in one.swapped) or "none"
        notes.append(f"{one.first} prefers, and {one.second} does not: {swapped}")
    cases = f"{found.num_cases} cases that every judge has a score of in every run, {found.num_left_out} left out"
    return "\n".join([cases, table(header, rows), "", table(("judge", *AGREEMENT_HEADER[1:]), agreements), *notes])


def repeats_text(found: Mapping[str, Mapping[str, ModelRepeats]]) -> str:
    """Return mean and sample standard deviation of each model and metric."""
    rows = [
        (judge, model, metric, optional(one.mean), optional(one.sample_std), str(len(repeated.repeats)),
         str(one.num_cases), str(one.num_left_out), " ".join(number(mean) for mean in one.means))
        for judge, models in found.items()
        for model, repeated in models.items()
        for metric, one in repeated.metrics.items()
    ]  # fmt: skip
    header = ("judge", "model", "metric", "mean", "sample std", "repeats", "cases", "left out", "means")
    return table(header, rows)


def reference_counts_text(found: Mapping[str, Mapping[str, Mapping[str, CountCurve]]]) -> str:
    """Return the mean at each number of references, and the change from the fewest to the most."""
    every = [one for models in found.values() for curves in models.values() for one in curves.values()]
    counts = sorted({count for one in every for count in one.points}, key=int)
    rows = []
    for judge, models in found.items():
        for model, curves in models.items():
            for metric, one in curves.items():
                points = [one.points.get(count) for count in counts]
                cells = [NOTHING if point is None else f"{number(point.value)} (n = {point.n})" for point in points]
                rows.append((judge, model, metric, *cells, *value_cells(one.change), str(one.num_left_out)))
    named = [f"{count} references" if count != "1" else "1 reference" for count in counts]
    header = ("judge", "model", "metric", *named, "most minus fewest", "95 % interval", "left out")
    return table(header, rows)


def reference_origins_text(found: Mapping[str, OriginStudy]) -> str:
    """Return what synthetic references change, of each model and of the gap of every two."""
    rows = []
    for judge, one in found.items():
        for metric in one.models:
            for of, change in (one.models[metric] | one.gaps[metric]).items():
                means = optional(change.real), optional(change.synthetic)
                pairs = one.num_pairs - change.num_left_out
                counts = str(pairs), str(change.num_left_out)
                rows.append((judge, metric, of, *means, *value_cells(change.change), *counts))
    header = ("judge", "metric", "of", "real", "synthetic", "change", "95 % interval", "pairs", "left out")
    return table(header, rows)


def _counts(failed: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {status}" for status, count in failed.items())
