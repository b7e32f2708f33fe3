"""A folder of candidates and of pairs to be compared by annotators, for any generator and any cases.

cases.jsonl        the cases, with copies of their references
candidates.jsonl   the candidates that passed the filters: generator, seed, how they were sampled
left_out.jsonl     the others, with reasons
pairs.jsonl        the pairs to compare, and in which dimensions
groups.jsonl       all of that case by case, as it was finished
summary.json       counts
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from PIL.Image import Image
from pydantic import Field

from bench.folder import CANDIDATES
from bench.selection import select
from data_build.preferences.filters import FilterSettings, distance, thumbnail, unclear_reason
from data_build.preferences.pairs import PAIRS, ProposedPair, propose_pairs
from data_build.preferences.pools import SAMPLE_COMMAND, Pool, read_pool
from data_build.preferences.sampling import (
    SampledCase,
    SamplingSettings,
    candidate_path,
    sampled_cases,
    write_references,
)
from gnomon.datasets import CASES, dataset_hash, read_cases, resolve, write_records
from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, load_image, save_png
from gnomon.progress import track
from gnomon.records import CLEAN_SOURCE, Candidate, Case, Record
from gnomon.runs import RunFolder, atomic_write_text
from rl.data import load_references
from rl.generator import DiffusersGenerator
from rm.pairs import DIMENSIONS

GROUPS = "groups.jsonl"
LEFT_OUT = "left_out.jsonl"
SUMMARY = "summary.json"
NEAR_COPY, UNCLEAR = "near_copy", "unclear"
README = """# Proposed pairs

