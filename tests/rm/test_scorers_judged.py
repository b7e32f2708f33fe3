"""Judges that ask a model, as scorers of pairs: by comparing directly, and by two separate scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from rm.evaluate import read_judged, run_evaluation
from rm.protocols.pairwise import PairwiseJudge
from rm.protocols.rubric import RubricJudge
from rm.scorers import PairScorer, PointwiseScorer
from rm.scorers_judged import PairwiseScorer
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply

Write = Callable[..., Path]


class BrightnessVLM:
    """Scores a picture by how bright it is, and prefers the brighter one, or always the first."""

    name = "brightness"
    max_concurrency = 1

    def __init__(self, *, always_first: bool = False) -> None:
        self.always_first = always_first

    @property
    def fingerprint(self) -> str:
        return f"brightness {self.always_first}"

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        return [Reply(self._answer(conversation)) for conversation in conversations]

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        raise AssertionError("nobody asks for choices here")

    def _answer(self, conversation: Conversation) -> str:
        content = conversation[-1].content
        shown = [float(np.asarray(part).mean()) for part in content if isinstance(part, Image.Image)]
        if any(isinstance(part, str) and "image A" in part for part in content):
            return "[[A>B]]" if self.always_first or shown[-2] > shown[-1] else "[[B>A]]"
        return f'{{"reason": "bright", "score": {shown[-1] / 25.5:.3f}}}'


def test_a_pairwise_judge_that_sees_the_truth_is_right(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 3)
    items = read_judged(root)
    samples = list(PairwiseScorer(PairwiseJudge(BrightnessVLM(), metrics=["overall"]), root).samples(items))
    assert len(samples) == 9
    assert all(sample.correct and sample.difference == sample.label for sample in samples)
    assert {sample.dimension for sample in samples} == {"overall"}


def test_a_judge_that_sees_only_the_order_ties_and_says_why(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 2)
    scorer = PairwiseScorer(PairwiseJudge(BrightnessVLM(always_first=True), metrics=["overall"]), root)
    for sample in scorer.samples(read_judged(root)):
        assert (sample.difference, sample.status) == (0.0, "ok")
        assert (sample.reason or "").startswith("inconsistent")


def test_a_broken_picture_is_a_status_of_its_pairs_alone(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 1)
    (root / "images" / "0_1.png").write_bytes(b"no picture")
    scorer = PairwiseScorer(PairwiseJudge(BrightnessVLM(), metrics=["overall"]), root)
    statuses = {(s.first, s.second): s.status for s in scorer.samples(read_judged(root))}
    assert statuses == {(0, 1): "unreadable_image", (0, 2): "ok", (1, 2): "unreadable_image"}


def test_both_kinds_run_through_the_evaluation(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path / "data", 3)
    items = read_judged(root)
    scorers: tuple[PairScorer, ...] = (
        PairwiseScorer(PairwiseJudge(BrightnessVLM(), metrics=["overall"]), root),
        PointwiseScorer(RubricJudge(BrightnessVLM(), metrics=["overall"]), root),
    )
    for number, scorer in enumerate(scorers):
        results = run_evaluation(scorer, items, data=root, out=tmp_path / f"run{number}")
        assert results["dimensions"]["overall"]["all"]["strict"] == 1.0
        assert results["statuses"] == {"ok": 9}
