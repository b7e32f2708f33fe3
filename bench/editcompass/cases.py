"""Edit-Compass' cases: its 36 task cells, and how a row of the released files becomes a case. No file is read here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Any, Literal

from gnomon.records import CLEAN_SOURCE, Case, Reference, Text

NAME = "edit-compass"

METRICS = {
    "IF": "instruction_following",
    "WA": "world_awareness",
    "URC": "unedited_region_consistency",
    "IC": "identity_consistency",
    "VQ": "visual_quality",
}
"""The release's flags, and what they are called here."""

OUTCOME = "outcome"
"""Where in `Case.hints` the expected outcome is."""

JUDGE_INSTRUCTION = "judge_instruction"
"""Where in `Case.meta` the instruction is that judges see instead, by language."""

# The release's names of the cells (its spelling kept), and ours; both are ordered as released.
_PARTS: tuple[tuple[str, dict[str, str]], ...] = (
    (
        "general",
        {
            "ADD": "add",
            "Remove": "remove",
            "Replace": "replace",
            "Change_color_size": "color_size",
            "Style_Transfer": "style_transfer",
            "Extract": "extract",
            "Change_Material": "material",
            "Change_Background": "background",
            "Visual_Text_CN": "visual_text_cn",
            "Visual_Text_EN": "visual_text_en",
        },
    ),
    (
        "dynamic_manipulation",
        {
            "Action": "action",
            "Move": "movement",
            "Swap": "swap",
            "Object_Interaction": "object_interaction",
            "Emotion_Change": "emotion_change",
        },
    ),
    (
        "world_knowledge_reasoning",
        {"Casual": "causal", "Temporal": "temporal", "Chemical": "chemical", "Math": "math", "Game": "game"},
    ),
    (
        "algorithmic_visual_reasoning",
        {
            "Knapsack": "knapsack",
            "Convex_Hull": "convex_hull",
            "Maximum_Submatrix": "maximum_submatrix",
            "Global_Longest_Word": "global_longest_word",
            "Longest_Word": "longest_word",
            "Maximum_Bonus": "maximum_bonus",
            "Number_Link": "numberlink",
            "Optimal_Path": "optimal_path",
            "Global_Word": "global_word",
            "Word": "word",
        },
    ),
    (
        "multi_image",
        {
            "Multi_Image_Aware": "multi_image_aware",
            "Multi_Image_Composition": "multi_image_composition",
            "Virtual_Try_On": "virtual_try_on",
        },
    ),
    (
        "complex",
        {
            "Complex_Instruction": "complex_instruction",
            "Complex_Paint_en": "complex_paint_en",
            "Complex_Paint_cn": "complex_paint_cn",
        },
    ),
)

CATEGORIES = tuple(category for category, _ in _PARTS)


@dataclass(frozen=True)
class Cell:
    """One of the 36 task cells.

    Attributes:
        name: the release's.
        part: the release's folder.
        category: one of `CATEGORIES`.
        task: our name, which says what is asked.
    """

    name: str
    part: str
    category: str
    task: str


CELLS = {
    name: Cell(name, f"Part{number}", category, task)
    for number, (category, tasks) in enumerate(_PARTS, start=1)
    for name, task in tasks.items()
}
"""All cells by the release's names, which no two parts share."""

_CATEGORY_OF = {cell.task: cell.category for cell in CELLS.values()}
# In the path of a source with marks drawn on it, this says where it lies; the clean one lies at "image" instead.
_MARKED = {"complex_paint_en": "EN", "complex_paint_cn": "CN"}

Problem = Literal["bad_row", "empty_prompt", "unknown_cell", "missing_picture"]


class CaseError(ValueError):
    """A row that is no case; the text is for people."""

    def __init__(self, message: str, kind: Problem = "bad_row") -> None:
        super().__init__(message)
        self.kind: Problem = kind


def cell_of(file: str) -> Cell:
    """Return the cell that a file `.../<Cell>/<Cell>.json` belongs to.

    Args:
        file: a relative path with forward slashes; the file's name alone will do.

    Raises:
        CaseError: for any other file.
    """
    path = PurePosixPath(file)
    cell = CELLS.get(path.stem)
    if cell is None or path.parent.name not in ("", path.stem):
        raise CaseError(
            f"expected a file <Part>/<Cell>/<Cell>.json of one of the 36 task cells, got {file}", "unknown_cell"
        )
    return cell


