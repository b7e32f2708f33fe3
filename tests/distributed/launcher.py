"""Commands on several ranks: real processes, gloo between them, forked from one that has imported everything."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

WORKERS = Path(__file__).parent


class Zygote:
    """A process that has imported everything and forks ranks."""

    def __init__(self, folder: Path) -> None:
        paths = [str(WORKERS), str(WORKERS.parents[1])]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(paths),
            "PYTHONWARNINGS": "ignore",
            "DS_ACCELERATOR": "cpu",
            "OMP_NUM_THREADS": "1",
        }
        for name in ("RANK", "LOCAL_RANK", "NODE_RANK", "WORLD_SIZE"):
            environment.pop(name, None)
        self.folder = folder
        with (folder / "zygote.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(WORKERS / "zygote.py")],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.num_jobs = 0

    def run(
        self, arguments: list[str], *, ranks: int = 1, kill_at: str = "", raise_at: str = ""
    ) -> tuple[list[int], str]:
        """Run `gnomon ARGUMENTS` and return the exit codes of the ranks and what they said."""
        self.num_jobs += 1
        job = {
            "ranks": ranks,
            "arguments": arguments,
            "environment": {"GNOMON_TEST_KILL_AT": kill_at, "GNOMON_TEST_RAISE_AT": raise_at},
            "log": str(self.folder / f"job{self.num_jobs}"),
            "timeout": 900,
        }
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, (self.folder / "zygote.log").read_text()
        logs = [Path(f"{job['log']}.{rank}").read_text() for rank in range(ranks)]
        codes: list[int] = json.loads(answer)
        return codes, "\n----\n".join(logs)


def strategy_flags(name: str) -> list[str]:
    """Return the flags of two ranks under "ddp", "zero2" or "zero3"."""
    if name == "ddp":
        return ["--trainer.devices", "2", "--trainer.strategy", "ddp"]
    if importlib.util.find_spec("deepspeed") is None:
        pytest.skip("deepspeed is not installed: pip install gnomon[deepspeed]")
    prefix = "--trainer.strategy"
    return [
        "--trainer.devices", "2",
        prefix, "cpu_deepspeed.CpuDeepSpeed",
        f"{prefix}.init_args.stage", name.removeprefix("zero"),
    ]  # fmt: skip
