"""`gnomon rm eval --rubrics`: a run folder for each form, compared with the first, and every refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gnomon.cli import main

Write = Callable[..., Path]
JUDGE = """\
class_path: rm.protocols.{kind}
init_args:
  vlm:
    class_path: rm.vlm.scripted.ScriptedVLM
    init_args:
      rule: random
      answers: ['{{"score": [3, 8]}}', '{{"score": [9, 5]}}', '{{"score": 4}}', '{{"winner": "A"}}']
"""


@pytest.fixture
def flags(write_comparisons: Write, tmp_path: Path) -> list[str]:
    """Flags of an evaluation with the judge file `judge.yaml`."""
    (tmp_path / "judge.yaml").write_text(JUDGE.format(kind="rubric.RubricJudge"))
    root = write_comparisons(tmp_path / "data", 6)
    return ["rm", "eval", "--judge", str(tmp_path / "judge.yaml"), "--data", str(root), "--out", str(tmp_path / "run")]


def test_each_form_has_its_run_and_is_compared_with_the_first(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert main([*flags, "--rubrics", "ours,viescore-style"]) == 0
    found = {
        name: json.loads((tmp_path / "run" / name / "results.json").read_text()) for name in ("ours", "viescore-style")
    }
    assert found["ours"]["judge"] == "rubric (scripted random)"
    assert found["viescore-style"]["judge"] == "rubric (scripted random), viescore-style"
    assert found["ours"]["data_hash"] == found["viescore-style"]["data_hash"]
    assert found["ours"]["statuses"] != found["viescore-style"]["statuses"]
    assert "against" not in found["ours"]
    against = found["viescore-style"]["against"]
    assert against["run"] == str(tmp_path / "run" / "ours")
    row = against["tie_rule"]["average"]
    assert row["n"] + row["left_out"] == 6 * 3 * 4
    samples = [json.loads(line) for line in (tmp_path / "run/viescore-style/samples.jsonl").read_text().splitlines()]
    assert {score for sample in samples for score in sample["scores"]} == {3, 5, None}  # the lower of both scores
    assert "micro average, tie rule" in capsys.readouterr().out
    compared = ["rm", "compare", "--out", str(tmp_path / "compared"), "--runs"]
    assert main([*compared, *(str(tmp_path / "run" / name) for name in found)]) == 0


def test_one_form_may_be_compared_with_another_judge(flags: list[str], tmp_path: Path) -> None:
    assert main(flags) == 0
    extra = ["--out", str(tmp_path / "short"), "--rubrics", "viescore-style", "--against", str(tmp_path / "run")]
    assert main([*flags, *extra]) == 0
    results = json.loads((tmp_path / "short/viescore-style/results.json").read_text())
    assert results["against"]["run"] == str(tmp_path / "run")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--rubrics", "ours,short"], "each of ours, viescore-style at most once as --rubrics, got 'ours,short'"),
        (["--rubrics", "ours,ours"], "at most once"),
        (["--rubrics", ""], "got ''"),
        (["--rubrics", "ours,viescore-style", "--against", "x"], "expected --against or several --rubrics, got both"),
        (["--rubrics", "ours", "--judge", "random"], "random has no other rubrics; leave --rubrics out"),
        (["--rubrics", "ours", "--judge", "{folder}/pairwise.PairwiseJudge.yaml"], "pairwise (scripted random) has no"),
        (
            ["--rubrics", "ours", "--judge", "{folder}/rubric.ExpectedScoreJudge.yaml"],
            "rm.protocols.rubric.RubricJudge",
        ),
    ],
)
def test_what_does_not_apply_is_refused_before_a_folder_is_made(
    flags: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], extra: list[str], message: str
) -> None:
    for kind in ("pairwise.PairwiseJudge", "rubric.ExpectedScoreJudge"):
        (tmp_path / f"{kind}.yaml").write_text(JUDGE.format(kind=kind))
    assert main([*flags, *(text.format(folder=tmp_path) for text in extra)]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
