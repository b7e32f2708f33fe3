"""From annotations of proposed pairs to a comparison folder, with a line for every decision.

comparisons.jsonl, images/, references/    what `gnomon rm fit` takes
decisions.jsonl                            one line per pair and dimension: the outcome, why, and by which records
problems.jsonl                             annotations that did not count, with file and line
summary.json                               counts, and how far annotators and verifiers agree
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.folder import CANDIDATES
from bench.statistics.ratings import Agreement, Bootstrap, Ratings
from bench.statistics.reliability import fleiss_kappa, krippendorff_alpha
from data_build.preferences.annotations import AnnotationProblem, Annotations, annotation_files, read_annotations
from data_build.preferences.comparisons import comparison_of
from data_build.preferences.decisions import OUTCOMES, Decision, MergeSettings, decide
from data_build.preferences.pairs import PAIRS, ProposedPair
from gnomon.datasets import CASES, COMPARISONS, picture_paths, read_cases, resolve, write_records
from gnomon.errors import UserError
from gnomon.files import atomic_write_bytes
from gnomon.hashing import file_hash, stable_hash, stable_seed
from gnomon.jsonl import read_records
from gnomon.progress import track
from gnomon.records import Candidate, Case, ComparedImage, Comparison, Judgement, Record
from gnomon.runs import RunFolder, atomic_write_text

COMMAND = "data merge-annotations"
DECISIONS = "decisions.jsonl"
PROBLEMS = "problems.jsonl"
SUMMARY = "summary.json"
README = """# Preferences

