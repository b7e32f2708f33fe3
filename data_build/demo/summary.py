"""What the demo found, as numbers: `summary.json` and the table at the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.folder import BenchRun
from bench.results import Item
from gnomon.manifest import versions
from gnomon.statistics import Estimate, paired_difference
from rl.callbacks import read_curve

SUMMARY = "summary.json"
CLEAR = "margin>=0.15"
"""The pairs that the oracle tells apart clearly: at least this far apart in its overall score."""

ORACLE_METRICS = ("overall", "success", "instruction", "consistency", "quality")
REWARD_DIMENSIONS = ("overall", "visual_consistency")
"""The judge's dimensions whose sum is the reward in configs/rl/tabletop.yaml; a test holds the two equal."""


def summarize(out: Path, seed: int, steps: list[dict[str, Any]]) -> dict[str, Any]:
    """Collect the figures of a finished demo.

    Args:
        out: folder of the demo.
        seed: of the demo.
        steps: what each step took: name, seconds, peak_memory.
    """
    judge = {name: judge_figures(out / "judge-evaluation" / name / "results.json") for name in ("before", "after")}
    evaluation = json.loads((out / "judge-evaluation" / "after" / "results.json").read_text(encoding="utf-8"))
    return {
        "seed": seed,
        "judge": {**judge, "gain_strict": evaluation["against"]["strict"]["overall"]},
        "policy": policy_figures(out),
        "curve": [
            {"iteration": point.iteration, **point.metrics}
            for point in read_curve(out / "policy")
            if point.kind == "validation"
        ],
        "best_iteration": json.loads((out / "policy" / "lora" / "best" / "iteration.json").read_text())["iteration"],
        "versions": versions(),
        "timings": {"steps": steps, "total_seconds": round(sum(step["seconds"] for step in steps), 1)},
    }


def judge_figures(path: Path) -> dict[str, Any]:
    """Return the pair accuracies of one evaluation, per dimension, for all and for clearly different pairs."""
    results = json.loads(path.read_text(encoding="utf-8"))
    names = {CLEAR: "clear_pairs", "all": "all_pairs"}
    return {
        "statuses": results["statuses"],
        "dimensions": {
            dimension: {name: tables[restriction] for restriction, name in names.items()}
            for dimension, tables in results["dimensions"].items()
        },
    }


def policy_figures(out: Path) -> dict[str, Any]:
    """Return each judge's score of the editor before and after steering and the difference, paired by case."""
    runs = {name: BenchRun.read(out / "bench" / name) for name in ("before", "after")}
    judges = {entry.name: entry.fingerprint for entry in runs["before"].judges()}
    figures = {f"oracle_{metric}": _paired(runs, [(judges["oracle"], metric)]) for metric in ORACLE_METRICS}
    reward = [(judges["tabletop-judge"], dimension) for dimension in REWARD_DIMENSIONS]
    return {**figures, "judge_reward": _paired(runs, reward)}


def _paired(runs: dict[str, BenchRun], keys: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the sum of some metrics before and after, over the cases that have all of them in both runs."""
    sums = {name: _sums(run, keys) for name, run in runs.items()}
    scored = [item for item in runs["before"].items if item in sums["before"] and item in sums["after"]]
    values = {name: [found[item] for item in scored] for name, found in sums.items()}
    difference = paired_difference(values["before"], values["after"], [case for case, _ in scored])
    return {
        "before": sum(values["before"]) / len(scored),
        "after": sum(values["after"]) / len(scored),
        "difference": vars(difference),
        "n_failed": len(runs["before"].items) - len(scored),
    }


def _sums(run: BenchRun, keys: list[tuple[str, str]]) -> dict[Item, float]:
    verdicts = run.verdicts()
    sums = {}
    for item in run.items:
        found = [verdicts[key][item].value if item in verdicts[key] else None for key in keys]
        values = [value for value in found if value is not None]
        if len(values) == len(keys):
            sums[item] = sum(values)
    return sums


def estimate(figures: dict[str, Any]) -> Estimate:
    """Return the strict accuracy of a judge table with its interval."""
    return Estimate(figures["strict"], figures["ci_low"], figures["ci_high"], figures["n"], figures["num_groups"])


def summary_table(summary: dict[str, Any]) -> str:
    """Return the figures as lines for a terminal."""
    lines = ["", f"{'':<46}{'before':>9}{'after':>9}   difference, 95 % interval"]
    judge = summary["judge"]
    for restriction, title in (("clear_pairs", "pairs that the oracle tells apart"), ("all_pairs", "all pairs")):
        before, after = (judge[name]["dimensions"]["overall"][restriction] for name in ("before", "after"))
        low, high = after["ci_low"], after["ci_high"]
        lines.append(
            f"{'judge accuracy, ' + title:<46}{before['strict']:>9.3f}{after['strict']:>9.3f}   "
            f"after: {low:.3f} .. {high:.3f}, n = {after['n']}, ties {after['tie_rate']:.3f}"
        )
    names = {
        "oracle_success": "oracle success",
        "oracle_overall": "oracle score",
        "oracle_instruction": "oracle instruction",
        "oracle_consistency": "oracle consistency",
        "judge_reward": "judge reward",
    }
    for key, title in names.items():
        figures = summary["policy"][key]
        difference = figures["difference"]
        lines.append(
            f"{'editor: ' + title:<46}{figures['before']:>9.3f}{figures['after']:>9.3f}   {difference['value']:+.3f} "
            f"({difference['ci_low']:+.3f} .. {difference['ci_high']:+.3f}), n = {difference['n']}"
        )
    lines.append(f"seconds {summary['timings']['total_seconds']:.0f}, best iteration {summary['best_iteration']}")
    return "\n".join(lines)
