"""What every reward is held to: failures stay apart from low values, are counted, and have reasons."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pytorch_lightning.cli import LightningArgumentParser

from data_build.tabletop.tiny_judge import make_judge_base, make_processor, save_judge_base
from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.rewards import (
    RESERVED_METRICS,
    CallableReward,
    Reward,
    RewardModelReward,
    RewardOutput,
    ServiceReward,
    apply_reward,
    ask_reward,
    check_failures,
    check_monitor_names,
    concatenate,
    failures,
    merge_metrics,
    weighted_sum,
)
from rm.lora import LoraOptions
from rm.pairs import DIMENSIONS
from rm.reward_model import RewardModel

CASES = [
    Case(id=f"case-{index}", benchmark="toy", task="recolour", instruction=Text(en="make it red")) for index in range(4)
]
IMAGES = [Image.new("RGB", (64, 64), (value, value, value)) for value in (0, 51, 102, 255)]
NO_REFERENCES: list[list[Image.Image]] = [[], [], [], []]


def call(reward: Callable[..., Any], max_failed_share: float = 0.5) -> RewardOutput:
    return apply_reward(reward, cases=CASES, references=NO_REFERENCES, images=IMAGES, max_failed_share=max_failed_share)


class Fixed:
    def __init__(
        self,
        total: Sequence[float],
        failed: Sequence[bool],
        reasons: dict[int, str] | None = None,
        breakdown: dict[str, Sequence[float]] | None = None,
    ) -> None:
        parts = {name: torch.tensor(values) for name, values in (breakdown or {}).items()}
        self.output = RewardOutput(torch.tensor(total), parts, torch.tensor(failed), reasons or {})

    def __call__(self, *, cases: Sequence[Case], references: object, images: object) -> RewardOutput:
        return self.output


def test_a_toy_reward_is_called_with_rows_in_order(toy_rewards: ModuleType) -> None:
    output = call(toy_rewards.Brightness())
    torch.testing.assert_close(output.total, torch.tensor([0.0, 0.2, 0.4, 1.0], dtype=torch.float64), atol=1e-6, rtol=0)
    assert output.failed.tolist() == [False] * 4


def test_a_value_that_is_not_finite_is_a_failure_and_never_a_low_reward() -> None:
    output = call(Fixed([0.5, math.nan, math.inf, 1.0], [False] * 4), max_failed_share=0.5)
    assert output.failed.tolist() == [False, True, True, False]
    assert bool(output.total[1:3].isnan().all())
    assert output.reasons == {1: "not finite (nan)", 2: "not finite (inf)"}


def test_a_failed_row_has_no_number_left_that_a_mean_could_take_up() -> None:
    reward = Fixed([1.0, 0.0, math.nan, 2.0], [False, True, False, False], breakdown={"part": [1.0, 0.0, 0.0, 2.0]})
    output = call(reward)
    assert output.total.isnan().tolist() == [False, True, True, False]
    assert output.breakdown["part"].isnan().tolist() == [False, True, True, False]
    assert output.breakdown["part"].nanmean().item() == 1.5


def test_a_row_that_is_marked_as_failed_has_its_own_reason_and_not_that_of_a_nan() -> None:
    output = call(Fixed([0.5, 0.25, math.nan, 1.0], [False, True, True, False], {2: "timed out"}))
    assert output.reasons == {1: "no reason given", 2: "timed out"}


def test_too_many_failures_stop_the_run_with_counted_reasons() -> None:
    reward = Fixed([0.5, 0.0, 0.0, 1.0], [False, True, True, False], {1: "timed out", 2: "timed out"})
    with pytest.raises(
        UserError, match=r"Fixed failed on 2 of 4 .*0.4: 2 x timed out \(case-1, case-2\)\. .*max_failed"
    ):
        call(reward, max_failed_share=0.4)
    assert call(reward, max_failed_share=0.5).failed.sum() == 2


def test_the_budget_covers_all_that_share_it_and_names_the_commonest_reasons() -> None:
    reward = Fixed([0.0] * 4, [True] * 4, dict.fromkeys(range(4), "down"))
    bad = failures(ask_reward(reward, cases=CASES, references=NO_REFERENCES, images=IMAGES), CASES)
    assert bad == [(f"case-{row}", "down") for row in range(4)]
    check_failures("judge", bad, 40, 0.1)  # a whole batch of ten that share the budget
    check_failures("judge", [], 0, 0.0)
    many = [("a", "x"), *[("b", "down")] * 3, ("c", "y"), ("d", "z")]
    with pytest.raises(UserError, match=r"judge failed on 6 of 40 .*3 x down \(b\); 1 x x \(a\).*and 1 other reasons"):
        check_failures("judge", many, 40, 0.1)


def test_a_wrong_length_is_an_error() -> None:
    with pytest.raises(UserError, match="each of 4 pictures from Fixed"):
        call(Fixed([0.5] * 3, [False] * 3))
    with pytest.raises(UserError, match=r"each of 4 pictures.*part"):
        call(Fixed([0.5] * 4, [False] * 4, breakdown={"part": [0.5] * 3}))
    for total in ([0.5], [0.5] * 3):  # a part of that name does not stand for it, and one value not for all
        with pytest.raises(UserError, match=r"each of 4 pictures.*'total': \["):
            call(Fixed(total, [False] * 4, breakdown={"total": [0.5] * 4}))
    with pytest.raises(ValueError, match="one case and one list of references per picture"):
        ask_reward(Fixed([0.5] * 4, [False] * 4), cases=CASES[:3], references=NO_REFERENCES, images=IMAGES)


def test_something_that_is_no_reward_output_is_refused() -> None:
    with pytest.raises(UserError, match="RewardOutput"):
        call(lambda **_: torch.zeros(4))
    with pytest.raises(UserError, match=r"booleans in `failed` from Fixed, got torch\.int64"):
        call(Fixed([0.5] * 4, [0] * 4))  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"total": [0.0] * 4}, r"torch tensors from .*'total': 'list'"),
        ({"failed": np.zeros(4, dtype=bool)}, r"torch tensors from .*'failed': 'ndarray'"),
        ({"breakdown": {"a": np.zeros(4)}}, "'breakdown/a': 'ndarray'"),
        ({"breakdown": None}, "a dict as `breakdown` from"),
        ({"reasons": None}, "a dict as `reasons` from"),
    ],
)
def test_a_reward_output_that_holds_something_else_is_refused_by_name(change: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {"total": torch.zeros(4), "breakdown": {}, "failed": torch.zeros(4, dtype=torch.bool)}
    with pytest.raises(UserError, match=message):
        call(lambda **_: RewardOutput(**(fields | change)))


def test_a_part_that_counts_fails_its_row_and_one_that_is_only_logged_does_not() -> None:
    reward = Fixed(
        [1.0, 2.0, 3.0, 4.0],
        [False] * 4,
        breakdown={"counts": [0.0, math.nan, 0.0, 0.0], "seen": [math.inf, 1.0, math.nan, 3.0]},
    )
    unweighted = call(reward)  # nothing says what the parts are for
    assert not unweighted.failed.any()
    assert unweighted.breakdown["seen"].nanmean().item() == 2.0  # and no infinity gets into a curve
    reward.weights = {"counts": 2.0, "seen": 0.0, "elsewhere": 1.0}  # type: ignore[attr-defined]
    output = call(reward)
    assert output.failed.tolist() == [False, True, False, False]
    assert output.reasons == {1: "counts is not finite (nan)"}
    assert output.total.isnan().tolist() == [False, True, False, False]


def test_a_share_of_failures_that_is_exactly_the_budget_is_within_it() -> None:
    for pictures in range(1, 200):
        for failed in range(pictures):
            check_failures("judge", [("a", "x")] * failed, pictures, failed / pictures)
            with pytest.raises(UserError, match=r"raise model\.rollout\.max_failed_share"):
                check_failures("judge", [("a", "x")] * (failed + 1), pictures, failed / pictures)


def test_a_reason_that_is_a_whole_reply_is_cut_to_a_line() -> None:
    with pytest.raises(UserError) as caught:
        check_failures("judge", [("a", "The picture\nshows " + "many words " * 1000)], 1, 0.0)
    assert "1 x The picture shows many words" in str(caught.value)
    assert len(str(caught.value)) < 500


def test_a_reward_that_raises_is_named_with_the_line_that_raised() -> None:
    def clumsy(**_: object) -> RewardOutput:
        raise KeyError("target")

    with pytest.raises(
        UserError, match=r"function raised KeyError \('target'; test_rewards\.py, line \d+\) on 4 pictures"
    ):
        call(clumsy)


def test_a_reward_is_called_without_gradients_and_without_the_trainers_mixed_precision() -> None:
    seen = []

    def look(**_: object) -> RewardOutput:
        seen.append((torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")))
        return Fixed([0.0] * 4, [False] * 4).output

    with torch.autocast("cpu", dtype=torch.bfloat16):
        call(look)
    assert seen == [(False, False)]


def test_a_part_of_a_reward_may_not_be_called_like_a_metric_of_the_trainer() -> None:
    assert {"reward", "failed", "sharpness", "entropy"} <= RESERVED_METRICS
    parts: dict[str, Sequence[float]] = {name: [0.0] * 4 for name in ("reward", "entropy", "colour")}
    with pytest.raises(
        UserError, match="Fixed than those that the trainer logs by itself, got entropy, reward; rename"
    ):
        call(Fixed([0.0] * 4, [False] * 4, breakdown=parts))
    with pytest.raises(UserError, match=r"got failed, saturation in model\.monitors"):
        check_monitor_names({"failed": 1, "oracle": 1, "saturation": 1})
    check_monitor_names({"oracle": 1})


def test_metrics_of_several_sources_are_joined_and_may_not_hide_each_other() -> None:
    one, two = torch.ones(2), torch.zeros(2)
    joined = merge_metrics({"the reward": {"overall": one}, "monitor oracle": {"oracle": two, "oracle/overall": one}})
    assert list(joined) == ["overall", "oracle", "oracle/overall"]
    assert joined["oracle"] is two
    with pytest.raises(UserError, match="the reward and monitor overall both report 'overall'"):
        merge_metrics({"the reward": {"overall": one}, "monitor overall": {"overall": two}})


def test_consecutive_batches_are_joined_with_the_reasons_at_their_rows() -> None:
    first = Fixed([1.0, math.nan], [False, True], {1: "a"}, {"x": [1.0, 2.0]}).output
    second = Fixed([math.nan, 4.0, 5.0], [True, False, False], {0: "b"}, {"x": [3.0, 4.0, 5.0]}).output
    joined = concatenate([first, second])
    torch.testing.assert_close(joined.total, torch.tensor([1, math.nan, math.nan, 4, 5]), equal_nan=True)
    assert joined.breakdown["x"].tolist() == [1, 2, 3, 4, 5]
    assert joined.failed.tolist() == [False, True, True, False, False]
    assert joined.reasons == {1: "a", 2: "b"}
    with pytest.raises(UserError, match="same breakdown for every batch of pictures, x is not in all"):
        concatenate([first, Fixed([1.0], [False]).output])


def test_dimensions_are_combined_by_weight_and_a_weight_of_0_leaves_one_out() -> None:
    breakdown = {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([10.0, 20.0]), "c": torch.tensor([math.nan, 7.0])}
    assert weighted_sum(breakdown, {"a": 2.0, "b": 0.5, "c": 0.0}).tolist() == [7.0, 14.0]


@pytest.fixture(scope="module")
def judge_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Save a reward model with untrained heads on an untrained base of the shipped judge's architecture."""
    folder = tmp_path_factory.mktemp("judge")
    processor = make_processor()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        base = make_judge_base(processor, hidden=32, layers=1)
    save_judge_base(folder / "base", base, processor)
    RewardModel.from_base(folder / "base").save_pretrained(folder / "model")
    return folder / "model"


