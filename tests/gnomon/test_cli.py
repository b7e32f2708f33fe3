"""The command line: fast help, errors that name the thing, exit codes, and only our own packages."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import pytest

import gnomon
from gnomon.cli import COMMANDS, NOUNS, Command, check_packages, main

HEAVY = {"torch", "pytorch_lightning", "transformers", "diffusers", "PIL", "numpy", "jsonargparse", "pydantic", "rich"}

COMMANDS_UNDER_TEST = '''
"""Commands of these tests."""
import errno
import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from gnomon.errors import UserError
from gnomon.runs import RunFolder


@dataclass
class Judge:
    """A judge."""

    temperature: float = 0.0


class Reward:
    """A part that a config names by class path."""

    def __init__(self, weight: float = 1.0) -> None:
        self.weight = weight


def ordinary(root: Path, *, out: Path, judge: Judge = Judge(), reward: Reward | None = None, limit: int = 3) -> None:
    """Do something.

    Args:
        root: where from.
        out: where to.
        judge: who judges.
        reward: what is rewarded.
        limit: how many.
    """
    print(root, out, judge.temperature, reward.weight if reward else None, limit)


def hyphens(root: str, *, sample_ids: str, max_retries: int = 1) -> None:
    """Do something else."""
    print(root, sample_ids, max_retries)


def plain(argv: list[str]) -> None:
    print("argv", argv)


def fail(kind: str) -> None:
    """Fail."""
    if kind == "user":
        raise UserError("expected a, got b; do c")
    if kind == "disk":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "some/file")
    if kind == "wrapped disk":
        raise RuntimeError("I/O error: No space left on device (os error 28)")
    if kind == "lightning":
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            raise SystemExit(1)
    if kind == "exit":
        raise SystemExit("a sentence")
    if kind == "worker":
        raise BrokenPipeError(errno.EPIPE, "a worker is gone")
    raise ZeroDivisionError(kind)


def endless(out: Path) -> None:
    """Run until interrupted."""
    with RunFolder.open(out, command="endless", config={}, seed=0) as run:
        run.append({"index": 0})
        print("started", flush=True)
        time.sleep(60)


def chatty() -> None:
    """Print much."""
    for number in range(100_000):
        print(number)
'''


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a module of commands, reachable as `gnomon bench try-...`."""
    (tmp_path / "commands_under_test.py").write_text(COMMANDS_UNDER_TEST)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "commands_under_test", raising=False)
    for name in ("ordinary", "hyphens", "fail", "endless", "chatty"):
        monkeypatch.setitem(COMMANDS, ("bench", f"try-{name}"), Command(f"commands_under_test:{name}", "for tests"))
    monkeypatch.setitem(
        COMMANDS, ("bench", "try-plain"), Command("commands_under_test:plain", "for tests", takes_argv=True)
    )
    return tmp_path