def cell_of_picture(path: str) -> Cell | None:
    """Return the cell below whose folder `.../<Part>/<Cell>/...` a picture lies; None where the path tells of none.

    A folder that only has the name of a cell is no proof: "Math" and "Action" are ordinary words.
    """
    parts = PurePosixPath(path).parts
    for part, name in pairwise(parts[:-1]):
        cell = CELLS.get(name)
        if cell is not None and cell.part == part:
            return cell
    return None


def category_of(case: Case) -> str | None:
    """Return a case's category: what `meta.category` says, or that of its task; None where neither is known."""
    named = case.meta.get("category")
    return named if named in CATEGORIES else _CATEGORY_OF.get(case.task)


def read_case(cell: Cell, row: Any) -> Case:
    """Return the case of a row, with the paths of its pictures as the row has them.

    Args:
        cell: whose file the row is in.
        row: its fields.

    Raises:
        CaseError: says which field is missing or wrong, and what stands there.
    """
    if not isinstance(row, dict):
        raise CaseError(f"expected an object with fields, got {type(row).__name__}")
    save_id = _save_id(row)
    metrics = [metric for flag, metric in METRICS.items() if _flag(row, flag)]
    if not metrics:
        raise CaseError(f"expected at least one of {', '.join(METRICS)} to be true, all are false")
    outcome = _optional_text(row, "hints")
    judged = {"en": _optional_text(row, "prompt_en_2"), "zh": _optional_text(row, "prompt_cn_2")}
    meta = {
        "category": cell.category,
        "part": cell.part,
        "cell": cell.name,
        "save_id": save_id,
        "edit_type": _optional_text(row, "edit_type"),
        JUDGE_INSTRUCTION: {language: text for language, text in judged.items() if text is not None},
    }
    return Case(
        id=f"{cell.part}/{cell.name}/{save_id}",
        benchmark=NAME,
        task=cell.task,
        subtask=_optional_text(row, "sub_type"),
        instruction=_instruction(row),
        references=_references(cell, row),
        metrics=metrics,
        hints={} if outcome is None else {OUTCOME: outcome},
        split="test",
        meta={key: value for key, value in meta.items() if value not in (None, {})},
    )


def _save_id(row: Mapping[str, Any]) -> str:
    value = row.get("save_id")
    if isinstance(value, bool) or not isinstance(value, str | int) or not str(value).strip():
        raise CaseError(f"expected a text or a whole number under 'save_id', got {value!r:.80}")
    return str(value).strip()


def _flag(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name)
    if not isinstance(value, bool):
        raise CaseError(f"expected true or false under '{name}', got {value!r:.80}")
    return value


def _optional_text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    if value is not None and not isinstance(value, str):
        raise CaseError(f"expected a text under '{name}', got {value!r:.80}")
    return (value or "").strip() or None


def _instruction(row: Mapping[str, Any]) -> Text:
    """Return the prompts; one language may be left out, none may be blank."""
    prompts = {"en": _optional_text(row, "prompt_en"), "zh": _optional_text(row, "prompt_cn")}
    blank = [name for name in ("prompt_en", "prompt_cn") if isinstance(row.get(name), str) and not row[name].strip()]
    if blank or not any(prompts.values()):
        raise CaseError(
            f"expected a text under {' and '.join(blank) or 'prompt_en or prompt_cn'}, got none", "empty_prompt"
        )
    return Text(**prompts)


def _references(cell: Cell, row: Mapping[str, Any]) -> list[Reference]:
    source = _optional_text(row, "source_image")
    others = row.get("reference_image_path")
    others = [] if others is None else others
    if not isinstance(others, list) or not all(isinstance(path, str) and path.strip() for path in others):
        raise CaseError(f"expected a list of paths under 'reference_image_path', got {others!r:.80}")
    if source is None and not others:
        raise CaseError("expected a path under 'source_image' or 'reference_image_path', got none", "missing_picture")
    found = [] if source is None else [Reference(path=source)]
    if source is not None and cell.task in _MARKED:
        found.append(Reference(path=_clean_path(source, _MARKED[cell.task]), role=CLEAN_SOURCE))
    # The source may stand in the list of references as well; it is shown once.
    return found + [Reference(path=path, role="reference") for path in others if path != source]


def _clean_path(source: str, mark: str) -> str:
    """Return where the source lies without the marks that are drawn on it."""
    clean, count = re.subn(rf"(?<![A-Za-z]){mark}(?![A-Za-z])", "image", source)
    if count == 0:
        raise CaseError(
            f"expected {mark} in the path under 'source_image', in whose place 'image' gives the path of the picture "
            f"without marks, got {source!r:.80}",
            "missing_picture",
        )
    return clean
