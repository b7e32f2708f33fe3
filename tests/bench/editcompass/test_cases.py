"""Rows of the release become cases: all 36 cells, and every kind of row that is none."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from bench.editcompass.cases import CATEGORIES, CELLS, CaseError, category_of, cell_of, read_case
from gnomon.records import CLEAN_SOURCE, Case, Text
from tests.bench.editcompass.release import PARTS, row


def read(part: str, cell: str, **changes: Any) -> Case:
    return read_case(CELLS[cell], row(part, cell, 1, **changes))


def test_there_are_the_36_cells_of_six_categories() -> None:
    assert {part: [cell.name for cell in CELLS.values() if cell.part == part] for part in PARTS} == PARTS
    assert Counter(cell.category for cell in CELLS.values()) == dict(zip(CATEGORIES, (10, 5, 5, 10, 3, 3), strict=True))
    assert len({cell.task for cell in CELLS.values()}) == 36
    assert CELLS["Casual"].task == "causal"


def test_a_row_becomes_a_case_with_all_that_it_says() -> None:
    case = read("Part3", "Casual")
    assert case == Case(
        id="Part3/Casual/Casual_1",
        benchmark="edit-compass",
        task="causal",
        subtask="first",
        instruction=Text(en="Casual: do number 1", zh="Casual：做第 1 件事"),
        references=case.references,
        metrics=[
            *("instruction_following", "world_awareness", "unedited_region_consistency"),
            *("identity_consistency", "visual_quality"),
        ],
        hints={"outcome": "the answer is 1"},
        split="test",
        meta={
            "category": "world_knowledge_reasoning",
            "part": "Part3",
            "cell": "Casual",
            "save_id": "Casual_1",
            "edit_type": "casual",
        },
    )
    assert [(reference.path, reference.role) for reference in case.references] == [("Part3/Casual/1.png", "source")]


def test_metrics_are_those_whose_flag_is_true() -> None:
    assert read("Part1", "Style_Transfer").metrics == ["instruction_following", "visual_quality"]
    assert read("Part4", "Word").metrics == [
        *("instruction_following", "world_awareness", "unedited_region_consistency", "visual_quality"),
    ]


def test_a_case_of_several_pictures_has_the_source_first_and_the_instruction_for_judges() -> None:
    case = read("Part5", "Virtual_Try_On")
    folder = "Part5/Virtual_Try_On"
    assert [(reference.path, reference.role) for reference in case.references] == [
        (f"{folder}/1.png", "source"),
        (f"{folder}/1_a.png", "reference"),
        (f"{folder}/1_b.png", "reference"),
    ]
    assert case.meta["judge_instruction"] == {"en": "judges read this about 1", "zh": "评判者读这个 1"}
    without = read("Part5", "Virtual_Try_On", source_image=None)
    assert [reference.role for reference in without.references] == ["reference", "reference"]
    twice = read("Part5", "Virtual_Try_On", reference_image_path=[f"{folder}/1.png", f"{folder}/1_a.png"])
    assert [reference.path for reference in twice.references] == [f"{folder}/1.png", f"{folder}/1_a.png"]


@pytest.mark.parametrize(
    ("cell", "source", "clean"),
    [
        ("Complex_Paint_en", "Part6/Complex_Paint_en/EN/1.png", "Part6/Complex_Paint_en/image/1.png"),
        ("Complex_Paint_cn", "Part6/Complex_Paint_cn/CN/1.png", "Part6/Complex_Paint_cn/image/1.png"),
        ("Complex_Paint_en", "SCENE/source_EN/1.png", "SCENE/source_image/1.png"),  # no EN inside a word
    ],
)
def test_a_source_with_marks_has_a_clean_one_beside_it(cell: str, source: str, clean: str) -> None:
    found = read("Part6", cell, source_image=source).references
    assert [(reference.path, reference.role) for reference in found] == [(source, "source"), (clean, CLEAN_SOURCE)]


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"save_id": None}, "bad_row", "'save_id', got None"),
        ({"save_id": True}, "bad_row", "'save_id', got True"),
        ({"IF": 1}, "bad_row", "true or false under 'IF', got 1"),
        ({"WA": "true"}, "bad_row", "true or false under 'WA', got 'true'"),
        ({"URC": None}, "bad_row", "true or false under 'URC', got None"),
        (dict.fromkeys(("IF", "WA", "URC", "IC", "VQ"), False), "bad_row", "all are false"),
        ({"prompt_en": "  "}, "empty_prompt", "a text under prompt_en, got none"),
        ({"prompt_en": None, "prompt_cn": None}, "empty_prompt", "prompt_en or prompt_cn"),
        ({"prompt_en": ["a"]}, "bad_row", "'prompt_en', got ['a']"),
        ({"hints": {"answer": 1}}, "bad_row", "'hints'"),
        ({"sub_type": 3}, "bad_row", "'sub_type', got 3"),
        ({"source_image": ""}, "missing_picture", "'source_image' or 'reference_image_path'"),
        ({"reference_image_path": "a.png"}, "bad_row", "a list of paths"),
        ({"reference_image_path": [""]}, "bad_row", "a list of paths"),
    ],
)
def test_a_row_that_is_no_case_says_why(changes: dict[str, Any], kind: str, words: str) -> None:
    with pytest.raises(CaseError, match="expected") as caught:
        read("Part1", "ADD", **changes)
    assert caught.value.kind == kind
    assert words in str(caught.value)


def test_a_source_without_the_mark_in_its_path_and_a_row_that_is_no_object_say_why() -> None:
    with pytest.raises(CaseError, match="expected EN in the path") as caught:
        read("Part6", "Complex_Paint_en", source_image="1.png")
    assert caught.value.kind == "missing_picture"
    with pytest.raises(CaseError, match="got list"):
        read_case(CELLS["ADD"], [1])


def test_one_language_is_enough_and_the_word_image_in_brackets_is_a_word() -> None:
    case = read("Part1", "ADD", prompt_en="put {a} <image> on it", prompt_cn=None, save_id=7)
    assert case.instruction == Text(en="put {a} <image> on it")
    assert (case.id, case.meta["save_id"]) == ("Part1/ADD/7", "7")


def test_files_name_their_cell() -> None:
    assert cell_of("Part1/ADD/ADD.json") == cell_of("ADD/ADD.json") == cell_of("ADD.json") == CELLS["ADD"]
    for file in ("Part1/ADD/ADD_IF.json", "Part1/Causal/Causal.json", "Part1/Swap/ADD.json", "notes.json"):
        with pytest.raises(CaseError, match="36 task cells") as caught:
            cell_of(file)
        assert caught.value.kind == "unknown_cell"


def test_the_category_of_own_cases_is_what_they_say_or_that_of_the_task() -> None:
    def case(task: str, **meta: str) -> Case:
        return Case(id="c", benchmark="edit-compass", task=task, instruction=Text(en="do"), meta=meta)

    assert category_of(case("knapsack")) == "algorithmic_visual_reasoning"
    assert category_of(case("mine", category="complex")) == "complex"
    assert category_of(case("mine", category="hard")) is None
