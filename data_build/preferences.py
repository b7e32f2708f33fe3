"""Comparisons of a generator's own candidates: sampled by Flow-SDE on one instruction, labelled by the tabletop oracle.

A judge that is to steer a generator must tell apart what that generator makes; so its training pairs come from the
rollout that reinforcement learning uses.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from PIL.Image import Image

from bench.generators import file_stem
from data_build.tabletop.judging import scenes_of, score_case
from gnomon.datasets import COMPARISONS, dataset_hash, read_cases, write_records
from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.images import content_hash, save_png
from gnomon.progress import track
from gnomon.records import Case, ComparedImage, Comparison, Judgement, Record, Reference
from gnomon.runs import RunFolder, atomic_write_text
from rl.data import load_references
from rl.generator import DiffusersGenerator
from rl.rollouts import candidate_seeds, sample_group_trajectories
from rl.samplers import StochasticSampler, sde_window

METRIC_OF = {
    "instruction_awareness": "instruction",
    "visual_consistency": "consistency",
    "visual_quality": "quality",
    "overall": "overall",
}
"""Which of the oracle's metrics labels which dimension."""

CASES_AT_ONCE = 8
TIE_SHARE = 0.25
"""Share of ties in the overall score among the pairs of a case, where `pairs_per_case` leaves a choice."""

GROUPS = "groups.jsonl"
SUMMARY = "summary.json"
README = """# Preferences

Candidates of one generator per instruction, sampled by Flow-SDE and compared by the tabletop oracle in four \
dimensions (a difference below {tie_margin:g} is a tie), made by `gnomon data sample-preferences`.
"""


class SampledGroup(Record):
    """What came of one case; a line of `groups.jsonl`. No comparison where all candidates were the same picture."""

    case_id: str
    num_candidates: int
    num_duplicates: int
    comparison: Comparison | None


class PreferenceSummary(Record):
    """Counts of a finished folder. `tie_shares` is by dimension, over all pairs."""

    num_cases: int
    num_comparisons: int
    num_candidates: int
    num_duplicates: int
    num_pairs: int
    tie_shares: dict[str, float]


@dataclass(frozen=True)
class PreferenceSettings:
    """What is sampled of each case, and how it is labelled.

    Attributes:
        num_candidates: candidates per case, at least 2; of equal pictures only the first is kept.
        noise_level: of the SDE.
        window_size: neighbouring stochastic steps of a trajectory.
        window_first: earliest step at which they start.
        window_last: latest such step; the start is drawn for every few cases, as in training.
        tie_margin: differences of the oracle's scores below it are ties.
        pairs_per_case: judge at most so many pairs of a case, about a quarter of them ties; None for all.
    """

    num_candidates: int = 8
    noise_level: float = 0.9
    window_size: int = 3
    window_first: int = 0
    window_last: int = 2
    tie_margin: float = 0.05
    pairs_per_case: int | None = None

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.num_candidates < 2:
            raise UserError(f"expected num_candidates >= 2, got {self.num_candidates}")
        if self.pairs_per_case is not None and self.pairs_per_case < 1:
            raise UserError(f"expected pairs_per_case >= 1, got {self.pairs_per_case}")
        if self.tie_margin < 0 or self.noise_level <= 0:
            raise UserError(
                f"expected tie_margin >= 0 and noise_level > 0, got {self.tie_margin} and {self.noise_level}"
            )

    def window(self, seed: int, batch: int, num_steps: int) -> range:
        """Choose the stochastic steps of a batch.

        Raises:
            UserError: when they do not fit into the schedule.
        """
        try:
            return sde_window(seed, batch, num_steps, self.window_size, self.window_first, self.window_last)
        except ValueError as error:
            raise UserError(str(error)) from error