def test_the_reward_of_a_reward_model_weighs_its_dimensions(judge_folder: Path, pictures: list[Image.Image]) -> None:
    references = [pictures[:1], pictures[:2], pictures[1:2], pictures[1:3]]
    weights = {"overall": 1.0, "visual_quality": 0.5}
    reward = RewardModelReward(str(judge_folder), weights=weights)
    output = apply_reward(reward, cases=CASES, references=references, images=pictures, max_failed_share=0.0)
    assert set(output.breakdown) == set(DIMENSIONS)
    expected = output.breakdown["overall"] + 0.5 * output.breakdown["visual_quality"]
    torch.testing.assert_close(output.total, expected)
    scores = RewardModel.from_pretrained(judge_folder).score(
        instruction="make it red", references=references[1], candidates=pictures[1:2]
    )
    torch.testing.assert_close(output.breakdown["overall"][1].float(), scores.values[0, DIMENSIONS.index("overall")])


def test_it_is_built_by_its_class_path_of_old(judge_folder: Path) -> None:
    parser = LightningArgumentParser()
    parser.add_argument("--reward", type=Reward)
    arguments = ["--reward=rl.rewards.RewardModelReward", f"--reward.model={judge_folder}", "--reward.batch_size=7"]
    reward = parser.instantiate(parser.parse_args(arguments))["reward"]
    assert type(reward) is RewardModelReward
    assert (reward.batch_size, reward.weights) == (7, {"overall": 1.0})


