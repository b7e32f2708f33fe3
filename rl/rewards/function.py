"""A plain function as a reward, with the signature that trl's trainers ask of theirs."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import ModuleType
from typing import Any, SupportsFloat

import torch
from PIL.Image import Image

from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.records import Case
from rl.rewards.base import RewardOutput
from rm.judge import check_language

RewardFunction = Callable[..., Iterable[SupportsFloat | None]]


class CallableReward:
    """Calls `function(prompts=..., completions=..., **columns)` and takes what it returns as rewards.

    `prompts` are the instructions and `completions` the pictures. The columns are `references` (a list of pictures per
    row), `case_id`, `task`, and every key of the cases' `meta`, with None for a case that lacks it. A function without
    `**kwargs` gets only what it names. It returns one number per row; None or NaN says that a row has no reward: a
    failure, which is masked and counted.
    """

    def __init__(self, function: str, *, language: str = "en") -> None:
        """Find the function.

        Args:
            function: `folder/file.py:name` (the file is run, like any code that a config names) or `module:name`.
            language: of the prompts, "en" or "zh".

        Raises:
            UserError: when there is no such function, or it cannot take pictures.
        """
        self.name = function
        self.language = check_language(language)
        self._function, self._file = _find(function)
        parameters = inspect.signature(self._function).parameters.values()
        self._takes_all = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
        self._named = {parameter.name for parameter in parameters if parameter.kind not in _BY_PLACE}
        self._needed = [
            parameter.name
            for parameter in parameters
            if parameter.name in self._named and parameter.default is parameter.empty
        ]
        if not self._takes_all and "completions" not in self._named:
            raise UserError(
                f"expected a function that takes `completions`, the pictures, at {function}; it takes "
                f"{inspect.signature(self._function)}"
            )

    @property
    def fingerprint(self) -> str:
        """Hash of the function's file and name, and the language."""
        return stable_hash([file_hash(self._file) if self._file else "", self.name, self.language])

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> RewardOutput:
        """Score `images`.

        Raises:
            UserError: when the function asks for a column that the cases do not have, or returns something else than
                one number or None per picture.
        """
        columns = self._columns(cases, references, images)
        missing = [name for name in self._needed if name not in columns]
        if missing:
            raise UserError(
                f"{self.name} asks for {', '.join(missing)}, but the columns are {', '.join(columns)}; cases bring "
                "further ones in their `meta`"
            )
        wanted = columns if self._takes_all else {name: columns[name] for name in self._named if name in columns}
        return self._read(self._function(**wanted), len(images))

    def _columns(
        self, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
    ) -> dict[str, list[Any]]:
        ours: dict[str, list[Any]] = {
            "prompts": [case.instruction.get(self.language) for case in cases],
            "completions": list(images),
            "references": list(references),
            "case_id": [case.id for case in cases],
            "task": [case.task for case in cases],
        }
        theirs = dict.fromkeys(key for case in cases for key in case.meta)
        taken = sorted(set(ours) & set(theirs))
        if taken:
            raise UserError(
                f"expected other keys in the cases' meta than the columns that {self.name} is called with, got "
                f"{', '.join(taken)}; rename them"
            )
        return ours | {key: [case.meta.get(key) for case in cases] for key in theirs}

    def _read(self, returned: object, num_pictures: int) -> RewardOutput:
        # A set is in no order: its numbers would be those of other pictures.
        if not isinstance(returned, Iterable) or isinstance(returned, str | bytes | Mapping | AbstractSet):
            raise UserError(f"expected a list of numbers from {self.name}, got {type(returned).__name__}")
        answers = list(returned)
        if len(answers) != num_pictures:
            raise UserError(
                f"expected one number for each of {num_pictures} pictures from {self.name}, got {len(answers)}"
            )
        values, reasons = [], {}
        for row, answer in enumerate(answers):
            if answer is None:
                reasons[row] = "the function returned None"
            values.append(float("nan") if answer is None else self._number(row, answer))
        failed = torch.tensor([answer is None for answer in answers], dtype=torch.bool)
        return RewardOutput(torch.tensor(values, dtype=torch.float64), {}, failed, reasons)

    def _number(self, row: int, answer: object) -> float:
        if isinstance(answer, SupportsFloat):  # also numpy's scalars and tensors of one element
            try:
                return float(answer)
            except (TypeError, ValueError, RuntimeError, OverflowError):
                pass
        raise UserError(f"expected a number or None from {self.name}, got {answer!r:.80} for row {row}")


_BY_PLACE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD, inspect.Parameter.POSITIONAL_ONLY)


def _find(function: str) -> tuple[RewardFunction, str | None]:
    """Return the function that a text names, and the file that it is from."""
    place, colon, name = function.rpartition(":")
    if not (place and colon and name):
        raise UserError(f"expected a function as 'folder/file.py:name' or 'module:name', got {function!r}")
    module = _run_file(Path(place)) if place.endswith(".py") else _import(place)
    found = getattr(module, name, None)
    if not callable(found):
        offered = [key for key, value in vars(module).items() if inspect.isfunction(value) and not key.startswith("_")]
        raise UserError(f"expected a function {name!r} in {place}; there are {', '.join(offered) or 'none'}")
    return found, getattr(module, "__file__", None)


def _run_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UserError(f"expected a Python file with a reward function at {path}, there is none")
    name = f"gnomon_reward_{stable_hash(str(path.resolve()))[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickles of the file's classes look their module up
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise UserError(f"could not run {path}: {type(error).__name__}: {error}") from error
    return module


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UserError(
            f"could not import {name}: {error}; name a file of yours as 'folder/file.py:function'"
        ) from error
