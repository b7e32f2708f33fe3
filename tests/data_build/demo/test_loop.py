"""The product itself, on three seeds: the judge learns, the editor gets better, a kill changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import Flux2KleinPipeline
from PIL import Image

from data_build.demo.steps import demo_steps, model_folder
from data_build.tabletop.tiny_editor import CALL_ARGUMENTS

pytestmark = pytest.mark.slow
GIBIBYTE = 2**30


def _demo(out: Path, seed: int) -> list[str]:
    return [sys.executable, "-m", "gnomon", "demo", "--out", str(out), "--seed", str(seed)]


def _summary(out: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def _without_timings(summary: dict[str, Any]) -> dict[str, Any]:
    curve = [{k: v for k, v in point.items() if not k.startswith("time/")} for point in summary["curve"]]
    return {**summary, "timings": None, "curve": curve}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("demo") / "seed0"
    subprocess.run(_demo(out, 0), check=True)
    return out


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_loop_closes(seed: int, finished: Path, tmp_path: Path) -> None:
    out = finished if seed == 0 else tmp_path / "demo"
    if seed:
        subprocess.run(_demo(out, seed), check=True)
    summary = _summary(out)

    before, after = (summary["judge"][name]["dimensions"]["overall"]["clear_pairs"] for name in ("before", "after"))
    assert after["strict"] >= 0.85
    assert after["ci_low"] > before["ci_high"]

    success = summary["policy"]["oracle_success"]
    assert success["difference"]["n"] >= 240
    assert success["difference"]["value"] >= 0.10
    assert success["difference"]["ci_low"] > 0

    peak = max(point["validation/oracle/success"] for point in summary["curve"])
    width = success["difference"]["ci_high"] - success["difference"]["value"]
    assert summary["curve"][-1]["validation/oracle/success"] >= peak - width

    assert summary["timings"]["total_seconds"] <= 8 * 60
    assert all(step["peak_memory"] <= 6 * GIBIBYTE for step in summary["timings"]["steps"])
    page = (out / "report.html").read_text()
    assert "http://" not in page
    assert "https://" not in page


def test_a_kill_in_every_step_changes_nothing(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "demo"
    killed = 0
    for step in demo_steps(out, 0):
        process = subprocess.Popen(_demo(out, 0), start_new_session=True)
        log = out / "logs" / f"{step.name}.log"
        while process.poll() is None and not log.exists():
            time.sleep(0.02)
        time.sleep(15.0 if "fit" in step.name else 0.3)
        if process.poll() is None:
            subprocess.run(["kill", "-9", "--", f"-{process.pid}"], check=True)
            assert process.wait() == -signal.SIGKILL
            killed += 1
    subprocess.run(_demo(out, 0), check=True)
    assert killed >= 10
    assert _without_timings(_summary(out)) == _without_timings(_summary(finished))


def test_the_exported_adapter_works_in_the_stock_pipeline(finished: Path) -> None:
    pipeline = Flux2KleinPipeline.from_pretrained(model_folder("editor"))
    pipeline.set_progress_bar_config(disable=True)
    source = Image.open(next((finished / "cases" / "test" / "images").glob("*_source.png")))

    def edit() -> torch.Tensor:
        images: torch.Tensor = pipeline(
            image=source,
            prompt="make the background black",
            num_inference_steps=8,
            generator=torch.Generator().manual_seed(0),
            output_type="pt",
            **CALL_ARGUMENTS,
        ).images
        return images

    plain = edit()
    pipeline.load_lora_weights(finished / "lora")
    assert (edit() - plain).abs().max() > 0.05
