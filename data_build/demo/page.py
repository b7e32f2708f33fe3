"""The demo's page: what was trained, how it went, and pictures of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.folder import BenchRun, image_path
from bench.report import Figure, Gallery, GalleryRow, Picture, PictureGroup, Report, Table, Tile
from bench.report.plots import Series, plot_curves
from bench.results import Item
from data_build.demo.steps import Step
from data_build.demo.summary import estimate
from gnomon.datasets import read_comparisons, resolve
from gnomon.statistics import Estimate
from rl.callbacks import read_curve

NUM_EXAMPLES = 12
NUM_GROUPS = 6


def write_page(out: Path, summary: dict[str, Any], steps: list[Step]) -> Path:
    """Write `report.html` of a finished demo and return its path."""
    report = Report(
        "Gnomon: the closed loop on the tabletop world",
        "A judge is trained on preferences between an editor's candidates; reinforcement learning steers the editor "
        "with that judge as its only reward; an oracle, which the reward never saw, measures what came of it.",
    )
    _add_result(report, summary)
    _add_judge(report, out, summary)
    _add_policy(report, out, summary)
    _add_examples(report, out)
    _add_steps(report, summary, steps)
    return report.write(out / "report.html")


def _add_result(report: Report, summary: dict[str, Any]) -> None:
    after = estimate(summary["judge"]["after"]["dimensions"]["overall"]["clear_pairs"])
    before = estimate(summary["judge"]["before"]["dimensions"]["overall"]["clear_pairs"])
    success, reward = summary["policy"]["oracle_success"], summary["policy"]["judge_reward"]
    report.add_section("What came out").add_tiles(
        [
            Tile(
                "judge accuracy on unseen instructions",
                f"{before.value:.2f} → {after.value:.2f}",
                f"clear pairs, n = {after.n}, 95 % {after.ci_low:.2f} to {after.ci_high:.2f}",
            ),
            _difference_tile("edits that succeed (oracle)", success),
            _difference_tile("judge's reward on held-out cases", reward),
            Tile("time", f"{summary['timings']['total_seconds'] / 60:.1f} min", f"seed {summary['seed']}"),
        ]
    )


def _difference_tile(label: str, figures: dict[str, Any]) -> Tile:
    difference = figures["difference"]
    return Tile(
        label,
        f"{figures['before']:.2f} → {figures['after']:.2f}",
        f"{difference['value']:+.3f}, 95 % {difference['ci_low']:+.3f} to {difference['ci_high']:+.3f}, "
        f"n = {difference['n']}",
        "good" if difference["ci_low"] > 0 else "bad" if difference["ci_high"] < 0 else "neutral",
    )


def _add_judge(report: Report, out: Path, summary: dict[str, Any]) -> None:
    rows: list[list[str | int | float | Estimate | None]] = []
    for dimension, tables in summary["judge"]["after"]["dimensions"].items():
        for restriction, after in tables.items():
            before = summary["judge"]["before"]["dimensions"][dimension][restriction]
            rows.append(
                [
                    dimension,
                    restriction.replace("_", " "),
                    after["n"],
                    before["strict"],
                    estimate(after),
                    after["half_credit"],
                    after["tie_rate"],
                    after["failures"],
                ]
            )
    report.add_section(
        "The judge",
        "Pair accuracy on candidates of test instructions that the judge never saw. Strict: a tie of the judge on a "
        "decided pair is wrong; the intervals resample instructions. Clear pairs are at least 0.15 apart.",
    ).add_table(
        Table(
            "Pair accuracy before and after training",
            ["dimension", "pairs", "n", "before", "after (95 %)", "half credit", "judge's ties", "failures"],
            rows,
        )
    )
    report.add_gallery(Gallery("Candidates of one instruction, with the oracle's overall score", _groups(out)))


def _groups(out: Path) -> list[GalleryRow]:
    root = out / "preferences" / "test"
    rows: list[GalleryRow] = []
    seen: set[str] = set()
    for comparison in read_comparisons(root):
        if comparison.group_id in seen or len(rows) == NUM_GROUPS:
            continue
        seen.add(comparison.group_id)
        candidates = [
            Picture(resolve(root, side.path), "", {"oracle": side.scores.get("overall")})
            for side in comparison.candidates
        ]
        sources = [Picture(resolve(root, reference.path), "") for reference in comparison.references]
        groups = [PictureGroup("references", sources), PictureGroup("candidates", candidates)]
        rows.append(GalleryRow(comparison.instruction.get("en"), groups))
    return rows


def _add_policy(report: Report, out: Path, summary: dict[str, Any]) -> None:
    points = [point for point in read_curve(out / "policy") if point.kind == "validation"]
    x = [float(point.iteration) for point in points]

    def series(label: str, key: str) -> Series:
        return Series(label, x, [point.metrics.get(key) for point in points])

    oracle = [
        series("oracle: success", "validation/oracle/success"),
        series("oracle: instruction", "validation/oracle/instruction"),
        series("oracle: consistency", "validation/oracle/consistency"),
    ]
    report.add_section(
        "The editor",
        "Flow-GRPO on a LoRA. The reward is the judge's alone; the oracle and the picture statistics only watch. The "
        f"adapter kept is the best by the judge on validation cases: iteration {summary['best_iteration']}.",
    ).add_figures(
        [
            Figure(
                plot_curves(
                    [series("judge's reward", "validation/reward")],
                    title="Reward on validation cases",
                    x_label="iteration",
                    y_label="reward",
                ),
                "What is maximised, on cases that are not trained on.",
            ),
            Figure(
                plot_curves(oracle, title="What the oracle sees", x_label="iteration", y_label="score, 0..1"),
                "What it is for. A reward that climbs while these fall is being exploited.",
            ),
        ]
    )
    rows: list[list[str | int | float | Estimate | None]] = [
        [
            name.replace("_", " "),
            f["before"],
            f["after"],
            Estimate(**f["difference"]),
            f["difference"]["n"],
            f["n_failed"],
        ]
        for name, f in summary["policy"].items()
    ]
    report.add_table(
        Table(
            "Held-out test cases, paired by case",
            ["score", "before", "after", "difference (95 %)", "n", "failures"],
            rows,
            "Oracle scores are in 0..1; the judge's reward has no unit.",
        )
    )


def _add_examples(report: Report, out: Path) -> None:
    before, after = (BenchRun.read(out / "bench" / name) for name in ("before", "after"))
    tasks: dict[str, list[Item]] = {}
    for item in before.items:
        tasks.setdefault(before.cases[item[0]].task, []).append(item)
    chosen = [items[place] for place in range(NUM_EXAMPLES) for items in tasks.values() if place < len(items)]
    rows = [_example(before, after, item) for item in chosen[:NUM_EXAMPLES]]
    report.add_section("Before and after", "The first test cases of each kind of edit, not chosen by result.")
    report.add_gallery(Gallery("The same noise before and after steering", rows))


def _example(before: BenchRun, after: BenchRun, item: Item) -> GalleryRow:
    case = before.cases[item[0]]
    sources = [Picture(resolve(before.root, reference.path), "") for reference in case.references]
    groups = [PictureGroup("references", sources)]
    for name, run in (("before", before), ("after", after)):
        groups.append(PictureGroup(name, [Picture(run.path / image_path(item), "", _scores(run, item))]))
    return GalleryRow(f"{case.instruction.en}  ·  {case.instruction.zh}", groups)


def _scores(run: BenchRun, item: Item) -> dict[str, float | str | None]:
    judges = {entry.name: entry.fingerprint for entry in run.judges()}
    verdicts = run.verdicts()
    return {
        "reward": verdicts[judges["tabletop-judge"], "overall"][item].value,
        "oracle": verdicts[judges["oracle"], "overall"][item].value,
    }


def _add_steps(report: Report, summary: dict[str, Any], steps: list[Step]) -> None:
    commands = {step.name: step.command for step in steps}
    rows: list[list[str | int | float | Estimate | None]] = [
        [step["name"], step["seconds"], f"{step['peak_memory'] / 2**30:.2f} GiB", commands[step["name"]]]
        for step in summary["timings"]["steps"]
    ]
    report.add_section("The steps", "Each is a command that works by itself.").add_table(
        Table("Seconds and peak memory", ["step", "seconds", "peak memory", "command"], rows)
    )
