from __future__ import annotations

import math
from pathlib import Path

import pytest

from bench.generators import FolderGenerator
from bench.workflow import generate, judge, summarize
from data_build.tabletop.draw import draw
from data_build.tabletop.judging import METRICS, OracleJudge, OracleReward, scenes_of, score_case
from data_build.tabletop.world import Scene
from gnomon.datasets import read_cases
from gnomon.errors import UserError
from gnomon.images import save_png
from gnomon.records import Candidate, Case, Text
from rl.rewards import apply_reward
from rm.judge import JudgeRequest

UNKNOWN = Case(id="photo", benchmark="other", task="recolour", instruction=Text(en="make it red"))


def request(case: Case, root: Path, image: Path | None, metric: str = "overall") -> JudgeRequest:
    candidate = Candidate(case_id=case.id, generator="g", seed=3, path=image.name if image else None)
    return JudgeRequest(case=case, root=root, candidate=candidate, image=image, metric=metric)


@pytest.fixture
def targets(tabletop_cases: Path, tmp_path: Path) -> Path:
    """The true outcomes of all cases, one missing and one broken."""
    for case in read_cases(tabletop_cases):
        save_png(draw(Scene.from_dict(case.meta["target"])), tmp_path / "targets" / f"{case.id}.png")
    (tmp_path / "targets" / "tabletop-test-000003.png").unlink()
    (tmp_path / "targets" / "tabletop-test-000005.png").write_bytes(b"no picture")
    return tmp_path / "targets"


def test_the_oracle_judges_a_benchmark_run(tabletop_cases: Path, targets: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    generate(tabletop_cases, run, FolderGenerator(targets), name="truth")
    judge(run, OracleJudge())

    results = summarize(run).judges["oracle"].metrics

    assert set(results) == set(METRICS)
    assert results["success"].value == 1
    assert results["overall"].value == pytest.approx(1, abs=1e-3)
    assert results["success"].n_scored == 9
    assert results["success"].n_failed == 2


def test_verdicts_come_in_the_order_of_the_requests(tabletop_cases: Path, targets: Path) -> None:
    cases = read_cases(tabletop_cases)[:3]
    requests = [
        request(case, tabletop_cases, targets / f"{case.id}.png", metric) for metric in METRICS for case in cases
    ]

    verdicts = OracleJudge().judge(requests)

    assert [(v.case_id, v.metric) for v in verdicts] == [(r.case.id, r.metric) for r in requests]
    assert all(v.status == "ok" and v.value == pytest.approx(1, abs=1e-3) and v.seed == 3 for v in verdicts)
    assert {v.judge for v in verdicts} == {OracleJudge().fingerprint}


def test_what_cannot_be_judged_is_a_status(tabletop_cases: Path, targets: Path) -> None:
    case = read_cases(tabletop_cases)[0]
    good, broken = targets / f"{case.id}.png", targets / "tabletop-test-000005.png"
    requests = [
        request(case, tabletop_cases, None),
        request(case, tabletop_cases, targets / "nothing.png"),
        request(case, tabletop_cases, broken),
        request(UNKNOWN, tabletop_cases, good),
        request(case, tabletop_cases, good, "beauty"),
        request(case, tabletop_cases, good),
    ]

    verdicts = OracleJudge().judge(requests)

    assert [verdict.status for verdict in verdicts] == [
        "missing_output",
        "missing_output",
        "unreadable_image",
        "not_applicable",
        "not_applicable",
        "ok",
    ]
    assert [verdict.value for verdict in verdicts[:-1]] == [None] * 5
    assert "gnomon data build tabletop" in (verdicts[3].rationale or "")
    assert "instruction, consistency" in (verdicts[4].rationale or "")


def test_the_fingerprint_is_stable() -> None:
    assert OracleJudge().fingerprint == OracleJudge().fingerprint
    assert len(OracleJudge().fingerprint) == 64


def test_a_case_without_scenes_is_named() -> None:
    with pytest.raises(UserError, match="'photo'"):
        scenes_of(UNKNOWN)
    broken = UNKNOWN.model_copy(update={"meta": {"scene": {"ground": "white"}, "target": {}}})
    with pytest.raises(UserError, match="'scene' and 'target'"):
        scenes_of(broken)


def test_the_reward_of_the_oracle_keeps_the_contract(tabletop_cases: Path) -> None:
    cases = read_cases(tabletop_cases)[:4]
    sources, targets = ([draw(pair[side]) for pair in map(scenes_of, cases)] for side in (0, 1))

    output = apply_reward(
        OracleReward(),
        cases=[*cases, *cases],
        references=[[source] for source in [*sources, *sources]],
        images=[*targets, *sources],
        max_failed_share=0,
    )

    assert output.total[:4].tolist() == pytest.approx([1] * 4, abs=1e-3)
    assert output.total[4:].max() < 0.7
    assert set(output.breakdown) == set(METRICS)
    assert output.breakdown["success"].tolist() == [1] * 4 + [0] * 4
    expected = score_case(cases[0], sources[0])
    assert {name: values[4].item() for name, values in output.breakdown.items()} == pytest.approx(expected)


def test_the_reward_may_be_another_metric(tabletop_cases: Path) -> None:
    case = read_cases(tabletop_cases)[0]
    source = draw(scenes_of(case)[0])

    assert OracleReward("consistency")(cases=[case], references=[[]], images=[source]).total.tolist() == [1]
    with pytest.raises(UserError, match="instruction, consistency, quality, overall, success, got 'beauty'"):
        OracleReward("beauty")


def test_a_case_that_the_oracle_does_not_know_is_a_failed_row(tabletop_cases: Path) -> None:
    case = read_cases(tabletop_cases)[0]
    target = draw(scenes_of(case)[1])

    output = OracleReward()(cases=[UNKNOWN, case], references=[[], []], images=[target, target])

    assert output.failed.tolist() == [True, False]
    assert math.isnan(output.total[0])
    assert "'photo'" in output.reasons[0]
