"""Dimensions of pairs by the benchmark's own questions: what each is the mean of, and an evaluation on pairs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.editcompass.dimensions import EditCompassDimensionJudge, members_of
from bench.editcompass.judge import EditCompassJudge
from bench.editcompass.scoring import DIMENSIONS
from gnomon.datasets import read_comparisons, write_records
from gnomon.records import Case, Text
from rm.cli import evaluate
from rm.judge import JudgeRequest
from rm.vlm.scripted import prompt_text
from tests.bench.editcompass.conftest import Remembering
from tests.bench.editcompass.test_judge import reply
from tests.bench.editcompass.test_questions import pose
from tests.bench.judges.conftest import write_comparisons

Ask = Callable[..., JudgeRequest]
IA, VC, VQ = DIMENSIONS


@pytest.mark.parametrize(
    ("task", "dimension", "members"),
    [
        ("add", IA, ("instruction_following",)),
        ("edit", IA, ("instruction_following",)),
        ("causal", IA, ("instruction_following", "world_awareness")),
        ("knapsack", IA, ("instruction_following", "world_awareness")),
        ("add", VC, ("unedited_region_consistency", "identity_consistency")),
        ("edit", VC, ("unedited_region_consistency", "identity_consistency")),
        ("knapsack", VC, ("unedited_region_consistency",)),
        ("style_transfer", VC, ("identity_consistency",)),
        ("knapsack", VQ, ("visual_quality",)),
        ("add", "taste", ()),
    ],
)
def test_the_task_says_what_a_dimension_is_made_of(task: str, dimension: str, members: tuple[str, ...]) -> None:
    case = Case(id="c", benchmark="comparisons", task=task, instruction=Text(en="do"))
    assert members_of(case, dimension) == members


def test_a_dimension_is_the_mean_of_its_metrics_and_fails_with_any_of_them(request_about: Ask) -> None:
    flags = {"IF": reply(4), "WA": reply(1), "IC": reply(5), "VQ": reply(3)}
    asked = {flag: request_about(flag, "Part3", "Casual") for flag in flags}
    table = {prompt_text(pose(asked[flag], asked[flag].metric)): text for flag, text in flags.items()}
    listing = prompt_text(pose(request_about("URC", "Part3", "Casual"), "differences"))
    judge = EditCompassDimensionJudge(EditCompassJudge(Remembering("table", table=table | {listing: "no list"})))
    requests = [request_about(name, "Part3", "Casual") for name in (IA, VC, VQ, "taste")]
    awareness, consistency, quality, taste = judge.judge(requests)
    assert (awareness.value, quality.value) == (2.5, 3.0)
    assert awareness.rationale is not None
    assert awareness.rationale.splitlines()[0].startswith("instruction_following 4")
    assert "world_awareness 1" in awareness.rationale
    assert (consistency.value, consistency.status) == (None, "parse_error")
    assert (taste.value, taste.status) == (None, "not_applicable")
    assert {verdict.judge for verdict in (awareness, consistency, quality, taste)} == {judge.fingerprint}
    assert [verdict.metric for verdict in (awareness, consistency, quality)] == [IA, VC, VQ]
    assert len(awareness.image_hashes) == 2


def test_a_picture_that_is_missing_fails_every_dimension(request_about: Ask) -> None:
    judge = EditCompassDimensionJudge(EditCompassJudge(Remembering("always_first", answers=[reply(4)])))
    verdicts = judge.judge([request_about(name, image=None) for name in (IA, VC, VQ)])
    assert {(verdict.value, verdict.status) for verdict in verdicts} == {(None, "missing_output")}


def test_pairs_are_evaluated_by_the_benchmarks_questions(tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 6)
    comparisons = read_comparisons(root)
    write_records(
        root / "comparisons.jsonl",
        [one.model_copy(update={"task": "causal", "references": []}) for one in comparisons],
    )
    (tmp_path / "judge.yaml").write_text(
        "class_path: bench.editcompass.dimensions.EditCompassDimensionJudge\n"
        "init_args:\n"
        "  judge:\n"
        "    class_path: bench.editcompass.judge.EditCompassJudge\n"
        "    init_args:\n"
        "      vlm:\n"
        "        class_path: rm.vlm.scripted.ScriptedVLM\n"
        "        init_args: {rule: always_first, answers: ['{\"score\": 4}']}\n"
    )
    evaluate(judge=str(tmp_path / "judge.yaml"), data=str(root), out=str(tmp_path / "run"))
    results = json.loads((tmp_path / "run/results.json").read_text())
    assert set(results["dimensions"]) == {IA, VC, VQ}
    # No source to compare with, so only quality can be judged; equal scores are ties.
    assert results["dimensions"][VQ]["all"]["tie_rate"] == 1
    assert [results["dimensions"][name]["all"]["failures"] for name in (IA, VC, VQ)] == [2, 2, 0]
    assert results["statuses"] == {"not_applicable": 4, "ok": 2}
