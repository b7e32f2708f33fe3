"""Yes and no in the forms that judges give them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rm.protocols.parsing import read_checklist, read_one_word

REPLIES = [
    *((reply, True) for reply in ("Yes", "yes.", "**Yes**", '"Yes"', "Y", "TRUE", "Yes, there is.", "(Yes)", "1. Yes")),
    *((reply, False) for reply in ("No", "no.", "No, there is none.", "N", "No—not one", "- No: it is red", "Ｎｏ")),
    *((reply, True) for reply in ("是", "是的，图中有。", "有", "对。", "答案：是", '{"答案": "是", "理由": "有"}')),
    *((reply, False) for reply in ("否", "不是。", "没有", "结论：否", '{"回答":"否"}')),
    *(
        (reply, True)
        for reply in ('{"answer": "yes"}', '{"answer": true}', '{"result": 1}', "{'answer': True,}", "true")
    ),
    *((reply, False) for reply in ('{"reason": "yes?", "answer": "No"}', '```json\n{"verdict": "no"}\n```')),
    ('{"answer": "True"}', True),
    ('{"answer": "False"}', False),
    ("Answer: No", False),
    ("It stands there.\n**Answer:** Yes", True),
    ("The dog is gone.\nNo.", False),
    ("Yes or no? Yes", True),
    ("<think>no</think>Yes", True),
    ("The final answer is yes.", True),
    ("Yes, it is.\nAnswer: no", "parse_error"),
    ('{"answer": "yes", "answer": "no"}', "parse_error"),
    ('{"answer": "yes"} {"answer": "no"}', "parse_error"),
    ("1. Yes\n2. No", "parse_error"),
    *(
        (reply, "parse_error")
        for reply in ("Yes/No", "Yes and no", "Not sure", "None", "Nobody", "No problem!", "0", "7")
    ),
    *(
        (reply, "parse_error")
        for reply in ("是否", "不确定", "There is no dog.", "", '{"answer": "maybe"}', '{"answer": 2}')
    ),
    ("Sorry, I can't assist with that request.", "refused"),
    ("抱歉，我无法回答", "refused"),
    ('{"answer": "N/A"}', "not_applicable"),
    ('{"answer": "ye', "truncated"),
    ("<think>no", "truncated"),
]


@pytest.mark.parametrize(("reply", "expected"), REPLIES)
def test_replies(reply: str, expected: bool | str) -> None:
    parsed = read_checklist(reply)
    assert (parsed.value if parsed.status == "ok" else parsed.status) == expected


def test_a_cut_reply_is_no_answer_unless_its_json_is_complete() -> None:
    assert read_checklist("No", finish_reason="length").status == "truncated"
    assert read_checklist('{"answer": "no"}', finish_reason="length").value is False


@given(st.text())
def test_nothing_raises(reply: str) -> None:
    parsed = read_checklist(reply)
    assert (parsed.value is None) == (parsed.status != "ok")


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        *((reply, True) for reply in ("Yes", "yes.", " YES", "**Yes**", "Yes,", '"Yes', "Ｙｅｓ", "是", "- yes", "y")),
        *((reply, False) for reply in ("No", "NO!", "no\n", "(No)", "否", "No, it")),
        *((reply, None) for reply in ("", "\n", None, "<think>", "Okay,", "Yesterday", "None", "Yes/No", "Not", "1")),
    ],
)
def test_the_first_word_of_a_short_reply(reply: str | None, expected: bool | None) -> None:
    parsed = read_one_word(reply)
    assert (parsed.value, parsed.status) == (expected, "ok" if expected is not None else "parse_error")
