"""Comparisons of a generator's own candidates: sampled by Flow-SDE on one instruction, labelled by the tabletop oracle.

A judge that is to steer a generator must tell apart what that generator makes; so its training pairs come from the
rollout that reinforcement learning uses. Where no oracle knows the answer, :mod:`data_build.preferences.proposing`
leaves the labels to annotators.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path

from data_build.preferences.comparisons import comparison_of
from data_build.preferences.sampling import (
    SampledCase,
    SamplingSettings,
    candidate_path,
    sampled_cases,
    write_references,
)
from data_build.tabletop.judging import scenes_of, score_case
from gnomon.datasets import COMPARISONS, dataset_hash, read_cases, write_records
from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.images import content_hash, save_png
from gnomon.records import ComparedImage, Comparison, Judgement, Record
from gnomon.runs import RunFolder, atomic_write_text
from rl.generator import DiffusersGenerator

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
class PreferenceSettings(SamplingSettings):
    """What is sampled of each case, and how it is labelled. Of equal candidates only the first is kept.

    Attributes:
        tie_margin: differences of the oracle's scores below it are ties.
        pairs_per_case: judge at most so many pairs of a case, about a quarter of them ties; None for all.
    """

    tie_margin: float = 0.05
    pairs_per_case: int | None = None

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        super().__post_init__()
        if self.pairs_per_case is not None and self.pairs_per_case < 1:
            raise UserError(f"expected pairs_per_case >= 1, got {self.pairs_per_case}")
        if self.tie_margin < 0:
            raise UserError(f"expected tie_margin >= 0, got {self.tie_margin}")


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
        for sampled in sampled_cases(cases, chosen, done, generator, settings, seed, CASES_AT_ONCE):
            run.append(_write_group(run.path, generator.model, sampled, settings, seed), GROUPS)
        return _finish(run, [case.id for case in chosen], settings)


def _write_group(out: Path, model: str, sampled: SampledCase, settings: PreferenceSettings, seed: int) -> SampledGroup:
    """Write the pictures of one case, label its pairs and return the line about it."""
    case, candidates = sampled.case, sampled.images
    unique = {content_hash(image): member for member, image in reversed(list(enumerate(candidates)))}
    compared = []
    for member in sorted(unique.values()):
        path = candidate_path(case, member)
        save_png(candidates[member], out / path)
        metrics = score_case(case, candidates[member])
        scores = {dimension: round(metrics[metric], 6) for dimension, metric in METRIC_OF.items()}
        compared.append(ComparedImage(path=path, generator=Path(model).name, scores=scores))
    copies = write_references(out, case, sampled.references)
    rng = random.Random(stable_seed(seed, "pairs", case.id))
    judgements = judge_pairs(
        [image.scores for image in compared], settings.tie_margin, limit=settings.pairs_per_case, rng=rng
    )
    return SampledGroup(
        case_id=case.id,
        num_candidates=len(candidates),
        num_duplicates=len(candidates) - len(compared),
        comparison=comparison_of(case, copies, compared, judgements, "sample-preferences") if judgements else None,
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