Candidates of one instruction, in pairs that nobody has compared yet (`pairs.jsonl`), made by `gnomon data \
sample-preferences --label none`. Annotations of them become comparisons by `gnomon data merge-annotations`.
"""


class LeftOut(Record):
    """A candidate that is in no pair: the reason (a filter's name or a status) and what was found."""

    candidate: Candidate
    reason: str
    detail: str


class ProposedGroup(Record):
    """What came of one case; a line of `groups.jsonl`."""

    case: Case
    candidates: list[Candidate]
    left_out: list[LeftOut] = Field(default_factory=list)
    pairs: list[ProposedPair] = Field(default_factory=list)


class ProposalSummary(Record):
    """Counts of a finished folder.

    Attributes:
        num_cases: all cases.
        num_cases_without_pairs: those with fewer than two candidates left.
        num_not_sampled: cases with more references than the generator takes.
        num_candidates: candidates that passed, by generator.
        left_out: candidates that did not, by reason.
        num_pairs: pairs.
    """

    num_cases: int
    num_cases_without_pairs: int
    num_not_sampled: int
    num_candidates: dict[str, int]
    left_out: dict[str, int]
    num_pairs: int


@dataclass(frozen=True)
class ProposalSettings:
    """What is proposed of each case.

    Attributes:
        sampling: how candidates are sampled.
        filters: which are left out.
        dimensions: in which pairs are to be compared.
        pairs_per_case: at most so many; None for all.
        max_references: how many references the generator takes at most; of a case with more, nothing is sampled.
    """

    sampling: SamplingSettings = field(default_factory=SamplingSettings)
    filters: FilterSettings = field(default_factory=FilterSettings)
    dimensions: tuple[str, ...] = DIMENSIONS[:3]
    pairs_per_case: int | None = None
    max_references: int | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be proposed."""
        if self.pairs_per_case is not None and self.pairs_per_case < 1:
            raise UserError(f"expected pairs_per_case >= 1, got {self.pairs_per_case}")
        if not self.dimensions or len(set(self.dimensions)) < len(self.dimensions):
            raise UserError(f"expected one dimension or more, each once, got {list(self.dimensions)}")
        unknown = [name for name in self.dimensions if name not in DIMENSIONS]
        if unknown:
            raise UserError(f"expected dimensions out of {', '.join(DIMENSIONS)}, got {unknown[0]!r}")


def propose_preferences(
    cases: str | Path,
    out: str | Path,
    generator: DiffusersGenerator | None,
    settings: ProposalSettings | None = None,
    *,
    pools: Sequence[str | Path] = (),
    name: str | None = None,
    tasks: Sequence[str] | None = None,
    seed: int = 0,
    limit: int | None = None,
) -> ProposalSummary:
    """Sample candidates, filter them and propose pairs; run again to go on after a stop.

    Args:
        cases: folder of cases.
        out: the folder to write.
        generator: who edits; None where all candidates come from pools.
        settings: what is proposed of each case.
        pools: folders of `gnomon bench generate` or of earlier proposals whose candidates of these cases join in.
        name: of the generator in candidates and tables; by default the last part of its model's.
        tasks: take only cases of these tasks.
        seed: of candidates and of the choice of pairs.
        limit: take only the first of these cases.

    Raises:
        UserError: for numbers out of range, pools of other cases, a folder of another run, neither a generator nor a
            pool, and when no pair is left.
    """
    settings = settings or ProposalSettings()
    if generator is None and not pools:
        raise UserError("expected a generator or a pool to take candidates from, got neither; give --generator.model")
    if generator is not None:
        settings.sampling.window(seed, 0, generator.num_inference_steps)
    chosen = select(read_cases(cases), tasks=tasks, limit=limit)
    dataset = dataset_hash(cases)
    joined = [read_pool(pool, dataset) for pool in pools]
    config: dict[str, Any] = {"label": "none", **asdict(settings), "limit": limit, "tasks": sorted(set(tasks or ()))}
    if generator is not None:
        name = name or Path(generator.model).name
        config["generator"] = {"name": name, "model": generator.model, "fingerprint": generator.fingerprint}
    inputs = {"dataset": dataset, **{f"pool_{place}": pool.fingerprint for place, pool in enumerate(joined)}}
    with RunFolder.open(out, command=SAMPLE_COMMAND, config=config, seed=seed, inputs=inputs) as run:
        done = run.done_keys(lambda line: str(line["case"]["id"]), GROUPS)
        for sampled in _candidates(Path(cases), chosen, done, generator, settings, seed):
            run.append(_write_group(run.path, sampled, name or "", joined, settings, seed), GROUPS)
        return _finish(run, [case.id for case in chosen], generator is not None, settings)


def _candidates(
    root: Path,
    cases: Sequence[Case],
    done: set[str],
    generator: DiffusersGenerator | None,
    settings: ProposalSettings,
    seed: int,
) -> Iterator[SampledCase]:
    """Yield every case that is not done, with what the generator makes of it, if anything."""
    skipped = [case for case in cases if generator is None or _is_beyond(case, settings)]
    for case in track([case for case in skipped if case.id not in done], "reading candidates"):
        yield SampledCase(case, load_references(root, case), [], [], {})
    if generator is not None:
        within = [case for case in cases if not _is_beyond(case, settings)]
        # One at a time: sources have many sizes, and a kill then costs no more than one case.
        yield from sampled_cases(root, within, done, generator, settings.sampling, seed, cases_at_once=1)


def _is_beyond(case: Case, settings: ProposalSettings) -> bool:
    """Say whether a case has more references than the generator takes."""
    number = sum(reference.role != CLEAN_SOURCE for reference in case.references)
    return settings.max_references is not None and number > settings.max_references


def _write_group(
    out: Path,
    sampled: SampledCase,
    name: str,
    pools: Sequence[Pool],
    settings: ProposalSettings,
    seed: int,
) -> ProposedGroup:
    """Write the pictures of one case, filter them, propose its pairs and return the line about it."""
    case = sampled.case
    made = [
        (Candidate(case_id=case.id, generator=name, seed=one, path=None, sampling=sampled.sampling), image)
        for one, image in zip(sampled.seeds, sampled.images, strict=True)
    ]
    kept: dict[int, Candidate] = {}
    thumbnails: dict[int, Any] = {}
    left_out = []
    for number, (candidate, image) in enumerate([*made, *_pooled(case, pools)]):
        if isinstance(image, LeftOut):
            left_out.append(image)
            continue
        path = candidate_path(case, number)
        save_png(image, out / path)
        candidate = candidate.model_copy(update={"path": path})
        small = thumbnail(image)
        reason = unclear_reason(image, sampled.references, settings.filters)
        near = next((other for other in kept if _is_copy(small, thumbnails[other], settings.filters)), None)
        if reason is not None:
            left_out.append(LeftOut(candidate=candidate, reason=UNCLEAR, detail=reason))
        elif near is not None:
            left_out.append(LeftOut(candidate=candidate, reason=NEAR_COPY, detail=f"a near copy of {kept[near].path}"))
        else:
            kept[number], thumbnails[number] = candidate, small
    copies = write_references(out, case, sampled.references)
    return ProposedGroup(
        case=case.model_copy(update={"references": copies}),
        candidates=list(kept.values()),
        left_out=left_out,
        pairs=propose_pairs(case.id, kept, settings.dimensions, limit=settings.pairs_per_case, seed=seed),
    )


def _is_copy(first: Any, second: Any, filters: FilterSettings) -> bool:
    apart = distance(first, second)
    return apart < filters.min_distance or apart == 0


def _pooled(case: Case, pools: Sequence[Pool]) -> Iterator[tuple[Candidate, Image | LeftOut]]:
    """Yield the candidates that pools have of a case, with their pictures or why they have none."""
    for pool in pools:
        for found in pool.by_case.get(case.id, []):
            candidate = found.model_copy(update={"sampling": {**found.sampling, "pool": pool.path.name}})
            if candidate.path is None:
                detail = f"{pool.path} has no picture of it"
                yield candidate, LeftOut(candidate=candidate, reason=candidate.status, detail=detail)
                continue
            try:
                yield candidate, load_image(resolve(pool.path, candidate.path))
            except UnreadableImageError as error:
                yield candidate, LeftOut(candidate=candidate, reason="unreadable_image", detail=str(error))


def _finish(
    run: RunFolder, case_ids: Sequence[str], has_generator: bool, settings: ProposalSettings
) -> ProposalSummary:
    """Write the files in the order of the cases, however often the run was stopped, and count."""
    by_id = {group.case.id: group for group in run.read(ProposedGroup, GROUPS)}
    groups = [by_id[case_id] for case_id in case_ids]
    left_out = [item for group in groups for item in group.left_out]
    summary = ProposalSummary(
        num_cases=len(groups),
        num_cases_without_pairs=sum(not group.pairs for group in groups),
        num_not_sampled=sum(has_generator and _is_beyond(group.case, settings) for group in groups),
        num_candidates=dict(Counter(candidate.generator for group in groups for candidate in group.candidates)),
        left_out=dict(Counter(item.reason for item in left_out)),
        num_pairs=sum(len(group.pairs) for group in groups),
    )
    write_records(run.path / CASES, [group.case for group in groups])
    write_records(run.path / CANDIDATES, [candidate for group in groups for candidate in group.candidates])
    write_records(run.path / LEFT_OUT, left_out)
    run.write_json(SUMMARY, summary)
    if not summary.num_pairs:
        raise UserError(
            f"expected pairs of candidates that differ, but none of {len(groups)} cases has two that passed the "
            f"filters (see {run.path / LEFT_OUT}); raise noise_level, loosen filters, or look at the generator"
        )
    atomic_write_text(run.path / "README.md", README)
    write_records(run.path / PAIRS, [pair for group in groups for pair in group.pairs])
    return summary
