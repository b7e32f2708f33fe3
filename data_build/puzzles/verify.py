"""Says whether an edited picture solves its puzzle: exact, from pixels alone, by no judge."""

from __future__ import annotations

from typing import Any

from PIL import Image
from pydantic import ValidationError

from data_build.puzzles.changes import Source, UnreadableEditError, find_change
from data_build.puzzles.puzzle import AnyPuzzle, InvalidEditError, Outcome
from data_build.puzzles.table import PUZZLES
from gnomon.errors import UserError
from gnomon.images import to_rgb
from gnomon.records import Case, Record

PUZZLE, TARGET = "puzzle", "target"
"""Where in `Case.meta` the instance is, and the path of the picture with the answer."""


def verify(case: Case, source: Image.Image | Source, edited: Image.Image) -> Outcome:
    """Return what an edited picture of a puzzle is worth.

    Args:
        case: that a builder of puzzles made.
        source: its first reference; as a :class:`Source` where several edits are compared with it.
        edited: of any size with the source's shape; in any mode.

    Raises:
        UserError: for a case that holds no puzzle.
    """
    puzzle, instance = puzzle_of(case)
    return verify_instance(puzzle, instance, source, edited)


def puzzle_of(case: Case) -> tuple[AnyPuzzle, Record]:
    """Return the kind of puzzle that a case is, and its instance.

    Raises:
        UserError: for a case that holds none.
    """
    if case.task not in PUZZLES or PUZZLE not in case.meta:
        raise UserError(
            f"expected a puzzle ({', '.join(PUZZLES)}) with its instance in meta.{PUZZLE} of case {case.id!r}, got "
            f"{'none' if case.task in PUZZLES else f'the task {case.task!r}'}; only what `gnomon data build avr` made "
            "can be verified"
        )
    puzzle = PUZZLES[case.task]()
    try:
        instance: Record = puzzle.instance_class.model_validate(case.meta[PUZZLE])
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"meta.{PUZZLE}.{place} of case {case.id!r}: {first['msg']}") from error
    return puzzle, instance


def verify_instance(puzzle: AnyPuzzle, instance: Any, source: Image.Image | Source, edited: Image.Image) -> Outcome:
    """Return what an edited picture of an instance is worth."""
    try:
        before = source if isinstance(source, Source) else Source(_rgb(source))
        change = find_change(before, _rgb(edited), puzzle.markers(instance))
        answer = puzzle.read(instance, change)
    except UnreadableEditError as error:
        return Outcome("unreadable", str(error))
    except InvalidEditError as error:
        return Outcome("invalid", str(error))
    return puzzle.check(instance, answer)


def _rgb(image: Image.Image) -> Image.Image:
    return image if image.mode == "RGB" else to_rgb(image)
