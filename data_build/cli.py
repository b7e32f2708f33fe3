"""The commands under `gnomon data`: thin shells; whatever is heavy is imported inside."""

from __future__ import annotations

from collections.abc import Callable
from json import dumps
from pathlib import Path
from typing import Any, Literal

from jsonargparse.typing import PositiveInt

from data_build.cogcanvas.cli import build_cogcanvas
from data_build.mdmr.cli import build_mdmr
from gnomon.cli import underscored
from gnomon.errors import UserError
from gnomon.files import atomic_write_text
from gnomon.hashing import to_plain

MOST_PROBLEMS = 20
"""So many are printed; all are in a file."""


def build(argv: list[str]) -> None:
    """Build a dataset folder: `gnomon data build NAME ...`, one subcommand for each of `BUILDERS`.

    Args:
        argv: the arguments after `gnomon data build`.

    Raises:
        UserError: from the builder.
        SystemExit: with 2 for an unknown builder or a wrong command line.
    """
    from jsonargparse import auto_cli

    auto_cli(BUILDERS, args=underscored(argv), prog="gnomon data build", allow_abbrev=False)


def import_dataset(argv: list[str]) -> None:
    """Import a public preference set, or a benchmark's cases: `gnomon data import NAME --from DIR --out DIR`.

    Args:
        argv: the arguments after `gnomon data import`.

    Raises:
        UserError: see :func:`data_build.importers.shell.import_dataset`.
        SystemExit: with 2 for an unknown set or a wrong command line.
    """
    from jsonargparse import ArgumentParser

    from data_build.importers.shell import PROBLEMS
    from data_build.importers.shell import import_dataset as run_import
    from data_build.importers.table import IMPORTERS

    parser = ArgumentParser(
        prog="gnomon data import",
        description="Import a public preference set, or a benchmark's cases.",
        allow_abbrev=False,
    )
    parser.add_argument("name", choices=list(IMPORTERS), help="which set")
    parser.add_argument("--from", type=Path, required=True, help="folder with its files and pictures, or one file")
    parser.add_argument("--out", type=Path, required=True, help="dataset folder to write")
    parser.add_argument("--limit", type=PositiveInt | None, default=None, help="read only the first rows")
    given = parser.parse_args(underscored(argv))
    done = run_import(given.name, IMPORTERS[given.name], given["from"], given.out, limit=given.limit)
    made = f"{done.num_cases} cases" if done.num_cases else f"{done.num_comparisons} comparisons"
    print(f"{made} of {done.num_rows} rows in {given.out}")
    for file, reason in IMPORTERS[given.name].left_out.items():
        print(f"never read: {file}; {reason}")
    if done.num_left_out:
        shown = ", ".join(f"{status} {count}" for status, count in done.num_left_out.items())
        print(f"rows left out: {shown}; see {given.out / PROBLEMS}")


def list_builders() -> None:
    """List the datasets that can be built, and the public sets that can be imported."""
    from data_build.importers.table import IMPORTERS

    print("gnomon data build NAME:")
    for name, function in BUILDERS.items():
        print(f"  {name:<28}{(function.__doc__ or '').splitlines()[0]}")
    print("gnomon data import NAME:")
    for name, importer in IMPORTERS.items():
        print(f"  {name:<28}{importer.hub}")


def validate(folder: Path, *, against: Path | None = None, json: Path | None = None) -> None:
    """Check a dataset folder, every picture included; all problems at once, exit code 1 if there are any.

    Args:
        folder: folder with cases.jsonl or comparisons.jsonl.
        against: another such folder with which it may share no picture, such as a test set.
        json: file to write everything to that was found.
    """
    from data_build.validation import label_table, report_json
    from gnomon.datasets import validate as check

    report = check(folder, against=against)
    if json is not None:
        atomic_write_text(json, dumps(report_json(report), ensure_ascii=False, allow_nan=False, indent=2))
    if report.labels:
        print(label_table(report))
    print(report)
    if not report.ok:
        raise SystemExit(1)


def build_tabletop(
    *,
    num: PositiveInt,
    out: Path,
    split: Literal["train", "validation", "test"] = "test",
    seed: int = 0,
    kinds: list[str] | None = None,
    resolution: PositiveInt = 64,
    held_out_share: float = 0.25,
) -> None:
    """Draw scenes, edits of them in English and Chinese, and what an oracle needs to score candidates.

    Args:
        num: how many cases.
        out: dataset folder to write; run again to go on after a stop.
        split: whose scene-edit combinations they are; splits share none.
        seed: of everything that is drawn.
        kinds: kinds of edits, which take turns; all by default.
        resolution: pixels per side.
        held_out_share: share of test cases whose combination of edit and attributes training never shows.
    """
    from data_build.tabletop.cases import ALL_KINDS, build_cases

    cases = build_cases(
        out,
        num=num,
        seed=seed,
        split=split,
        kinds=ALL_KINDS if kinds is None else kinds,
        resolution=resolution,
        held_out_share=held_out_share,
    )
    print(f"{len(cases)} cases in {out}")


