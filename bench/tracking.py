"""Results in trackers: a CSV file always, TensorBoard and Weights & Biases by name.

    results.csv         one line a cell: judge, metric, kind of group, group, its value and counts
    logs/tensorboard/   the same as scalars, and examples as pictures with texts
    logs/wandb/         the same, a table of examples with pictures, and config, dataset and results as artifacts
    logs/artifacts/     the files of those artifacts, the pictures of the table among them

A scalar is called `<judge>/<metric>/<kind>/<group>` ("all/all" for all cases), and below it stand `n`, `failed`,
`ci_low` and `ci_high`. What is not known is not logged: there is no zero for it. The step is the number of verdicts,
so that a summary of a run that went on continues its curves. Configs are logged with every secret masked, and nothing
is said of the machine, the environment, the command line or where a dataset lies.
"""

from __future__ import annotations

import csv
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from bench.folder import CASES, GENERATE, RESULTS, BenchRun, GenerateFile, read_json
from bench.report.examples import JudgedRun, evenly_spread, instruction, rationales_of_candidate, scores_of_candidate
from bench.results import Cell, QuestionRate, Results
from gnomon.datasets import resolve
from gnomon.files import atomic_write_text
from gnomon.hashing import to_plain
from gnomon.images import UnreadableImageError, load_image
from gnomon.manifest import mask_secrets, mask_text
from gnomon.optional import require
from gnomon.records import Candidate
from gnomon.runs import read_manifest
from gnomon.tracking import LoggerName, wandb_mode

SCALARS_FILE = "results.csv"
MAX_SIDE = 512  # px of an example's pictures
PROJECT = "gnomon"
STEP = "num_verdicts"
_COUNTS = ("n_total", "n_scored", "n_failed", "n_na", "n_pending", "num_clusters")
_COLUMNS = ("judge", "metric", "kind", "group", "value", "ci_low", "ci_high", *_COUNTS, "failed", "higher_is_better")


def log_results(
    run: BenchRun, results: Results, trackers: Sequence[LoggerName] = (), *, num_examples: int = 12
) -> Path:
    """Write the results of a run to its CSV file and to the trackers, and return the path of the file.

    Called again after more judging, it goes on in the same TensorBoard folder and W&B run.

    Args:
        run: the run.
        results: its results.
        trackers: "tensorboard" and "wandb"; "csv" adds nothing.
        num_examples: cases whose pictures are logged, spread evenly over the run: the same ones every time.

    Raises:
        UserError: when a tracker's package is not installed.
    """
    path = run.path / SCALARS_FILE
    atomic_write_text(path, _csv_text(results))
    if "tensorboard" in trackers:
        _to_tensorboard(JudgedRun.read(run), results, num_examples)
    if "wandb" in trackers:
        _to_wandb(JudgedRun.read(run), results, num_examples)
    return path


def cells(results: Results) -> Iterator[tuple[str, str, str, str, Cell]]:
    """Yield judge, metric, kind of group, group and cell of every number; over all cases both are "all".

    A benchmark's own number is of the kind "final", single people or items of kinds such as "each age"; shares of
    answers to questions are the metrics "questions_yes" and "questions_right", which count answers.
    """
    for judge, of_judge in results.judges.items():
        for metric, result in of_judge.metrics.items():
            yield judge, metric, "all", "all", result
            yield from _of_groups(judge, metric, result.groups)
            slices = {f"each {kind}": by_name for kind, by_name in result.slices.items()}
            yield from _of_groups(judge, metric, slices)
            if result.final is not None:
                yield from _of_groups(judge, metric, {"final": {"all": result.final, **result.final.groups}})
        if of_judge.questions is not None:
            for name in ("yes", "right"):
                rate: QuestionRate = getattr(of_judge.questions, name)
                yield judge, f"questions_{name}", "all", "all", rate
                yield from _of_groups(judge, f"questions_{name}", rate.groups)


def _of_groups(
    judge: str, metric: str, groups: Mapping[str, Mapping[str, Cell]]
) -> Iterator[tuple[str, str, str, str, Cell]]:
    for kind, by_name in groups.items():
        for group, cell in by_name.items():
            yield judge, metric, kind, group, cell


