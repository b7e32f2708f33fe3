"""Runs by English and by Chinese instructions: tables of each, and the gap of each generator, paired by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.aggregation import metric_difference
from bench.report.blocks import Cell as TableCell
from bench.report.blocks import Measured, Table
from bench.report.cells import INTERVAL_NOTE
from bench.report.examples import JudgedRun
from bench.results import Difference, MetricDifference

GAP = "Chinese minus English"
_PHRASES = {
    "en": ", by English instructions",
    "zh": ", by Chinese instructions",
    "mixed": ", by instructions of either language",
    None: ", language of the instructions not known",
}


@dataclass(frozen=True)
class LanguagePair:
    """Two runs of one generator, by the English and by the Chinese instructions."""

    english: JudgedRun
    chinese: JudgedRun

    @property
    def generator(self) -> str:
        """The name that both runs have in tables."""
        return self.english.run.config.generator

    def gap(self, judge: str, metric: str) -> MetricDifference:
        """Return the Chinese score minus the English one, over the cases that have an instruction in both."""
        cases = self.english.run.cases | self.chinese.run.cases
        both = {name: case for name, case in cases.items() if case.instruction.en and case.instruction.zh}
        return metric_difference(
            self.english.scores[judge].get(metric, {}), self.chinese.scores[judge].get(metric, {}), both
        )


def caption_of(language: str | None, languages: Sequence[str | None]) -> str:
    """Return what a caption adds about the language of its runs; nothing where all runs share one."""
    return _PHRASES[language] if len(languages) > 1 else ""


def languages_of(runs: Sequence[JudgedRun]) -> list[str | None]:
    """Return the languages of runs, English and Chinese first."""
    return [language for language in _PHRASES if any(one.run.config.language == language for one in runs)]


def language_pairs(runs: Sequence[JudgedRun]) -> tuple[list[LanguagePair], list[str]]:
    """Return the pair of each generator with one run in each language, and the generators that have several.

    A generator without a run in one of the languages has no gap and is in neither.

    Args:
        runs: by one judge.
    """
    found: dict[str, dict[str, list[JudgedRun]]] = {}
    for one in runs:
        config = one.run.config
        if config.language in ("en", "zh"):
            found.setdefault(config.generator, {}).setdefault(config.language, []).append(one)
    in_both = {name: by_language for name, by_language in found.items() if len(by_language) == 2}
    pairs = {
        name: LanguagePair(by_language["en"][0], by_language["zh"][0])
        for name, by_language in in_both.items()
        if all(len(several) == 1 for several in by_language.values())
    }
    return list(pairs.values()), [name for name in in_both if name not in pairs]


def gap_tables(judge: str, pairs: Sequence[LanguagePair], metrics: Sequence[str]) -> list[Table]:
    """Return the gap of each generator in every metric, and in the first one by each kind of group.

    Args:
        judge: its name.
        pairs: of one generator each, at least one.
        metrics: shown, the first of which is the one that runs are ordered by.
    """
    headline = metrics[0]
    gaps = {pair.generator: {metric: pair.gap(judge, metric) for metric in metrics} for pair in pairs}
    known = [metric for metric in metrics if any(found[metric].n_pairs for found in gaps.values())]
    rows: list[list[TableCell]] = []
    for name, by_metric in gaps.items():
        first = by_metric[headline]
        rows.append([name, first.before, first.after, *(_measured(by_metric[metric]) for metric in known)])
    note = (
        f"{INTERVAL_NOTE} Both means and the gap are over the cases that have both instructions and a score in both "
        "runs; the others are unpaired."
    )
    columns = ["generator", f"{headline}, English", f"{headline}, Chinese", *(f"gap in {metric}" for metric in known)]
    tables = [Table(f"{GAP}, judged by {judge}", columns, rows, note)]
    kinds = dict.fromkeys(kind for by_metric in gaps.values() for kind in by_metric[headline].groups)
    for kind in kinds:
        groups = {name: by_metric[headline].groups.get(kind, {}) for name, by_metric in gaps.items()}
        names = sorted({name for by_group in groups.values() for name in by_group})
        cells = [[name, *(_measured(by_group.get(one)) for one in names)] for name, by_group in groups.items()]
        tables.append(Table(f"{GAP}: {headline} by {kind}", ["generator", *names], cells))
    return tables


def _measured(change: Difference | None) -> TableCell:
    if change is None or change.estimate is None:
        return None
    counts = [f"{change.n_pairs} pairs", *([f"{change.n_unpaired} unpaired"] if change.n_unpaired else [])]
    return Measured(change.estimate, counts)
