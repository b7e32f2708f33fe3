"""Whether a folder of cases is fit for a benchmark: what any dataset needs, and what this benchmark asks for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from bench.benchmarks import Benchmark, benchmark_of
from bench.placement import nearest
from gnomon.datasets import CASES, Problem, ValidationReport, validate
from gnomon.errors import UserError
from gnomon.jsonl import iterate_lines
from gnomon.records import Case


def validate_cases(root: str | Path) -> ValidationReport:
    """Check a folder of cases: records, ids and pictures as :func:`gnomon.datasets.validate`, metrics and groups.

    A folder that lacks a group which the benchmark has is no whole benchmark, and means over it are partial.

    Raises:
        UserError: when the folder holds no cases.
    """
    file = Path(root) / CASES
    if not file.is_file():
        raise UserError(f"expected a folder with {CASES}, got {root}; check the path")
    report = validate(root)
    present: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    benchmarks: dict[str, Benchmark] = {}
    for line in iterate_lines(file, Case):
        if line.record is not None:
            benchmark = benchmarks.setdefault(line.record.benchmark, benchmark_of(line.record))
            problems = [*_metric_problems(benchmark, line.record), *benchmark.check(line.record)]
            try:
                for kind, name in benchmark.groups(line.record).items():
                    present[benchmark.name][kind].add(name)
            except UserError as error:
                problems.append(str(error))
            except (LookupError, TypeError, ValueError) as error:
                problems.append(f"case {line.record.id!r} has no group in {benchmark.name}: {error!r}; mend its meta")
            report.problems += [Problem(str(file), line.number, problem) for problem in problems]
    for name, benchmark in benchmarks.items():
        for kind, groups in (benchmark.parts or {}).items():
            lacking = sorted(groups - present[name][kind])
            if lacking:
                problem = f"{name} has no case in the {kind} {', '.join(lacking)}; means over this folder are partial"
                report.problems.append(Problem(str(file), 1, problem))
    report.problems.sort(key=lambda problem: (problem.file, problem.line))
    return report


def _metric_problems(benchmark: Benchmark, case: Case) -> Iterator[str]:
    known = benchmark.metrics
    for metric in case.metrics:
        if known and metric not in known:
            yield (
                f"unknown metric {metric!r} of case {case.id!r}{nearest(metric, known)}; {benchmark.name} has "
                f"{', '.join(known)}"
            )