def test_a_picture_of_an_impossible_shape_fails_alone(judge_folder: Path, pictures: list[Image.Image]) -> None:
    reward = RewardModelReward(str(judge_folder))
    ribbon = Image.new("RGB", (1000, 2))
    images, references = [*pictures[:2], ribbon, pictures[3]], [pictures[:1]] * 4
    output = ask_reward(reward, cases=CASES, references=references, images=images)
    assert output.failed.tolist() == [False, False, True, False]
    assert "aspect ratio" in output.reasons[2]
    clean = ask_reward(reward, cases=CASES, references=references, images=pictures)
    torch.testing.assert_close(output.total[[0, 1, 3]], clean.total[[0, 1, 3]], atol=1e-5, rtol=0)


def test_a_dimension_that_the_judge_does_not_have_is_refused(judge_folder: Path) -> None:
    with pytest.raises(UserError, match="beauty"):
        RewardModelReward(str(judge_folder), weights={"beauty": 1.0})
    for weights in ({}, {"overall": 0.0}, {"overall": math.nan}):
        with pytest.raises(UserError, match="expected finite weights of the reward model at"):
            RewardModelReward(str(judge_folder), weights=weights)


def test_a_reward_model_that_was_trained_on_has_another_fingerprint(judge_folder: Path, tmp_path: Path) -> None:
    reward = RewardModelReward(str(judge_folder))
    assert reward.fingerprint == RewardModelReward(str(judge_folder)).fingerprint
    assert reward.fingerprint != RewardModelReward(str(judge_folder), language="zh").fingerprint
    assert reward.fingerprint != RewardModelReward(str(judge_folder), weights={"overall": 2.0}).fingerprint
    model = RewardModel.from_pretrained(judge_folder)
    torch.nn.init.ones_(model.head.bias)
    model.save_pretrained(tmp_path / "model")
    assert reward.fingerprint != RewardModelReward(str(tmp_path / "model")).fingerprint


