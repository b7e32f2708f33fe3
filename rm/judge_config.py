"""A judge from a file: any class that judges, with its settings, as `class_path` and `init_args` in YAML."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import yaml
from jsonargparse import ArgumentError, ArgumentParser

from gnomon.errors import UserError


class _Judge(Protocol):
    """:class:`rm.judge.Judge` as jsonargparse can check it: it compares annotations of methods for equality."""

    name: str
    metrics: tuple[str, ...]
    fingerprint: str

    def judge(self, requests: Any) -> Any: ...


class _PairJudge(Protocol):
    """:class:`rm.protocols.pairwise.PairwiseJudge` as jsonargparse can check it."""

    name: str
    metrics: tuple[str, ...]
    fingerprint: str

    def compare(self, requests: Any) -> Any: ...


def read_judge(path: str | Path) -> Any:
    """Return the judge that a file describes.

    Such a file is, for example::

        class_path: rm.protocols.rubric.RubricJudge
        init_args:
          vlm:
            class_path: rm.vlm.local.LocalVLM
            init_args: {model: Qwen/Qwen3-VL-8B-Instruct, device: cuda}

    Returns:
        Something with :class:`rm.judge.Judge`'s or :class:`rm.protocols.pairwise.PairwiseJudge`'s methods.

    Raises:
        UserError: for a file that cannot be read, a class that is no judge, or settings that it does not have.
    """
    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise UserError(f"expected a judge's YAML file at {path}: {error}") from error
    name = config.get("class_path") if isinstance(config, dict) else None
    if not isinstance(name, str):
        raise UserError(f"expected class_path and init_args of a judge in {path}, got {config!r:.80}")
    kind = _class(name, path)
    parser = ArgumentParser(exit_on_error=False)
    parser.add_argument("--judge", type=_PairJudge if hasattr(kind, "compare") else _Judge)
    try:
        return parser.instantiate(parser.parse_object({"judge": config})).judge
    except ArgumentError as error:
        raise UserError(f"{path}: {' '.join(str(error).split())}") from error


def _class(name: str, path: str | Path) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        kind = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(
            f"expected the dotted name of a judge's class as class_path in {path}, got {name!r}: {error}"
        ) from error
    if not (hasattr(kind, "judge") or hasattr(kind, "compare")):
        raise UserError(f"expected a class with a method judge or compare as class_path in {path}, got {name!r}")
    return kind
