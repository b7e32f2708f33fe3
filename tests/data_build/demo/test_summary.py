from __future__ import annotations

import yaml

from data_build.demo.steps import config_file
from data_build.demo.summary import REWARD_DIMENSIONS, summary_table


def test_the_reward_of_the_summary_is_that_of_the_recipe() -> None:
    recipe = yaml.safe_load(config_file("rl/tabletop.yaml").read_text(encoding="utf-8"))
    assert recipe["model"]["reward"]["init_args"]["weights"] == dict.fromkeys(REWARD_DIMENSIONS, 1.0)


def test_the_table_shows_before_after_and_interval() -> None:
    pairs = {"strict": 0.9, "ci_low": 0.85, "ci_high": 0.95, "n": 100, "num_groups": 20, "tie_rate": 0.0}
    tables = {"dimensions": {"overall": {"clear_pairs": pairs, "all_pairs": pairs}}}
    change = {"value": 0.25, "ci_low": 0.18, "ci_high": 0.32, "n": 240, "num_clusters": 240}
    figures = {"before": 0.25, "after": 0.5, "difference": change, "n_failed": 0}
    names = ("success", "overall", "instruction", "consistency")
    table = summary_table(
        {
            "judge": {"before": tables, "after": tables},
            "policy": {**{f"oracle_{name}": figures for name in names}, "judge_reward": figures},
            "timings": {"total_seconds": 360.0},
            "best_iteration": 36,
        }
    )
    assert "+0.250 (+0.180 .. +0.320), n = 240" in table
    assert "0.850 .. 0.950, n = 100" in table
