from __future__ import annotations

from pathlib import Path

import yaml
from PIL import Image

from data_build.demo.steps import CLEAR_MARGIN, config_file
from data_build.demo.summary import REWARD_DIMENSIONS, judge_figures, summary_table
from gnomon.cli import main
from gnomon.datasets import COMPARISONS, write_records
from gnomon.images import save_png
from gnomon.records import ComparedImage, Comparison, Judgement, Label, Text


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


def test_the_figures_of_the_judge_are_those_of_an_evaluation_whatever_else_that_counts(tmp_path: Path) -> None:
    """As the preferences are: of several tasks, with margins around the one that is clear."""
    candidates = [ComparedImage(path=f"{level}.png") for level in (0, 255)]
    for level in (0, 255):
        save_png(Image.new("L", (8, 8), level), tmp_path / "data" / f"{level}.png")
    labels: dict[str, Label] = {"remove": "i", "recolour": "j"}
    comparisons = [
        Comparison(
            id=f"{task}-{margin}",
            task=task,
            group_id=task,
            instruction=Text(en="brighter"),
            candidates=candidates,
            judgements=[Judgement(i=0, j=1, dimension="overall", label=label, margin=margin)],
        )
        for task, label in labels.items()
        for margin in (CLEAR_MARGIN / 2, 2 * CLEAR_MARGIN)
    ]
    write_records(tmp_path / "data" / COMPARISONS, comparisons)
    flags = ["--judge", "always-first", "--data", str(tmp_path / "data"), "--out", str(tmp_path / "run")]
    assert main(["rm", "eval", *flags, "--min_margin", str(CLEAR_MARGIN)]) == 0
    tables = judge_figures(tmp_path / "run" / "results.json")["dimensions"]["overall"]
    assert {name: (figures["n"], figures["strict"]) for name, figures in tables.items()} == {
        "clear_pairs": (2, 0.5),
        "all_pairs": (4, 0.5),
    }
