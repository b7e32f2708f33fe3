"""What each kind of judge says about pairs, one sample per pair and dimension.

Judges are asked about single candidates, and the difference of two scores decides a pair. Control judges
(:mod:`rm.controls`) answer pairs directly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from gnomon.datasets import read_comparisons, resolve
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.jsonl import read_records
from gnomon.records import Candidate, Case, Comparison, Record, Status, Verdict
from gnomon.runs import SAMPLES
from rm.controls import CONTROLS, control_differences
from rm.judge import Judge, JudgeRequest, RewardModelJudge, all_served
from rm.metrics import TIE_THRESHOLD
from rm.pairs import Pair, expand_pairs
from rm.prompt import PromptTemplate
from rm.reward_model import RewardModel
from rm.storage import MANIFEST


class PairSample(Record):
    """One line of `samples.jsonl`: what a judge said about a pair in one dimension.

    Attributes:
        pair_id: of the pair.
        comparison_id: of the comparison.
        group_id: the cluster.
        dimension: in which dimension.
        first: position of the first candidate.
        second: position of the second candidate.
        label: 1 first better, -1 second better, 0 tie.
        margin: how far apart they are, None where nobody said.
        scores: of the two candidates; None for a control judge, and where a candidate could not be scored.
        difference: first minus second score, None where one is missing.
        correct: by the tie rule; None where there is no difference.
        status: "ok", or what went wrong with the first candidate that could not be scored.
        reason: in words.
        consistent: of a judge that is asked in both orders, whether the two agree; None for other judges.
        served_by: what a server calls the models that answered, as in :class:`gnomon.records.Verdict`.
    """

    pair_id: str
    comparison_id: str
    group_id: str
    dimension: str
    first: int
    second: int
    label: int
    margin: float | None
    scores: tuple[float | None, float | None] | None
    difference: float | None
    correct: bool | None
    status: Status = "ok"
    reason: str | None = None
    consistent: bool | None = None
    served_by: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What is done once."""
        return self.pair_id, self.dimension


def read_samples(run: Path) -> list[PairSample]:
    """Return what a judge said last about every pair and dimension in a run folder; one that failed was asked again.

    Raises:
        UserError: for a folder without samples or with a broken line.
    """
    samples = read_records(run / SAMPLES, PairSample, drop_torn_tail=True)
    return [*{sample.key: sample for sample in samples}.values()]


@dataclass(frozen=True)
class JudgedComparison:
    """A comparison with its pairs."""

    comparison: Comparison
    pairs: list[Pair]


class PairScorer(Protocol):
    """Whatever can say something about pairs."""

    name: str
    fingerprint: str
    dimensions: tuple[str, ...]

    def samples(self, items: Sequence[JudgedComparison]) -> Iterator[PairSample]:
        """Yield a sample per pair and dimension that is both labelled and known to the judge."""


class PointwiseScorer:
    """Asks a judge about every candidate and compares."""

    def __init__(self, judge: Judge, root: Path) -> None:
        self.judge, self.root = judge, root
        self.name, self.fingerprint, self.dimensions = judge.name, judge.fingerprint, judge.metrics

    def samples(self, items: Sequence[JudgedComparison]) -> Iterator[PairSample]:
        """Yield the samples of `items`; one call of the judge for all of them."""
        requests = {
            (item.comparison.id, position, dimension): self._request(item.comparison, position, dimension)
            for item in items
            for pair in item.pairs
            for position in (pair.first, pair.second)
            for dimension in pair.labels
            if dimension in self.dimensions
        }
        verdicts = dict(zip(requests, self.judge.judge(list(requests.values())), strict=True))
        for item in items:
            for pair in item.pairs:
                for dimension in pair.labels:
                    if dimension in self.dimensions:
                        first, second = (
                            verdicts[item.comparison.id, position, dimension] for position in (pair.first, pair.second)
                        )
                        yield _compared(item.comparison, pair, dimension, first, second)

    def _request(self, comparison: Comparison, position: int, dimension: str) -> JudgeRequest:
        case = Case(
            id=comparison.id,
            benchmark="comparisons",
            task=comparison.task or "edit",
            instruction=comparison.instruction,
            references=comparison.references,
        )
        image = comparison.candidates[position]
        candidate = Candidate(case_id=case.id, generator=f"candidate {position}", seed=0, path=image.path)
        return JudgeRequest(case, self.root, candidate, resolve(self.root, image.path), dimension)


class ControlScorer:
    """Asks a control judge."""

    def __init__(self, name: str, items: Sequence[JudgedComparison], dimensions: Sequence[str], *, seed: int) -> None:
        self.name, self.dimensions = name, tuple(dimensions)
        self.fingerprint = stable_hash([name, seed])
        pairs = [pair for item in items for pair in item.pairs]
        differences = control_differences(name, pairs, self.dimensions, seed=seed)
        self.differences = {pair.id: values for pair, values in zip(pairs, differences, strict=True)}

    def samples(self, items: Sequence[JudgedComparison]) -> Iterator[PairSample]:
        """Yield the samples of `items`."""
        for item in items:
            for pair in item.pairs:
                for dimension in pair.labels:
                    yield pair_sample(item.comparison, pair, dimension, self.differences[pair.id][dimension])