def scalars(results: Results) -> dict[str, float]:
    """Return every number that is known by its name in a tracker."""
    found: dict[str, float] = {}
    for *names, cell in cells(results):
        name = "/".join(part.replace("/", "%2F") for part in names)
        known = {name: cell.value, f"{name}/ci_low": cell.ci_low, f"{name}/ci_high": cell.ci_high}
        found |= {key: value for key, value in known.items() if value is not None}
        found |= {f"{name}/n": cell.n_scored, f"{name}/failed": cell.n_failed}
    return found


def tracked_config(run: BenchRun) -> dict[str, Any]:
    """Return what identifies a run and its judges, with every secret masked."""
    manifest = read_manifest(run.path)
    assert manifest is not None, "a BenchRun was read from it"
    identity = manifest.model_dump(mode="json", include={"command", "config", "seed", "inputs", "versions"})
    generated = read_json(run.path / GENERATE, GenerateFile).model_dump(mode="json", exclude={"cases", "stamp"})
    judges = {judge.name: judge for judge in run.judges()}
    plain = to_plain({"manifest": identity, "generate": generated, "judges": judges})
    masked = mask_secrets(plain)
    assert isinstance(masked, dict)
    return masked


def _csv_text(results: Results) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, _COLUMNS, lineterminator="\n")
    writer.writeheader()
    for judge, metric, kind, group, cell in cells(results):
        known = cell.model_dump(include=set(_COLUMNS) - {"failed"})
        failed = " ".join(f"{status}={count}" for status, count in cell.failed.items())
        names = {"judge": judge, "metric": metric, "kind": kind, "group": group}
        writer.writerow({**known, **names, "failed": failed})
    return buffer.getvalue()


def _num_verdicts(judged: JudgedRun) -> int:
    return sum(len(by_item) for by_item in judged.verdicts.values())


def _examples(judged: JudgedRun, num_examples: int) -> list[Candidate]:
    case_ids = evenly_spread(list(judged.run.cases), num_examples)
    return [candidate for case_id in case_ids for candidate in judged.candidates.get(case_id, [])]


def _pictures(judged: JudgedRun, candidate: Candidate) -> tuple[list[Image.Image | None], Image.Image | None]:
    """Return the references of a candidate and its picture, None for what cannot be shown."""
    run, case = judged.run, judged.run.cases[candidate.case_id]
    references = [_picture(resolve(run.root, reference.path)) for reference in case.references]
    return references, None if candidate.path is None else _picture(resolve(run.path, candidate.path))


def _picture(path: Path) -> Image.Image | None:
    try:
        picture = load_image(path)
    except UnreadableImageError:
        return None
    picture.thumbnail((MAX_SIDE, MAX_SIDE), Image.Resampling.LANCZOS)
    return picture


