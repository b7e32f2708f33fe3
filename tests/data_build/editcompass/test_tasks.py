from __future__ import annotations

from bench.editcompass.cases import CELLS, METRICS
from bench.editcompass.scoring import applies
from data_build.editcompass.tasks import MULTI_IMAGE_TASKS, PHOTO_TASKS, SCENARIO_TASKS, metrics_of
from data_build.puzzles.build import _METRICS
from gnomon.records import Case, Text


def test_the_two_strategies_share_no_task_and_leave_the_puzzles_and_the_drawn_marks() -> None:
    everything = {cell.task: cell.category for cell in CELLS.values()}
    left = {task for task in everything if task not in PHOTO_TASKS + SCENARIO_TASKS}

    assert (len(PHOTO_TASKS), len(SCENARIO_TASKS)) == (11, 13)
    assert not set(PHOTO_TASKS) & set(SCENARIO_TASKS)
    assert left == {t for t, c in everything.items() if c == "algorithmic_visual_reasoning"} | {
        "complex_paint_en",
        "complex_paint_cn",
    }
    assert MULTI_IMAGE_TASKS == ("multi_image_aware", "multi_image_composition", "virtual_try_on")


def test_metrics_follow_the_rule_of_the_paper() -> None:
    assert metrics_of("style_transfer") == ["instruction_following", "visual_quality"]
    assert metrics_of("add") == ["instruction_following", "unedited_region_consistency", "visual_quality"]
    assert metrics_of("temporal") == list(METRICS.values())
    assert metrics_of("math") == metrics_of("maximum_bonus") == _METRICS
    for cell in CELLS.values():
        metrics = metrics_of(cell.task)
        assert {"instruction_following", "visual_quality"} <= set(metrics)
        case = Case(id="x", benchmark="edit-compass", task=cell.task, instruction=Text(en="x"), metrics=metrics)
        assert applies(case, "visual_consistency") == (cell.task != "style_transfer")
