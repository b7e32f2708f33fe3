"""The command line: `gnomon <noun> <verb>`. Nothing is imported before it is known what runs.

A command is an ordinary typed function, of which jsonargparse makes the parser: required parameters are
positional, keyword-only and optional ones are flags, `--config FILE` reads them from YAML. A command that
parses its own arguments (LightningCLI) takes the list of them.

Exit codes: 0 done, 1 an error that the user can mend (or a bug, with its traceback), 2 a wrong command line or
config, 130 Ctrl-C, 141 the reader of our output went away.
"""

from __future__ import annotations

import difflib
import errno
import logging
import os
import select
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gnomon
from gnomon.errors import UserError, is_interrupt


@dataclass(frozen=True)
class Command:
    """Where a command's function is, one line about it, and whether it parses its own arguments."""

    target: str
    help: str
    takes_argv: bool = False


NOUNS = {
    "demo": "the closed loop on the tabletop world, with a report",
    "data": "build, check and list datasets",
    "rm": "train and evaluate judges (reward models)",
    "rl": "steer a generator with a judge by reinforcement learning",
    "bench": "generate, judge, summarize and compare on benchmarks",
}

COMMANDS: dict[tuple[str, ...], Command] = {
    ("demo",): Command("data_build.demo:demo", NOUNS["demo"]),
    ("data", "list"): Command("data_build.cli:list_builders", "list the datasets that can be built or imported"),
    ("data", "build"): Command("data_build.cli:build", "build a dataset: gnomon data build NAME ...", takes_argv=True),
    ("data", "import"): Command(
        "data_build.cli:import_dataset", "import a public set: gnomon data import NAME ...", takes_argv=True
    ),
    ("data", "validate"): Command("data_build.cli:validate", "check a dataset folder, every picture included"),
    ("data", "verify"): Command("data_build.cli:verify", "verify edited pictures of puzzles, by no judge"),
    ("data", "sample-preferences"): Command(
        "data_build.preferences_cli:sample_preferences", "sample candidates of a generator and propose or label pairs"
    ),
    ("data", "merge-annotations"): Command(
        "data_build.cli:merge_annotations", "merge two-stage annotations of pairs into comparisons"
    ),
    ("data", "propose-edits"): Command(
        "data_build.editcompass.cli:propose_edits", "let models write edit instructions for photographs"
    ),
    ("data", "refine-scenarios"): Command(
        "data_build.editcompass.cli:refine_scenarios", "make the sources of edits from what experts describe"
    ),
    ("data", "merge-reviews"): Command(
        "data_build.editcompass.cli:merge_reviews", "keep what all reviewers approve of, as cases"
    ),
    ("data", "audit-checklists"): Command(
        "data_build.cli:audit_checklists", "let people judge questions of checklists, and say how many are valid"
    ),
    ("data", "train-tabletop"): Command(
        "data_build.cli:train_tabletop", "train the tiny models that ship from nothing"
    ),
    ("data", "train-puzzle-editor"): Command(
        "data_build.cli:train_puzzle_editor", "train a tiny editor of puzzles, to steer with the verifier"
    ),
    ("rm", "fit"): Command("rm.cli:fit", "train a reward model on comparisons", takes_argv=True),
    ("rm", "think"): Command("rm.cli:think", "train a judge that thinks before it answers", takes_argv=True),
    ("rm", "eval"): Command("rm.cli:evaluate", "measure pair accuracy of a judge, with intervals"),
    ("rm", "compare"): Command("bench.cli:compare_judges", "put evaluations side by side, paired", takes_argv=True),
    ("rm", "merge"): Command("rm.cli:merge", "write a reward model with its adapter merged into the base"),
    ("rm", "serve"): Command("rm.cli:serve", "serve a judge or a vision-language model over HTTP"),
    ("rm", "parse"): Command("rm.cli:parse", "read saved replies of a judge again, without a model"),
    ("rl", "fit"): Command("rl.cli:fit", "train a generator's LoRA on a reward", takes_argv=True),
    ("rl", "rollout"): Command("rl.cli:rollout", "sample groups of candidates and score them"),
    ("rl", "export"): Command("rl.cli:export", "write a checkpoint's LoRA in diffusers' format"),
    ("bench", "list"): Command("bench.cli:list_benchmarks", "list the benchmarks"),
    ("bench", "describe"): Command("bench.cli:describe", "say what a benchmark measures and needs"),
    ("bench", "validate"): Command("bench.cli:validate", "check a folder of cases for its benchmark"),
    ("bench", "generate"): Command("bench.cli:generate", "make the images of a generator for a benchmark's cases"),
    ("bench", "judge"): Command("bench.cli:judge", "judge images, one verdict a line", takes_argv=True),
    ("bench", "summarize"): Command(
        "bench.cli:summarize", "turn verdicts into results with intervals", takes_argv=True
    ),
    ("bench", "report"): Command(
        "bench.cli:report", "write a page of one run, or a leaderboard of several", takes_argv=True
    ),
    ("bench", "compare"): Command("bench.cli:compare", "compare two runs on the same cases, paired"),
    ("bench", "agreement"): Command("bench.cli:agreement", "measure how far the raters in a CSV file agree"),
    ("bench", "alignment"): Command(
        "bench.cli:alignment", "measure how far a judge agrees with people's ratings", takes_argv=True
    ),
    ("bench", "study"): Command(
        "bench.studies.cli:study", "study finished runs: people, judges, repeats, references", takes_argv=True
    ),
    ("bench", "retrieval"): Command(
        "bench.cli:retrieval", "measure how well an embedder picks the reference that a prompt means"
    ),
}