def _compared(comparison: Comparison, pair: Pair, dimension: str, first: Verdict, second: Verdict) -> PairSample:
    scores = (first.value, second.value)
    served = all_served([first.served_by, second.served_by])
    sample = partial(pair_sample, comparison, pair, dimension, scores=scores, served_by=served)
    failed = next((verdict for verdict in (first, second) if verdict.status != "ok"), None)
    if failed is not None or first.value is None or second.value is None:
        assert failed is not None, "a verdict without a value has a status"
        return sample(None, status=failed.status, reason=failed.rationale)
    return sample(first.value - second.value)


def pair_sample(
    comparison: Comparison,
    pair: Pair,
    dimension: str,
    difference: float | None,
    *,
    scores: tuple[float | None, float | None] | None = None,
    status: Status = "ok",
    reason: str | None = None,
    consistent: bool | None = None,
    served_by: str | None = None,
) -> PairSample:
    """Return the sample of a pair in one dimension, with whether the judge's difference is right."""
    label = pair.labels[dimension]
    return PairSample(
        pair_id=pair.id,
        comparison_id=comparison.id,
        group_id=pair.group_id,
        dimension=dimension,
        first=pair.first,
        second=pair.second,
        label=label,
        margin=pair.margins[dimension],
        scores=scores,
        difference=difference,
        correct=None if difference is None else predicted(difference) == label,
        status=status,
        reason=reason,
        consistent=consistent,
        served_by=served_by,
    )


def predicted(difference: float) -> int:
    """Return the label that a judge's difference stands for: 1, -1, or 0 for a tie."""
    return 0 if abs(difference) < TIE_THRESHOLD else int(math.copysign(1, difference))


def read_judged(
    data: str | Path, *, limit: int | None = None, max_references: int | None = None
) -> list[JudgedComparison]:
    """Read a comparison folder.

    Args:
        data: the folder.
        limit: only the first so many of those that are left.
        max_references: leave out comparisons with more references.

    Raises:
        UserError: for whatever is wrong with it, a limit below 1, or where nothing is left.
    """
    if limit is not None and limit < 1:
        raise UserError(f"expected a limit of at least 1, got {limit}; mend --limit")
    comparisons = read_comparisons(data)
    if not comparisons:
        raise UserError(f"expected comparisons in {data}, there are none")
    if max_references is not None:
        comparisons = [found for found in comparisons if len(found.references) <= max_references]
        if not comparisons:
            raise UserError(
                f"expected comparisons with at most {max_references} references in {data}, all have more; "
                "mend --max-references"
            )
    return [JudgedComparison(comparison, expand_pairs(comparison)) for comparison in comparisons[:limit]]


def judged_dimensions(items: Sequence[JudgedComparison]) -> tuple[str, ...]:
    """Return the dimensions of all judgements, in order of their first appearance."""
    return tuple(dict.fromkeys(name for item in items for pair in item.pairs for name in pair.labels))


def make_scorer(
    judge: str,
    items: Sequence[JudgedComparison],
    root: Path,
    *,
    base: str | None = None,
    template: str | None = None,
    batch_size: int = 16,
    language: str = "en",
    device: str = "cpu",
    seed: int = 0,
) -> PairScorer:
    """Return the scorer that a name or a folder stands for; the arguments are those of :func:`rm.cli.evaluate`.

    Raises:
        UserError: when it is neither a control judge, nor a judge's file, nor a folder with a reward model or a base
            model.
    """
    if judge in CONTROLS:
        return ControlScorer(judge, items, judged_dimensions(items), seed=seed)
    if Path(judge).suffix in (".yaml", ".yml"):
        return _configured(judge, root)
    model: RewardModel | str = judge
    name = None
    if not (Path(judge) / MANIFEST).exists() and (Path(judge) / "config.json").exists():
        prompt = PromptTemplate(template) if template else None
        model = RewardModel.from_base(judge, dimensions=judged_dimensions(items), template=prompt)
        model.answer_yes_or_no()
        name = f"{Path(judge).resolve().name} (zero-shot yes or no)"
    scored = RewardModelJudge(model, name=name, base=base, batch_size=batch_size, language=language, device=device)
    return PointwiseScorer(scored, root)


def _configured(file: str, root: Path) -> PairScorer:
    """Return the scorer of a judge that a YAML file describes."""
    from rm.judge_config import read_judge
    from rm.scorers_judged import PairwiseScorer

    found = read_judge(file)
    return PairwiseScorer(found, root) if hasattr(found, "compare") else PointwiseScorer(found, root)
