"""A benchmark as text: what its cases ask for, where they come from, and what its numbers are made of."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import fill
from typing import get_args

from bench.benchmarks import Benchmark, by_task, known_benchmarks
from bench.folder import TRIED_AGAIN
from bench.placement import nearest
from gnomon.errors import UserError
from gnomon.records import Status

_WIDTH = 110


def benchmark_named(name: str) -> Benchmark:
    """Return the benchmark of this name.

    Raises:
        UserError: when there is none; lists those that there are.
    """
    known = known_benchmarks()
    if name not in known:
        raise UserError(f"no benchmark is called {name!r}{nearest(name, known)}; there are {', '.join(known)}")
    return known[name]


def description(benchmark: Benchmark) -> str:
    """Return what `gnomon bench describe` prints."""
    anything = "what a case lists, and what a judge has of its own where no case lists any"
    answers = [status for status in get_args(Status) if status not in (*TRIED_AGAIN, "ok", "not_applicable")]
    sections = [
        (benchmark.name, benchmark.description),
        (
            "cases",
            f"{benchmark.source or 'a folder with cases.jsonl'}; `gnomon bench validate --cases DIR` checks them",
        ),
        *_groups(benchmark),
        ("metrics", _names(benchmark.metrics) or anything),
        ("derived metrics", _names(benchmark.derived) or "none that are described; metrics are averaged as they are"),
        (
            "failures",
            f"{', '.join(sorted(TRIED_AGAIN))} (tried again by the same command) and {', '.join(answers)} are counted "
            "by status, are never a number and never enter a mean; not_applicable (a metric that a case does not list, "
            "more references than the generator takes) is counted apart",
        ),
    ]
    return "\n".join(
        fill(f"{title}: {text}", _WIDTH, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for title, text in sections
    )


def _groups(benchmark: Benchmark) -> list[tuple[str, str]]:
    """Return a section for each kind of group of which all groups are known, or for tasks."""
    parts = benchmark.parts or {}
    known = [(f"grouped by {kind}", ", ".join(sorted(names))) for kind, names in parts.items()]
    if benchmark.groups is by_task and "task" not in parts:
        known.append(("grouped by task", "the tasks that the cases have"))
    return known


def _names(metrics: Mapping[str, str]) -> str:
    return "; ".join(f"{name} ({text})" if text else name for name, text in metrics.items())
