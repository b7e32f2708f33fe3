"""XVerseBench: prompts of one to three subjects with reference pictures, and questions that depend on each other.

Source: Chen et al. 2025 (XVerse, arXiv 2506.21416); its question graphs are those of Cho et al. 2024 (Davidsonian Scene
Graph, arXiv 2310.18235), by which a question under a denied one counts as denied.
"""

from __future__ import annotations

from collections.abc import Mapping

from bench.benchmarks import Benchmark, Score
from bench.questions import share_of_right
from gnomon.records import Case

NAME = "xverse-bench"

DIMENSIONS = ("entity", "attribute", "action", "relation", "global", "other")
"""The first word of a question's kind; "other" for what is none of them, such as numbers."""

ATTR_VQA = "attr_vqa"


def groups(case: Case) -> dict[str, str]:
    """Return a case's task, and how many subjects it has."""
    return {"task": case.task, "num_subjects": str(len(case.references))}


def applies(case: Case, metric: str) -> bool:
    """Tell whether a case has questions in a dimension."""
    return metric not in DIMENSIONS or any(question.dimension == metric for question in case.questions)


def derive_from_answers(case: Case, answers: Mapping[str, Score]) -> dict[str, Score]:
    """Return the share of right answers to a case's questions, and to those in each dimension."""
    members = {ATTR_VQA: [question.id for question in case.questions]}
    for name in DIMENSIONS:
        members[name] = [question.id for question in case.questions if question.dimension == name]
    found = {name: share_of_right(ids, answers) for name, ids in members.items()}
    return {name: score for name, score in found.items() if score is not None}


XVERSE_BENCH = Benchmark(
    NAME,
    "pictures of one to three given subjects; scored by judges that answer each prompt's graph of questions",
    derive_from_answers=derive_from_answers,
    groups=groups,
    source="imported by `gnomon data import xverse-bench --from DIR --out DIR`",
    derived={
        ATTR_VQA: "share of a prompt's questions that are answered yes, where a question under a denied one is denied",
        **{name: f"the same of the questions of kind {name}" for name in DIMENSIONS},
    },
    applies=applies,
    shown_times=100,
    axes=(ATTR_VQA, *DIMENSIONS),
    axis_groups="num_subjects",
)
