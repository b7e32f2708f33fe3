"""Judging on two ranks ends with the bytes of one: every item once, in the same batches, in the same order."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from bench.generators import FolderGenerator, file_stem
from bench.workflow import generate, summarize
from data_build.demo.steps import model_folder
from data_build.tabletop.cases import build_cases
from gnomon.datasets import read_cases
from gnomon.jsonl import read_records
from gnomon.records import Verdict
from rm.reward_model import RewardModel
from tests.distributed.launcher import Zygote, strategy_flags

ORACLE = ["--judge.class_path", "data_build.tabletop.judging.OracleJudge"]
strategies = pytest.mark.parametrize("strategy", ["ddp", "zero2", "zero3"])


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seven cases whose sources are their outputs; one is missing."""
    folder = tmp_path_factory.mktemp("generated")
    build_cases(folder / "cases", num=7, seed=0, split="test")
    (folder / "outputs").mkdir()
    cases = read_cases(folder / "cases")
    for case in cases[1:]:
        shutil.copy(folder / "cases" / case.references[0].path, folder / "outputs" / f"{file_stem(case.id)}.png")
    generate(folder / "cases", folder / "run", FolderGenerator(folder / "outputs"), name="sources")
    return folder / "run"


@pytest.fixture(scope="module")
def reward_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("judge") / "model"
    RewardModel.from_base(model_folder("judge"), seed=1).save_pretrained(folder)
    return folder


def _judge(zygote: Zygote, run: Path, judge: list[str], *flags: str, ranks: int = 1, kill_at: str = "") -> list[int]:
    command = ["bench", "judge", "--run", str(run), "--batch-size", "2", *judge, *flags]
    codes, log = zygote.run(command, ranks=ranks, kill_at=kill_at)
    assert kill_at or codes == [0] * ranks, log
    return codes


def _verdicts(run: Path) -> list[Verdict]:
    """Return the lines in their order, without how long each took."""
    return [line.model_copy(update={"seconds": None}) for line in read_records(run / "samples.jsonl", Verdict)]


@strategies
def test_two_ranks_write_what_one_does(
    strategy: str, zygote: Zygote, generated: Path, reward_model: Path, tmp_path: Path
) -> None:
    model = ["--judge.class_path", "rm.judge.RewardModelJudge", "--judge.init_args.model", str(reward_model)]
    for name, flags, ranks in (("one", [], 1), ("two", strategy_flags(strategy), 2)):
        shutil.copytree(generated, tmp_path / name)
        for judge in (ORACLE, model):
            _judge(zygote, tmp_path / name, judge, *flags, ranks=ranks)
        summarize(tmp_path / name)
    one, two = (_verdicts(tmp_path / name) for name in ("one", "two"))
    assert len(one) > 7
    assert two == one
    assert (tmp_path / "two" / "results.json").read_bytes() == (tmp_path / "one" / "results.json").read_bytes()


def test_more_ranks_than_batches_and_nothing_left_to_do(zygote: Zygote, generated: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(generated, run)
    _judge(zygote, run, ORACLE, *strategy_flags("ddp"), "--batch-size", "100", ranks=2)
    whole = (run / "samples.jsonl").read_bytes()
    _judge(zygote, run, ORACLE, *strategy_flags("ddp"), ranks=2)
    assert (run / "samples.jsonl").read_bytes() == whole


@pytest.mark.parametrize("strategy", ["ddp", "zero2"])
def test_two_ranks_that_died_while_judging_go_on_where_they_were(
    strategy: str, zygote: Zygote, generated: Path, tmp_path: Path
) -> None:
    dying, flags = ["--judge.class_path", "cpu_deepspeed.DyingOracle"], strategy_flags(strategy)
    for name in ("whole", "killed"):
        shutil.copytree(generated, tmp_path / name)
    _judge(zygote, tmp_path / "whole", dying, *flags, ranks=2)
    whole = _verdicts(tmp_path / "whole")
    assert -signal.SIGKILL in _judge(zygote, tmp_path / "killed", dying, *flags, ranks=2, kill_at="judge:0:1")
    kept = _verdicts(tmp_path / "killed")
    assert 0 < len(kept) < len(whole)
    assert whole[: len(kept)] == kept
    _judge(zygote, tmp_path / "killed", dying, *flags, ranks=2)
    assert _verdicts(tmp_path / "killed") == whole