def start(folder: Path, verb: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a command of the module in `folder` in a process of its own."""
    program = (
        "import sys; from gnomon.cli import COMMANDS, Command, main; "
        f"COMMANDS['bench', 'try-{verb}'] = Command('commands_under_test:{verb}', ''); sys.exit(main())"
    )
    home = Path(gnomon.__file__).parent.parent
    return subprocess.Popen(
        [sys.executable, "-c", program, "bench", f"try-{verb}", *arguments],
        env={**os.environ, "PYTHONPATH": f"{home}{os.pathsep}{folder}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def imported_by(*arguments: str) -> set[str]:
    """Return the top-level packages that `python -X importtime ARGUMENTS` imports."""
    done = subprocess.run([sys.executable, "-X", "importtime", *arguments], capture_output=True, text=True, check=True)
    names = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}
    assert "gnomon" in names
    return names


def test_importing_the_packages_imports_nothing_heavy() -> None:
    assert not imported_by("-c", "import gnomon, rm, rl, bench, data_build") & HEAVY


@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("rm", "--help")])
def test_help_answers_at_once_because_it_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert not imported_by("-m", "gnomon", *arguments) & HEAVY


LIGHT = ["data list", "data validate --help", "rm parse --help", "bench list", "bench summarize --help"]


@pytest.mark.parametrize("arguments", LIGHT)
def test_a_command_that_needs_no_model_imports_no_torch(arguments: str) -> None:
    """One annotation of a neighbour in the same module is enough for jsonargparse to import it."""
    assert not imported_by("-m", "gnomon", *arguments.split()) & {"torch", "diffusers", "transformers"}


def test_help_lists_every_noun_and_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for noun in NOUNS:
        assert f"\n  {noun} " in text
    for noun, *verb in COMMANDS:
        assert all(word in text for word in verb)
        if verb:
            assert main([noun, "--help"]) == 0
            assert f"\n  {verb[0]} " in capsys.readouterr().out


def test_every_target_is_a_function_with_a_docstring() -> None:
    for command in COMMANDS.values():
        module, function = command.target.split(":")
        assert getattr(import_module(module), function).__doc__, command.target


def test_finding_the_commands_imports_no_torch() -> None:
    modules = sorted({command.target.partition(":")[0] for command in COMMANDS.values()})
    names = imported_by("-c", f"import gnomon, {', '.join(modules)}")
    assert not names & {"torch", "pytorch_lightning", "transformers", "diffusers"}


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"gnomon {gnomon.__version__}\n"


@pytest.mark.parametrize("argv", [[], ["rm"]])
def test_half_a_command_shows_the_help_and_is_an_error(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    assert main(argv) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: gnomon" in captured.err


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ["bensh", "judge"],
            "error: unknown command: 'bensh'. Did you mean 'bench'? Valid: demo, data, rm, rl, bench. "
            "See `gnomon --help`.",
        ),
        (["--helpp"], "error: unknown command: '--helpp'. Valid: demo, data, rm, rl, bench. See `gnomon --help`."),
        (["rm", "evil"], "error: unknown verb of 'rm': 'evil'. Did you mean 'eval'? Valid: fit, think, eval, "
                         "compare, merge, serve, parse. See `gnomon rm --help`."),
    ],
)  # fmt: skip
def test_an_unknown_noun_or_verb_is_named_with_the_nearest(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    assert main(argv) == 2
    assert capsys.readouterr().err == f"{message}\n"


def test_an_ordinary_command_takes_flags_yaml_and_overrides(commands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (commands / "config.yaml").write_text(
        "root: data\nout: result\njudge: {temperature: 0.5}\n"
        "reward: {class_path: commands_under_test.Reward, init_args: {weight: 2.0}}\n"
    )
    assert main(["bench", "try-ordinary", "data", "--out", "x"]) == 0
    assert main(["bench", "try-ordinary", "--config", str(commands / "config.yaml"), "--judge.temperature=0.7"]) == 0
    assert capsys.readouterr().out == "data x 0.0 None 3\ndata result 0.7 2.0 3\n"


def test_a_flag_may_be_typed_with_hyphens(commands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "try-hyphens", "a-b", "--sample-ids=c-d", "--max-retries", "2"]) == 0
    assert main(["bench", "try-hyphens", "a-b", "--sample_ids", "--c-d"]) == 2
    assert capsys.readouterr().out == "a-b c-d 2\n"


def test_a_command_of_its_own_parser_gets_its_arguments(commands: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "try-plain", "--help", "-x", "1"]) == 0
    assert capsys.readouterr().out == "argv ['--help', '-x', '1']\n"


@pytest.mark.parametrize(
    ("config", "arguments", "named"),
    [
        ("", ["data", "--out", "x", "--limits", "3"], "--limits"),
        ("", ["data", "--out", "x", "--lim", "3"], "--lim"),
        ("", ["data", "--out", "x", "--judge.temp", "3"], "--judge.temp"),
        ("", ["data", "--out", "x", "--limit", "three"], "limit"),
        ("", ["data"], "out"),
        ("limits: 3\n", ["data", "--out", "x"], "limits"),
        ("judge: {temprature: 1.0}\n", ["data", "--out", "x"], "temprature"),
        ("reward: {class_path: commands_under_test.Reword}\n", ["data", "--out", "x"], "Reword"),
        (
            "reward: {class_path: commands_under_test.Reward, init_args: {wait: 1}}\n",
            ["data", "--out", "x"],
            "wait",
        ),
    ],
)
def test_an_unknown_key_or_flag_is_an_error_that_names_it(
    commands: Path, capsys: pytest.CaptureFixture[str], config: str, arguments: list[str], named: str
) -> None:
    if config:
        (commands / "config.yaml").write_text(config)
        arguments = ["--config", str(commands / "config.yaml"), *arguments]
    assert main(["bench", "try-ordinary", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "usage: gnomon bench try-ordinary" in captured.err
    assert named in captured.err.partition("error:")[2]


@pytest.mark.parametrize(
    ("kind", "code", "message"),
    [
        ("user", 1, "error: expected a, got b; do c"),
        (
            "disk",
            1,
            "error: the disk is full: could not write some/file; finished work is kept: make room and run the same "
            "command again",
        ),
        (
            "wrapped disk",
            1,
            "error: the disk is full (I/O error: No space left on device (os error 28)); finished work is kept: "
            "make room and run the same command again",
        ),
        ("lightning", 130, "\ninterrupted; finished work is kept: run the same command again to go on"),
        ("exit", 1, "a sentence"),
    ],
)
def test_errors_become_one_line_and_an_exit_code(
    commands: Path, capsys: pytest.CaptureFixture[str], kind: str, code: int, message: str
) -> None:
    assert main(["bench", "try-fail", kind]) == code
    assert capsys.readouterr().err == f"{message}\n"


@pytest.mark.parametrize(("kind", "error"), [("bug", ZeroDivisionError), ("worker", BrokenPipeError)])
def test_a_bug_keeps_its_traceback(commands: Path, kind: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        main(["bench", "try-fail", kind])


def test_ctrl_c_ends_with_130_keeps_what_is_done_and_says_how_to_go_on(commands: Path) -> None:
    process = start(commands, "endless", str(commands / "run"))
    assert process.stdout is not None
    assert process.stdout.readline() == "started\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out) == (130, "")
    assert err == "\ninterrupted; finished work is kept: run the same command again to go on\n"
    assert '"status": "interrupted"' in (commands / "run" / "manifest.json").read_text()
    assert (commands / "run" / "samples.jsonl").read_text() == '{"index": 0}\n'


def test_a_reader_that_goes_away_is_no_error(commands: Path) -> None:
    process = start(commands, "chatty")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == "0\n"
    process.stdout.close()
    assert process.wait(timeout=20) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


def installation(folder: Path) -> Path:
    """Copy what an installed wheel has at the least: gnomon, and the other packages' `__init__.py`."""
    home = Path(gnomon.__file__).parent
    shutil.copytree(home, folder / "gnomon", ignore=shutil.ignore_patterns("__pycache__"))
    for package in ("rm", "rl", "bench", "data_build"):
        (folder / package).mkdir()
        shutil.copy(home.parent / package / "__init__.py", folder / package)
    return folder


def check_in(*path: Path) -> str:
    program = "from gnomon.cli import check_packages\ntry: check_packages()\nexcept Exception as error: print(error)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(str(folder) for folder in path)}
    # -S: without site-packages, where an editable install of this checkout would provide the packages again.
    return subprocess.run(
        [sys.executable, "-P", "-S", "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_our_own_packages_are_recognised(tmp_path: Path) -> None:
    check_packages()
    assert check_in(installation(tmp_path)) == ""


def test_a_foreign_package_that_comes_first_is_named_with_its_distribution(tmp_path: Path) -> None:
    foreign, ours = tmp_path / "foreign", installation(tmp_path / "ours")
    (foreign / "rl").mkdir(parents=True)
    (foreign / "rl" / "__init__.py").write_text("raise ImportError('it must not be imported')")
    metadata = foreign / "readline_bindings-3.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: readline-bindings\nVersion: 3.2\n")
    (metadata / "top_level.txt").write_text("rl\n")
    assert check_in(foreign, ours) == (
        f"expected gnomon's package 'rl' in {ours}, found another project's at {foreign}/rl/__init__.py. "
        "Run: pip uninstall readline-bindings, then reinstall gnomon; or use a clean environment\n"
    )


def test_a_foreign_package_that_overwrote_ours_is_found(tmp_path: Path) -> None:
    ours = installation(tmp_path)
    (ours / "bench" / "__init__.py").write_text('"""Another project\'s benchmarks."""')
    assert f"expected gnomon's package 'bench' in {ours}, found another project's at" in check_in(ours)


def test_what_the_uninstall_of_a_foreign_package_leaves_is_found(tmp_path: Path) -> None:
    ours = installation(tmp_path)
    (ours / "rl" / "__init__.py").unlink()
    assert "pip install --force-reinstall --no-deps gnomon" in check_in(ours)


def test_what_we_warn_of_is_shown_without_the_code_that_did_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # and back
    main(["--version"])
    assert warnings.formatwarning("look here", UserWarning, str(gnomon.__file__), 7) == "warning: look here\n"
    assert warnings.formatwarning("mind", UserWarning, pytest.__file__, 7).startswith(f"{pytest.__file__}:7: UserWarn")
