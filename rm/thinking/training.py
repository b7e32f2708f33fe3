"""`gnomon rm think`: the command line, and a run folder that can be killed and run again."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, set_parsing_settings

from gnomon.cli import underscored
from gnomon.datasets import COMPARISONS
from gnomon.hashing import file_hash
from gnomon.optional import require
from gnomon.training import is_finished, is_global_zero, run_folder_of_rank_zero
from rm.storage import base_fingerprint, resolve_base
from rm.thinking.asking import Question, make_question
from rm.thinking.options import ThinkingOptions

COMMAND = "rm think"
MakeQuestion = Callable[[ThinkingOptions], Question]


def parse(argv: list[str]) -> tuple[ThinkingOptions, Path]:
    """Read config and flags; nothing is loaded yet."""
    set_parsing_settings(docstring_parse_attribute_docstrings=True)  # the settings' fields, in --help
    parser = ArgumentParser(prog=f"gnomon {COMMAND}", allow_abbrev=False)
    parser.add_argument("--config", action="config")
    parser.add_class_arguments(ThinkingOptions, as_group=False)
    parser.add_argument("--out", type=str, required=True, help="run folder; run again to resume")
    config = parser.instantiate(parser.parse_args(underscored(argv)))
    options = ThinkingOptions(**{field.name: config[field.name] for field in fields(ThinkingOptions)})
    return options, Path(config["out"])


def question_of(options: ThinkingOptions) -> Question:
    """Return the question of the protocol that the options name."""
    return make_question(options.protocol, options.metric, options.language, Path(options.data))


def train(options: ThinkingOptions, out: Path, make_question: MakeQuestion = question_of) -> None:
    """Train or resume, and write the judge's adapter to `out/adapter`.

    Args:
        options: the settings.
        out: the run folder.
        make_question: what is asked.

    Raises:
        UserError: for settings, data or a folder that do not fit, and when nothing was learnt.
    """
    require("trl", feature="a thinking judge", extra="thinking")
    from rm.thinking.run import ADAPTER, ThinkingRun

    ranks = int(os.environ.get("WORLD_SIZE", "1"))
    options.check(ranks)
    identity = _identity(options)
    if is_finished(out, **identity):
        print(f"{out} is finished: the judge's adapter is in {out / ADAPTER}")
        return
    # Whatever is wrong with the data leaves no run folder behind.
    prepared = ThinkingRun(options, make_question(options), out, ranks)
    with run_folder_of_rank_zero(out, is_global_zero(), seed=options.seed, **identity) as folder:
        prepared.train(folder)


def _identity(options: ThinkingOptions) -> dict[str, Any]:
    """Return what two starts of one run have in common. Pictures are not hashed, see `gnomon rm fit`."""
    config = {name: value for name, value in asdict(options).items() if name != "tracker"}
    inputs = {
        "data": file_hash(Path(options.data) / COMPARISONS),
        "base": base_fingerprint(resolve_base(options.base)),
    }
    if options.rationales is not None:
        inputs["rationales"] = file_hash(options.rationales)
    return {"command": COMMAND, "config": config, "inputs": inputs}
