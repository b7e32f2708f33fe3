"""The score-based protocol: five rubrics, one scale with checklists, and failures that stay failures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image

from bench.mdmr.cases import WEIGHTS
from bench.mdmr.score_judge import RUBRICS, ScoreJudge
from gnomon.errors import UserError
from gnomon.images import save_png
from gnomon.records import Candidate, Case
from rm.judge import Judge, JudgeRequest
from rm.protocols.templates import load_form, load_rubric, metrics
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply


class Scores:
    """Gives the listed replies in order, and remembers what it was asked."""

    name, fingerprint, max_concurrency = "scores", "scores", 1

    def __init__(self, *replies: str) -> None:
        self.replies, self.asked = list(replies), list[Conversation]()

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        self.asked += conversations
        return [Reply(self.replies.pop(0), finish_reason="stop") for _ in conversations]

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        raise AssertionError("scores are asked for in words")


@pytest.fixture
def requests(
    make_case: Callable[..., Case], write_dataset: Callable[[Sequence[Case]], Path], tmp_path: Path
) -> list[JudgeRequest]:
    """One request about each dimension of one candidate."""
    case = make_case(num_references=2, **dict.fromkeys(WEIGHTS, 1))
    save_png(Image.new("RGB", (24, 24), "red"), tmp_path / "made.png")
    candidate = Candidate(case_id=case.id, generator="g", seed=0, path="made.png")
    root = write_dataset([case])
    return [JudgeRequest(case, root, candidate, tmp_path / "made.png", dimension) for dimension in WEIGHTS]


def test_scores_become_shares_and_failures_stay(requests: list[JudgeRequest]) -> None:
    vlm = Scores(
        '{"reason": "all of it", "score": 5}', '{"score": 1}', '{"score": 2}', '{"score": 6}', '{"score": "N/A"}'
    )
    judge: Judge = ScoreJudge(vlm)
    verdicts = judge.judge(requests)
    assert [(verdict.value, verdict.status) for verdict in verdicts] == [
        (1.0, "ok"),
        (0.0, "ok"),
        (0.25, "ok"),
        (None, "out_of_range"),
        (None, "parse_error"),
    ]
    assert verdicts[0].rationale == "score 5 of 1 to 5: all of it"
    assert {verdict.judge for verdict in verdicts} == {judge.fingerprint}
    assert len({verdict.prompt_hash for verdict in verdicts}) == 5


@pytest.mark.parametrize(("language", "captions"), [("en", ["Reference 1:", "Reference 2:", "Generated image:"]),
                                                    ("zh", ["参考图 1:", "参考图 2:", "生成的图像:"])])  # fmt: skip
def test_references_are_numbered_as_questions_number_them(
    requests: list[JudgeRequest], language: str, captions: list[str]
) -> None:
    vlm = Scores('{"score": 3}')
    ScoreJudge(vlm, language=language).judge(requests[:1])
    system, user = vlm.asked[0]
    words = "".join(part if isinstance(part, str) else "<picture>" for part in user.content)
    assert [words.count(caption) for caption in captions] == [1, 1, 1]
    assert [words.index(caption) for caption in captions] == sorted(words.index(caption) for caption in captions)
    assert words.count("<picture>") == 3
    assert "edit" not in " ".join([words, *(part for part in system.content if isinstance(part, str))])


def test_rubrics_are_complete_in_both_languages() -> None:
    assert set(metrics(RUBRICS)) == set(WEIGHTS)
    texts = [load_rubric(metric, language, RUBRICS) for metric in WEIGHTS for language in ("en", "zh")]
    assert all(set(found) == {"question", "look", "low", "middle", "high"} for found in texts)
    assert len({found["question"] for found in texts}) == len(texts)
    assert load_form("rubric", "en", RUBRICS) != load_form("rubric", "en")


def test_the_fingerprint_follows_language_and_sampling() -> None:
    judges = [
        ScoreJudge(Scores()),
        ScoreJudge(Scores(), language="zh"),
        ScoreJudge(Scores(), samples=2, parameters=GenerationParameters(temperature=1.0)),
    ]
    assert len({judge.fingerprint for judge in judges}) == 3
    with pytest.raises(UserError, match="samples=1"):
        ScoreJudge(Scores(), samples=2)
