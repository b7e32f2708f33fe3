"""The tabletop oracle in the parts of all annotators and verifiers, with mistakes at a given rate."""

from __future__ import annotations

import json
import random
from pathlib import Path

from data_build.preferences.oracle import METRIC_OF
from data_build.preferences.pairs import ProposedPair
from data_build.tabletop.judging import score_case
from gnomon.datasets import read_cases, resolve
from gnomon.hashing import stable_seed
from gnomon.images import load_image
from gnomon.jsonl import read_records

ANNOTATORS = ("annotator 1", "annotator 2", "annotator 3")
VERIFIERS = tuple(f"verifier {number}" for number in range(1, 6))
LABELS = ("first", "second", "tie")
TIE_MARGIN = 0.05

Truth = dict[tuple[str, str], str]


def true_labels(pairs: Path) -> Truth:
    """Return what the oracle says of every pair in every dimension."""
    cases = {case.id: case for case in read_cases(pairs)}
    scores: dict[tuple[str, str], dict[str, float]] = {}
    truth = {}
    for pair in read_records(pairs / "pairs.jsonl", ProposedPair):
        for path in (pair.first, pair.second):
            if (pair.case_id, path) not in scores:
                picture = load_image(resolve(pairs, path))
                scores[pair.case_id, path] = score_case(cases[pair.case_id], picture)
        for dimension in pair.dimensions:
            first, second = (scores[pair.case_id, path][METRIC_OF[dimension]] for path in (pair.first, pair.second))
            difference = round(first - second, 6)
            tied = abs(difference) < TIE_MARGIN
            truth[pair.id, dimension] = "tie" if tied else "first" if difference > 0 else "second"
    return truth


def annotate(truth: Truth, out: Path, *, mistakes: float, objections: float, seed: int) -> None:
    """Write one file for each annotator and verifier, and one of discussions.

    Annotators give another label at the rate `mistakes`. Of every ten discussions eight find the truth, one removes the
    pair, and one never ends. Verifiers agree with what is true, and say the opposite at the rate `objections`.
    """
    files: dict[str, list[dict[str, object]]] = {name: [] for name in (*ANNOTATORS, "discussions", *VERIFIERS)}
    for (pair, dimension), label in truth.items():
        rng = random.Random(stable_seed(seed, "annotators", pair, dimension))
        on: dict[str, object] = {"pair": pair, "dimension": dimension}
        given = []
        for annotator in ANNOTATORS:
            others = [other for other in (*LABELS, "unclear") if other != label]
            given.append(rng.choice(others) if rng.random() < mistakes else label)
            files[annotator].append({**on, "annotator": annotator, "label": given[-1]})
        proposed: str | None = given[0]
        if len(set(given)) > 1 or given[0] == "unclear":
            end = rng.randrange(10)
            proposed = label if end < 8 else None
            said = {"label": label} if end < 8 else {"remove": True}
            if end < 9:
                files["discussions"].append({**on, "by": list(ANNOTATORS), **said})
        if proposed is not None:
            for verifier in VERIFIERS:
                agrees = (proposed == label) != (rng.random() < objections)
                files[verifier].append({**on, "annotator": verifier, "valid_task": True, "agrees": agrees})
    out.mkdir(parents=True, exist_ok=True)
    for name, lines in files.items():
        (out / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
