"""Rewards from YAML, as `gnomon rl fit` reads them: those of docs/rewards.md, and configs that are wrong."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from PIL import Image
from pytorch_lightning.cli import LightningArgumentParser

from gnomon.records import Case, Text
from rl.rewards import CombinedReward, Reward, ask_reward
from rl.training import parse

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = (REPOSITORY / "docs" / "rewards.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", DOCS, flags=re.DOTALL)
YAML = [block for language, block in BLOCKS if language == "yaml"]
(PYTHON,) = [block for language, block in BLOCKS if language == "python"]
RECIPE = str(REPOSITORY / "configs" / "rl" / "tabletop.yaml")

Instantiate = Callable[[dict[str, Any]], Reward]


@pytest.fixture
def instantiate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Instantiate:
    """Return a function that makes a reward of plain values in a folder with the documented function."""
    (tmp_path / "my_rewards.py").write_text(PYTHON)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REWARD_API_KEY", "secret")
    parser = LightningArgumentParser(exit_on_error=False)
    parser.add_argument("--reward", type=Reward)

    def make(settings: dict[str, Any]) -> Reward:
        reward: Reward = parser.instantiate(parser.parse_object({"reward": settings}))["reward"]
        return reward

    return make


def reward_of(block: str) -> dict[str, Any] | None:
    settings: dict[str, Any] | None = yaml.safe_load(block)["model"].get("reward")
    return settings


def test_the_docs_show_every_kind_of_reward() -> None:
    shown = set(re.findall(r"class_path: rl\.rewards\.(\w+)", DOCS))
    kinds = ("RewardModel", "Service", "Judge", "Checklist", "Callable", "Combined")
    assert shown == {f"{kind}Reward" for kind in kinds}
    assert shown == set(re.findall(r"\| `rl\.rewards\.(\w+)` \|", DOCS))


@pytest.mark.parametrize("block", YAML)
def test_every_yaml_of_the_docs_is_read_by_the_real_parser_on_top_of_a_recipe(block: str, tmp_path: Path) -> None:
    (tmp_path / "block.yaml").write_text(block)
    arguments = ["--config", RECIPE, "--config", str(tmp_path / "block.yaml"), "--out", str(tmp_path / "run")]
    config = parse(arguments).resolved_config()["model"]
    settings = reward_of(block)
    if settings is not None:
        assert is_within(settings, config["reward"])


def is_within(part: Any, whole: Any) -> bool:
    """Say whether `whole` is `part` with defaults filled in."""
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and is_within(value, whole[key]) for key, value in part.items())
    return bool(part == whole)


SHOWN = [settings for block in YAML if (settings := reward_of(block)) is not None]


@pytest.mark.parametrize("settings", [shown for shown in SHOWN if "model" not in shown["init_args"]])
def test_what_the_docs_show_can_be_built(settings: dict[str, Any], instantiate: Instantiate) -> None:
    reward = instantiate(settings)
    assert type(reward).__name__ == settings["class_path"].rpartition(".")[2]


def test_the_documented_function_rewards_red(instantiate: Instantiate) -> None:
    reward = instantiate(
        {"class_path": "rl.rewards.CallableReward", "init_args": {"function": "my_rewards.py:redness"}}
    )
    cases = [Case(id=str(row), benchmark="toy", task="edit", instruction=Text(en="x")) for row in range(3)]
    images = [Image.new("RGB", (4, 4), colour) for colour in ("red", "white", "cyan")]
    output = ask_reward(reward, cases=cases, references=[[]] * 3, images=images)
    assert output.total.tolist() == [1.0, 0.0, -1.0]


def test_parts_may_be_nested(instantiate: Instantiate) -> None:
    colour = {"class_path": "rl.rewards.CallableReward", "init_args": {"function": "my_rewards.py:redness"}}
    inner = {"class_path": "rl.rewards.CombinedReward", "init_args": {"parts": {"colour": colour}}}
    outer = instantiate({"class_path": "rl.rewards.CombinedReward", "init_args": {"parts": {"inner": inner}}})
    assert isinstance(outer, CombinedReward)
    assert isinstance(outer.parts["inner"], CombinedReward)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"class_path": "rl.rewards.RewardModelReward", "init_args": {"model": "x", "weight": {"overall": 1}}},
            "weight",
        ),
        ({"class_path": "rl.rewards.ServiceReward", "init_args": {"url": "http://h", "retries": 3}}, "retries"),
        ({"class_path": "rl.rewards.ServiceReward", "init_args": {}}, "url"),
        ({"class_path": "rl.rewards.CallableReward", "init_args": {"function": "a:b", "name": "x"}}, "name"),
        (
            {"class_path": "rl.rewards.JudgeReward", "init_args": {"judge": {"class_path": "rl.rewards.NoJudge"}}},
            "NoJudge",
        ),
        ({"class_path": "rl.rewards.CombinedReward", "init_args": {"parts": {}, "mode": "gdpo"}}, "mode"),
        ({"class_path": "rl.rewards.Missing"}, "Missing"),
    ],
)
def test_an_unknown_key_or_class_is_an_error_that_names_it(
    settings: dict[str, Any], message: str, instantiate: Instantiate
) -> None:
    with pytest.raises(Exception, match=message) as caught:
        instantiate(settings)
    assert type(caught.value).__name__ in ("ArgumentError", "NSKeyError", "KeyError", "TypeError", "ValueError")
