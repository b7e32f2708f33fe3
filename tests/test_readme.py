"""Every command of the README is run, in its order and with the smallest numbers, and its Python block too."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from gnomon.cli import main

REPOSITORY = Path(__file__).resolve().parent.parent
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", (REPOSITORY / "README.md").read_text(encoding="utf-8"), flags=re.DOTALL)
COMMANDS = [
    shlex.split(line.removeprefix("gnomon "))
    for language, block in BLOCKS
    if not language
    for line in block.splitlines()
    if line.startswith("gnomon ")
]
SMALL = {
    ("data", "build"): ["--num", "6"],
    ("data", "sample-preferences"): ["--limit", "4", "--num_candidates", "3"],
    ("rm", "fit"): ["--trainer.max_steps", "2", "--trainer.val_check_interval", "1", "--data.batch_size", "2"],
    ("rl", "fit"): [
        *("--trainer.max_epochs", "1", "--trainer.accumulate_grad_batches", "1", "--model.rollout.num_prompts", "2"),
        *("--model.rollout.num_candidates", "2", "--model.rollout.micro_batch_size", "4"),
        *("--model.rollout.window_size", "1", "--trainer.check_val_every_n_epoch", "1"),
    ],
    ("bench", "generate"): ["--limit", "3"],
}
"""What is added to a command to make it short; the last value of a flag counts."""


def test_the_blocks_are_those_of_the_three_kinds_of_users() -> None:
    assert {command[0] for command in COMMANDS} == {"data", "rm", "rl", "bench"}
    assert [language for language, _ in BLOCKS].count("python") == 1


def test_every_command_and_the_python_block_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("configs", "data_build"):
        (tmp_path / name).symlink_to(REPOSITORY / name)
    for command in COMMANDS:
        code = main([*command, *SMALL.get((command[0], command[1]), [])])
        assert code == 0, f"{' '.join(command)}\n{capsys.readouterr().err}"
    (python,) = [block for language, block in BLOCKS if language == "python"]
    names: dict[str, object] = {}
    exec(python, names)
    assert "pipeline" in names
    assert (tmp_path / "runs" / "bench" / "base" / "report.html").exists()


def test_every_link_to_a_file_leads_somewhere() -> None:
    text = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert links
    assert [link for link in links if not (REPOSITORY / link).exists()] == []
