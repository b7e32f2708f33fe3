"""A reward model as a judge: every request gets its verdict at its place, and bad pictures hurt nobody else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from gnomon.errors import UserError
from gnomon.images import content_hash, save_png
from gnomon.records import Candidate, Case, Reference, Status, Text, Verdict
from rm.judge import Judge, JudgeRequest, RewardModelJudge
from rm.lora import LoraOptions
from rm.reward_model import RewardModel

Draw = Callable[..., Image.Image]


@pytest.fixture
def world(tmp_path: Path, make_picture: Draw) -> Path:
    for number in range(6):
        save_png(make_picture(number), tmp_path / f"{number}.png")
    (tmp_path / "broken.png").write_bytes((tmp_path / "0.png").read_bytes()[:60])
    save_png(Image.new("RGB", (1000, 2)), tmp_path / "ribbon.png")
    return tmp_path


def request(
    root: Path,
    image: str | None,
    metric: str = "overall",
    references: tuple[str, ...] = ("0.png",),
    status: Status = "ok",
    case: str = "case",
) -> JudgeRequest:
    record = Case(
        id=case,
        benchmark="test",
        task="edit",
        instruction=Text(en="add"),
        references=[Reference(path=path) for path in references],
    )
    candidate = Candidate(case_id=case, generator="g", seed=1, path=image, status=status)
    return JudgeRequest(record, root, candidate, None if image is None else root / image, metric)


def test_values_are_the_models_scores(reward_model: RewardModel, world: Path, make_picture: Draw) -> None:
    judge: Judge = RewardModelJudge(reward_model, batch_size=2)
    requests = [request(world, f"{k}.png", metric, ("0.png", "5.png")) for k in (1, 2, 3) for metric in judge.metrics]
    verdicts = judge.judge(requests)
    pictures = [make_picture(k) for k in range(6)]
    expected = reward_model.score(instruction="add", references=[pictures[0], pictures[5]], candidates=pictures[1:4])
    values = torch.tensor([verdict.value for verdict in verdicts]).reshape(3, 4)
    torch.testing.assert_close(values, expected.values, atol=1e-5, rtol=0)
    assert [verdict.metric for verdict in verdicts] == [asked.metric for asked in requests]
    assert verdicts[0].image_hashes == [content_hash(pictures[k]) for k in (0, 5, 1)]
    assert {verdict.judge for verdict in verdicts} == {judge.fingerprint}


def test_several_metrics_cost_one_forward_row(reward_model: RewardModel, world: Path) -> None:
    rows: list[int] = []
    backbone = reward_model._stock().model
    backbone.register_forward_pre_hook(
        lambda _, args, inputs: rows.append(inputs["input_ids"].shape[0]), with_kwargs=True
    )
    judge = RewardModelJudge(reward_model)
    judge.judge([request(world, f"{k}.png", metric) for metric in judge.metrics for k in (1, 2)])
    assert rows == [1, 2], "the shared beginning once, then both candidates"


def test_each_failure_is_a_status_at_its_place(reward_model: RewardModel, world: Path) -> None:
    requests = [
        request(world, "1.png"),
        request(world, "broken.png"),
        request(world, "nowhere.png"),
        request(world, None),
        request(world, None, status="refused", case="a"),
        request(world, "ribbon.png"),
        request(world, "1.png", "taste"),
        request(world, "1.png", references=("broken.png",), case="b"),
        request(world, "1.png", references=("../outside.png",), case="c"),
        request(world, "2.png", references=(), case="d"),
    ]
    verdicts = RewardModelJudge(reward_model).judge(requests)
    assert [verdict.status for verdict in verdicts] == [
        "ok",
        "unreadable_image",
        "missing_output",
        "missing_output",
        "refused",
        "unreadable_image",
        "not_applicable",
        "unreadable_image",
        "unreadable_image",
        "ok",
    ]
    assert all(verdict.rationale for verdict in verdicts if verdict.status != "ok")
    alone = RewardModelJudge(reward_model).judge([requests[0]])[0]
    assert verdicts[0].value == pytest.approx(alone.value, abs=1e-5)


def test_a_score_that_is_not_finite_is_no_score(reward_model: RewardModel, world: Path) -> None:
    reward_model.head.bias.data[3] = float("nan")
    verdicts = RewardModelJudge(reward_model).judge(
        [request(world, "1.png"), request(world, "1.png", "visual_quality")]
    )
    assert [verdict.status for verdict in verdicts] == ["out_of_range", "ok"]


def test_a_file_that_cannot_even_be_looked_for_hurts_nobody_else(reward_model: RewardModel, world: Path) -> None:
    verdicts = RewardModelJudge(reward_model).judge([request(world, "a" * 300), request(world, "1.png")])
    assert [verdict.status for verdict in verdicts] == ["unreadable_image", "ok"]


def test_the_model_is_on_this_ranks_device_from_the_first_request_on(
    reward_model: RewardModel, world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[torch.device] = []

    def third(device: torch.device) -> torch.device:
        asked.append(device)
        return torch.device("meta")  # the only second device of a machine without an accelerator

    judge = RewardModelJudge(reward_model)
    monkeypatch.setattr("rm.devices.own_device", third)
    assert judge.model.device.type == "cpu"
    judge.judge([])
    assert asked == [torch.device("cpu")]
    assert judge.model.device.type == "meta"


@pytest.mark.parametrize("setting", [{"language": "fr"}, {"device": "gpu"}])
def test_a_language_or_device_that_there_is_not_is_named_at_once(
    reward_model: RewardModel, setting: dict[str, Any]
) -> None:
    with pytest.raises(UserError, match=next(iter(setting.values()))):
        RewardModelJudge(reward_model, **setting)


def test_no_requests_have_no_verdicts(reward_model: RewardModel) -> None:
    assert RewardModelJudge(reward_model).judge([]) == []


def test_the_fingerprint_follows_weights_template_and_base(base_folder: Path, tmp_path: Path) -> None:
    def fingerprint(seed: int = 0) -> str:
        return RewardModelJudge(RewardModel.from_base(base_folder, lora=LoraOptions(r=2), seed=seed)).fingerprint

    assert fingerprint() == fingerprint()
    assert fingerprint() != fingerprint(seed=1)
    RewardModel.from_base(base_folder, seed=4).save_pretrained(tmp_path / "tiny-judge")
    loaded = RewardModelJudge(tmp_path / "tiny-judge")
    assert loaded.name == "tiny-judge"
    assert loaded.fingerprint == RewardModelJudge(RewardModel.from_base(base_folder, seed=4)).fingerprint


def test_the_fingerprint_follows_how_the_weights_are_applied(base_folder: Path) -> None:
    def fingerprint(alpha: int = 4, dtype: str = "float32") -> str:
        model = RewardModel.from_base(base_folder, lora=LoraOptions(r=2, alpha=alpha), dtype=dtype)
        return RewardModelJudge(model).fingerprint

    assert len({fingerprint(), fingerprint(alpha=8), fingerprint(dtype="bfloat16")}) == 3


def test_verdicts_survive_a_line_of_json(reward_model: RewardModel, world: Path) -> None:
    verdict = RewardModelJudge(reward_model).judge([request(world, "1.png")])[0]
    assert Verdict.model_validate_json(verdict.model_dump_json()) == verdict
