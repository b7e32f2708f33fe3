"""Every step of the demo is a command line that its command's real parser takes."""

from __future__ import annotations

from pathlib import Path

import pytest

from data_build.demo.steps import RECIPES, Step, config_file, demo_steps, input_hashes, model_folder
from gnomon.cli import main
from gnomon.errors import UserError

STEPS = demo_steps(Path("runs/demo"), seed=0)


@pytest.mark.parametrize("step", STEPS, ids=[step.name for step in STEPS])
def test_its_command_takes_the_arguments_of_each_step(step: Step, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*step.argv, "--print_config"]) == 0, capsys.readouterr().err


def test_steps_have_names_of_their_own() -> None:
    assert len({step.name for step in STEPS}) == len(STEPS)


def test_an_unknown_argument_of_a_step_would_be_noticed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*STEPS[0].argv, "--no_such_flag", "1", "--print_config"]) == 2
    assert "no_such_flag" in capsys.readouterr().err


def test_a_recipe_or_model_that_is_missing_is_named() -> None:
    with pytest.raises(UserError, match=r"rm/none\.yaml"):
        config_file("rm/none.yaml")
    with pytest.raises(UserError, match="painter"):
        model_folder("painter")


def test_recipes_and_models_are_part_of_a_demo_s_identity() -> None:
    named = {argument for step in STEPS for argument in step.argv if argument.endswith(".yaml")}
    assert named == {str(config_file(name)) for name in RECIPES}
    assert all(len(value) == 64 for value in input_hashes().values())