def build_pairs_from_edits(*, source: Path, out: Path, seed: int = 0, licence: str | None = None) -> None:
    """Turn (input, instruction, output) triples into comparisons with known answers.

    The true edit is compared with the unedited source, the edit of another triple, its blurred copy and black.

    Args:
        source: JSON file with a list of {"input", "instruction", "output"}, paths relative to its folder.
        out: comparison folder to write; run again to go on after a stop.
        seed: of the choice of foreign edits and of the sides.
        licence: of the pictures, noted in every comparison.
    """
    from data_build.pairs_from_edits import build_pairs

    done = build_pairs(source, out, seed=seed, licence=licence)
    print(
        f"{done.num_comparisons} comparisons of {done.num_triples} edits in {out}; of {done.num_rows} rows "
        f"{done.num_without_output} have no output, {done.num_unchanged} an unchanged one; "
        f"{done.num_without_foreign} edits found no foreign one; "
        f"{done.num_identical} comparisons of identical pictures are left out"
    )


def build_avr(
    *,
    out: Path,
    task: str | list[str] = "all",
    num: PositiveInt = 48,
    split: Literal["train", "validation", "test"] = "test",
    seed: int = 0,
    resolution: PositiveInt = 512,
    words: Path | None = None,
    settings: dict[str, dict[str, Any]] | None = None,
) -> None:
    """Draw Edit-Compass' algorithmic puzzles, each with exactly one best answer, which `gnomon data verify` knows.

    Args:
        out: dataset folder to write; run again to go on after a stop.
        task: one puzzle, or a list; all by default.
        num: how many cases of each.
        split: which split they are from; check with `gnomon data validate --against` that two share no picture.
        seed: of everything that is drawn.
        resolution: pixels per side.
        words: text file with one English word a line, for the four puzzles of words; by default those of the package
            english-words (extra "puzzles").
        settings: settings by puzzle, such as {optimal_path: {sizes: [4, 4]}}; those of the paper by default.
    """
    from data_build.puzzles.build import build_puzzles, with_words
    from data_build.puzzles.table import PUZZLES

    tasks = list(PUZZLES) if task == "all" else [task] if isinstance(task, str) else task
    chosen = with_words(settings or {}, words)
    cases = build_puzzles(out, tasks=tasks, num=num, seed=seed, split=split, resolution=resolution, settings=chosen)
    print(f"{len(cases)} cases in {out}")


def verify(*, cases: Path, images: Path, out: Path | None = None) -> None:
    """Say of edited pictures of puzzles whether they are correct, valid but not optimal, invalid or unreadable.

    Args:
        cases: dataset folder that `gnomon data build avr` wrote.
        images: folder with a picture under each case's id.
        out: file for one JSON line a case: id, value, reason.
    """
    from data_build.puzzles.folder import verify_folder

    print(verify_folder(cases, images, out))


def merge_annotations(
    *,
    pairs: Path,
    annotations: list[Path] | Path,
    out: Path,
    num_annotators: PositiveInt = 3,
    num_verifiers: PositiveInt = 5,
) -> None:
    """Merge annotations of proposed pairs, in two stages with unanimity, into a comparison folder.

    Args:
        pairs: folder of `gnomon data sample-preferences --label none`.
        annotations: folder of *.jsonl files, or a list of files and folders.
        out: comparison folder to write; run again to go on after a stop.
        num_annotators: people who label each pair and dimension in stage 1.
        num_verifiers: other people who confirm it in stage 2.
    """
    from data_build.preferences.decisions import MergeSettings
    from data_build.preferences.merging import PROBLEMS, merge_annotations, problems_of

    done = merge_annotations(pairs, annotations, out, MergeSettings(num_annotators, num_verifiers))
    for dimension, outcomes in done.outcomes.items():
        shown = ", ".join(f"{name} {count}" for name, count in outcomes.items() if count)
        print(f"{dimension}: {shown}")
    print(f"{done.num_comparisons} comparisons in {out}")
    problems = problems_of(out)
    for problem in problems[:MOST_PROBLEMS]:
        print(f"{problem.file}:{problem.line}: {problem.problem}")
    if len(problems) > MOST_PROBLEMS:
        print(f"... and {len(problems) - MOST_PROBLEMS} more in {out / PROBLEMS}")