def _to_tensorboard(judged: JudgedRun, results: Results, num_examples: int) -> None:
    require("tensorboard", feature="the TensorBoard tracker", extra="tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    step = _num_verdicts(judged)
    # One folder for all summaries: TensorBoard joins the event files that lie in one.
    with SummaryWriter(str(judged.run.path / "logs" / "tensorboard" / "bench")) as writer:
        for name, value in scalars(results).items():
            writer.add_scalar(name, value, step)
        config = json.dumps(tracked_config(judged.run), indent=2, ensure_ascii=False)
        writer.add_text("config", _as_code(config), step)
        for candidate in _examples(judged, num_examples):
            name = f"examples/{candidate.case_id}/{candidate.seed}"
            references, picture = _pictures(judged, candidate)
            shown = [one for one in (*references, picture) if one is not None]
            if shown:
                writer.add_image(name, _side_by_side(shown), step, dataformats="HWC")
            writer.add_text(name, _as_code(_example_text(judged, candidate)), step)


def _side_by_side(pictures: Sequence[Image.Image]) -> np.ndarray:
    """Return pictures in one row, from left to right, on white."""
    row = Image.new("RGB", (sum(one.width for one in pictures), max(one.height for one in pictures)), "white")
    left = 0
    for one in pictures:
        row.paste(one, (left, 0))
        left += one.width
    return np.asarray(row)


def _example_text(judged: JudgedRun, candidate: Candidate) -> str:
    case = judged.run.cases[candidate.case_id]
    lines = [f"{case.task}, case {case.id}, seed {candidate.seed}, {candidate.status}", instruction(case)]
    lines += [f"{name}: {value}" for name, value in scores_of_candidate(judged, candidate).items()]
    lines += [f"{name}: {text}" for name, text in rationales_of_candidate(judged, candidate).items()]
    return "\n".join(lines)


def _as_code(text: str) -> str:
    """Return a text as an indented block, which TensorBoard's Markdown leaves as it is."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def _to_wandb(judged: JudgedRun, results: Results, num_examples: int) -> None:
    wandb = require("wandb", feature="the W&B tracker", extra="wandb")
    run = judged.run
    logs = run.path / "logs"
    logs.mkdir(parents=True, exist_ok=True)  # wandb falls back to a temporary folder where this one is missing
    settings = wandb.Settings(
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
        disable_git=True,
        disable_code=True,
        console="off",
    )
    with (
        _staging_in(logs),
        wandb.init(
            id=run.identity[:16],
            resume="allow",
            project=PROJECT,
            name=run.path.resolve().name,
            dir=logs,
            mode=wandb_mode(logs),
            config=tracked_config(run),
            settings=settings,
        ) as tracked,
    ):
        tracked.define_metric("*", step_metric=STEP)
        table, edits = _wandb_examples(wandb, judged, num_examples)
        # The edits once more beside the table: pictures in a table are files of its artifact alone.
        examples = {"examples/table": table, "examples/edits": edits} if table.data else {}
        tracked.log({STEP: _num_verdicts(judged), **scalars(results), **examples})
        _log_artifacts(wandb, tracked, run, results)
    wandb.finish()  # one that is switched off would stay the process's run


@contextmanager
def _staging_in(folder: Path) -> Iterator[None]:
    """Let wandb keep the files of artifacts in `folder` until they are uploaded, which may be on another day."""
    before = os.environ.get("WANDB_DATA_DIR")
    os.environ["WANDB_DATA_DIR"] = str(folder.resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ["WANDB_DATA_DIR"]
        else:
            os.environ["WANDB_DATA_DIR"] = before


def _wandb_examples(wandb: Any, judged: JudgedRun, num_examples: int) -> tuple[Any, list[Any]]:
    """Return a table with a row for each example candidate, and its edits alone."""
    found = [(candidate, *_pictures(judged, candidate)) for candidate in _examples(judged, num_examples)]
    num_references = max((len(references) for _, references, _ in found), default=0)
    metrics = [judged.column(judge, metric) for judge, by_metric in judged.scores.items() for metric in by_metric]
    given = [f"reference_{position + 1}" for position in range(num_references)]
    columns = ["case", "task", "seed", "instruction", *given, "edit", "status", *metrics, "failures", "rationale"]
    table, edits = wandb.Table(columns=columns), []
    for candidate, references, picture in found:
        case, scores = judged.run.cases[candidate.case_id], scores_of_candidate(judged, candidate)
        numbers = [value if isinstance(value := scores.get(metric), float) else None for metric in metrics]
        failures = ", ".join(f"{name}: {value}" for name, value in scores.items() if isinstance(value, str))
        reasons = "\n\n".join(f"{name}: {text}" for name, text in rationales_of_candidate(judged, candidate).items())
        padded = [*references, *[None] * (num_references - len(references))]
        images = [None if one is None else wandb.Image(one) for one in (*padded, picture)]
        about = [case.id, case.task, candidate.seed, instruction(case)]
        table.add_data(*about, *images, candidate.status, *numbers, failures, reasons)
        if picture is not None:
            edits.append(wandb.Image(picture, caption=f"{case.id}, seed {candidate.seed}"))
    return table, edits


def _log_artifacts(wandb: Any, tracked: Any, run: BenchRun, results: Results) -> None:
    sizes = results.model_dump(include={"num_cases", "num_cases_of_dataset"})
    about = {"hash": run.dataset, "benchmarks": results.benchmarks, **sizes}
    dataset = wandb.Artifact(f"dataset-{run.dataset[:12]}", type="dataset", metadata=about)
    dataset.add_file(str(run.path / CASES))
    config = wandb.Artifact(f"config-{run.identity[:16]}", type="config")
    with config.new_file("config.json") as file:
        json.dump(tracked_config(run), file, indent=2)
    made = wandb.Artifact(f"results-{run.identity[:16]}", type="results", metadata={"dataset": run.dataset})
    for name in (RESULTS, SCALARS_FILE):
        with made.new_file(name) as file:
            file.write(mask_text((run.path / name).read_text(encoding="utf-8")))
    for artifact in (dataset, config, made):
        tracked.log_artifact(artifact)
