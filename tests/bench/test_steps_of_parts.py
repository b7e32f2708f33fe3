"""Runs about a part of a dataset: selections, cases with too many references, repeats from a folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image

from bench.folder import BenchRun, RunConfig
from bench.generators import REFERENCE_ROLES, FolderGenerator
from bench.report.leaderboard import write_leaderboard_page
from bench.report.pages import write_run_page
from bench.text import results_text
from bench.workflow import compare, generate, judge, summarize
from gnomon.cli import main
from gnomon.datasets import read_cases, write_records
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.images import load_image, save_png
from gnomon.records import Case

MakeDataset = Callable[..., Path]


def with_references(root: Path, *counts: int) -> Path:
    """Give the cases of a dataset so many references, all of them the first one's."""
    cases = [
        case.model_copy(update={"references": case.references[:1] * count})
        for case, count in zip(read_cases(root), counts, strict=True)
    ]
    write_records(root / "cases.jsonl", cases)
    return root


def test_a_case_with_too_many_references_is_not_applicable_and_its_task_stays_blank(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = with_references(make_dataset(6), 1, 2, 1, 3, 1, 2), tmp_path / "run"  # all of "light" have too many
    generator = brightness.NoisyCopy()
    for _ in range(2):
        done = generate(root, run, generator, name="copy", max_references=1, repeats=2, batch_size=4)
        judge(run, brightness.BrightnessJudge())
    assert generator.calls == [["case-0", "case-0", "case-2", "case-2"], ["case-4", "case-4"]]
    candidates = done.candidates()
    assert [candidate.status for candidate in candidates] == ["ok", "ok", "not_applicable", "not_applicable"] * 3
    assert candidates[6].sampling == {"reason": "3 references, and the generator takes at most 1"}
    assert len((run / "candidates.jsonl").read_text().splitlines()) == 12
    results = summarize(run)
    cell = results.judges["brightness"].metrics["brightness"]
    assert results.candidates == {"not_applicable": 6, "ok": 6}
    assert (cell.n_total, cell.n_scored, cell.n_failed, cell.n_na) == (12, 6, 0, 6)
    assert (cell.groups["task"]["light"].value, cell.groups["task"]["light"].n_na) == (None, 6)
    assert cell.macro["task"] == cell.groups["task"]["dark"].value
    assert cell.missing == {"task": ["light"]}


def test_a_generator_without_references_takes_cases_without_any(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root = with_references(make_dataset(2), 0, 1)
    outputs = tmp_path / "outputs"
    save_png(Image.new("RGB", (4, 4)), outputs / "case-0.png")
    done = generate(root, tmp_path / "run", FolderGenerator(outputs), name="text only", max_references=0)
    assert [candidate.status for candidate in done.candidates()] == ["ok", "not_applicable"]


def test_a_folder_is_not_filled_by_two_selections(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(6), tmp_path / "run"
    done = generate(root, run, brightness.NoisyCopy(), name="copy", tasks=["light", "light"], offset=1)
    assert list(done.cases) == ["case-3", "case-5"]
    generate(root, run, brightness.NoisyCopy(), name="copy", tasks=["light"], offset=1)
    judge(run, brightness.BrightnessJudge())
    summarize(run)
    for other in ({"tasks": ["dark"], "offset": 1}, {"tasks": ["light"]}, {}, {"sample_ids": ["case-3", "case-5"]}):
        with pytest.raises(UserError, match=r"config\.(tasks|offset)"):
            generate(root, run, brightness.NoisyCopy(), name="copy", **other)
    with pytest.raises(UserError, match=r"config\.max_references"):
        generate(root, run, brightness.NoisyCopy(), name="copy", tasks=["light"], offset=1, max_references=0)


def test_the_order_in_which_names_are_given_is_no_other_run(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    for ids in (["case-3", "case-0"], ["case-0", "case-3"]):
        done = generate(root, run, brightness.NoisyCopy(), name="copy", sample_ids=ids)
        assert list(done.cases) == ["case-0", "case-3"]


def test_runs_from_before_there_were_selections_go_on(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    config = RunConfig(generator="g", generator_class="c", generator_fingerprint="f", repeats=1, limit=None)
    old = {"generator": "g", "generator_class": "c", "generator_fingerprint": "f", "repeats": 1, "limit": None}
    assert config.identity() == old
    root, run = make_dataset(2), tmp_path / "run"
    done = generate(root, run, brightness.NoisyCopy(), name="copy")
    assert json.loads((run / "manifest.json").read_text())["config"] == done.config.identity()
    settings = json.loads((run / "generate.json").read_text())
    settings["config"] = done.config.identity()  # what an earlier version wrote
    (run / "generate.json").write_text(json.dumps(settings))
    generate(root, run, brightness.NoisyCopy(), name="copy")
    assert BenchRun.read(run).identity == stable_hash([done.config.identity(), 0, done.dataset])


def test_a_generator_sees_the_roles_that_it_is_given_and_judges_see_all(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(2), tmp_path / "run"
    roles = ["background", "identity"]
    cases = [
        case.model_copy(update={"references": [case.references[0].model_copy(update={"role": role}) for role in roles]})
        for case in read_cases(root)
    ]
    write_records(root / "cases.jsonl", cases)
    seen = []

    class Witness(brightness.NoisyCopy):  # type: ignore[misc, name-defined]  # of a module that is only known at run time
        def generate(self, cases: list[Case], references: list[list[Image.Image]], seeds: list[int]) -> object:
            seen.extend([[reference.role for reference in case.references] for case in cases])
            assert [len(pictures) for pictures in references] == [len(case.references) for case in cases]
            return super().generate(cases, references, seeds)

    done = generate(root, run, Witness(), name="copy", reference_roles=["identity", "identity"], max_references=1)
    assert seen == [["identity"]] * 2
    assert [reference.role for reference in done.cases["case-0"].references] == roles
    assert {tuple(candidate.sampling[REFERENCE_ROLES]) for candidate in done.candidates()} == {("identity",)}
    generate(root, run, Witness(), name="copy", reference_roles=["identity"], max_references=1)
    with pytest.raises(UserError, match=r"config\.reference_roles"):
        generate(root, run, Witness(), name="copy", max_references=1)
    with pytest.raises(
        UserError, match=r"role 'backgroud' \(did you mean 'background'\?\); the roles are background, id"
    ):
        generate(root, tmp_path / "other", Witness(), name="copy", reference_roles=["backgroud"])


def test_runs_with_all_references_are_as_they_were(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    done = generate(make_dataset(1), tmp_path / "run", brightness.NoisyCopy(), name="copy")
    assert "reference_roles" not in done.config.identity()
    assert set(done.candidates()[0].sampling) == {"noise_seed", "content_hash"}


@pytest.mark.parametrize("setting", [{"offset": -1}, {"max_references": -1}, {"limit": 0}, {"repeats": 0}])
def test_numbers_that_are_too_small_are_named(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, setting: dict[str, int]
) -> None:
    with pytest.raises(ValueError, match=next(iter(setting))):
        generate(make_dataset(2), tmp_path / "run", brightness.NoisyCopy(), name="copy", **setting)  # type: ignore[arg-type]


def test_runs_that_share_a_selection_are_compared_by_case(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root = with_references(make_dataset(4), 1, 2, 1, 1)
    for name, most in (("one", 1), ("many", None)):
        generate(root, tmp_path / name, brightness.NoisyCopy(), name=name, max_references=most)
        judge(tmp_path / name, brightness.BrightnessJudge())
    change = compare(tmp_path / "one", tmp_path / "many", tmp_path / "compared").judges["brightness"]
    assert (change["brightness"].n_pairs, change["brightness"].n_unpaired) == (3, 1)


@pytest.mark.parametrize("part", [{"limit": 2}, {"tasks": ["dark"], "offset": 1}, {"sample_ids": ["case-5", "case-0"]}])
def test_results_of_a_part_say_of_how_many_cases(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, part: dict[str, Any]
) -> None:
    root, runs = make_dataset(6), [tmp_path / "part", tmp_path / "whole"]
    for run, selection in zip(runs, (part, {}), strict=True):
        generate(root, run, brightness.NoisyCopy(), name="copy", **selection)
        judge(run, brightness.BrightnessJudge())
    results, whole = summarize(runs[0]), summarize(runs[1])
    assert (results.num_cases, results.num_cases_of_dataset, whole.num_cases_of_dataset) == (2, 6, 6)
    assert json.loads((runs[0] / "results.json").read_text())["num_cases_of_dataset"] == 6
    assert "a run of 2 of the dataset's 6 cases" in results_text(results)
    assert "a run of" not in results_text(whole)
    assert "2 of the dataset&#39;s 6 cases of grey, one" in write_run_page(runs[0]).read_text()
    assert "6 cases of grey, one" in write_run_page(runs[1]).read_text()
    board = write_leaderboard_page([runs[0]], tmp_path / "board").read_text()
    assert "partial, 4 cases not in this run" in board

    settings = json.loads((runs[0] / "generate.json").read_text())
    del settings["num_cases_of_dataset"]  # what an earlier version wrote
    (runs[0] / "generate.json").write_text(json.dumps(settings))
    assert summarize(runs[0]).num_cases_of_dataset is None


def test_a_group_where_a_metric_does_not_apply_keeps_its_name_and_counts(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path
) -> None:
    root, run = make_dataset(4), tmp_path / "run"
    listed = {"dark": ["brightness", "redness"], "light": ["brightness"]}
    write_records(
        root / "cases.jsonl", [case.model_copy(update={"metrics": listed[case.task]}) for case in read_cases(root)]
    )
    generate(root, run, brightness.NoisyCopy(), name="copy")
    judge(run, brightness.BrightnessJudge())
    groups = summarize(run).judges["brightness"].metrics["redness"].groups["task"]
    assert {name: (cell.n_scored, cell.n_na, cell.n_total) for name, cell in groups.items()} == {
        "dark": (2, 0, 2),
        "light": (0, 2, 2),
    }
    board = write_leaderboard_page([run], tmp_path / "board", metrics=["redness"]).read_text()
    assert "0 of 2 scored" in board
    assert "2 not applicable" in board


def test_repeats_of_one_picture_are_refused_before_there_is_a_run(make_dataset: MakeDataset, tmp_path: Path) -> None:
    (tmp_path / "outputs").mkdir()
    with pytest.raises(UserError, match="one picture a case; use --repeats 1"):
        generate(make_dataset(1), tmp_path / "run", FolderGenerator(tmp_path / "outputs"), name="mine", repeats=2)
    assert not (tmp_path / "run").exists()


def test_repeats_are_taken_from_a_folder_by_the_run_s_seeds(make_dataset: MakeDataset, tmp_path: Path) -> None:
    root, outputs = make_dataset(2), tmp_path / "outputs"
    for position in range(2):
        for seed in (3, 4):
            save_png(Image.new("RGB", (4, 4), (seed, position, 0)), outputs / f"{seed}/case-{position}.png")
    generator = FolderGenerator(outputs, pattern="{seed}/{case_id}.png")
    done = generate(root, tmp_path / "run", generator, name="mine", seed=3, repeats=2)
    shown = [load_image(tmp_path / "run" / str(candidate.path)).getpixel((0, 0)) for candidate in done.candidates()]
    assert shown == [(3, 0, 0), (4, 0, 0), (3, 1, 0), (4, 1, 0)]
    save_png(Image.new("RGB", (4, 4), "white"), outputs / "4/case-1.png")
    with pytest.raises(UserError, match=r"4/case-1\.png changed since"):
        generate(root, tmp_path / "run", generator, name="mine", seed=3, repeats=2)


def test_pictures_of_cases_that_were_not_selected_are_no_strangers(make_dataset: MakeDataset, tmp_path: Path) -> None:
    root, outputs = make_dataset(3), tmp_path / "outputs"
    for position in range(3):
        save_png(Image.new("RGB", (4, 4)), outputs / f"case-{position}.png")
    generate(root, tmp_path / "run", FolderGenerator(outputs), name="mine", limit=1)
    (outputs / "case-2.png").rename(outputs / "case2.png")
    with pytest.warns(UserWarning, match=r"case2\.png \(nearest case without a picture: 'case-2'\)"):
        generate(root, tmp_path / "run", FolderGenerator(outputs), name="mine", limit=1)


def test_names_that_do_not_fit_are_refused_before_a_run_begins(make_dataset: MakeDataset, tmp_path: Path) -> None:
    root, outputs = make_dataset(2), tmp_path / "outputs"
    outputs.mkdir()
    (tmp_path / "m.csv").write_text("case_id,path\ncase_1,x.png\n")
    with pytest.raises(UserError, match="did you mean 'case-1'"):
        generate(root, tmp_path / "run", FolderGenerator(outputs, mapping=tmp_path / "m.csv"), name="mine")
    with pytest.raises(UserError, match="tells them apart"):
        generate(root, tmp_path / "run", FolderGenerator(outputs, pattern="same"), name="mine")
    assert not (tmp_path / "run").exists()


def test_selections_from_the_command_line(
    make_dataset: MakeDataset, brightness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = with_references(make_dataset(6), 1, 1, 2, 1, 1, 1)

    def run(name: str, *flags: str) -> int:
        common = ["--cases", str(root), "--out", str(tmp_path / name), "--name", "copy"]
        return main(["bench", "generate", *common, "--generator.class_path", "brightness.NoisyCopy", *flags])

    assert run("tasks", "--tasks", "dark,light", "--offset", "1", "--max-references", "1") == 0
    assert "5 candidates of 5 cases" in (printed := capsys.readouterr().out)
    assert ", 0 failed, 1 not applicable" in printed
    assert run("one", "--tasks", "dark") == 0
    assert run("ids", "--sample-ids", "case-1,case-4") == 0
    assert list(BenchRun.read(tmp_path / "ids").cases) == ["case-1", "case-4"]
    (tmp_path / "config.yaml").write_text("tasks: [dark]\nsample_ids: [case-2, case-4]\n")
    assert run("yaml", "--config", str(tmp_path / "config.yaml")) == 0
    assert list(BenchRun.read(tmp_path / "yaml").cases) == ["case-2", "case-4"]
    capsys.readouterr()
    assert run("wrong", "--tasks", "drak") == 1
    assert "no case has the task 'drak' (did you mean 'dark'?); the tasks are dark, light" in capsys.readouterr().err
    assert run("wrong", "--sample-ids", "7") == 1
    assert "no case has the id '7'" in capsys.readouterr().err
    assert not (tmp_path / "wrong").exists()
