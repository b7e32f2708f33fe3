"""A judge's file names any class that judges; whatever is wrong with it is said with the file's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnomon.errors import UserError
from rm.judge_config import read_judge
from rm.protocols.pairwise import PairwiseJudge
from rm.protocols.rubric import ExpectedScoreJudge, RubricJudge

VLM = "{class_path: rm.vlm.scripted.ScriptedVLM, init_args: {rule: always_yes}}"


def _written(folder: Path, text: str) -> Path:
    (folder / "judge.yaml").write_text(text)
    return folder / "judge.yaml"


@pytest.mark.parametrize(
    ("name", "settings", "kind"),
    [
        ("rubric.RubricJudge", "scale: [1, 5], language: zh, ", RubricJudge),
        ("rubric.ExpectedScoreJudge", "scale: [0, 5], ", ExpectedScoreJudge),
        ("pairwise.PairwiseJudge", "parameters: {max_tokens: 64, thinking: true}, ", PairwiseJudge),
    ],
)
def test_any_judge_can_be_named(tmp_path: Path, name: str, settings: str, kind: type) -> None:
    text = f"class_path: rm.protocols.{name}\ninit_args: {{{settings}vlm: {VLM}}}\n"
    assert isinstance(read_judge(_written(tmp_path, text)), kind)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "YAML"),
        ("a judge", "class_path and init_args"),
        ("class_path: nowhere.Judge", "dotted name"),
        ("class_path: rm.protocols.rubric.NoJudge", "dotted name"),
        ("class_path: pathlib.Path", "method judge or compare"),
        (f"class_path: rm.protocols.rubric.RubricJudge\ninit_args: {{vlm: {VLM}, colour: red}}", "colour"),
        ("class_path: rm.protocols.rubric.RubricJudge\ninit_args: {}", "vlm"),
    ],
)
def test_what_is_no_judge_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read_judge(_written(tmp_path, text))
    assert "judge.yaml" in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no-such"):
        read_judge(tmp_path / "no-such.yaml")
