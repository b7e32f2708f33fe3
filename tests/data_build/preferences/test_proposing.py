from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

from bench.folder import BenchRun
from bench.generators import FolderGenerator
from bench.workflow import generate
from data_build.preferences.filters import FilterSettings
from data_build.preferences.oracle import PreferenceSettings, sample_preferences
from data_build.preferences.pairs import ProposedPair
from data_build.preferences.proposing import LeftOut, ProposalSettings, ProposalSummary, propose_preferences
from data_build.preferences.sampling import SamplingSettings
from data_build.tabletop.cases import build_cases
from data_build.tabletop.draw import draw
from data_build.tabletop.judging import scenes_of
from gnomon.datasets import read_cases, resolve, validate
from gnomon.errors import UserError
from gnomon.images import load_image, save_png
from gnomon.jsonl import read_records
from gnomon.records import Candidate
from rl.generator import DiffusersGenerator

SAMPLING = SamplingSettings(num_candidates=3, window_size=2, window_last=1)
# An untrained decoder makes noise only.
SETTINGS = ProposalSettings(SAMPLING, FilterSettings(noise_floor=255.0), pairs_per_case=2)


@pytest.fixture(scope="module")
def generator(random_editor: Path) -> DiffusersGenerator:
    return DiffusersGenerator(str(random_editor))


@pytest.fixture(scope="module")
def proposed(generator: DiffusersGenerator, tabletop_cases: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("proposed") / "out"
    propose_preferences(tabletop_cases, out, generator, SETTINGS, seed=1, limit=3)
    return out


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.suffix in (".png", ".jsonl", ".md") or path.name == "summary.json"
    }


def test_a_folder_of_pairs_says_what_was_sampled_how(proposed: Path, tabletop_cases: Path) -> None:
    candidates = read_records(proposed / "candidates.jsonl", Candidate)
    pairs = read_records(proposed / "pairs.jsonl", ProposedPair)

    assert validate(proposed).ok
    assert [case.id for case in read_cases(proposed)] == [case.id for case in read_cases(tabletop_cases)][:3]
    assert len(candidates) == 9
    assert len({candidate.seed for candidate in candidates}) == 9
    for candidate in candidates:
        assert candidate.sampling["noise_level"] == 0.9
        assert len(candidate.sampling["stochastic_steps"]) == 2
        assert candidate.sampling["num_inference_steps"] == 4
        assert resolve(proposed, str(candidate.path)).exists()
    paths = {candidate.path for candidate in candidates}
    assert len(pairs) == 6
    for pair in pairs:
        assert {pair.first, pair.second} <= paths
        assert pair.dimensions == ["instruction_awareness", "visual_consistency", "visual_quality"]


