"""Which cases an iteration uses, and the folders they come from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import UserError
from rl.data import CaseData, prompt_indices


@given(num_cases=st.integers(1, 40), num_prompts=st.integers(1, 40), seed=st.integers(0, 1000))
def test_a_pass_meets_each_case_at_most_once_and_iterations_are_full(
    num_cases: int, num_prompts: int, seed: int
) -> None:
    if num_prompts > num_cases:
        with pytest.raises(ValueError, match="prompts per iteration"):
            prompt_indices(num_cases, num_prompts, seed, 0)
        return
    per_pass = num_cases // num_prompts
    for start in (0, per_pass):
        seen = [index for i in range(per_pass) for index in prompt_indices(num_cases, num_prompts, seed, start + i)]
        assert len(seen) == per_pass * num_prompts == len(set(seen))
        assert set(seen) <= set(range(num_cases))


def test_passes_and_seeds_have_orders_of_their_own() -> None:
    first = [prompt_indices(40, 40, 0, iteration) for iteration in (0, 1)]
    assert first[0] != first[1]
    assert first[0] != prompt_indices(40, 40, 1, 0)
    assert first[0] == prompt_indices(40, 40, 0, 0)


def test_case_data_reads_both_folders_and_chooses_held_out_cases_by_hash(case_folders: tuple[Path, Path]) -> None:
    train, validation = map(str, case_folders)
    data = CaseData(train, validation)
    assert len(data.train_cases) == 5
    assert {case.id for case in data.validation_cases} == {"case-5", "case-6", "case-7"}
    fewer = CaseData(train, validation, limit_validation=2)
    assert fewer.validation_cases == data.validation_cases[:2]
    assert [len(pictures) for pictures in data.references(data.train_cases)] == [1, 1, 2, 1, 1]


def test_training_on_held_out_cases_is_refused(case_folders: tuple[Path, Path]) -> None:
    with pytest.raises(UserError, match="held-out"):
        CaseData(str(case_folders[0]), str(case_folders[0]))


def test_an_empty_folder_is_refused(tmp_path: Path, case_folders: tuple[Path, Path]) -> None:
    (tmp_path / "cases.jsonl").write_text("")
    with pytest.raises(UserError, match="at least one case"):
        CaseData(str(tmp_path))
    with pytest.raises(UserError, match="at least one case"):
        CaseData(str(case_folders[0]), str(tmp_path))


@pytest.mark.parametrize("change", [{"limit_validation": 0}, {"limit_validation": -1}, {"validation_batch_size": 0}])
def test_numbers_out_of_their_range_are_refused_by_their_keys(
    change: dict[str, Any], case_folders: tuple[Path, Path]
) -> None:
    with pytest.raises(UserError, match=r"data\.validation_batch_size >= 1 and data\.limit_validation >= 1"):
        CaseData(*map(str, case_folders), **change)
