"""The steps of the demo: which command with which arguments, in order.

Every step is a real `gnomon` command that also works when typed by hand; the demo only fills in the folders.
"""

from __future__ import annotations

import shlex
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import data_build
from data_build.tabletop.edits import SIMPLE_KINDS
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash

EDITOR_KINDS = SIMPLE_KINDS
"""The kinds of edits that the shipped editor was trained on."""

NUM_TRAIN, NUM_VALIDATION, NUM_TEST = 256, 96, 240
"""Cases for sampling and steering, for choosing checkpoints, and for the figures at the end."""

NUM_PREFERENCE_CASES = {"train": 128, "validation": 48, "test": 192}
"""Instructions of each split whose candidates are compared; those of a smaller number are its first cases."""


RECIPES = (
    "data/tabletop_preferences.yaml",
    "rm/tabletop.yaml",
    "rl/tabletop.yaml",
    "bench/tabletop_generate.yaml",
    "bench/tabletop_judge.yaml",
)
CLEAR_MARGIN = 0.15
"""Difference of the oracle's overall scores from which on it tells two candidates apart clearly."""


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
        return shlex.join(["gnomon", *self.argv])


def model_folder(name: str) -> Path:
    """Return the folder of a shipped model, "editor" or "judge".

    Raises:
        UserError: when the installation lacks it.
    """
    folder = Path(data_build.__file__).parent / "tabletop" / "models" / name
    if not folder.is_dir():
        raise UserError(
            f"expected the shipped {name} at {folder}; reinstall gnomon, or train it: gnomon data train-tabletop {name}"
        )
    return folder


def config_file(name: str) -> Path:
    """Return a recipe such as "rm/tabletop.yaml" from the checkout or from where the wheel put it.

    Raises:
        UserError: when it is in neither place.
    """
    # pip puts shared data into the environment, or into the user's scheme (`pip install --user`).
    schemes = [sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")]
    shared = [Path(sysconfig.get_path("data", scheme)) / "share" / "gnomon" / "configs" for scheme in schemes]
    places = [Path(data_build.__file__).parent.parent / "configs", *shared]
    for place in places:
        if (place / name).is_file():
            return place / name
    raise UserError(f"expected the recipe {name} in {' or '.join(map(str, places))}; reinstall gnomon")


def input_hashes() -> dict[str, str]:
    """Hash what the steps read beside their arguments: other recipes or models make another demo."""
    models = [path for name in ("editor", "judge") for path in sorted(model_folder(name).rglob("*.safetensors"))]
    return {
        "recipes": stable_hash([file_hash(config_file(name)) for name in RECIPES]),
        "models": stable_hash([file_hash(path) for path in models]),
    }


def demo_steps(out: Path, seed: int) -> list[Step]:
    """Return all steps; folders are below `out`."""
    return [*_data_steps(out, seed), *_judge_steps(out, seed), *_policy_steps(out, seed), *_bench_steps(out, seed)]


def _data_steps(out: Path, seed: int) -> list[Step]:
    """Draw the cases of each split, and compare candidates of some of them."""
    numbers = {"train": NUM_TRAIN, "validation": NUM_VALIDATION, "test": NUM_TEST}
    kinds = f"[{','.join(EDITOR_KINDS)}]"
    draw, sample = [], []
    for split, number in numbers.items():
        cases, count = out / "cases" / split, NUM_PREFERENCE_CASES[split]
        options = _flags(num=number, seed=seed, split=split, kinds=kinds, out=cases)
        draw.append(Step(f"cases-{split}", f"draw {number} {split} cases", ["data", "build", "tabletop", *options]))
        recipe, folder = config_file("data/tabletop_preferences.yaml"), out / "preferences" / split
        options = _flags(config=recipe, cases=cases, limit=count, seed=seed, out=folder)
        editor = ["--generator.model", str(model_folder("editor"))]
        title = f"sample candidates of {count} {split} instructions; the oracle compares them"
        sample.append(Step(f"preferences-{split}", title, ["data", "sample-preferences", *options, *editor]))
    return draw + sample


def _judge_steps(out: Path, seed: int) -> list[Step]:
    """Train the judge and measure it before and after, on instructions that it never saw."""
    base, preferences = model_folder("judge"), out / "preferences"
    options = _flags(config=config_file("rm/tabletop.yaml"), seed_everything=seed, out=out / "judge")
    data = ["--data.train", str(preferences / "train"), "--data.validation", str(preferences / "validation")]
    before, after = (out / "judge-evaluation" / name for name in ("before", "after"))
    shared = {"data": preferences / "test", "min_margin": CLEAR_MARGIN, "seed": seed}
    return [
        Step(
            "judge-fit",
            "train the judge: LoRA and heads on the preferences",
            ["rm", "fit", *options, "--model.base", str(base), *data],
        ),
        Step(
            "judge-before",
            "measure the judge before training",
            ["rm", "eval", *_flags(judge=base, out=before, **shared)],
        ),
        Step(
            "judge-after",
            "measure the judge after training, on instructions that it never saw",
            ["rm", "eval", *_flags(judge=out / "judge" / "model", out=after, against=before, **shared)],
        ),
    ]


def _policy_steps(out: Path, seed: int) -> list[Step]:
    """Steer the editor and export what was learned."""
    options = _flags(config=config_file("rl/tabletop.yaml"), seed_everything=seed, out=out / "policy")
    models = [
        *("--model.generator.init_args.model", str(model_folder("editor"))),
        *("--model.reward.init_args.model", str(out / "judge" / "model")),
    ]
    data = ["--data.train", str(out / "cases" / "train"), "--data.validation", str(out / "cases" / "validation")]
    return [
        Step(
            "policy-fit",
            "steer the editor: Flow-GRPO with the judge as the only reward",
            ["rl", "fit", *options, *models, *data],
        ),
        Step(
            "policy-export", "export the LoRA for diffusers", ["rl", "export", str(out / "policy"), str(out / "lora")]
        ),
    ]


def _bench_steps(out: Path, seed: int) -> list[Step]:
    """Edit the test cases before and after, score both by judge and oracle, and compare."""
    steps = []
    for name, adapter in (("before", []), ("after", ["--generator.init_args.lora", str(out / "lora")])):
        run = out / "bench" / name
        recipe = config_file("bench/tabletop_generate.yaml")
        options = _flags(config=recipe, cases=out / "cases" / "test", name=name, seed=seed, out=run)
        editor = ["--generator.init_args.model", str(model_folder("editor")), *adapter]
        judge = ["--judge.init_args.model", str(out / "judge" / "model")]
        oracle = [*_flags(run=run), "--judge.class_path", "data_build.tabletop.judging.OracleJudge"]
        steps += [
            Step(
                f"generate-{name}",
                f"edit {NUM_TEST} held-out cases, {name} steering",
                ["bench", "generate", *options, *editor],
            ),
            Step(
                f"score-{name}",
                "score them by the judge",
                ["bench", "judge", *_flags(config=config_file("bench/tabletop_judge.yaml"), run=run), *judge],
            ),
            Step(f"oracle-{name}", "score them by the oracle, which the reward never saw", ["bench", "judge", *oracle]),
            Step(f"summarize-{name}", "make the numbers", ["bench", "summarize", *_flags(run=run)]),
        ]
    compared = _flags(before=out / "bench" / "before", after=out / "bench" / "after", out=out / "compared")
    return [*steps, Step("compare", "compare before and after", ["bench", "compare", *compared])]


def _flags(**options: object) -> list[str]:
    """Return `--name value` for each option."""
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]
