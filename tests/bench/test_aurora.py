"""The whole way on real pictures: cases, outputs in a folder, two judges, numbers, a page, a comparison."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench.placement import file_stem
from bench.results import Results, RunComparison
from data_build.demo.steps import model_folder
from gnomon.cli import main
from gnomon.datasets import CASES, write_records
from gnomon.records import Case, Reference, Text
from rm.reward_model import RewardModel

COIN = """
judge:
  class_path: rm.protocols.rubric.RubricJudge
  init_args:
    metrics: [overall]
    name: coin
    vlm:
      class_path: rm.vlm.scripted.ScriptedVLM
      init_args:
        rule: random
        answers: ['{"reason": "<b>heads</b>", "score": 8}', '{"reason": "tails", "score": 2}', 'no JSON']
"""


@pytest.fixture
def aurora(golden_data: Path, tmp_path: Path) -> Path:
    """Write cases, and as outputs the true edits (four have none) and the unedited inputs."""
    source = golden_data / "AURORA-pairs"
    if not source.is_dir():
        pytest.skip(f"no AURORA pairs in {golden_data}")
    cases = []
    for number, row in enumerate(json.loads((source / "test_subset.json").read_text())):
        path = row["input"]
        case = Case(
            id=f"aurora/{number:02d}",
            benchmark="aurora",
            task=row["task"],
            instruction=Text(en=row["instruction"]),
            references=[Reference(path=path)],
        )
        for folder, file in (("true", row.get("output")), ("unedited", path)):
            if file is not None:
                target = tmp_path / folder / f"{file_stem(case.id)}{Path(file).suffix}"
                target.parent.mkdir(exist_ok=True)
                shutil.copy(source / file, target)
        (tmp_path / "cases" / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / path, tmp_path / "cases" / path)
        cases.append(case)
    write_records(tmp_path / "cases" / CASES, cases)
    return tmp_path


def test_real_pictures_go_all_the_way(aurora: Path) -> None:
    RewardModel.from_base(model_folder("judge"), seed=3).save_pretrained(aurora / "judge")
    (aurora / "coin.yaml").write_text(COIN)
    model = ["--judge.class_path", "rm.judge.RewardModelJudge", "--judge.init_args.model", str(aurora / "judge")]
    generator = ["--generator.class_path", "bench.generators.FolderGenerator", "--generator.folder"]
    for name in ("unedited", "true"):
        run = str(aurora / f"run-{name}")
        cases = ["--cases", str(aurora / "cases"), "--out", run, "--name", name]
        assert main(["bench", "generate", *cases, *generator, str(aurora / name)]) == 0
        assert main(["bench", "judge", "--run", run, *model]) == 0
        assert main(["bench", "judge", "--run", run, "--config", str(aurora / "coin.yaml")]) == 0
        assert main(["bench", "summarize", "--run", run]) == 0
    results = Results.model_validate_json((aurora / "run-true" / "results.json").read_bytes())
    assert results.candidates == {"missing_output": 4, "ok": 12}
    overall = results.judges["judge"].metrics["overall"]
    assert (overall.n_total, overall.n_scored, overall.failed) == (16, 12, {"missing_output": 4})
    assert set(results.judges) == {"coin", "judge"}
    coin = results.judges["coin"].metrics["overall"]
    assert coin.n_scored + coin.failed["parse_error"] == 12

    runs = [str(aurora / f"run-{name}") for name in ("unedited", "true")]
    assert main(["bench", "compare", "--before", runs[0], "--after", runs[1], "--out", str(aurora / "compared")]) == 0
    comparison = RunComparison.model_validate_json((aurora / "compared" / "comparison.json").read_bytes())
    change = comparison.judges["judge"]["overall"]
    assert (change.n_pairs, change.n_unpaired) == (12, 4)
    assert main(["bench", "report", "--run", *runs, "--out", str(aurora / "board")]) == 0
    page = (aurora / "board" / "report.html").read_text()
    assert "&lt;b&gt;heads&lt;/b&gt;" in page
    assert "<b>heads" not in page