_PACKAGES = ("rm", "bench", "rl", "data_build")
_MARK = 'PROJECT = "gnomon"'
_MARKED = ("rm", "bench", "rl")  # the names that other projects use as well


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit code.

    Args:
        argv: the arguments without the program's name; `sys.argv[1:]` when None.
    """
    # bitsandbytes says so at every import on some processors; what it lacks there is speed in four bits.
    logging.getLogger("bitsandbytes.backends.cpu.ops").setLevel(logging.ERROR)
    warnings.formatwarning = _warning_text
    try:
        code = _dispatch(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()  # here, so that a reader that went away is noticed inside the try
        return code
    except BaseException as error:
        code_or_none = _exit_code(error)
        if code_or_none is None:
            raise
        return code_or_none


def _warning_text(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Show what we warn of without the code that did so; of others' warnings that tells whose they are."""
    home = Path(gnomon.__file__).parent.parent
    is_ours = any(Path(filename).is_relative_to(home / package) for package in ("gnomon", *_PACKAGES))
    return f"{'warning' if is_ours else f'{filename}:{lineno}: {category.__name__}'}: {message}\n"


def _exit_code(error: BaseException) -> int | None:
    """Print what the user should know about `error`; None when it is a bug and needs its traceback."""
    if is_interrupt(error):
        print("\ninterrupted; finished work is kept: run the same command again to go on", file=sys.stderr)
        return 130
    if isinstance(error, SystemExit):
        if isinstance(error.code, str):
            print(error.code, file=sys.stderr)
            return 1
        return error.code or 0
    if (known := _user_error(error)) is not None:
        print(f"error: {known}", file=sys.stderr)
        return 1
    if isinstance(error, BrokenPipeError) and _stdout_is_broken():
        return 141
    if _disk_is_full(error):
        name = getattr(error, "filename", None)
        print(
            f"error: the disk is full{f': could not write {name}' if name else f' ({error})'}; finished work is kept: "
            "make room and run the same command again",
            file=sys.stderr,
        )
        return 1
    return None


def _user_error(error: BaseException) -> UserError | None:
    """Return what the user should know, also from inside the errors of jsonargparse, one for each optional value."""
    found: BaseException | None = error
    while type(found) is ValueError:
        found = found.__cause__
    return found if isinstance(found, UserError) else None


def _stdout_is_broken() -> bool:
    """Tell a reader that left (`gnomon ... | head`) from a broken pipe to a worker, which is a bug."""
    try:
        descriptor = sys.stdout.fileno()
    except OSError:  # not a file of the system, so nobody can have closed it
        return False
    poll = select.poll()
    poll.register(descriptor, 0)
    broken = any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))
    if broken:
        # Python flushes once more at exit and would complain; nobody reads any longer.
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    return broken


