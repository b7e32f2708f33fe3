"""`gnomon rm serve` as it is typed: a real reward model over a real socket, ended by Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image

from gnomon.cli import main
from gnomon.errors import UserError
from rm.reward_model import RewardModel
from rm.server.run import run
from rm.service_client import ScoreClient, ScoreTask

Draw = Callable[..., Image.Image]


def test_the_served_scores_are_the_models_and_ctrl_c_ends_it(
    reward_model: RewardModel, make_picture: Draw, tmp_path: Path
) -> None:
    for name, parameter in reward_model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.3, generator=torch.Generator().manual_seed(len(name)))
    reward_model.save_pretrained(tmp_path / "judge")
    typed = [sys.executable, "-m", "gnomon", "rm", "serve", "--model", str(tmp_path / "judge"), "--port", "0"]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            line = server.stdout.readline()
            found = re.search(r"^judge \((.*)\) at (http://127\.0\.0\.1:\d+)$", line)
            assert found, line
            assert tuple(found[1].split(", ")) == reward_model.dimensions
            references, candidates = [make_picture(1), make_picture(2)], [make_picture(k) for k in range(3, 8)]
            tasks = [ScoreTask(str(k), "make it red", references, each) for k, each in enumerate(candidates)]
            results = ScoreClient(found[2]).score(tasks)
        finally:
            server.send_signal(signal.SIGINT)
        code = server.wait(timeout=30)
    assert code in (0, 130)
    expected = reward_model.score(instruction="make it red", references=references, candidates=candidates).values
    for result, row in zip(results, expected.tolist(), strict=True):
        assert result.scores == pytest.approx(dict(zip(reward_model.dimensions, row, strict=True)), abs=1e-4)


def _load() -> None:
    raise AssertionError("nothing may be loaded before the settings are known to be right")


def test_a_taken_port_is_said_before_anything_is_loaded() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(UserError, match=f"cannot listen at 127.0.0.1:{port}.*choose another"):
            run(_load, port=port)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size"),
        ({"max_wait": -1.0}, "max_wait"),
        ({"queue_size": 5}, "queue_size of at least"),
        ({"api_key_variable": "NO_SUCH_KEY"}, "environment variable"),
        ({"api_key_variable": "sk-123"}, "NAME"),
        ({"port": 99999}, "cannot listen"),
        ({"host": "256.0.0.1"}, "cannot listen"),
    ],
)
def test_settings_that_cannot_work_are_refused_first(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(_load, **options)  # type: ignore[arg-type]


def test_a_missing_model_is_an_error_and_no_traceback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["rm", "serve", "--model", str(tmp_path / "nowhere"), "--port", "0"]) == 1
    assert "nowhere" in capsys.readouterr().err
