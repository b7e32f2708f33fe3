"""Every recipe in configs/ says what it is for, and its own command takes it."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from gnomon.cli import main

REPOSITORY = Path(__file__).resolve().parent.parent
RECIPES = sorted(path.relative_to(REPOSITORY).as_posix() for path in REPOSITORY.glob("configs/**/*.y*ml"))


def header(recipe: str) -> list[str]:
    """The comment lines at the top of a recipe, without their `#`."""
    lines = []
    for line in (REPOSITORY / recipe).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").strip())
    return lines


def command(recipe: str) -> list[str]:
    """The words of the header's first `gnomon ...` line that names the recipe, without `gnomon`."""
    for line in header(recipe):
        _, found, rest = line.partition("gnomon ")
        if found and recipe in rest:
            return shlex.split(rest.strip("`\\ "))
    pytest.fail(f"{recipe}: its header shows no command `gnomon ... --config {recipe}`")


@pytest.mark.parametrize("recipe", RECIPES)
def test_its_header_says_what_it_does_and_shows_a_command_of_its_folder(recipe: str) -> None:
    assert len(" ".join(header(recipe)).split()) >= 20, "purpose, command, hardware and what to expect, in comments"
    assert command(recipe)[0] == recipe.split("/")[1]


@pytest.mark.parametrize("recipe", RECIPES)
def test_the_command_of_its_header_takes_it(
    recipe: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(REPOSITORY)
    code = main([*command(recipe), "--print_config"])
    printed = capsys.readouterr()

    assert code == 0, printed.err
    assert isinstance(yaml.safe_load(printed.out), dict)