Pairs of candidates that {num_annotators} annotators labelled and {num_verifiers} verifiers confirmed unanimously, \
made by `gnomon data merge-annotations`. `decisions.jsonl` says of every pair and dimension what became of it and why.
"""


class MergeSummary(Record):
    """Counts of a finished folder.

    Attributes:
        num_pairs: proposed pairs.
        num_items: pairs times dimensions.
        num_comparisons: cases with something kept.
        outcomes: number of items by dimension and outcome.
        labels: number of kept items by dimension and label.
        problems: annotations that did not count, by kind.
        num_records: records that count, by stage.
        agreement: by stage and dimension, Fleiss' kappa and Krippendorff's alpha (nominal) with 95 % intervals that
            resample cases. Items with a contradiction are left out.
    """

    num_pairs: int
    num_items: int
    num_comparisons: int
    outcomes: dict[str, dict[str, int]]
    labels: dict[str, dict[str, int]]
    problems: dict[str, int]
    num_records: dict[str, int]
    agreement: dict[str, dict[str, dict[str, dict[str, float | int | str | None]]]]


@dataclass(frozen=True)
class _Proposed:
    """A folder of proposed pairs."""

    root: Path
    cases: list[Case]
    candidates: dict[tuple[str, str], Candidate]
    pairs: list[ProposedPair]
    fingerprint: str

    @classmethod
    def read(cls, root: Path) -> _Proposed:
        """Read it.

        Raises:
            UserError: when it is not a finished folder of pairs, or pairs name what is not there.
        """
        if not (root / PAIRS).exists():
            raise UserError(
                f"expected a finished folder of `gnomon data sample-preferences --label none` in {root}, it has no "
                f"{PAIRS}; check the path, or run that command again to go on"
            )
        files = (CASES, CANDIDATES, PAIRS)
        candidates = read_records(root / CANDIDATES, Candidate)
        proposed = cls(
            root,
            read_cases(root),
            {(candidate.case_id, str(candidate.path)): candidate for candidate in candidates},
            read_records(root / PAIRS, ProposedPair),
            stable_hash([file_hash(root / name) for name in files]),
        )
        proposed._check()
        return proposed

    def _check(self) -> None:
        known = {case.id for case in self.cases}
        seen: set[str] = set()
        for number, pair in enumerate(self.pairs, start=1):
            missing = [path for path in (pair.first, pair.second) if (pair.case_id, path) not in self.candidates]
            where = f"{self.root / PAIRS}:{number}"
            if pair.id in seen:
                raise UserError(f"{where}: expected every pair once, got {pair.id!r} again")
            if pair.case_id not in known or missing:
                raise UserError(f"{where}: {(missing or [pair.case_id])[0]!r} is not in this folder; sample it again")
            seen.add(pair.id)


def merge_annotations(
    pairs: str | Path, annotations: Path | Sequence[Path], out: str | Path, settings: MergeSettings | None = None
) -> MergeSummary:
    """Decide every pair and dimension by its annotations and write the kept ones as a comparison folder.

    Args:
        pairs: folder of `gnomon data sample-preferences --label none`.
        annotations: folder of *.jsonl files, or files and folders.
        out: comparison folder to write; run again to go on after a stop.
        settings: how many people are needed.

    Raises:
        UserError: for folders and files that cannot be read, a folder of another run, and when nothing is kept.
    """
    settings = settings or MergeSettings()
    proposed = _Proposed.read(Path(pairs))
    files = annotation_files(annotations)
    inputs = {
        "pairs": proposed.fingerprint,
        "annotations": stable_hash([[file.as_posix(), file_hash(file)] for file in files]),
    }
    with RunFolder.open(out, command=COMMAND, config=asdict(settings), seed=0, inputs=inputs) as run:
        read = read_annotations(files, proposed.pairs)
        decisions = [decide(*key, item, settings) for key, item in read.items.items()]
        _report_needless(read, decisions)
        comparisons = _comparisons(proposed, decisions)
        _copy_pictures(proposed.root, run.path, comparisons)
        write_records(run.path / DECISIONS, decisions)
        read.problems.sort(key=lambda problem: (problem.file, problem.line))
        write_records(run.path / PROBLEMS, read.problems)
        summary = _summary(proposed, read, decisions, comparisons)
        run.write_json(SUMMARY, summary)
        if not comparisons:
            raise UserError(
                f"expected a pair that all annotators and verifiers agree on, got none of {len(decisions)}; "
                f"{run.path / DECISIONS} says why"
            )
        atomic_write_text(run.path / "README.md", README.format(**asdict(settings)))
        write_records(run.path / COMPARISONS, comparisons)
        return summary


def problems_of(out: str | Path) -> list[AnnotationProblem]:
    """Return the annotations that did not count in a merged folder."""
    return read_records(Path(out) / PROBLEMS, AnnotationProblem)


def _report_needless(read: Annotations, decisions: Sequence[Decision]) -> None:
    """Name verifications of what stage 1 did not propose."""
    for decision in decisions:
        if decision.label is None:
            for verification in read.items[decision.pair, decision.dimension].verifications.values():
                text = f"stage 1 of this pair ended without a label ({decision.outcome}); it does not count"
                read.report(verification, "nothing_to_verify", text)


def _comparisons(proposed: _Proposed, decisions: Sequence[Decision]) -> list[Comparison]:
    """Return one comparison for each case of which something is kept, in the order of the cases."""
    pairs = {pair.id: pair for pair in proposed.pairs}
    kept: dict[str, list[Decision]] = defaultdict(list)
    for decision in decisions:
        if decision.outcome == "kept":
            kept[pairs[decision.pair].case_id].append(decision)
    return [_comparison(proposed, case, kept[case.id], pairs) for case in proposed.cases if case.id in kept]


def _comparison(
    proposed: _Proposed, case: Case, decisions: Sequence[Decision], pairs: Mapping[str, ProposedPair]
) -> Comparison:
    used = {path for decision in decisions for path in (pairs[decision.pair].first, pairs[decision.pair].second)}
    # In an order of their own: that of sampling goes by generator, and a place must not give answers away.
    paths = sorted(used, key=lambda path: stable_seed("place", case.id, path))
    compared = [
        ComparedImage(path=path, generator=proposed.candidates[case.id, path].generator or None) for path in paths
    ]
    judgements = [
        _judgement(decision, paths.index(pairs[decision.pair].first), paths.index(pairs[decision.pair].second))
        for decision in decisions
    ]
    return comparison_of(case, case.references, compared, judgements, "merge-annotations")


def _judgement(decision: Decision, first: int, second: int) -> Judgement:
    """Turn a decision into a judgement; its margin is the share of annotators for the better side, less that against.

    Where a discussion decided against the majority the margin is 0, as it is for ties.
    """
    names = {"first": "i", "second": "j"} if first < second else {"first": "j", "second": "i"}
    votes = {names.get(label, label): count for label, count in decision.votes.items()}
    label = names.get(str(decision.label), "tie")
    lead = 0 if label == "tie" else votes.get(label, 0) - votes.get("j" if label == "i" else "i", 0)
    return Judgement.model_validate(
        {
            "i": min(first, second),
            "j": max(first, second),
            "dimension": decision.dimension,
            "label": label,
            "votes": votes,
            "margin": max(lead, 0) / sum(votes.values()),
        }
    )


def _copy_pictures(root: Path, out: Path, comparisons: Sequence[Comparison]) -> None:
    """Copy the pictures that are used and not there yet; each is written whole or not at all."""
    for comparison in track(comparisons, "copying pictures"):
        for path in picture_paths(comparison):
            if not (out / path).exists():
                source = resolve(root, path)
                try:
                    data = source.read_bytes()
                except OSError as error:
                    raise UserError(
                        f"expected the picture {source} of the pairs, got {error.strerror or error}; sample them again"
                    ) from error
                atomic_write_bytes(out / path, data)


def _summary(
    proposed: _Proposed, read: Annotations, decisions: Sequence[Decision], comparisons: Sequence[Comparison]
) -> MergeSummary:
    dimensions = list(dict.fromkeys(decision.dimension for decision in decisions))
    counts = Counter((decision.dimension, decision.outcome) for decision in decisions)
    labels = Counter((decision.dimension, decision.label) for decision in decisions if decision.outcome == "kept")
    items = read.items.values()
    return MergeSummary(
        num_pairs=len(proposed.pairs),
        num_items=len(decisions),
        num_comparisons=len(comparisons),
        outcomes={name: {outcome: counts[name, outcome] for outcome in OUTCOMES} for name in dimensions},
        labels={name: {label: labels[name, label] for label in ("first", "second", "tie")} for name in dimensions},
        problems=dict(sorted(Counter(problem.kind for problem in read.problems).items())),
        num_records={
            "proposals": sum(len(item.proposals) for item in items),
            "discussions": sum(len(item.discussion) for item in items),
            "verifications": sum(len(item.verifications) for item in items),
        },
        agreement=_agreement(proposed.pairs, read, decisions, dimensions),
    )


def _agreement(
    pairs: Sequence[ProposedPair], read: Annotations, decisions: Sequence[Decision], dimensions: Sequence[str]
) -> dict[str, dict[str, dict[str, dict[str, float | int | str | None]]]]:
    """Return the statistics of both stages by dimension."""
    case_of = {pair.id: pair.case_id for pair in pairs}
    found: dict[str, dict[str, dict[str, dict[str, float | int | str | None]]]] = {"annotators": {}, "verifiers": {}}
    for dimension in dimensions:
        clear = [one for one in decisions if one.dimension == dimension and one.outcome != "contradictory"]
        items = {one.pair: read.items[one.pair, dimension] for one in clear}
        proposals = [
            (pair, person, said.record.label) for pair, item in items.items() for person, said in item.proposals.items()
        ]
        labelled = {one.pair for one in clear if one.label is not None}
        verifications = [
            (pair, person, "kept" if said.record.valid_task and said.record.agrees else "rejected")
            for pair, item in items.items()
            if pair in labelled
            for person, said in item.verifications.items()
        ]
        for stage, triples in (("annotators", proposals), ("verifiers", verifications)):
            ratings = Ratings.from_triples(triples, "nominal")
            bootstrap = Bootstrap(clusters=[case_of[pair] for pair in ratings.items])
            statistics: dict[str, Agreement] = {
                "fleiss_kappa": fleiss_kappa(ratings, bootstrap),
                "krippendorff_alpha": krippendorff_alpha(ratings, bootstrap),
            }
            found[stage][dimension] = {name: asdict(statistic) for name, statistic in statistics.items()}
    return found
