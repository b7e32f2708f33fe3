"""Fixtures: runs made by hand, with cases of MDMR-Bench and the scores that a test gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.benchmarks import Score
from bench.folder import BenchRun, JudgeFile, RunConfig, items_of
from bench.report.examples import JudgedRun
from gnomon.records import Case, Reference, Text, Verdict

MakeCase = Callable[..., Case]
MakeRun = Callable[..., JudgedRun]


@pytest.fixture
def make_case() -> MakeCase:
    """Return a function that makes a case without questions."""

    def make(name: str, *, num_references: int = 2, **changes: Any) -> Case:
        places = {"benchmark": "mdmr-bench", "task": "attribute_transfer", "subtask": "texture"}
        references = [Reference(path=f"{number}.png", role="person") for number in range(num_references)]
        return Case(id=name, instruction=Text(en="x"), references=references, **(places | changes))

    return make


@pytest.fixture
def make_run() -> MakeRun:
    """Return a function that makes a run with the scores of its judges: by judge, metric, and case id or item."""

    def make(
        name: str,
        cases: list[Case],
        scores: Mapping[str, Mapping[str, Mapping[Any, float | str]]],
        *,
        repeats: int = 1,
        seed: int = 0,
        path: str = "",
        verdicts: Mapping[tuple[str, str], Mapping[tuple[str, int], Verdict]] | None = None,
        judges: list[JudgeFile] | None = None,
    ) -> JudgedRun:
        config = RunConfig(generator=name, generator_class="x", generator_fingerprint=None, repeats=repeats, limit=None)
        by_id = {case.id: case for case in cases}
        run = BenchRun(
            Path(path or name), Path("cases"), config, seed, "hash", None, by_id, items_of(cases, seed, repeats)
        )
        found = {
            judge: {
                metric: {
                    (key, seed) if isinstance(key, str) else key: Score(None, value)  # type: ignore[arg-type]
                    if isinstance(value, str)
                    else Score(value)
                    for key, value in by_case.items()
                }
                for metric, by_case in metrics.items()
            }
            for judge, metrics in scores.items()
        }
        files = judges or [
            JudgeFile(name=judge, judge_class="x", fingerprint=judge, metrics=["overall"]) for judge in scores
        ]
        return JudgedRun(run, name, files, verdicts or {}, found)

    return make
