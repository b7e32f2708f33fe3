"""The product itself, on three seeds: the judge learns, the editor gets better, a kill changes nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import Flux2KleinPipeline
from PIL import Image

from data_build.demo.steps import config_file, demo_steps, model_folder
from data_build.tabletop.tiny_editor import CALL_ARGUMENTS

pytestmark = pytest.mark.slow
GIBIBYTE = 2**30


def _demo(out: Path, seed: int) -> list[str]:
    return [sys.executable, "-m", "gnomon", "demo", "--out", str(out), "--seed", str(seed)]


def _gnomon(*argv: str) -> None:
    subprocess.run([sys.executable, "-m", "gnomon", *argv], check=True)


def _summary(out: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((out / "summary.json").read_text())
    return summary


def _without_timings(summary: dict[str, Any]) -> dict[str, Any]:
    curve = [{k: v for k, v in point.items() if not k.startswith("time/")} for point in summary["curve"]]
    return {**summary, "timings": None, "curve": curve}


@pytest.fixture(scope="module")
def demo_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    folder = tmp_path_factory.mktemp("demo")

    @cache
    def run(seed: int) -> Path:
        out: Path = folder / f"seed{seed}"
        subprocess.run(_demo(out, seed), check=True)
        return out

    return run


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_loop_closes(seed: int, demo_of: Callable[[int], Path]) -> None:
    out = demo_of(seed)
    summary = _summary(out)

    before, after = (summary["judge"][name]["dimensions"]["overall"]["clear_pairs"] for name in ("before", "after"))
    assert after["strict"] >= 0.85
    assert after["ci_low"] > before["ci_high"]

    success = summary["policy"]["oracle_success"]
    assert success["difference"]["n"] >= 240
    assert success["difference"]["value"] >= 0.10
    assert success["difference"]["ci_low"] > 0
    assert summary["policy"]["oracle_overall"]["difference"]["ci_low"] > 0

    peak = max(point["validation/oracle/success"] for point in summary["curve"])
    width = success["difference"]["ci_high"] - success["difference"]["value"]
    assert summary["curve"][-1]["validation/oracle/success"] >= peak - width

    assert summary["timings"]["total_seconds"] <= 8 * 60
    assert all(step["peak_memory"] <= 6 * GIBIBYTE for step in summary["timings"]["steps"])
    page = (out / "report.html").read_text()
    assert "http://" not in page
    assert "https://" not in page


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_diffusion_nft_steers_by_the_same_judge(seed: int, demo_of: Callable[[int], Path], tmp_path: Path) -> None:
    demo, policy, after = demo_of(seed), tmp_path / "policy", tmp_path / "after"
    editor = ["--generator.init_args.model", str(model_folder("editor"))]
    recipe = ["--config", str(config_file("rl/tabletop_nft.yaml")), "--seed_everything", str(seed)]
    data = [f"--data.{split}={demo}/cases/{split}" for split in ("train", "validation")]
    judge = f"--model.reward.init_args.model={demo}/judge/model"
    _gnomon("rl", "fit", *recipe, "--model.generator.init_args.model", editor[1], judge, *data, "--out", str(policy))
    _gnomon("rl", "export", str(policy), str(tmp_path / "lora"))
    recipe = ["--config", str(config_file("bench/tabletop_generate.yaml")), "--seed", str(seed), "--name", "after"]
    lora = ["--generator.init_args.lora", str(tmp_path / "lora")]
    _gnomon("bench", "generate", *recipe, "--cases", f"{demo}/cases/test", *editor, *lora, "--out", str(after))
    _gnomon("bench", "judge", "--run", str(after), "--judge.class_path", "data_build.tabletop.judging.OracleJudge")
    _gnomon("bench", "summarize", "--run", str(after))
    out = tmp_path / "compared"
    _gnomon("bench", "compare", "--before", f"{demo}/bench/before", "--after", str(after), "--out", str(out))

    oracle = json.loads((out / "comparison.json").read_text())["judges"]["oracle"]
    for metric in ("overall", "success"):
        assert oracle[metric]["n_pairs"] == 240
        assert oracle[metric]["ci_low"] > 0


def test_a_kill_in_every_step_changes_nothing(demo_of: Callable[[int], Path], tmp_path: Path) -> None:
    finished, out = demo_of(0), tmp_path / "demo"
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


def test_the_exported_adapter_works_in_the_stock_pipeline(demo_of: Callable[[int], Path]) -> None:
    finished = demo_of(0)
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
