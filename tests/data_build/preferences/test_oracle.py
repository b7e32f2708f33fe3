from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from data_build.preferences.oracle import (
    METRIC_OF,
    PreferenceSettings,
    SampledGroup,
    _write_group,
    judge_pairs,
    sample_preferences,
)
from data_build.preferences.sampling import SampledCase
from data_build.tabletop.cases import build_cases
from data_build.tabletop.draw import draw
from data_build.tabletop.judging import scenes_of, score_case
from gnomon.datasets import read_cases, read_comparisons, resolve, validate, write_records
from gnomon.errors import UserError
from gnomon.images import load_image, save_png
from gnomon.jsonl import read_records
from rl.generator import DiffusersGenerator
from rm.data import ComparisonDataset
from rm.pairs import DIMENSIONS

SETTINGS = PreferenceSettings(num_candidates=3, window_size=2, window_last=1, tie_margin=0.02)


@pytest.fixture(scope="module")
def generator(random_editor: Path) -> DiffusersGenerator:
    return DiffusersGenerator(str(random_editor))


@pytest.fixture(scope="module")
def sampled(generator: DiffusersGenerator, tabletop_cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Preferences over all eleven cases: a whole batch and a part of one."""
    out = tmp_path_factory.mktemp("preferences") / "out"
    sample_preferences(tabletop_cases, out, generator, SETTINGS, seed=1)
    return out


def files(folder: Path) -> dict[str, bytes]:
    paths = [
        path for path in folder.rglob("*") if path.suffix in (".png", ".jsonl", ".md") or path.name == "summary.json"
    ]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(paths)}


def test_the_folder_is_a_valid_dataset_that_a_reward_model_learns_from(sampled: Path, tabletop_cases: Path) -> None:
    cases = {case.id: case for case in read_cases(tabletop_cases)}
    comparisons = read_comparisons(sampled)

    assert validate(sampled).ok
    assert [comparison.id for comparison in comparisons] == list(cases)
    for comparison in comparisons:
        case = cases[comparison.group_id]
        assert comparison.instruction == case.instruction
        assert (comparison.task, comparison.split) == (case.task, "test")
        assert len(comparison.references) == len(case.references)
        assert len(comparison.candidates) == 3
    assert METRIC_OF.keys() == set(DIMENSIONS)
    assert len(ComparisonDataset(sampled, comparisons, DIMENSIONS)) == 11


def test_scores_are_the_oracles_and_labels_follow_from_them(sampled: Path, tabletop_cases: Path) -> None:
    cases = {case.id: case for case in read_cases(tabletop_cases)}
    for comparison in read_comparisons(sampled):
        for candidate in comparison.candidates:
            metrics = score_case(cases[comparison.id], load_image(resolve(sampled, candidate.path)))
            expected = {dimension: metrics[metric] for dimension, metric in METRIC_OF.items()}
            assert candidate.scores == pytest.approx(expected, abs=1e-6)
        assert len(comparison.judgements) == 3 * 4
        for judgement in comparison.judgements:
            i, j = (comparison.candidates[place].scores[judgement.dimension] for place in (judgement.i, judgement.j))
            assert judgement.margin == pytest.approx(abs(i - j), abs=1e-6)
            assert judgement.label == ("tie" if abs(i - j) < 0.02 else "i" if i > j else "j")


def test_candidates_of_a_case_differ(sampled: Path) -> None:
    for group in read_records(sampled / "groups.jsonl", SampledGroup):
        assert (group.num_candidates, group.num_duplicates) == (3, 0)


def test_stopped_and_run_again_it_ends_with_the_same_bytes(
    generator: DiffusersGenerator, tabletop_cases: Path, sampled: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    sample_preferences(tabletop_cases, out, generator, SETTINGS, seed=1)
    # What a kill in the middle of the first batch leaves: three finished lines, a torn one, and no result.
    lines = (out / "groups.jsonl").read_bytes().splitlines(keepends=True)
    (out / "groups.jsonl").write_bytes(b"".join(lines[:3]) + lines[3][:40])
    for name in ("comparisons.jsonl", "summary.json", "README.md", "images/tabletop-test-000004_01.png"):
        (out / name).unlink()
    conditionings = generator.num_conditionings

    sample_preferences(tabletop_cases, out, generator, SETTINGS, seed=1)

    assert files(out) == files(sampled)
    assert generator.num_conditionings - conditionings == 11

    sample_preferences(tabletop_cases, out, generator, SETTINGS, seed=1)
    assert generator.num_conditionings - conditionings == 11


def test_the_limit_takes_the_first_cases(generator: DiffusersGenerator, tabletop_cases: Path, tmp_path: Path) -> None:
    summary = sample_preferences(tabletop_cases, tmp_path / "out", generator, SETTINGS, limit=2)

    assert (summary.num_cases, summary.num_candidates, summary.num_pairs) == (2, 6, 6)
    assert [comparison.id[-1] for comparison in read_comparisons(tmp_path / "out")] == ["0", "1"]


def test_equal_pictures_are_dropped_and_counted(
    generator: DiffusersGenerator, tabletop_cases: Path, tmp_path: Path
) -> None:
    case = read_cases(tabletop_cases)[0]
    source, target = map(draw, scenes_of(case))

    sampled = SampledCase(case, [source], [target, source, target, target], [0, 1, 2, 3], {})
    group = _write_group(tmp_path, generator.model, sampled, SETTINGS, seed=0)

    assert (group.num_candidates, group.num_duplicates) == (4, 2)
    assert group.comparison is not None
    assert [candidate.path[-7:] for candidate in group.comparison.candidates] == ["_00.png", "_01.png"]
    assert {judgement.dimension: judgement.label for judgement in group.comparison.judgements} == {
        "instruction_awareness": "i",
        "visual_consistency": "tie",
        "visual_quality": "tie",
        "overall": "i",
    }
    sampled = SampledCase(case, [source], [target, target], [0, 1], {})
    alone = _write_group(tmp_path, generator.model, sampled, SETTINGS, seed=0)
    assert (alone.num_duplicates, alone.comparison) == (1, None)


def test_a_generator_that_makes_one_picture_only_is_no_use(
    random_editor: Path, tabletop_cases: Path, tmp_path: Path
) -> None:
    constant = DiffusersGenerator(str(random_editor))
    torch.nn.init.zeros_(constant.pipeline.vae.decoder.conv_out.weight)

    with pytest.raises(UserError, match="one and the same picture; raise noise_level"):
        sample_preferences(tabletop_cases, tmp_path / "out", constant, SETTINGS, limit=2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_candidates": 1}, "num_candidates >= 2, got 1"),
        ({"pairs_per_case": 0}, "pairs_per_case >= 1, got 0"),
        ({"tie_margin": -0.1}, "tie_margin >= 0"),
        ({"noise_level": 0.0}, "noise_level > 0"),
    ],
)
def test_settings_out_of_range_are_refused(arguments: dict[str, float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        PreferenceSettings(**arguments)  # type: ignore[arg-type]


def test_a_window_that_holds_the_last_step_is_refused(
    generator: DiffusersGenerator, tabletop_cases: Path, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="never stochastic"):
        sample_preferences(tabletop_cases, tmp_path / "out", generator, PreferenceSettings(window_last=2))


def test_cases_that_the_oracle_does_not_know_are_refused_before_sampling(
    generator: DiffusersGenerator, tabletop_cases: Path, tmp_path: Path
) -> None:
    case = read_cases(tabletop_cases)[0]
    save_png(Image.new("RGB", (64, 64)), tmp_path / "cases" / case.references[0].path)
    write_records(tmp_path / "cases" / "cases.jsonl", [case.model_copy(update={"meta": {}})])

    with pytest.raises(UserError, match="'tabletop-test-000000'"):
        sample_preferences(tmp_path / "cases", tmp_path / "out", generator, SETTINGS)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_run_is_refused(
    generator: DiffusersGenerator, tabletop_cases: Path, sampled: Path, tmp_path: Path
) -> None:
    build_cases(tmp_path / "others", num=2, seed=9, split="test")

    with pytest.raises(UserError, match="seed: 1 -> 2"):
        sample_preferences(tabletop_cases, sampled, generator, SETTINGS, seed=2)
    with pytest.raises(UserError, match=r"inputs\.dataset"):
        sample_preferences(tmp_path / "others", sampled, generator, SETTINGS, seed=1)


def scored(values: list[float]) -> list[dict[str, float]]:
    return [{"overall": value, "visual_quality": 1.0} for value in values]


def test_all_pairs_are_judged_in_all_dimensions() -> None:
    judgements = judge_pairs(scored([0.1, 0.5, 0.52]), 0.05, limit=None, rng=random.Random(0))

    assert [(j.i, j.j, j.dimension, j.label, j.margin) for j in judgements] == [
        (0, 1, "overall", "j", 0.4),
        (0, 1, "visual_quality", "tie", 0.0),
        (0, 2, "overall", "j", 0.42),
        (0, 2, "visual_quality", "tie", 0.0),
        (1, 2, "overall", "tie", 0.02),
        (1, 2, "visual_quality", "tie", 0.0),
    ]


def test_equal_scores_are_a_tie_whatever_the_margin() -> None:
    (judgement,) = judge_pairs([{"overall": 0.3}, {"overall": 0.3}], 0.0, limit=None, rng=random.Random(0))

    assert judgement.label == "tie"


def test_a_limit_keeps_a_quarter_of_ties() -> None:
    # Two clusters of four: 12 ties inside them, 16 clear pairs between them.
    scores = scored([0.2] * 4 + [0.8] * 4)

    judgements = judge_pairs(scores, 0.05, limit=8, rng=random.Random(0))

    labels = [judgement.label for judgement in judgements if judgement.dimension == "overall"]
    assert (len(labels), labels.count("tie")) == (8, 2)


@settings(deadline=None)
@given(st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=8), st.integers(1, 30), st.integers(0, 99))
def test_a_limit_is_used_up_and_never_passed(values: list[float], limit: int, seed: int) -> None:
    every = judge_pairs(scored(values), 0.1, limit=None, rng=random.Random(seed))

    chosen = judge_pairs(scored(values), 0.1, limit=limit, rng=random.Random(seed))

    assert len(chosen) == 2 * min(limit, len(every) // 2)
    assert len({(j.i, j.j, j.dimension) for j in chosen}) == len(chosen)
    assert all(judgement in every for judgement in chosen)
    assert chosen == judge_pairs(scored(values), 0.1, limit=limit, rng=random.Random(seed))
