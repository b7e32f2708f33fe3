"""Where verdicts become rewards: a verdict that is none is a failure with its status, whatever the judge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from data_build.tabletop.cases import build_cases
from data_build.tabletop.draw import draw
from data_build.tabletop.judging import OracleJudge, OracleReward
from data_build.tabletop.world import Scene
from gnomon.datasets import read_cases
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.records import Case, Reference, Status, Text, Verdict
from rl.data import load_references
from rl.rewards import JudgeReward, ask_reward
from rm.judge import Judge, JudgeRequest

CASES = [
    Case(
        id=f"case-{row // 2}",  # two candidates of each case
        benchmark="toy",
        task="recolour",
        instruction=Text(en="make it red"),
        references=[Reference(path="far/away.png", role="identity", name="Ann"), Reference(path="b.png", role="style")],
    )
    for row in range(4)
]
IMAGES = [Image.new("RGB", (8, 8), (10 * row, 0, 0)) for row in range(4)]
SOURCES = [[Image.new("RGB", (8, 8), (0, 100 + row, 0)), Image.new("RGB", (8, 8), (0, 0, 7))] for row in range(2)]
REFERENCES = [SOURCES[0], SOURCES[0], SOURCES[1], SOURCES[1]]


class ScriptedJudge:
    """Reads the pictures that it is handed and answers with what they show, but for scripted failures."""

    name = "scripted"
    metrics: tuple[str, ...] = ("red", "green")
    fingerprint = "1"

    def __init__(self, failures: dict[tuple[int, str], Status] | None = None) -> None:
        self.failures = failures or {}
        self.files: set[str] = set()

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        return [self._verdict(request) for request in requests]

    def _verdict(self, request: JudgeRequest) -> Verdict:
        assert request.image is not None
        assert [(reference.role, reference.name) for reference in request.case.references] == [
            ("identity", "Ann"),
            ("style", None),
        ]
        first, second = (load_image(request.root / reference.path) for reference in request.case.references)
        assert second.getpixel((0, 0)) == (0, 0, 7)
        self.files |= {path.name for path in request.root.iterdir()}
        picture = load_image(request.image)
        value = {"red": picture, "green": first}[request.metric].getpixel((0, 0))
        status: Status = self.failures.get((request.candidate.seed, request.metric), "ok")
        return Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric=request.metric,
            value=float(sum(value)) if status == "ok" else None,  # type: ignore[arg-type]
            status=status,
            rationale=None if status == "ok" else "no digit in the reply",
            judge=self.fingerprint,
        )


def test_values_are_weighed_row_by_row_and_each_picture_is_written_once() -> None:
    judge = ScriptedJudge()
    reward = JudgeReward(judge, weights={"red": 2.0, "green": 0.5})
    output = ask_reward(reward, cases=CASES, references=REFERENCES, images=IMAGES)
    assert output.breakdown["red"].tolist() == [0.0, 10.0, 20.0, 30.0]
    assert output.breakdown["green"].tolist() == [100.0, 100.0, 101.0, 101.0]
    assert output.total.tolist() == [50.0, 70.0, 90.5, 110.5]
    assert len(judge.files) == 4 + 4  # four candidates, two pictures for each of two cases


@pytest.mark.parametrize(
    "status",
    ["parse_error", "out_of_range", "truncated", "refused", "api_error", "unreadable_image", "not_applicable"],
)
def test_an_unparsable_reply_is_masked_and_is_not_a_zero(status: Status) -> None:
    reward = JudgeReward(ScriptedJudge({(1, "green"): status, (3, "red"): status, (3, "green"): status}))
    output = ask_reward(reward, cases=CASES, references=REFERENCES, images=IMAGES)
    assert output.failed.tolist() == [False, True, False, True]
    assert output.total.isnan().tolist() == [False, True, False, True]
    assert output.breakdown["red"].isnan().tolist() == [False, True, False, True]
    assert output.reasons[1] == f"green: {status} (no digit in the reply)"
    assert output.reasons[3].startswith(f"red: {status} (no digit in the reply); green:")


def test_a_metric_that_is_only_logged_does_not_fail_a_row() -> None:
    reward = JudgeReward(ScriptedJudge({(1, "green"): "refused"}), weights={"red": 1.0, "green": 0.0})
    output = ask_reward(reward, cases=CASES, references=REFERENCES, images=IMAGES)
    assert output.total.tolist() == [0.0, 10.0, 20.0, 30.0]
    assert math.isnan(output.breakdown["green"][1].item())


class Mixed(ScriptedJudge):
    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        return super().judge(requests)[::-1]


class Short(ScriptedJudge):
    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        return super().judge(requests)[:-1]


@pytest.mark.parametrize(("judge", "message"), [(Mixed(), "number 0 is about"), (Short(), "7 verdicts for 8 requests")])
def test_verdicts_in_another_order_or_number_stop_the_run(judge: Judge, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ask_reward(JudgeReward(judge), cases=CASES, references=REFERENCES, images=IMAGES)


def test_an_unknown_metric_is_named() -> None:
    with pytest.raises(UserError, match="metrics red, green of the judge scripted, got blue"):
        JudgeReward(ScriptedJudge(), weights={"blue": 1.0})


def test_the_oracle_as_a_judge_gives_the_numbers_of_the_oracle_as_a_reward(tmp_path: Path) -> None:
    build_cases(tmp_path, num=3, seed=0, split="train")
    cases = read_cases(tmp_path)
    columns: dict[str, Any] = {
        "cases": cases,
        "references": [load_references(tmp_path, case) for case in cases],
        "images": [draw(Scene.from_dict(case.meta["target"])) for case in cases[:2]] + [Image.new("RGB", (64, 64))],
    }
    judged = ask_reward(JudgeReward(OracleJudge(), weights={"overall": 1.0, "quality": 0.0}), **columns)
    rewarded = ask_reward(OracleReward(), **columns)
    assert judged.total.tolist() == rewarded.total.tolist()
    assert judged.breakdown["quality"].tolist() == rewarded.breakdown["quality"].tolist()
    assert judged.total[0] > judged.total[2]
