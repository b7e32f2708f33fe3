"""MDMR-Bench from the command line: a judge of questions, numbers; interrupted, on two ranks, in other ways."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import yaml
from PIL import Image

from bench.folder import BenchRun
from bench.generators import FolderGenerator
from bench.mdmr.cases import FAMILIES, WEIGHTS
from bench.results import Results
from bench.workflow import generate, judge, summarize
from gnomon.cli import main
from gnomon.images import save_png
from gnomon.jsonl import read_records
from gnomon.records import Case, Verdict
from rm.protocols.checklist import ChecklistJudge
from rm.protocols.controls import ConstantJudge
from rm.vlm.scripted import ScriptedVLM
from tests.distributed.launcher import Zygote, strategy_flags

REPLIES = ['{"reason": "it is there", "answer": "Y"}', "Yes", '{"reason": "it is not", "answer": "N"}', "I cannot say"]
Write = Callable[[Sequence[Case]], Path]


@pytest.fixture
def cases(make_case: Callable[..., Case]) -> list[Case]:
    """Two cases of each family, with up to three references; one asks about nothing but quality."""
    found = [
        make_case(f"{family}-{number}", family, subtasks[0], 1 + place % 3, **dict.fromkeys(WEIGHTS, 2))
        for place, (family, subtasks) in enumerate(FAMILIES.items())
        for number in range(2)
    ]
    return [*found[:-1], make_case("last", "visual_reasoning", FAMILIES["visual_reasoning"][0], quality=1)]


@pytest.fixture
def run(cases: list[Case], write_dataset: Write, tmp_path: Path) -> Path:
    """A run with a picture for every case but the first."""
    for place, case in enumerate(cases[1:]):
        save_png(Image.new("RGB", (24, 24), (place, 90, 200)), tmp_path / "outputs" / f"{case.id}.png")
    generate(write_dataset(cases), tmp_path / "run", FolderGenerator(tmp_path / "outputs"), name="mine")
    return tmp_path / "run"


@pytest.fixture
def judge_yaml(tmp_path: Path) -> Path:
    """A judge that answers at random, or unreadably."""
    vlm = {"class_path": "rm.vlm.scripted.ScriptedVLM", "init_args": {"rule": "random", "answers": REPLIES}}
    file = tmp_path / "judge.yaml"
    settings = {"class_path": "rm.protocols.checklist.ChecklistJudge", "init_args": {"name": "dice", "vlm": vlm}}
    file.write_text(yaml.safe_dump(settings))
    return file


def results_of(run: Path) -> Results:
    return Results.model_validate_json((run / "results.json").read_text())


def test_all_steps_from_the_command_line(
    run: Path, judge_yaml: Path, cases: list[Case], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "judge", "--run", str(run), "--judge", str(judge_yaml)]) == 0
    num_questions = sum(len(case.questions) for case in cases)
    assert f"by dice: {num_questions} verdicts" in capsys.readouterr().out
    assert main(["bench", "summarize", "--run", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "final: their mean" in printed
    assert "10 missing_output" in printed
    usual = results_of(run).judges["dice"]
    assert list(usual.metrics) == [*WEIGHTS, "overall"]
    assert usual.metrics["overall"].failed["missing_output"] == 1
    assert usual.metrics["overall"].n_failed + usual.metrics["overall"].n_scored == 10
    assert (usual.metrics["following"].n_na, usual.metrics["quality"].n_na) == (1, 0)
    assert usual.questions is not None
    assert usual.questions.yes.n_total == num_questions
    assert usual.questions.yes.failed["missing_output"] == 10
    assert usual.questions.yes.failed["parse_error"] > 0

    assert main(["bench", "summarize", "--run", str(run), "--as-no", "--strict"]) == 0
    assert "a lower bound" in capsys.readouterr().out
    other = results_of(run)
    assert other.scoring.as_no
    assert other.scoring.strict
    overall = other.judges["dice"].metrics["overall"]
    assert (overall.n_na, overall.n_failed) == (1, 0)  # the last case, and none
    assert other.judges["dice"].questions == usual.questions
    # A page goes by the same, with the numbers of the last summary.
    assert main(["bench", "report", "--run", str(run)]) == 0
    assert results_of(run) == other
    rows = (run / "results.csv").read_text().splitlines()
    assert any(row.startswith("dice,overall,final,all,") for row in rows)
    assert any(row.startswith("dice,questions_right,dimension,quality,") for row in rows)


def test_runs_scored_in_different_ways_are_not_put_together(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    shutil.copytree(run, other)
    for folder in (run, other):
        judge(folder, ConstantJudge())
    assert main(["bench", "summarize", "--run", str(other), "--as-no"]) == 0
    compared = ["bench", "compare", "--before", str(run), "--after", str(other), "--out", str(tmp_path / "compared")]
    board = ["bench", "report", "--run", str(run), str(other), "--out", str(tmp_path / "board")]
    for command in (compared, board):
        assert main(command) == 1
        assert "summarized with no flags" in capsys.readouterr().err
    assert main(["bench", "summarize", "--run", str(run), "--as-no"]) == 0
    assert main(compared) == 0
    assert json.loads((tmp_path / "compared/comparison.json").read_text())["scoring"] == {
        "as_no": True,
        "strict": False,
    }
    assert main(board) == 0


def test_controls_reach_what_they_must(run: Path, cases: list[Case]) -> None:
    for control in (ConstantJudge("yes"), ConstantJudge("no")):
        judge(run, control)
    found = summarize(run).judges
    assert {name: one.metrics["overall"].value for name, one in found.items()} == {"always-yes": 1.0, "always-no": 0.0}
    assert {name: one.questions.yes.value for name, one in found.items() if one.questions} == {
        "always-yes": 1.0,
        "always-no": 0.0,
    }
    assert found["always-yes"].metrics["overall"].failed == {"missing_output": 1}


def test_judging_goes_on_after_a_kill_with_the_same_lines(run: Path, tmp_path: Path) -> None:
    def dice() -> ChecklistJudge:
        return ChecklistJudge(ScriptedVLM("random", answers=REPLIES[:3]), name="dice")

    killed = tmp_path / "killed"
    shutil.copytree(run, killed)
    judge(run, dice(), batch_size=2)
    judge(killed, dice(), batch_size=2)
    lines = (killed / "samples.jsonl").read_text().splitlines(keepends=True)
    (killed / "samples.jsonl").write_text("".join(lines[:37]) + lines[37][:50])
    judge(killed, dice(), batch_size=2)

    def without_times(folder: Path) -> list[Verdict]:
        return [one.model_copy(update={"seconds": None}) for one in read_records(folder / "samples.jsonl", Verdict)]

    assert without_times(killed) == without_times(run)
    assert summarize(killed) == summarize(run)


def test_two_ranks_write_what_one_does(run: Path, judge_yaml: Path, zygote: Zygote, tmp_path: Path) -> None:
    command = ["--judge", str(judge_yaml), "--batch-size", "2"]
    for name, flags, ranks in (("one", [], 1), ("two", strategy_flags("ddp"), 2)):
        shutil.copytree(run, tmp_path / name)
        codes, log = zygote.run(["bench", "judge", "--run", str(tmp_path / name), *command, *flags], ranks=ranks)
        assert codes == [0] * ranks, log
        summarize(tmp_path / name)
    assert (tmp_path / "two" / "results.json").read_bytes() == (tmp_path / "one" / "results.json").read_bytes()
    verdicts = BenchRun.read(tmp_path / "two").verdicts()
    assert sum(len(by_item) for by_item in verdicts.values()) == 9 * 10 + 1
    assert BenchRun.read(tmp_path / "two").short_verdicts() == {
        key: {item: (one.value, one.status, one.served_by, one.prompt_hash) for item, one in by_item.items()}
        for key, by_item in verdicts.items()
    }


def test_a_broken_folder_of_cases_is_named(
    make_case: Callable[..., Case], write_dataset: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    good = make_case("good", **dict.fromkeys(WEIGHTS, 1))
    asked = [good.questions[0].model_copy(update={"id": "x", "dimension": "taste", "about": ["reference-3", "colour"]})]
    bad = good.model_copy(update={"id": "bad", "subtask": "pose", "questions": asked, "meta": {"colour": "red"}})
    empty = good.model_copy(update={"id": "empty", "task": "fusion", "questions": []})
    assert main(["bench", "validate", "--cases", str(write_dataset([good, bad, empty]))]) == 1
    printed = capsys.readouterr().out
    for text in (
        "case 'bad': expected one of people",
        "question 'x': expected one of the dimensions",
        "got 'reference-3'",
        "got 'colour'",
        "case 'bad': expected meta",
        "case 'empty': expected one of the families",
        "case 'empty': expected a checklist",
    ):
        assert text in printed
    assert "case 'good'" not in printed
