"""The paper's printed averages come out again as means over cases, but for rows that are named with their deviation.

The tables print averages per task and category, so what is averaged here is those, each as often as it has cases. The
numbers of cases are inferred from the paper's counts of sampled pictures. Printed averages are rounded to 0.01, hence a
mean of them is within 0.01 of the printed mean where the rule is right (0.0001 in the table of accuracies).
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog

from bench.aggregation import metric_result
from bench.benchmarks import Score
from bench.results import MetricResult
from gnomon.records import Case, Text

ROUNDING = 0.01
NUM_CASES = {
    "add": 654,
    "movement": 474,
    "causal": 434,
    "knapsack": 476,
    "virtual_try_on": 187,
    "complex_instruction": 163,
}
"""Cases of each category, named by one of its tasks."""
CATEGORY_TABLES = {
    "add": ("table8_general_en", "avg"),
    "movement": ("table10_dm_wkr_en", "dm_avg"),
    "causal": ("table10_dm_wkr_en", "wkr_avg"),
    "knapsack": ("table9_avr_en", "avg"),
    "virtual_try_on": ("table11_mi_complex_en", "mi_avg"),
    "complex_instruction": ("table11_mi_complex_en", "complex_avg"),
}
TASK_COLUMNS = {
    "add": [
        *("addition", "remove", "replace", "material", "color_size", "style_transfer", "extract", "background"),
        *("visual_text_en", "visual_text_cn"),
    ],
    "movement": ["movement", "swap", "object_interaction", "action", "emotion"],
    "causal": ["temporal", "causal", "chemical", "math", "game"],
    "knapsack": [
        *("longest_word", "global_longest_word", "knapsack", "optimal_path", "convex_hull", "maximum_submatrix"),
        *("maximum_bonus", "numberlink", "word", "global_word"),
    ],
    "virtual_try_on": ["multi_image_awareness", "multi_image_composition", "virtual_try_on"],
    "complex_instruction": ["complex_instruction", "complex_paint_en", "complex_paint_cn"],
}
# Printed averages of a category that no shares of its tasks give together with the other rows.
WRONG_AVERAGES = {
    # Outside or at the edge of what the row's own tasks allow: slips of the paper. The first prints the row's overall
    # score, the second the average of another row.
    "add": {"InstructPix2Pix", "UniReason1.0", "AnyEdit", "DeepGen 1.0"},
    "movement": set(),
    "causal": set(),
    "knapsack": set(),
    "virtual_try_on": {"UniWorld-V1"},  # above each of its tasks
    "complex_instruction": {"ChronoEdit", "UniWorld-V1", "FLUX.2 Dev"},  # ChronoEdit: below each of its tasks
}
# Our mean of the printed averages minus the printed overall score, where they differ by more than rounding. The first
# five have a wrong average (above). The cause of the others is not known: the inferred numbers of cases are no more
# than a fit, and weak rows come out low and strong ones high, which no weights of the six categories cure.
OVERALL_MISFITS = {
    "InstructPix2Pix": -0.083,
    "UniWorld-V1": -0.055,
    "ChronoEdit": -0.051,
    "DeepGen 1.0": -0.026,
    "UniReason1.0": -0.094,
    "MagicBrush": -0.016,
    "FLUX.1 Kontext Dev": -0.040,
    "OneCAT": -0.087,
    "Lumina-DiMOO": -0.019,
    "Nextstep-V1": -0.013,
    "InternVL-U": -0.024,
    "HiDream-E1": -0.012,
    "OmniGen2": -0.031,
    "Bagel-Think": -0.029,
    "Bagel": -0.053,
    "Unipic3": -0.020,
    "Step1X-Edit-v1p2": -0.028,
    "Longcat-Image-Edit": -0.016,
    "EMU3.5": 0.022,
    "Seedream 4.5": 0.044,
    "Wan2.7-image": 0.061,
    "Nano Banana 2": 0.026,
}
NUM_PAIRS = {"ia": 1486, "vc": 617, "vq": 148}
# Likely because replies that could not be read were dropped there, so that the denominators differ.
ACCURACY_MISFITS = {
    ("Qwen3.5-9B", "0"): 0.0091,
    ("Qwen3.5-27B", "0"): 0.0098,
    ("Qwen3.5-35B-A3B", "0"): 0.0266,
    ("Qwen3.6-27B", "0"): 0.0026,
    ("Qwen3.6-35B-A3B", "0"): 0.0045,
    ("EditScore (Qwen2.5-VL-7B)", "0"): -0.0023,
}

Row = dict[str, str]


@pytest.fixture(scope="module")
def tables(golden_data: Path) -> dict[str, list[Row]]:
    folder = golden_data / "edit-compass-paper-tables"
    if not folder.is_dir():
        pytest.skip(f"no tables at {folder}")
    found = {}
    for path in folder.glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            found[path.stem] = list(csv.DictReader(file))
    return found


def mean_over_cases(values: dict[str, str], num_cases: dict[str, int]) -> MetricResult:
    """Our result on as many items as there are cases; items of a group are repeats of one case, which is faster.

    A blank is a group that was not tried.
    """
    groups = {name: Case(id=name, benchmark="edit-compass", task=name, instruction=Text(en="do")) for name in values}
    items = [(name, number) for name in values for number in range(num_cases[name])]
    scores = {item: Score(float(values[item[0]])) for item in items if values[item[0]]}
    return metric_result(items, scores, groups)


def category_averages(tables: dict[str, list[Row]], model: str) -> dict[str, str]:
    return {
        category: next(row[column] for row in tables[table] if row["model"] == model)
        for category, (table, column) in CATEGORY_TABLES.items()
    }


def test_overall_scores_are_means_over_cases(tables: dict[str, list[Row]]) -> None:
    rows = tables["table3_overall_en"]
    assert len(rows) == 29
    deviations = {}
    for row in rows:
        result = mean_over_cases(category_averages(tables, row["model"]), NUM_CASES)
        assert result.value is not None
        macro, printed = result.macro["category"], float(row["overall"])
        assert macro is not None
        deviations[row["model"]] = result.value - printed
        # Wherever it does not fit, a mean of categories fits less.
        assert abs(result.value - printed) < abs(macro - printed), row["model"]
        assert result.missing["category"] == ([] if row["mi_ia"] else ["multi_image"])
    misfits = {model: change for model, change in deviations.items() if abs(change) > ROUNDING}
    assert misfits == pytest.approx(OVERALL_MISFITS, abs=0.001)


@pytest.mark.parametrize("category", list(CATEGORY_TABLES))
def test_averages_of_a_category_are_means_over_its_cases(tables: dict[str, list[Row]], category: str) -> None:
    """How many cases a task has is not known: one set of shares has to give all rows at once."""
    table, column = CATEGORY_TABLES[category]
    rows = [row for row in tables[table] if row[column]]
    fitting = [row for row in rows if row["model"] not in WRONG_AVERAGES[category]]
    shares = best_shares(fitting, TASK_COLUMNS[category], column)
    found = {}
    for row in rows:
        tasks = {name: row[name] for name in TASK_COLUMNS[category]}
        result = mean_over_cases(tasks, {name: round(1000 * share) for name, share in zip(tasks, shares, strict=True)})
        assert result.value is not None
        found[row["model"]] = abs(result.value - float(row[column]))
    assert {model for model, deviation in found.items() if deviation > ROUNDING} == WRONG_AVERAGES[category]


def best_shares(rows: list[Row], tasks: list[str], average: str) -> list[float]:
    """Shares of the tasks, each at least 0.02 and 1 together, whose worst deviation over `rows` is least."""
    values = np.array([[float(row[task]) for task in tasks] for row in rows])
    printed = np.array([float(row[average]) for row in rows])
    worst = -np.ones((len(rows), 1))
    found = linprog(
        [0.0] * len(tasks) + [1.0],
        A_ub=np.block([[values, worst], [-values, worst]]),
        b_ub=np.concatenate([printed, -printed]),
        A_eq=[[1.0] * len(tasks) + [0.0]],
        b_eq=[1.0],
        bounds=[(0.02, None)] * len(tasks) + [(0, None)],
    )
    assert found.x is not None
    return [float(share) for share in found.x[:-1]]


def test_perception_shows_both_languages_of_painted_instructions_as_one(tables: dict[str, list[Row]]) -> None:
    names = {
        "FLUX2.Dev": "FLUX.2 Dev",
        "Qwen-Image-Edit": "Qwen-Image-Edit-2511",
        "Bagel": "Bagel",
        "EMU3.5": "EMU3.5",
        "Seedream4.5": "Seedream 4.5",
        "Nano-Banana-Pro": "Nano Banana Pro",
    }
    rows = tables["table6_visual_perception"]
    assert {row["model"] for row in rows} == set(names)
    for row in rows:
        model = names[row["model"]]
        (moved,) = [other for other in tables["table10_dm_wkr_en"] if other["model"] == model]
        (other,) = [other for other in tables["table11_mi_complex_en"] if other["model"] == model]
        values = {
            "movement": moved["movement"],
            "swap": moved["swap"],
            "complex_paint_en": other["complex_paint_en"],
            "complex_paint_cn": other["complex_paint_cn"],
            "multi_image_aware": other["multi_image_awareness"],
        }
        cells = mean_over_cases(values, dict.fromkeys(values, 2)).groups["perception"]
        assert {name: cell.value for name, cell in cells.items()} == pytest.approx(
            {
                "movement": float(row["movement"]),
                "swap": float(row["swap"]),
                "complex_paint": float(row["complex_paint"]),
                "multi_image_aware": float(row["multi_image_awareness"]),
            },
            abs=ROUNDING,
        )


def test_average_accuracies_of_judges_are_means_over_pairs(tables: dict[str, list[Row]]) -> None:
    rows = tables["table5_editreward_compass"]
    assert len(rows) == 28
    misfits = {}
    for row in rows:
        result = mean_over_cases({name: row[name] for name in NUM_PAIRS}, NUM_PAIRS)
        assert result.value is not None
        if abs(result.value - float(row["avg"])) > 1e-4:
            misfits[row["model"], row["thinking"]] = result.value - float(row["avg"])
    assert misfits == pytest.approx(ACCURACY_MISFITS, abs=1e-4)
