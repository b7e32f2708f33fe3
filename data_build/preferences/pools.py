"""Candidates that other runs left for the same cases: of `gnomon bench generate`, or of earlier sampling."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from bench.folder import CANDIDATES, COMMAND, BenchRun
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.jsonl import read_records
from gnomon.records import Candidate
from gnomon.runs import read_manifest

SAMPLE_COMMAND = "data sample-preferences"


@dataclass(frozen=True)
class Pool:
    """The candidates of one finished run.

    Attributes:
        path: its folder, below which their pictures lie.
        by_case: candidates by case id, failed ones included.
        fingerprint: hash of what the run recorded about them.
    """

    path: Path
    by_case: dict[str, list[Candidate]]
    fingerprint: str


def read_pool(path: str | Path, dataset: str) -> Pool:
    """Read the candidates of a finished run.

    Args:
        path: the run's folder.
        dataset: hash of the cases that the candidates have to belong to.

    Raises:
        UserError: for a folder of another kind, a run of other cases, and one that is not finished.
    """
    path = Path(path)
    manifest = read_manifest(path)
    command = None if manifest is None else manifest.command
    if manifest is None or command not in (COMMAND, SAMPLE_COMMAND):
        raise UserError(
            f"expected a folder of `gnomon bench generate` or of `gnomon {SAMPLE_COMMAND} --label none` as a pool, "
            f"got {path}; check the path"
        )
    if manifest.inputs.get("dataset") != dataset:
        raise UserError(
            f"expected a pool of the same cases, those of {path} are others (the hashes of the datasets differ); give "
            "its cases as --cases, or make the candidates again"
        )
    candidates = _of_bench(path) if command == COMMAND else _of_sampling(path)
    by_case: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in candidates:
        by_case[candidate.case_id].append(candidate)
    return Pool(path, dict(by_case), stable_hash([manifest.identity(), candidates]))


def _of_bench(path: Path) -> list[Candidate]:
    run = BenchRun.read(path)
    candidates = run.candidates()
    if len(candidates) < len(run.items):
        raise UserError(
            f"expected a finished pool, {path} has {len(candidates)} of {len(run.items)} candidates so far; run its "
            "`gnomon bench generate` again to go on"
        )
    return candidates


def _of_sampling(path: Path) -> list[Candidate]:
    if not (path / CANDIDATES).exists():
        raise UserError(
            f"expected a finished pool with {CANDIDATES}, {path} has none; finish it, and sample it with --label none"
        )
    return read_records(path / CANDIDATES, Candidate)
