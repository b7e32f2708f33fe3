"""Checklists as rewards: shares of right answers by dimension, weights, and what has no answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from pytorch_lightning import Trainer

from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.images import load_image, save_png
from gnomon.records import Case, Question, Reference, Status, Text, Verdict
from rl.data import CaseData
from rl.rewards import ChecklistReward, JudgeReward, ask_reward
from rl.settings import RolloutSettings
from rm.judge import Judge, JudgeRequest
from rm.protocols.checklist import ChecklistJudge
from rm.vlm.scripted import ScriptedVLM

Answers = Mapping[str, bool | Status]


def question(name: str, *, expected: bool = True, depends_on: Sequence[str] = ()) -> Question:
    return Question(
        id=name,
        text=Text(en=f"Is {name} seen?"),
        dimension=name.partition("-")[0],
        expected=expected,
        depends_on=list(depends_on),
    )


def case_of(*questions: Question, name: str = "case") -> Case:
    return Case(
        id=name,
        benchmark="toy",
        task="fusion",
        instruction=Text(en="put both into one picture"),
        references=[Reference(path="elsewhere/a.png", role="person"), Reference(path="elsewhere/b.png", role="scene")],
        questions=list(questions),
    )


class TableJudge:
    """Answers by a table for each row, and knows how often it was called."""

    name = "table"
    asks_questions = True
    metrics: tuple[str, ...] = ()
    fingerprint = "1"

    def __init__(self, rows: Sequence[Answers]) -> None:
        self.rows, self.calls = rows, 0

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        self.calls += 1
        return [self._verdict(request) for request in requests]

    def _verdict(self, request: JudgeRequest) -> Verdict:
        assert request.image is not None
        assert load_image(request.image).size == (8, 8)
        answer = self.rows[request.candidate.seed][request.metric]
        return Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric=request.metric,
            value=float(answer) if isinstance(answer, bool) else None,
            status="ok" if isinstance(answer, bool) else answer,
            judge=self.fingerprint,
        )


def asked(judge: Judge, weights: dict[str, float], *cases: Case) -> Any:
    images = [Image.new("RGB", (8, 8), (row, 0, 0)) for row in range(len(cases))]
    references = [[Image.new("RGB", (8, 8)), Image.new("RGB", (8, 8), (0, 9, 0))] for _ in cases]
    return ask_reward(ChecklistReward(judge, weights=weights), cases=cases, references=references, images=images)


CASE = case_of(
    question("following-1"),
    question("following-2"),
    question("minimality-1", expected=False),
    question("quality-1"),
)
WEIGHTS = {"following": 0.2, "minimality": 0.3, "quality": 0.0, "composition": 0.5}


def test_dimensions_are_weighed_by_hand_and_those_without_questions_are_left_out() -> None:
    rows = [
        {"following-1": True, "following-2": False, "minimality-1": False, "quality-1": False},
        {"following-1": True, "following-2": True, "minimality-1": True, "quality-1": True},
    ]
    judge = TableJudge(rows)
    output = asked(judge, WEIGHTS, CASE, CASE)
    assert output.total.tolist() == pytest.approx([(0.2 * 0.5 + 0.3 * 1) / 0.5, (0.2 * 1 + 0.3 * 0) / 0.5])
    assert output.breakdown["following"].tolist() == [0.5, 1.0]
    assert output.breakdown["minimality"].tolist() == [1.0, 0.0]
    assert output.breakdown["quality"].tolist() == [0.0, 1.0]
    assert output.breakdown["composition"].isnan().all()
    assert output.breakdown["unanswered"].tolist() == [0.0, 0.0]
    assert not output.failed.any()
    assert judge.calls == 1


@pytest.mark.parametrize("status", ["parse_error", "refused", "truncated", "api_error", "unreadable_image"])
def test_an_unanswered_question_is_left_out_and_counted(status: Status) -> None:
    rows: list[Answers] = [{"following-1": True, "following-2": status, "minimality-1": True, "quality-1": status}]
    output = asked(TableJudge(rows), WEIGHTS, CASE)
    assert output.total.tolist() == pytest.approx([0.2 / 0.5])
    assert output.breakdown["following"].tolist() == [1.0]
    assert output.breakdown["unanswered"].tolist() == [2.0]
    assert math.isnan(output.breakdown["quality"].item())
    assert not output.failed.any()


def test_a_picture_without_an_answer_in_a_weighted_dimension_is_masked_and_no_zero() -> None:
    rows: list[Answers] = [
        dict.fromkeys(("following-1", "following-2", "minimality-1", "quality-1"), "refused"),
        {"following-1": True, "following-2": True, "minimality-1": "parse_error", "quality-1": True},
        {"following-1": True, "following-2": True, "minimality-1": False, "quality-1": True},
    ]
    output = asked(TableJudge(rows), WEIGHTS, CASE, CASE, CASE)
    assert output.failed.tolist() == [True, True, False]
    assert output.total.isnan().tolist() == [True, True, False]
    assert output.reasons == {0: "following: 2 refused; minimality: 1 refused", 1: "minimality: 1 parse_error"}


def test_a_case_without_questions_that_count_is_masked_with_the_reason() -> None:
    rows: list[Answers] = [{}, {"quality-1": True}]
    output = asked(TableJudge(rows), WEIGHTS, case_of(name="bare"), case_of(question("quality-1"), name="pretty"))
    assert output.failed.tolist() == [True, True]
    assert set(output.reasons.values()) == {"the case has no question in a dimension with a weight"}


def test_what_depends_on_a_denied_question_is_wrong() -> None:
    case = case_of(question("following-1"), question("consistency-1", depends_on=["following-1"]))
    rows = [{"following-1": False, "consistency-1": True}, {"following-1": True, "consistency-1": True}]
    output = asked(TableJudge(rows), {"following": 0.0, "consistency": 1.0}, case, case)
    assert output.total.tolist() == [0.0, 1.0]


def test_rows_of_different_cases_are_asked_their_own_questions() -> None:
    one, other = case_of(question("following-1"), name="one"), case_of(question("quality-7"), name="other")
    output = asked(
        TableJudge([{"following-1": True}, {"quality-7": False}, {"following-1": False}]),
        {"following": 1.0, "quality": 1.0},
        one,
        other,
        one,
    )
    assert output.total.tolist() == [1.0, 0.0, 0.0]


def test_a_misspelt_dimension_is_not_one_that_no_case_has() -> None:
    with pytest.raises(UserError, match=r"case 'case', got none for minimality \(of following, minimalty, quality\)"):
        asked(TableJudge([{}]), {"following": 1.0, "minimalty": 1.0, "quality": 1.0}, CASE)


class MetricJudge(TableJudge):
    asks_questions = False
    metrics: tuple[str, ...] = ("overall",)


def test_each_kind_of_judge_is_sent_to_its_own_reward() -> None:
    with pytest.raises(UserError, match=r"use rl\.rewards\.JudgeReward"):
        ChecklistReward(MetricJudge([]), weights={"following": 1.0})
    with pytest.raises(UserError, match=r"use rl\.rewards\.ChecklistReward"):
        JudgeReward(TableJudge([]))


@pytest.mark.parametrize(
    "weights", [{}, {"following": 0.0}, {"following": -1.0}, {"following": math.nan}, {"unanswered": 1.0}]
)
def test_weights_that_are_none_are_refused(weights: dict[str, float]) -> None:
    with pytest.raises(UserError, match="weights"):
        ChecklistReward(TableJudge([]), weights=weights)


def test_judge_and_weights_are_part_of_the_identity() -> None:
    fingerprints = {
        ChecklistReward(judge, weights=weights).fingerprint
        for judge in (ChecklistJudge(ScriptedVLM("always_yes")), ChecklistJudge(ScriptedVLM("always_no")))
        for weights in ({"following": 1.0}, {"following": 1.0, "quality": 1.0})
    }
    assert len(fingerprints) == 4


@pytest.mark.filterwarnings("ignore:.*in eval mode at the start of training")
@pytest.mark.filterwarnings("ignore:.*does not have many workers")
def test_a_training_runs_on_the_checklists_of_its_cases(build: Callable[..., Any], tmp_path: Path) -> None:
    root, cases = tmp_path / "cases", []
    for position in range(2):
        save_png(Image.new("RGB", (64, 64), (90 * position, 0, 0)), root / f"{position}.png")
        case = case_of(question("following-1"), question("minimality-1"), question("minimality-2"), name=f"c{position}")
        cases.append(case.model_copy(update={"references": [Reference(path=f"{position}.png")]}))
    write_records(root / "cases.jsonl", cases)
    replies = ['{"reason": "it is", "answer": "yes"}', '{"reason": "it is not", "answer": "no"}', "I cannot say."]
    judge = ChecklistJudge(ScriptedVLM("random", answers=replies))
    reward = ChecklistReward(judge, weights={"following": 0.5, "minimality": 0.5, "quality": 1.0})
    rollout = RolloutSettings(
        num_prompts=2, num_candidates=4, micro_batch_size=4, window_size=1, window_last=1, max_failed_share=0.9
    )
    trainer = Trainer(
        default_root_dir=tmp_path / "logs",
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0.0,
        reload_dataloaders_every_n_epochs=1,
    )
    trainer.fit(build(reward=reward, rollout=rollout), CaseData(str(root)))
    metrics = trainer.callback_metrics
    assert 0 <= metrics["rollout/reward_mean"] <= 1
    assert 0 <= metrics["rollout/minimality"] <= 1
    assert metrics["rollout/unanswered"] > 0
    assert 0 < metrics["rollout/failed"] < 8