def test_stopped_and_run_again_it_ends_with_the_same_bytes(
    generator: DiffusersGenerator, tabletop_cases: Path, proposed: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.copytree(proposed, out)
    lines = (out / "groups.jsonl").read_bytes().splitlines(keepends=True)
    (out / "groups.jsonl").write_bytes(lines[0] + lines[1][:50])
    for name in ("pairs.jsonl", "candidates.jsonl", "summary.json", "images/tabletop-test-000001_01.png"):
        (out / name).unlink()

    propose_preferences(tabletop_cases, out, generator, SETTINGS, seed=1, limit=3)

    assert files(out) == files(proposed)


def test_a_kill_loses_nothing(random_editor: Path, tabletop_cases: Path, tmp_path: Path) -> None:
    argv = ["data", "sample-preferences", "--label", "none", "--cases", str(tabletop_cases), "--num_candidates", "2"]
    argv += ["--window_size", "1", "--filters.noise_floor", "255", "--generator.model", str(random_editor)]
    command = [sys.executable, "-c", "import sys; from gnomon.cli import main; sys.exit(main())", *argv, "--out"]
    out = tmp_path / "killed"
    with subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not (out / "groups.jsonl").exists():
            assert process.poll() is None
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
    assert len((out / "groups.jsonl").read_bytes().splitlines()) < 11

    settings = ProposalSettings(SamplingSettings(num_candidates=2, window_size=1), FilterSettings(noise_floor=255.0))
    editor = DiffusersGenerator(str(random_editor))
    propose_preferences(tabletop_cases, out, editor, settings)
    propose_preferences(tabletop_cases, tmp_path / "whole", editor, settings)

    assert files(out) == files(tmp_path / "whole")


def pool_of_pictures(cases: Path, root: Path, out: Path) -> BenchRun:
    """Pictures of another model: the true edit of the first case, the second's missing, the third's noisy."""
    first, _, third = read_cases(cases)[:3]
    save_png(draw(scenes_of(first)[1]), root / f"{first.id}.png")
    save_png(Image.effect_noise((64, 64), 60).convert("RGB"), root / f"{third.id}.png")
    return generate(cases, out, FolderGenerator(root), name="other", limit=3)


def test_pools_join_in_and_what_is_left_out_is_said(proposed: Path, tabletop_cases: Path, tmp_path: Path) -> None:
    pool_of_pictures(tabletop_cases, tmp_path / "pictures", tmp_path / "bench")
    settings = ProposalSettings(filters=FilterSettings(noise_floor=50.0))
    out = tmp_path / "out"

    summary = propose_preferences(
        tabletop_cases, out, None, settings, pools=[tmp_path / "bench", proposed, proposed], limit=3
    )

    left_out = read_records(out / "left_out.jsonl", LeftOut)
    assert [item.reason for item in left_out if item.candidate.generator == "other"] == ["missing_output", "unclear"]
    # The pool that is given twice: all of its nine candidates come again.
    assert summary.left_out == {"missing_output": 1, "unclear": 1, "near_copy": 9}
    kept = read_records(out / "candidates.jsonl", Candidate)
    assert [candidate.sampling["pool"] for candidate in kept] == ["bench", *["out"] * 9]
    assert len({candidate.generator for candidate in kept}) == 2
    assert validate(out).ok
    assert summary.num_pairs == 6 + 3 + 3
    for pair in read_records(out / "pairs.jsonl", ProposedPair):
        assert resolve(out, pair.first).exists()


def test_cases_with_too_many_references_are_counted(
    generator: DiffusersGenerator, tabletop_cases: Path, tmp_path: Path
) -> None:
    cases = read_cases(tabletop_cases)
    many = sum(len(case.references) > 1 for case in cases)
    assert 0 < many < len(cases)
    settings = ProposalSettings(
        SamplingSettings(num_candidates=2, window_size=1), FilterSettings(noise_floor=255.0), max_references=1
    )

    summary = propose_preferences(tabletop_cases, tmp_path / "out", generator, settings)

    assert (summary.num_cases, summary.num_not_sampled) == (11, many)
    assert summary.num_cases_without_pairs >= many


def test_noise_is_left_out_and_a_run_without_pairs_is_an_error(
    generator: DiffusersGenerator, tabletop_cases: Path, tmp_path: Path
) -> None:
    settings = ProposalSettings(SAMPLING, FilterSettings(min_distance=255.0))

    with pytest.raises(UserError, match="none of 1 cases has two that passed the filters"):
        propose_preferences(tabletop_cases, tmp_path / "out", generator, settings, limit=1)
    left_out = read_records(tmp_path / "out" / "left_out.jsonl", LeftOut)
    assert {item.reason for item in left_out} <= {"near_copy", "unclear"}
    assert len(left_out) >= 2


def test_tasks_are_chosen(generator: DiffusersGenerator, tabletop_cases: Path, tmp_path: Path) -> None:
    task = read_cases(tabletop_cases)[4].task

    summary: ProposalSummary = propose_preferences(tabletop_cases, tmp_path / "out", generator, SETTINGS, tasks=[task])

    assert summary.num_cases == 1
    assert [case.task for case in read_cases(tmp_path / "out")] == [task]


def test_pools_that_do_not_fit_are_refused(
    generator: DiffusersGenerator, tabletop_cases: Path, proposed: Path, tmp_path: Path
) -> None:
    build_cases(tmp_path / "others", num=2, seed=9, split="test")
    labelled = tmp_path / "labelled"
    sample_preferences(
        tabletop_cases, labelled, generator, PreferenceSettings(num_candidates=2, window_size=1), limit=1
    )

    with pytest.raises(UserError, match="pool of the same cases"):
        propose_preferences(tmp_path / "others", tmp_path / "out", None, pools=[proposed])
    with pytest.raises(UserError, match="as a pool"):
        propose_preferences(tabletop_cases, tmp_path / "out", None, pools=[tabletop_cases])
    with pytest.raises(UserError, match="with --label none"):
        propose_preferences(tabletop_cases, tmp_path / "out", None, pools=[labelled])
    with pytest.raises(UserError, match="a generator or a pool"):
        propose_preferences(tabletop_cases, tmp_path / "out", None)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dimensions": ()}, "one dimension or more"),
        ({"dimensions": ("overall", "overall")}, "each once"),
        ({"dimensions": ("beauty",)}, "got 'beauty'"),
        ({"pairs_per_case": 0}, "pairs_per_case >= 1"),
    ],
)
def test_settings_that_propose_nothing_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ProposalSettings(**arguments)  # type: ignore[arg-type]


def test_a_lost_picture_of_a_pool_is_a_status(proposed: Path, tabletop_cases: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool"
    shutil.copytree(proposed, pool)
    lost = read_records(pool / "candidates.jsonl", Candidate)[0]
    (pool / str(lost.path)).write_bytes(b"no picture")

    summary = propose_preferences(tabletop_cases, tmp_path / "out", None, SETTINGS, pools=[pool], limit=3)

    assert summary.left_out["unreadable_image"] == 1
    assert load_image(proposed / str(lost.path)).size == (64, 64)
