"""Run the demo's steps, skip what is finished, and end with `summary.json` and `report.html`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from data_build.demo.page import write_page
from data_build.demo.picture import draw_loop
from data_build.demo.process import load_libraries, run_command
from data_build.demo.steps import Step, demo_steps, input_hashes
from data_build.demo.summary import SUMMARY, summarize, summary_table
from gnomon.images import save_png
from gnomon.runs import RunFolder

MEASURED = "steps.jsonl"
PICTURE = "loop.png"


def run_demo(out: Path, seed: int) -> None:
    """Run all steps into `out`.

    Raises:
        UserError: when a step fails, or the folder belongs to another run or is in use.
        KeyboardInterrupt: on Ctrl-C; the next call goes on.
    """
    console = Console(file=sys.stderr)
    steps = demo_steps(out, seed)
    config = {"steps": [step.name for step in steps]}
    with RunFolder.open(out, command="demo", config=config, seed=seed, inputs=input_hashes()) as run:
        done = {line["name"]: line for line in _lines(run)}
        if len(done) < len(steps):
            console.print(f"gnomon demo: {len(steps)} steps into {out}; loading libraries ...")
            load_libraries()
        for number, step in enumerate(steps, start=1):
            if step.name in done:
                continue
            console.print(f"[bold]\\[{number}/{len(steps)}] {step.title}[/bold]")
            console.print(f"    [dim]{escape(step.command)}[/dim]", soft_wrap=True)
            measured = _run(step, out)
            run.append(measured, MEASURED)
            done[step.name] = measured
            console.print(f"    {measured['seconds']:.0f} s, {measured['peak_memory'] / 2**30:.1f} GiB")
        summary = summarize(out, seed, [done[step.name] for step in steps])
        run.write_json(SUMMARY, summary)
        page = write_page(out, summary, steps)
        save_png(draw_loop(out), out / PICTURE)
    print(summary_table(summary))
    print(f"\nsummary  {out / SUMMARY}\npage     {page}")


def _run(step: Step, out: Path) -> dict[str, Any]:
    measured = run_command(step.argv, out / "logs" / f"{step.name}.log")
    return {"name": step.name, "seconds": round(measured.seconds, 1), "peak_memory": measured.peak_memory}


def _lines(run: RunFolder) -> list[dict[str, Any]]:
    """Return the finished steps; the run folder cut a torn last line when it was opened."""
    path = run.path / MEASURED
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
