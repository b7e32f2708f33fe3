from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from data_build.editcompass.scenarios import read_scenarios
from gnomon.errors import UserError
from gnomon.jsonl import write_records

INSTRUCTION = {"en": "Let it fall.", "zh": "让它掉下来。"}


def scenario(name: str, task: str = "causal", **changes: Any) -> dict[str, Any]:
    return {"id": name, "task": task, "description": f"a vase, {name}", "instruction": INSTRUCTION, **changes}


SCENARIOS = [
    scenario("vase", hints="It lies in pieces."),
    scenario("shop/1", "virtual_try_on", description=["a person in a grey shirt", "a red coat alone"]),
    scenario("dog", "action"),
]


def test_lines_that_cannot_be_used_are_named_and_the_rest_goes_on(scenarios: Path) -> None:
    bad: list[tuple[Any, str]] = [
        (scenario("vase"), "the name 'vase' is already that of line 1"),
        (scenario("shop/1_2"), "the name 'shop/1_2' is already that of line 2"),
        (scenario("x", "casual"), "got 'casual' (did you mean 'causal'?)"),
        (scenario("x", "add"), "expected a task out of action,"),
        (scenario("x", description=["a", "b"]), "expected one description for the task causal"),
        (scenario("x", "multi_image_aware"), "a list of at least two descriptions"),
        (scenario("x", "multi_image_aware", description=["a"]), "a list of at least two descriptions"),
        (scenario("x", description=" "), "a blank one"),
        (scenario("x", instruction={"en": "Let it fall."}), "under both 'en' and 'zh'"),
        (scenario("x", hint="?"), "unknown key 'hint'"),
        ({"id": "x"}, "missing key 'task'"),
    ]
    with scenarios.open("a") as file:
        file.write("\n{no json\n")
        file.writelines(f"{json.dumps(line)}\n" for line, _ in bad)

    usable, problems = read_scenarios(scenarios)

    assert [line.id for line in usable] == ["vase", "shop/1", "dog"]
    assert [problem.line for problem in problems] == list(range(5, 6 + len(bad)))
    assert {problem.file for problem in problems} == {str(scenarios)}
    for problem, words in zip(problems, ["expected one JSON object", *(words for _, words in bad)], strict=True):
        assert words in problem.message


def test_a_file_without_a_usable_line_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    write_records(tmp_path / "bad.jsonl", [scenario("x", "casual")])
    with pytest.raises(UserError, match="the file is empty"):
        read_scenarios(tmp_path / "empty.jsonl")
    with pytest.raises(UserError, match=r"none can be used; .*bad\.jsonl:1: expected a task"):
        read_scenarios(tmp_path / "bad.jsonl")
    with pytest.raises(UserError, match=r"nowhere\.jsonl"):
        read_scenarios(tmp_path / "nowhere.jsonl")