def sample_preferences(
    cases: str | Path,
    out: str | Path,
    generator: DiffusersGenerator,
    settings: PreferenceSettings | None = None,
    *,
    seed: int = 0,
    limit: int | None = None,
) -> PreferenceSummary:
    """Write a comparison folder with one comparison per case; run again to go on after a stop.

    Args:
        cases: folder of tabletop cases.
        out: the folder to write.
        generator: who edits.
        settings: what is sampled and how it is labelled.
        seed: of candidates and of the choice of pairs.
        limit: take only the first cases.

    Raises:
        UserError: for cases that the oracle does not know, numbers out of range, a folder of another run, and when no
            case had two different candidates.
    """
    settings = settings or PreferenceSettings()
    settings.window(seed, 0, generator.num_inference_steps)
    if limit is not None and limit < 1:
        raise UserError(f"expected limit >= 1, got {limit}")
    chosen = read_cases(cases)[:limit]
    for case in chosen:
        scenes_of(case)  # raises before anything is sampled
    config = {
        **asdict(settings),
        "limit": limit,
        "generator": {"model": generator.model, "fingerprint": generator.fingerprint},
    }
    inputs = {"dataset": dataset_hash(cases)}
    with RunFolder.open(out, command="data sample-preferences", config=config, seed=seed, inputs=inputs) as run:
        done = run.done_keys(lambda line: str(line["case_id"]), GROUPS)
        batches = [chosen[start : start + CASES_AT_ONCE] for start in range(0, len(chosen), CASES_AT_ONCE)]
        for number, batch in enumerate(track(batches, "sampling candidates")):
            # A batch that a kill cut short is made again as a whole: a candidate's last bits depend on its neighbours.
            if done.issuperset(case.id for case in batch):
                continue
            references = [load_references(cases, case) for case in batch]
            window = settings.window(seed, number, generator.num_inference_steps)
            candidates = _sample(generator, batch, references, window, settings, seed)
            for case, pictures, images in zip(batch, references, candidates, strict=True):
                if case.id not in done:
                    run.append(_write_group(run.path, generator, case, pictures, images, settings, seed), GROUPS)
        return _finish(run, [case.id for case in chosen], settings)


def _sample(
    generator: DiffusersGenerator,
    cases: Sequence[Case],
    references: Sequence[list[Image]],
    window: range,
    settings: PreferenceSettings,
    seed: int,
) -> list[list[Image]]:
    """Return the candidates of each case."""
    count = settings.num_candidates
    conditioning = generator.condition(cases, references).expand(count)
    # Other seeds than a training with the same seed uses: the judge should not know the rollouts that it will reward.
    seeds = candidate_seeds(stable_seed(seed, "preferences"), 0, cases, count)
    sampler = StochasticSampler("flow_sde", settings.noise_level)
    images = sample_group_trajectories(generator, conditioning, seeds, window, sampler).images
    return [images[start : start + count] for start in range(0, len(images), count)]


def _write_group(
    out: Path,
    generator: DiffusersGenerator,
    case: Case,
    references: Sequence[Image],
    candidates: Sequence[Image],
    settings: PreferenceSettings,
    seed: int,
) -> SampledGroup:
    """Write the pictures of one case, label its pairs and return the line about it."""
    unique = {content_hash(image): member for member, image in reversed(list(enumerate(candidates)))}
    compared = []
    for member in sorted(unique.values()):
        path = f"images/{file_stem(case.id)}_{member:02d}.png"
        save_png(candidates[member], out / path)
        metrics = score_case(case, candidates[member])
        scores = {dimension: round(metrics[metric], 6) for dimension, metric in METRIC_OF.items()}
        compared.append(ComparedImage(path=path, generator=Path(generator.model).name, scores=scores))
    copies = []
    for place, (reference, picture) in enumerate(zip(case.references, references, strict=True)):
        path = f"references/{file_stem(case.id)}_{place}.png"
        save_png(picture, out / path)
        copies.append(reference.model_copy(update={"path": path}))
    rng = random.Random(stable_seed(seed, "pairs", case.id))
    judgements = judge_pairs(
        [image.scores for image in compared], settings.tie_margin, limit=settings.pairs_per_case, rng=rng
    )
    return SampledGroup(
        case_id=case.id,
        num_candidates=len(candidates),
        num_duplicates=len(candidates) - len(compared),
        comparison=_comparison(case, copies, compared, judgements) if judgements else None,
    )


