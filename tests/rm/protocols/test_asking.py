"""What all judges share around their question to a model."""

from __future__ import annotations

from collections.abc import Callable

from rm.judge import JudgeRequest
from rm.protocols.rubric import RubricJudge
from rm.vlm.conversation import Reply

Ask = Callable[..., JudgeRequest]


def test_several_metrics_of_one_candidate_show_the_same_pictures_and_load_them_once(
    listed: Callable[..., object], ask: Ask
) -> None:
    vlm = listed([Reply('{"reason": "", "score": 3}')] * 4)
    judge = RubricJudge(vlm, metrics=["overall", "visual_quality"])  # type: ignore[arg-type]
    judge.judge([ask(image, metric) for image in (1, 2) for metric in judge.metrics])
    shown = [
        [part for message in conversation for part in message.content if not isinstance(part, str)]
        for conversation in vlm.asked  # type: ignore[attr-defined]
    ]
    assert [len(pictures) for pictures in shown] == [2, 2, 2, 2]
    for first, second in ((0, 1), (2, 3)):
        assert all(one is other for one, other in zip(shown[first], shown[second], strict=True))
    assert shown[0][1] is not shown[2][1]