def audit_checklists(
    *,
    cases: Path,
    sheet: Path | None = None,
    filled: list[Path] | Path | None = None,
    json: Path | None = None,
    num_cases: PositiveInt = 100,
    seed: int = 0,
) -> None:
    """Write a sheet of checklist questions for people to judge, or say how many are valid by what they filled in.

    Args:
        cases: dataset folder whose cases have questions.
        sheet: CSV file to write, a row a question, with the columns auditor, valid (yes or no) and comment left empty.
        filled: the sheet filled in, or a list of them, one of each auditor.
        json: file to write everything to that was found.
        num_cases: so many cases drawn for the sheet.
        seed: of the draw, and of the resampling of cases for intervals.
    """
    from data_build.checklist_audit import audit_text, merge_audit, write_audit_sheet

    if (sheet is None) == (filled is None):
        raise UserError("expected exactly one of --sheet, to write one, and --filled, to read what people filled in")
    if sheet is not None:
        drawn, questions = write_audit_sheet(cases, sheet, num_cases=num_cases, seed=seed)
        print(f"{questions:,} questions of {drawn:,} cases in {sheet}")
        return
    assert filled is not None
    report = merge_audit(cases, filled if isinstance(filled, list) else [filled], seed=seed)
    if json is not None:
        atomic_write_text(json, f"{dumps(to_plain(report), ensure_ascii=False, allow_nan=False, indent=2)}\n")
    print(audit_text(report))
    for problem in report.lines[:MOST_PROBLEMS]:
        print(f"{problem.file}:{problem.line}: {problem.message}")
    if report.rate is None:
        raise UserError("no question was judged; fill in auditor and valid, and give the sheets as --filled")


def train_tabletop(
    model: Literal["editor", "judge"], *, out: Path, num_steps: PositiveInt | None = None, seed: int = 0
) -> None:
    """Train one of the tiny models that ship from nothing: some 40 minutes on one core each.

    Run again, it goes on after a stop.

    Args:
        model: the editor (autoencoder, text encoder and transformer) or the judge's base.
        out: folder for checkpoints and curves, and below `model` for the result.
        num_steps: optimizer steps of the transformer or the judge; by default as many as the shipped one had.
        seed: of everything.
    """
    from data_build.tabletop.shipped import ship_editor, ship_judge
    from gnomon.runs import RunFolder

    config = {"model": model, "num_steps": num_steps}
    with RunFolder.open(out, command="data train-tabletop", config=config, seed=seed) as run:
        if model == "editor":
            steps = {"editor_steps": num_steps} if num_steps else {}
            figures = ship_editor(run.path, out=run.path / "model", seed=seed, **steps)
            print("\n".join(f"{name}: {value:.3f}" for name, value in figures.items()))
        else:
            steps = {"num_steps": num_steps} if num_steps else {}
            ship_judge(run.path, out=run.path / "model", seed=seed, **steps)
    print(f"written to {out / 'model'}")


def train_puzzle_editor(*, out: Path, num_steps: PositiveInt | None = None, seed: int = 0) -> None:
    """Train the tiny editor's sibling that draws ways into small maps (Optimal Path): some 10 minutes on one core.

    Run again, it goes on after a stop.

    Args:
        out: folder for checkpoints and curves, and below `model` for the result.
        num_steps: optimizer steps of the transformer; 1,500 by default.
        seed: of everything.
    """
    from data_build.puzzles.build import make_puzzle
    from data_build.puzzles.tiny_editor import SETTINGS, TASK
    from data_build.puzzles.tiny_editor import train_puzzle_editor as train
    from gnomon.runs import RunFolder

    with RunFolder.open(out, command="data train-puzzle-editor", config={"num_steps": num_steps}, seed=seed) as run:
        steps = {"editor_steps": num_steps} if num_steps else {}
        puzzle = make_puzzle(TASK, SETTINGS)
        figures = train(run.path, out=run.path / "model", puzzle=puzzle, seed=seed, **steps)
    print("\n".join(f"{name}: {value:.3f}" for name, value in figures.items()))
    print(f"written to {out / 'model'}")


BUILDERS: dict[str, Callable[..., Any] | type | dict[str, Any]] = {
    "tabletop": build_tabletop,
    "pairs-from-edits": build_pairs_from_edits,
    "avr": build_avr,
    "mdmr": build_mdmr,
    "cogcanvas": build_cogcanvas,
}
