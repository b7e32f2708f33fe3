"""A plain function as a reward: called as trl calls one, and held to one number or None per picture."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from gnomon.errors import UserError
from gnomon.records import Case, Text
from rl.rewards import CallableReward, RewardOutput, ask_reward

CASES = [
    Case(
        id=f"case-{row}",
        benchmark="toy",
        task="count",
        instruction=Text(en=f"draw {row} dots", zh=f"画{row}个点"),
        meta={"answer": row} if row != 2 else {"hint": "two"},
    )
    for row in range(3)
]
IMAGES = [Image.new("RGB", (8, 8), (row, 0, 0)) for row in range(3)]
REFERENCES = [[], [IMAGES[0]], [IMAGES[0], IMAGES[1]]]

Make = Callable[..., CallableReward]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Return a function that writes a user's file and makes a reward of its function `score`."""

    def from_source(source: str, name: str = "score", **settings: str) -> CallableReward:
        path = tmp_path / "mine.py"
        path.write_text(source)
        return CallableReward(f"{path}:{name}", **settings)

    return from_source


def ask(reward: CallableReward) -> RewardOutput:
    return ask_reward(reward, cases=CASES, references=REFERENCES, images=IMAGES)


def test_a_function_written_for_trl_gets_prompts_pictures_and_every_column(make: Make) -> None:
    reward = make(
        "def score(prompts, completions, answer, **kwargs):\n"
        "    assert prompts == ['draw 0 dots', 'draw 1 dots', 'draw 2 dots'], prompts\n"
        "    assert sorted(kwargs) == ['case_id', 'hint', 'references', 'task'], kwargs\n"
        "    assert [len(pictures) for pictures in kwargs['references']] == [0, 1, 2]\n"
        "    assert kwargs['hint'] == [None, None, 'two']\n"
        "    assert kwargs['case_id'] == ['case-0', 'case-1', 'case-2']\n"
        "    pairs = zip(completions, answer)\n"
        "    return [None if a is None else image.getpixel((0, 0))[0] + 10.0 * a for image, a in pairs]\n"
    )
    output = ask(reward)
    assert output.total[:2].tolist() == [0.0, 11.0]
    assert math.isnan(output.total[2].item())
    assert output.failed.tolist() == [False, False, True]
    assert output.reasons == {2: "the function returned None"}


def test_a_function_without_keywords_gets_only_what_it_names(make: Make) -> None:
    reward = make("def score(completions, task, level=2):\n    return [level] * len(completions)\n")
    assert ask(reward).total.tolist() == [2.0, 2.0, 2.0]


def test_the_prompts_are_in_the_language_of_the_config(make: Make) -> None:
    source = "def score(prompts, completions):\n    return [float('画' in prompt) for prompt in prompts]\n"
    assert ask(make(source, language="zh")).total.tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("values", ["numpy.arange(3)", "torch.arange(3)", "(x for x in (0, True, 2.0))"])
def test_numbers_of_other_libraries_are_numbers(make: Make, values: str) -> None:
    output = ask(make(f"import numpy, torch\ndef score(completions):\n    return {values}\n"))
    assert output.total.tolist() == [0.0, 1.0, 2.0]


def test_a_nan_is_a_failure_with_another_reason_than_none(make: Make) -> None:
    output = ask(make("def score(completions):\n    return [float('nan'), None, 1]\n"))
    assert output.failed.tolist() == [True, True, False]
    assert output.reasons == {0: "not finite (nan)", 1: "the function returned None"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return [1.0, 2.0]", r"one number for each of 3 pictures from .*mine\.py:score, got 2"),
        ("return 1.0", "a list of numbers from .*, got float"),
        ("return {0.5, 0.25, 0.125}", "a list of numbers from .*, got set"),
        ("return frozenset((0.5, 0.25, 0.125))", "a list of numbers from .*, got frozenset"),
        ("return [0.0, 10**400, 2.0]", "for row 1"),
        ("return '123'", "a list of numbers from .*, got str"),
        ("return [0.0, '1', 2.0]", r"a number or None from .*, got '1' for row 1"),
        ("return [0.0, [1.0], 2.0]", r"got \[1.0\] for row 1"),
        ("return [c / 0 for c in (1, 2, 3)]", r"mine\.py:score raised ZeroDivisionError \(.*; mine\.py, line 2\)"),
    ],
)
def test_anything_else_than_a_number_or_none_per_picture_is_an_error(make: Make, body: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        ask(make(f"def score(completions):\n    {body}\n"))


def test_a_column_that_the_cases_do_not_have_is_named(make: Make) -> None:
    with pytest.raises(UserError, match=r"asks for ground_truth, but the columns are prompts, .*, answer, hint"):
        ask(make("def score(completions, ground_truth, **kwargs):\n    return [0.0] * 3\n"))


def test_a_key_of_meta_that_hides_a_column_is_refused(make: Make) -> None:
    reward = make("def score(completions, **kwargs):\n    return [0.0]\n")
    case = CASES[0].model_copy(update={"meta": {"prompts": "x"}})
    with pytest.raises(UserError, match="got prompts; rename"):
        ask_reward(reward, cases=[case], references=[[]], images=IMAGES[:1])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("no colon", "'folder/file.py:name' or 'module:name', got 'no colon'"),
        ("/no/such/file.py:score", "reward function at /no/such/file.py, there is none"),
        ("no_such_module_here:score", "could not import no_such_module_here"),
        ("json:missing", "expected a function 'missing' in json; there are dump, dumps"),
        ("string:digits", "expected a function 'digits' in string"),
    ],
)
def test_a_function_that_is_not_there_is_named_before_any_work(function: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        CallableReward(function)


def test_a_file_that_does_not_run_and_a_function_for_something_else_are_refused(make: Make) -> None:
    with pytest.raises(UserError, match=r"could not run .*mine\.py: NameError: name 'x' is not defined"):
        make("x\n")
    with pytest.raises(UserError, match=r"takes `completions`, the pictures, at .*it takes \(texts\)"):
        make("def score(texts):\n    return texts\n")


def test_a_changed_file_is_another_reward(make: Make) -> None:
    source = "def score(completions):\n    return [0.0] * len(completions)\n"
    before = make(source).fingerprint
    assert make(source).fingerprint == before
    assert make(source.replace("0.0", "1.0")).fingerprint != before


def test_a_function_of_a_module_is_found(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make("def score(completions):\n    return [3.0] * len(completions)\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert ask(CallableReward("mine:score")).total.tolist() == [3.0] * 3
