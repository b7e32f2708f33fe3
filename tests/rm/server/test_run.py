"""`gnomon rm serve` as it is typed: a real reward model over a real socket, ended by Ctrl-C."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from PIL import Image

from gnomon.cli import main
from gnomon.errors import UserError
from rm.reward_model import RewardModel
from rm.server.run import run
from rm.service_client import ScoreClient, ScoreTask
from rm.vlm.api import ApiVLM
from rm.vlm.conversation import GenerationParameters, Message
from rm.vlm.local import LocalVLM
from tests.rm.vlm.families import save_checkpoint

Draw = Callable[..., Image.Image]


def test_the_served_scores_are_the_models_and_ctrl_c_ends_it(
    reward_model: RewardModel, make_picture: Draw, tmp_path: Path
) -> None:
    for name, parameter in reward_model.named_parameters():
        if "lora_B" in name:
            parameter.data.normal_(std=0.3, generator=torch.Generator().manual_seed(len(name)))
    reward_model.save_pretrained(tmp_path / "judge")
    with _typed("--model", str(tmp_path / "judge")) as line:
        found = re.search(r"^judge \((.*)\) at (http://127\.0\.0\.1:\d+)$", line)
        assert found, line
        assert tuple(found[1].split(", ")) == reward_model.dimensions
        references, candidates = [make_picture(1), make_picture(2)], [make_picture(k) for k in range(3, 8)]
        tasks = [ScoreTask(str(k), "make it red", references, each) for k, each in enumerate(candidates)]
        results = ScoreClient(found[2]).score(tasks)
    expected = reward_model.score(instruction="make it red", references=references, candidates=candidates).values
    for result, row in zip(results, expected.tolist(), strict=True):
        assert result.scores == pytest.approx(dict(zip(reward_model.dimensions, row, strict=True)), abs=1e-4)


@contextmanager
def _typed(*arguments: str) -> Iterator[str]:
    """Run `gnomon rm serve` and yield its first line."""
    typed = [sys.executable, "-m", "gnomon", "rm", "serve", "--port", "0", *arguments]
    with subprocess.Popen(typed, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) in (0, 130)


def test_a_model_and_a_judge_of_it_are_served_together(make_picture: Draw, tmp_path: Path) -> None:
    base, judge = save_checkpoint("qwen3_vl", tmp_path / "vlm"), tmp_path / "judge.yaml"
    vlm = f"{{class_path: rm.vlm.local.LocalVLM, init_args: {{model: {base}}}}}"
    judge.write_text(
        f"class_path: rm.protocols.rubric.ExpectedScoreJudge\ninit_args: {{metrics: [overall], vlm: {vlm}}}\n"
    )
    conversation = (Message("user", (make_picture(1), "make the circle red", make_picture(2))),)
    with _typed("--judge", str(judge), "--chat", str(base)) as line:
        found = re.search(r"\(overall\) and vlm \(chat\) at (http://[\d.:]+)$", line)
        assert found, line
        (result,) = ScoreClient(found[1]).score([ScoreTask("a", "make it red", [make_picture(1)], make_picture(2))])
        api = ApiVLM(model="vlm", base_url=f"{found[1]}/v1")
        (reply,) = api.generate([conversation], GenerationParameters(max_tokens=5))
    assert result.scores is not None
    assert 1 < result.scores["overall"] < 5
    (expected,) = LocalVLM(base).generate([conversation], GenerationParameters(max_tokens=5))
    assert reply.text == expected.text.strip()


def test_nothing_to_serve_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rm", "serve"]) == 1
    assert "--model, --judge or --chat" in capsys.readouterr().err


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
