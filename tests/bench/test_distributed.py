"""Judging on two ranks ends with the bytes of one: every item once, in the same batches, in the same order."""

from __future__ import annotations

import shutil
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


def _judge(zygote: Zygote, run: Path, judge: list[str], *flags: str, ranks: int = 1, raise_at: str = "") -> list[int]:
    command = ["bench", "judge", "--run", str(run), "--batch-size", "2", *judge, *flags]
    codes, log = zygote.run(command, ranks=ranks, raise_at=raise_at)
    assert raise_at or codes == [0] * ranks, log
    return codes


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
    one, two = (read_records(tmp_path / name / "samples.jsonl", Verdict) for name in ("one", "two"))
    assert len(one) > 7
    assert [verdict.model_copy(update={"seconds": None}) for verdict in two] == [
        verdict.model_copy(update={"seconds": None}) for verdict in one
    ]
    assert (tmp_path / "two" / "results.json").read_bytes() == (tmp_path / "one" / "results.json").read_bytes()


def test_more_ranks_than_batches_and_nothing_left_to_do(zygote: Zygote, generated: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(generated, run)
    _judge(zygote, run, ORACLE, *strategy_flags("ddp"), "--batch-size", "100", ranks=2)
    whole = (run / "samples.jsonl").read_bytes()
    _judge(zygote, run, ORACLE, *strategy_flags("ddp"), ranks=2)
    assert (run / "samples.jsonl").read_bytes() == whole