def _disk_is_full(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return True
    return os.strerror(errno.ENOSPC) in str(error)  # what safetensors raises is no OSError


def _dispatch(argv: list[str]) -> int:
    if argv and argv[0] in ("-h", "--help"):
        print(_help())
        return 0
    if argv and argv[0] == "--version":
        print(f"gnomon {gnomon.__version__}")
        return 0
    if not argv:
        print(_help(), file=sys.stderr)
        return 2
    noun = argv[0]
    if (noun,) in COMMANDS:
        return _run((noun,), argv[1:])
    verbs = _verbs(noun)
    if not verbs:
        return _unknown("command", noun, NOUNS, "gnomon --help")
    if len(argv) > 1 and argv[1] in ("-h", "--help"):
        print(_noun_help(noun))
        return 0
    if len(argv) == 1:
        print(_noun_help(noun), file=sys.stderr)
        return 2
    if argv[1] not in verbs:
        return _unknown(f"verb of '{noun}'", argv[1], verbs, f"gnomon {noun} --help")
    return _run((noun, argv[1]), argv[2:])


def _run(name: tuple[str, ...], argv: list[str]) -> int:
    check_packages()
    command = COMMANDS[name]
    function = _load(command.target)
    if command.takes_argv:
        function(argv)
    else:
        from jsonargparse import auto_cli

        auto_cli(function, args=underscored(argv), prog=" ".join(("gnomon", *name)), allow_abbrev=False)
    return 0


def underscored(argv: list[str]) -> list[str]:
    """Let `--sample-ids` mean `--sample_ids`: parameters have underscores, people type either."""
    result = []
    for argument in argv:
        name, equals, value = argument.partition("=")
        is_flag = name.startswith("--")
        result.append(f"--{name[2:].replace('-', '_')}{equals}{value}" if is_flag else argument)
    return result


def _load(target: str) -> Callable[..., Any]:
    module, _, function = target.partition(":")
    loaded: Callable[..., Any] = getattr(import_module(module), function)
    return loaded


def _verbs(noun: str) -> list[str]:
    return [name[1] for name in COMMANDS if len(name) == 2 and name[0] == noun]


def _unknown(what: str, given: str, valid: Iterable[str], help_command: str) -> int:
    names = list(valid)
    near = difflib.get_close_matches(given, names, n=1)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    print(f"error: unknown {what}: '{given}'.{hint} Valid: {', '.join(names)}. See `{help_command}`.", file=sys.stderr)
    return 2


def _help() -> str:
    lines = ["usage: gnomon COMMAND [VERB] [--help] [arguments]", "", (gnomon.__doc__ or "").splitlines()[0], ""]
    for noun, text in NOUNS.items():
        lines.append(f"  {noun:<7}{text}")
        if _verbs(noun):
            lines.append(f"         {' | '.join(_verbs(noun))}")
    return "\n".join([*lines, "", "  gnomon COMMAND --help, gnomon COMMAND VERB --help, gnomon --version"])


def _noun_help(noun: str) -> str:
    lines = [f"usage: gnomon {noun} VERB [--help] [arguments]", "", NOUNS[noun], ""]
    width = max(len(verb) for verb in _verbs(noun)) + 2
    return "\n".join([*lines, *(f"  {verb:<{width}}{COMMANDS[noun, verb].help}" for verb in _verbs(noun))])


def check_packages() -> None:
    """Make sure that `rm`, `rl`, `bench` and `data_build` are ours before one of them is imported.

    `rl` and `bench` are also names of unrelated distributions, which win or overwrite depending on how and in
    which order things were installed.

    Raises:
        UserError: names the foreign package and says what to uninstall.
    """
    home = Path(gnomon.__file__).resolve().parent.parent
    for package in _PACKAGES:
        spec = find_spec(package)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None:
            raise UserError(
                f"expected gnomon's package '{package}' in {home}, found none; uninstalling another project of that "
                "name removes it. Run: pip install --force-reinstall --no-deps gnomon"
            )
        ours = origin.parent.parent == home and (package not in _MARKED or _MARK in origin.read_text(encoding="utf-8"))
        if not ours:
            owners = _owners(package)
            raise UserError(
                f"expected gnomon's package '{package}' in {home}, found another project's at {origin}. "
                f"Run: pip uninstall {' '.join(owners) or package}, then reinstall gnomon; or use a clean environment"
            )


def _owners(package: str) -> list[str]:
    from importlib.metadata import packages_distributions

    return sorted(set(packages_distributions().get(package, [])) - {"gnomon"})
