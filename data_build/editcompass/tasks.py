"""Which tasks of Edit-Compass are built how, and which metrics apply to their cases.

Edit-Compass, section 3.2 and appendix A: instructions for photographs in the categories general and complex, generated
sources in dynamic manipulation, world knowledge reasoning and multi-image, puzzles by program. A Complex Paint needs
marks that a person draws, so no model proposes one.

The release says for each case which metrics apply; here it is a rule by task. From the paper: instruction following and
visual quality everywhere, world awareness where the outcome follows from knowledge or reasoning, the unedited region
everywhere but in style transfer. Our choice, since the paper says no more than "tasks with an identity": identity
consistency where a subject of the source must be recognised after it was edited or carried over.
"""

from __future__ import annotations

from bench.editcompass.cases import CELLS, METRICS

_TASKS_OF: dict[str, list[str]] = {}
for _cell in CELLS.values():
    _TASKS_OF.setdefault(_cell.category, []).append(_cell.task)

PHOTO_TASKS = (*_TASKS_OF["general"], "complex_instruction")
"""Tasks for which instructions are written for photographs."""

MULTI_IMAGE_TASKS = tuple(_TASKS_OF["multi_image"])
"""Tasks whose cases have several references."""

SCENARIO_TASKS = (*_TASKS_OF["dynamic_manipulation"], *_TASKS_OF["world_knowledge_reasoning"], *MULTI_IMAGE_TASKS)
"""Tasks whose sources are generated from what experts describe."""

_REASONING = {*_TASKS_OF["world_knowledge_reasoning"], *_TASKS_OF["algorithmic_visual_reasoning"]}
_WITH_IDENTITY = {
    *("color_size", "extract", "material", "background"),
    *_TASKS_OF["dynamic_manipulation"],
    *("causal", "temporal"),
    *MULTI_IMAGE_TASKS,
    *_TASKS_OF["complex"],
}


def metrics_of(task: str) -> list[str]:
    """Return the metrics that apply to the cases of a task, in the benchmark's order."""
    applies = {
        "IF": True,
        "WA": task in _REASONING,
        "URC": task != "style_transfer",
        "IC": task in _WITH_IDENTITY,
        "VQ": True,
    }
    return [metric for flag, metric in METRICS.items() if applies[flag]]
