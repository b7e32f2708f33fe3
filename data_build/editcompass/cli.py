"""The commands that construct cases: `gnomon data propose-edits | refine-scenarios | merge-reviews`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from jsonargparse.typing import PositiveInt

from bench.cli import AnyGenerator
from gnomon.errors import UserError
from rm.vlm.conversation import VLM, GenerationParameters


def propose_edits(
    *,
    photos: Path,
    tasks: list[str] | str,
    vlms: list[VLM],
    out: Path,
    num: PositiveInt = 3,
    parameters: GenerationParameters | None = None,
    batch_size: PositiveInt = 8,
) -> None:
    """Let several vision-language models write edit instructions for photographs, from which people choose.

    Args:
        photos: folder with the photographs.
        tasks: of Edit-Compass' categories general and complex, such as add,remove.
        vlms: whom to ask, such as [{class_path: rm.vlm.api.ApiVLM, init_args: {...}}].
        out: folder to write; run again to go on after a stop, and to ask again what failed.
        num: instructions of each model for each photograph and task.
        parameters: how replies are sampled; greedy by default.
        batch_size: questions at once.
    """
    from bench.selection import listed
    from data_build.editcompass.proposals import PROBLEMS
    from data_build.editcompass.proposals import propose_edits as propose

    chosen = listed(tasks, flag="--tasks") or ()
    summary = propose(photos, out, vlms, tasks=chosen, num=num, parameters=parameters, batch_size=batch_size)
    num_ok = summary.statuses.get("ok", 0)
    print(f"{num_ok} instructions for {summary.num_photos} photographs in {out}, {summary.num_asked} asked for")
    for model, statuses in summary.statuses_of_models.items():
        print(f"  {model}: {_counts(statuses)}")
    if summary.num_left_out:
        print(f"files left out: {_counts(summary.num_left_out)}; see {out / PROBLEMS}")
    if not num_ok:
        raise UserError(f"no model wrote an instruction that can be read: {_counts(summary.statuses)}")


def refine_scenarios(
    *,
    scenarios: Path,
    vlm: VLM,
    generator: AnyGenerator,
    out: Path,
    parameters: GenerationParameters | None = None,
    split: Literal["train", "validation", "test"] = "test",
    seed: int = 0,
    batch_size: PositiveInt = 8,
) -> None:
    """Let a model turn experts' descriptions into prompts, and a generator make the sources of edits from these.

    Args:
        scenarios: file with a line {id, task, description, instruction: {en, zh}, hints} for each case.
        vlm: writes the prompts.
        generator: makes pictures of a text, such as bench.generators_api.ImagesApiGenerator.
        out: folder to write; run again to go on after a stop, and to try again what failed.
        parameters: how prompts are sampled; greedy by default.
        split: of the cases.
        seed: of the pictures.
        batch_size: prompts, and pictures, at once.
    """
    from data_build.editcompass.sources import PROBLEMS
    from data_build.editcompass.sources import refine_scenarios as refine

    summary = refine(
        scenarios, out, vlm, generator, parameters=parameters, split=split, seed=seed, batch_size=batch_size
    )
    print(f"{summary.num_cases} cases of {summary.num_scenarios} scenarios in {out}, to be reviewed")
    print(f"  prompts: {_counts(summary.prompts)}\n  sources: {_counts(summary.sources)}")
    if summary.num_left_out:
        print(f"lines left out: {summary.num_left_out}; see {out / PROBLEMS}")
    if not summary.num_cases:
        raise UserError(
            f"no scenario got all its pictures: prompts {_counts(summary.prompts)}; sources {_counts(summary.sources)}"
        )


def merge_reviews(
    *,
    items: list[Path] | Path,
    reviews: list[Path] | Path,
    out: Path,
    selections: list[Path] | Path | None = None,
    num_reviewers: PositiveInt = 5,
    split: Literal["train", "validation", "test"] = "test",
) -> None:
    """Keep what all reviewers approve of, and write it as cases with a decision about every item.

    Args:
        items: folder of propose-edits, of refine-scenarios or of other Edit-Compass cases; or a list of them.
        reviews: file with lines {item, reviewer, safety, quality, suitability, comment}; or a list.
        out: case folder to write.
        selections: file with lines {item, task, proposal, by}, needed for photographs; or a list.
        num_reviewers: how many must have approved.
        split: of the cases.
    """
    from data_build.editcompass.merging import DECISIONS, PROBLEMS
    from data_build.editcompass.merging import merge_reviews as merge

    summary = merge(
        _list(items),
        _list(reviews),
        out,
        selections=[] if selections is None else _list(selections),
        num_reviewers=num_reviewers,
        split=split,
    )
    print(f"{summary.num_kept} cases in {out}, of {summary.num_items} items: {_counts(summary.reasons)}")
    if summary.rejected_aspects:
        print(f"rejected for: {_counts(summary.rejected_aspects)}")
    print(f"why, line by line: {out / DECISIONS}")
    if summary.problems:
        print(f"lines that do not count: {_counts(summary.problems)}; see {out / PROBLEMS}")
    if not summary.num_kept:
        raise UserError(f"no case is left: {_counts(summary.reasons)}; see {out / DECISIONS}")


def _list(paths: list[Path] | Path) -> list[Path]:
    return paths if isinstance(paths, list) else [paths]


def _counts(counts: Mapping[Any, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"
