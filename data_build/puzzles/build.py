"""Cases of the puzzles as a dataset folder: `gnomon data build avr`."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import TypeAdapter, ValidationError

from bench.editcompass.cases import METRICS, NAME, OUTCOME
from data_build.puzzles.puzzle import AnyPuzzle
from data_build.puzzles.table import PUZZLES
from data_build.puzzles.verify import PUZZLE, TARGET
from data_build.puzzles.word_grids import WordGridPuzzle
from gnomon.datasets import CASES, write_records
from gnomon.errors import UserError
from gnomon.hashing import stable_hash, stable_seed
from gnomon.images import save_png
from gnomon.progress import track
from gnomon.records import Case, Record, Reference, Split
from gnomon.runs import RunFolder, atomic_write_text

Settings = Mapping[str, Mapping[str, Any]]

MOST_DRAWS = 5000
"""Draws in a row of which none is an instance, after which settings are said to admit none."""
LEAST_RESOLUTION = 32
_METRICS = [METRICS[flag] for flag in ("IF", "WA", "URC", "VQ")]
README = """# Algorithmic puzzles

{num} of each of {tasks}, split {split!r}, made by `gnomon data build avr`. Every case has exactly one best answer; \
`meta.puzzle` holds the instance, `meta.target` the path of the picture with the answer. `gnomon data verify` says \
whether an edited picture is right.
"""


def build_puzzles(
    out: str | Path,
    *,
    tasks: Sequence[str],
    num: int,
    seed: int,
    split: Split = "test",
    resolution: int = 512,
    settings: Settings | None = None,
) -> list[Case]:
    """Write a dataset folder of puzzles; run again to go on after a stop, with the same bytes in the end.

    Case number n of a task depends on seed, split, settings and n only, so that a larger folder holds the smaller one.

    Args:
        out: the folder.
        tasks: names of :data:`PUZZLES`.
        num: cases of each.
        seed: of everything that is drawn.
        split: which split they are from; splits of one seed are drawn independently.
        resolution: pixels per side, an even number.
        settings: fields of the puzzles' classes by task, in place of the paper's.

    Returns:
        The cases as they stand in `cases.jsonl`.

    Raises:
        UserError: for numbers out of range, unknown tasks and settings, settings that admit no instance, and where the
            folder holds something else or is in use.
    """
    _check(tasks, num, resolution, settings or {})
    puzzles = [make_puzzle(task, (settings or {}).get(task, {})) for task in tasks]
    config = {"tasks": list(tasks), "num": num, "split": split, "resolution": resolution}
    config["settings"] = {puzzle.task: TypeAdapter(type(puzzle)).dump_python(puzzle, mode="json") for puzzle in puzzles}
    inputs = {"words": words_hash(puzzles)} if any(isinstance(puzzle, WordGridPuzzle) for puzzle in puzzles) else {}
    with RunFolder.open(out, command="data build avr", config=config, seed=seed, inputs=inputs) as run:
        # All of them before the first picture: settings that admit too few leave nothing behind.
        numbered = (
            (puzzle, item) for puzzle in puzzles for item in enumerate(draw_instances(puzzle, num, seed, split))
        )
        drawn = list(track(numbered, "sampling puzzles", total=num * len(puzzles)))
        cases = []
        for puzzle, (number, instance) in track(drawn, "drawing puzzles"):
            case = _case(puzzle, instance, number, split)
            pictures = {case.references[0].path: None, case.meta[TARGET]: puzzle.solve(instance)}
            for path, answer in pictures.items():
                if not (run.path / path).exists():  # pictures are written whole or not at all
                    save_picture(puzzle.render(instance, resolution, answer), run.path / path)
            cases.append(case)
        atomic_write_text(run.path / "README.md", README.format(num=num, tasks=", ".join(tasks), split=split))
        write_records(run.path / CASES, cases)
    return cases


def save_picture(image: Image.Image, path: Path) -> None:
    """Write a drawn picture as PNG, little compressed: in half the time, and a fifth faster to read.

    Its flat areas pack well at any level; files are a few KB larger.
    """
    save_png(image, path, compress_level=1)


def draw_instances(puzzle: AnyPuzzle, num: int, seed: int, split: Split) -> Iterator[Record]:
    """Draw `num` different instances.

    Raises:
        UserError: when the puzzle's settings admit none, or not so many.
    """
    seen: set[str] = set()
    for number in range(num):
        rng = random.Random(stable_seed("puzzles", puzzle.task, seed, split, number))
        for _ in range(MOST_DRAWS):
            instance = puzzle.sample(rng)
            if instance is not None and (name := stable_hash(instance.model_dump(mode="json"))) not in seen:
                seen.add(name)
                yield instance
                break
        else:
            raise UserError(
                f"expected settings of {puzzle.task} that admit {num} different puzzles, found {len(seen)}: none of "
                f"{MOST_DRAWS} further draws was a new one with exactly one best answer; widen {puzzle}"
            )


def with_words(settings: Settings, words: Path | None) -> Settings:
    """Return settings in which the puzzles of words draw from the file `words`, where they name no other."""
    if words is None:
        return settings
    of_words = [task for task, puzzle in PUZZLES.items() if issubclass(puzzle, WordGridPuzzle)]
    return {**settings, **{task: {"words": str(words), **settings.get(task, {})} for task in of_words}}


def words_hash(puzzles: Sequence[AnyPuzzle]) -> str:
    """Return a hash of the word lists that puzzles draw from.

    Raises:
        UserError: for a list that cannot be read, or has no words.
    """
    lists = [puzzle.word_list().fingerprint for puzzle in puzzles if isinstance(puzzle, WordGridPuzzle)]
    return stable_hash(sorted(set(lists)))


def make_puzzle(task: str, settings: Mapping[str, Any]) -> AnyPuzzle:
    """Return a kind of puzzle with the paper's settings but for those that are given.

    Raises:
        UserError: names the setting that is unknown or wrong.
    """
    puzzle_class = PUZZLES[task]
    fields = TypeAdapter(puzzle_class).dump_python(puzzle_class(), mode="json")
    unknown = sorted(set(settings) - set(fields))
    if unknown:
        raise UserError(f"expected settings of {task} out of {', '.join(fields)}, got {', '.join(unknown)}")
    try:
        made: AnyPuzzle = TypeAdapter(puzzle_class).validate_python({**fields, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"setting {place} of {task}: {first['msg']}, got {first['input']!r:.80}") from error
    return made


def _check(tasks: Sequence[str], num: int, resolution: int, settings: Settings) -> None:
    unknown = [task for task in [*tasks, *settings] if task not in PUZZLES]
    if unknown or not tasks:
        raise UserError(f"expected tasks out of {', '.join(PUZZLES)}, got {', '.join(unknown) or 'none'}")
    if len(set(tasks)) < len(tasks):
        raise UserError(f"expected every task once, got {', '.join(tasks)}")
    if num < 1:
        raise UserError(f"expected num >= 1, got {num}")
    if resolution < LEAST_RESOLUTION or resolution % 2:
        raise UserError(f"expected an even resolution of at least {LEAST_RESOLUTION} pixels, got {resolution}")


def _case(puzzle: AnyPuzzle, instance: Record, number: int, split: Split) -> Case:
    name = f"{puzzle.task}-{split}-{number:06d}"
    return Case(
        id=name,
        benchmark=NAME,
        task=puzzle.task,
        instruction=puzzle.instruct(instance),
        references=[Reference(path=f"images/{name}.png")],
        metrics=_METRICS,
        hints={OUTCOME: puzzle.describe(instance)},
        split=split,
        meta={PUZZLE: instance.model_dump(mode="json"), TARGET: f"targets/{name}.png"},
    )