def _comparison(
    case: Case, references: list[Reference], compared: list[ComparedImage], judgements: list[Judgement]
) -> Comparison:
    return Comparison(
        id=case.id,
        instruction=case.instruction,
        references=references,
        candidates=compared,
        judgements=judgements,
        group_id=case.id,
        task=case.task,
        split=case.split,
        source="sample-preferences",
        meta={name: case.meta[name] for name in ("held_out", "combination") if name in case.meta},
    )


def judge_pairs(
    scores: Sequence[Mapping[str, float]], tie_margin: float, *, limit: int | None, rng: random.Random
) -> list[Judgement]:
    """Compare candidates in every dimension.

    Args:
        scores: of each candidate, by dimension; all have the same dimensions, "overall" among them.
        tie_margin: a smaller difference is a tie.
        limit: judge at most so many pairs; ties in "overall" make up `TIE_SHARE` of them where both sorts are plenty.
        rng: chooses them.

    Returns:
        The judgements pair by pair, with the difference as margin.
    """
    pairs = list(combinations(range(len(scores)), 2))
    if limit is not None and len(pairs) > limit:
        shuffled = rng.sample(pairs, len(pairs))
        ties = [(i, j) for i, j in shuffled if abs(scores[i]["overall"] - scores[j]["overall"]) < tie_margin]
        clear = [pair for pair in shuffled if pair not in ties]
        num_ties = min(len(ties), max(round(TIE_SHARE * limit), limit - len(clear)))
        pairs = sorted(clear[: limit - num_ties] + ties[:num_ties])
    return [_judgement(i, j, dimension, scores, tie_margin) for i, j in pairs for dimension in scores[0]]


def _judgement(i: int, j: int, dimension: str, scores: Sequence[Mapping[str, float]], tie_margin: float) -> Judgement:
    difference = round(scores[i][dimension] - scores[j][dimension], 6)
    label = "tie" if abs(difference) < tie_margin or difference == 0 else "i" if difference > 0 else "j"
    return Judgement.model_validate({"i": i, "j": j, "dimension": dimension, "label": label, "margin": abs(difference)})


def _finish(run: RunFolder, case_ids: Sequence[str], settings: PreferenceSettings) -> PreferenceSummary:
    """Write `comparisons.jsonl` in the order of the cases, however often the run was stopped, and count."""
    groups = {group.case_id: group for group in run.read(SampledGroup, GROUPS)}
    comparisons = [group.comparison for case_id in case_ids if (group := groups[case_id]).comparison is not None]
    if not comparisons:
        raise UserError(
            f"expected candidates that differ, but those of each of {len(groups)} cases were one and the same picture; "
            "raise noise_level, or look at the generator"
        )
    judgements = [judgement for comparison in comparisons for judgement in comparison.judgements]
    labels: dict[str, list[bool]] = {dimension: [] for dimension in METRIC_OF}
    for judgement in judgements:
        labels[judgement.dimension].append(judgement.label == "tie")
    summary = PreferenceSummary(
        num_cases=len(groups),
        num_comparisons=len(comparisons),
        num_candidates=sum(group.num_candidates for group in groups.values()),
        num_duplicates=sum(group.num_duplicates for group in groups.values()),
        num_pairs=len(judgements) // len(METRIC_OF),
        tie_shares={dimension: sum(ties) / len(ties) for dimension, ties in labels.items()},
    )
    run.write_json(SUMMARY, summary)
    atomic_write_text(run.path / "README.md", README.format(tie_margin=settings.tie_margin))
    write_records(run.path / COMPARISONS, comparisons)
    return summary
