"""The steps of the demo: which command with which arguments, in order.

Every step is a real `gnomon` command that also works when typed by hand; the demo only fills in the folders.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import data_build
from data_build.tabletop.edits import SIMPLE_KINDS
from gnomon.errors import UserError

EDITOR_KINDS = SIMPLE_KINDS
"""The kinds of edits that the shipped editor was trained on."""

NUM_TRAIN, NUM_VALIDATION, NUM_TEST = 256, 96, 240
"""Cases for sampling and steering, for choosing checkpoints, and for the figures at the end."""

NUM_PREFERENCE_CASES = {"train": 128, "validation": 48, "test": 96}
"""Instructions of each split whose candidates are compared; those of a smaller number are its first cases."""


@dataclass(frozen=True)
class Step:
    """One command of the demo.

    Attributes:
        name: of the step, and of its log file.
        title: what it does, for people.
        argv: the arguments after `gnomon`.
    """

    name: str
    title: str
    argv: list[str]

    @property
    def command(self) -> str:
        """The command as a user would type it."""
        return " ".join(["gnomon", *self.argv])


def model_folder(name: str) -> Path:
    """Return the folder of a shipped model, "editor" or "judge".

    Raises:
        UserError: when the installation lacks it.
    """
    folder = Path(data_build.__file__).parent / "tabletop" / "models" / name
    if not folder.is_dir():
        raise UserError(f"expected the shipped {name} at {folder}; reinstall gnomon, or train it: gnomon data train-tabletop {name}")
    return folder


def config_file(name: str) -> Path:
    """Return a recipe such as "rm/tabletop.yaml" from the checkout or from where the wheel put it.

    Raises:
        UserError: when it is in neither place.
    """
    places = [Path(data_build.__file__).parent.parent / "configs", Path(sys.prefix) / "share" / "gnomon" / "configs"]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise UserError(f"expected the recipe {name} in {places[0]} or {places[1]}; reinstall gnomon")


def demo_steps(out: Path, seed: int) -> list[Step]:
    """Return all steps; folders are below `out`."""
    cases = {split: str(out / "cases" / split) for split in ("train", "validation", "test")}
    preferences = {split: str(out / "preferences" / split) for split in cases}
    judge, policy, lora = out / "judge", out / "policy", out / "lora"
    editor, base = str(model_folder("editor")), str(model_folder("judge"))
    numbers = {"train": NUM_TRAIN, "validation": NUM_VALIDATION, "test": NUM_TEST}
    steps = [
        Step(
            f"cases-{split}",
            f"draw {numbers[split]} {split} cases",
            ["data", "build", "tabletop", "--num", str(numbers[split]), "--seed", str(seed), "--split", split]
            + ["--kinds", f"[{','.join(EDITOR_KINDS)}]", "--out", folder],
        )
        for split, folder in cases.items()
    ]
    steps += [
        Step(
            f"preferences-{split}",
            f"sample candidates of {NUM_PREFERENCE_CASES[split]} {split} instructions, compare them by the oracle",
            ["data", "sample-preferences", "--config", str(config_file("data/tabletop_preferences.yaml"))]
            + ["--cases", cases[split], "--limit", str(NUM_PREFERENCE_CASES[split]), "--seed", str(seed)]
            + ["--generator.model", editor, "--out", folder],
        )
        for split, folder in preferences.items()
    ]
    steps += [
        Step(
            "judge-fit",
            "train the judge: LoRA and heads on the preferences",
            ["rm", "fit", "--config", str(config_file("rm/tabletop.yaml")), "--seed_everything", str(seed)]
            + ["--model.base", base, "--data.train", preferences["train"]]
            + ["--data.validation", preferences["validation"], "--out", str(judge)],
        ),
        Step("judge-before", "measure the judge before training", _evaluate(base, preferences["test"], out, "before")),
        Step(
            "judge-after",
            "measure the judge after training, on instructions that it never saw",
            _evaluate(str(judge / "model"), preferences["test"], out, "after")
            + ["--against", str(out / "judge-evaluation" / "before")],
        ),
        Step(
            "policy-fit",
            "steer the editor: Flow-GRPO with the judge as the only reward",
            ["rl", "fit", "--config", str(config_file("rl/tabletop.yaml")), "--seed_everything", str(seed)]
            + ["--model.generator.model", editor, "--model.reward.init_args.model", str(judge / "model")]
            + ["--data.train", cases["train"], "--data.validation", cases["validation"], "--out", str(policy)],
        ),
        Step("policy-export", "export the LoRA for diffusers", ["rl", "export", str(policy), str(lora)]),
    ]
    for name, adapter in (("before", []), ("after", ["--generator.lora", str(lora)])):
        run = str(out / "bench" / name)
        steps += [
            Step(
                f"generate-{name}",
                f"edit {NUM_TEST} held-out cases with the editor {name} steering",
                ["bench", "generate", "--config", str(config_file("bench/tabletop_generate.yaml"))]
                + ["--cases", cases["test"], "--generator.model", editor, *adapter]
                + ["--name", name, "--seed", str(seed), "--out", run],
            ),
            Step(
                f"score-{name}",
                "score them by the judge",
                ["bench", "judge", "--config", str(config_file("bench/tabletop_judge.yaml"))]
                + ["--run", run, "--judge.model", str(judge / "model")],
            ),
            Step(
                f"oracle-{name}",
                "score them by the oracle, which the reward never saw",
                ["bench", "judge", "--run", run, "--judge.class_path", "data_build.tabletop.judging.OracleJudge"],
            ),
            Step(f"summarize-{name}", "make the numbers", ["bench", "summarize", "--run", run]),
        ]
    compared = ["--before", str(out / "bench" / "before"), "--after", str(out / "bench" / "after")]
    steps.append(Step("compare", "compare before and after", ["bench", "compare", *compared, "--out", str(out / "compared")]))
    return steps


def _evaluate(judge: str, data: str, out: Path, name: str) -> list[str]:
    """Return the arguments of one judge evaluation; 0.15 is where the oracle tells two candidates apart clearly."""
    folder = str(out / "judge-evaluation" / name)
    return ["rm", "eval", "--judge", judge, "--data", data, "--min-margin", "0.15", "--out", folder]