def test_the_fingerprint_follows_whatever_changes_the_scores(judge_folder: Path, tmp_path: Path) -> None:
    prints = set()
    for alpha, dtype in ((4, "float32"), (8, "float32"), (4, "bfloat16")):
        folder = tmp_path / f"{alpha}-{dtype}"
        model = RewardModel.from_base(
            judge_folder.parent / "base", lora=LoraOptions(r=2, alpha=alpha), dtype=dtype, seed=0
        )
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                torch.nn.init.ones_(parameter)  # an adapter that does nothing is refused
        model.save_pretrained(folder)
        prints.add(RewardModelReward(str(folder)).fingerprint)
    assert len(prints) == 3


def test_a_reward_model_is_on_this_ranks_device_from_the_first_pictures_on(
    judge_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl.rewards.model.own_device", lambda device: torch.device("meta"))
    reward = RewardModelReward(str(judge_folder))
    assert reward.model.device.type == "cpu"  # no trainer has given this rank its device yet
    with pytest.raises(UserError):
        call(reward)
    assert reward.model.device.type == "meta"


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: RewardModelReward(str(folder), language="fr"),
        lambda folder: ServiceReward("http://127.0.0.1:1", language="fr"),
        lambda folder: CallableReward("json:dumps", language="fr"),
    ],
)
def test_a_language_that_there_is_not_is_said_before_any_work(
    make: Callable[[Path], Reward], judge_folder: Path
) -> None:
    with pytest.raises(UserError, match="language 'en' or 'zh', got 'fr'"):
        make(judge_folder)
