"""Groups of candidates of one generator for one instruction, sampled as reinforcement learning samples them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from PIL.Image import Image

from bench.generators import file_stem
from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.images import save_png
from gnomon.progress import track
from gnomon.records import CLEAN_SOURCE, Case, Reference
from rl.data import load_references
from rl.generator import DiffusersGenerator
from rl.rollouts import candidate_seeds, sample_group_trajectories
from rl.samplers import StochasticSampler, sde_window

_SAMPLER: Final = "flow_sde"


@dataclass(frozen=True)
class SamplingSettings:
    """How candidates of a case are sampled.

    Attributes:
        num_candidates: candidates per case, at least 2.
        noise_level: of the SDE.
        window_size: neighbouring stochastic steps of a trajectory.
        window_first: earliest step at which they start.
        window_last: latest such step; the start is drawn for every few cases, as in training.
    """

    num_candidates: int = 8
    noise_level: float = 0.9
    window_size: int = 3
    window_first: int = 0
    window_last: int = 2

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.num_candidates < 2:
            raise UserError(f"expected num_candidates >= 2, got {self.num_candidates}")
        if self.noise_level <= 0:
            raise UserError(f"expected noise_level > 0, got {self.noise_level}")

    def window(self, seed: int, batch: int, num_steps: int) -> range:
        """Choose the stochastic steps of a batch.

        Raises:
            UserError: when they do not fit into the schedule.
        """
        try:
            return sde_window(seed, batch, num_steps, self.window_size, self.window_first, self.window_last)
        except ValueError as error:
            raise UserError(str(error)) from error


@dataclass(frozen=True)
class SampledCase:
    """What was sampled of a case: its references, the candidates and their seeds, and how.

    `sampling` is what :class:`gnomon.records.Candidate` records: sampler, noise level, stochastic steps, all steps, and
    the generator's model and fingerprint.
    """

    case: Case
    references: list[Image]
    images: list[Image]
    seeds: list[int]
    sampling: dict[str, Any]


def sampled_cases(
    root: str | Path,
    cases: Sequence[Case],
    done: set[str],
    generator: DiffusersGenerator,
    settings: SamplingSettings,
    seed: int,
    cases_at_once: int,
) -> Iterator[SampledCase]:
    """Sample candidates of all cases that are not done.

    Args:
        root: the folder of the cases.
        cases: all of the run, in order.
        done: ids of those that need nothing more.
        generator: who edits.
        settings: how.
        seed: of candidates and windows.
        cases_at_once: how many share a batch and a window; more than one only where all pictures have one size.
    """
    batches = [cases[start : start + cases_at_once] for start in range(0, len(cases), cases_at_once)]
    for number, batch in enumerate(track(batches, "sampling candidates")):
        # A batch that a kill cut short is made again as a whole: a candidate's last bits depend on its neighbours.
        if done.issuperset(case.id for case in batch):
            continue
        for sampled in _sample(root, batch, generator, settings, seed, number):
            if sampled.case.id not in done:
                yield sampled


def _sample(
    root: str | Path,
    cases: Sequence[Case],
    generator: DiffusersGenerator,
    settings: SamplingSettings,
    seed: int,
    batch: int,
) -> list[SampledCase]:
    """Sample the candidates of one batch."""
    count = settings.num_candidates
    references = [load_references(root, case) for case in cases]
    shown = [_shown_to_generators(case, pictures) for case, pictures in zip(cases, references, strict=True)]
    conditioning = generator.condition([case for case, _ in shown], [pictures for _, pictures in shown]).expand(count)
    # Other seeds than a training with the same seed uses: the judge should not know the rollouts that it will reward.
    seeds = candidate_seeds(stable_seed(seed, "preferences"), 0, cases, count)
    window = settings.window(seed, batch, generator.num_inference_steps)
    sampler = StochasticSampler(_SAMPLER, settings.noise_level)
    images = sample_group_trajectories(generator, conditioning, seeds, window, sampler).images
    sampling = {
        "sampler": _SAMPLER,
        "noise_level": settings.noise_level,
        "stochastic_steps": list(window),
        "num_inference_steps": generator.num_inference_steps,
        "model": generator.model,
        "fingerprint": generator.fingerprint,
    }
    parts = [slice(start, start + count) for start in range(0, len(images), count)]
    return [
        SampledCase(case, pictures, images[part], seeds[part], sampling)
        for case, pictures, part in zip(cases, references, parts, strict=True)
    ]


def _shown_to_generators(case: Case, pictures: list[Image]) -> tuple[Case, list[Image]]:
    """Return a case and its pictures without the references that are for judges alone."""
    both = [
        (reference, picture)
        for reference, picture in zip(case.references, pictures, strict=True)
        if reference.role != CLEAN_SOURCE
    ]
    references = [reference for reference, _ in both]
    return case.model_copy(update={"references": references}), [picture for _, picture in both]


def candidate_path(case: Case, number: int) -> str:
    """Return where a candidate's picture lies below the folder."""
    return f"images/{file_stem(case.id)}_{number:02d}.png"


def write_references(out: Path, case: Case, pictures: Sequence[Image]) -> list[Reference]:
    """Write a case's references below `out` and return them with their new paths."""
    copies = []
    for place, (reference, picture) in enumerate(zip(case.references, pictures, strict=True)):
        path = f"references/{file_stem(case.id)}_{place}.png"
        save_png(picture, out / path)
        copies.append(reference.model_copy(update={"path": path}))
    return copies
