"""Thinking and answer are told apart, whichever tags a reply holds."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rm.vlm.conversation import split_thinking


@pytest.mark.parametrize(
    ("text", "thinking", "answer"),
    [
        ("plain", "", "plain"),
        ("<think>why</think>because", "why", "because"),
        ("why</think>\n\nbecause\n", "why", "because"),
        ("<think>first</think> <think>second</think> answer", "first second", "answer"),
        ("<think>never closed", "never closed", ""),
        ("an answer that speaks of <think> tags", "", "an answer that speaks of <think> tags"),
        ("", "", ""),
    ],
)
def test_splits_what_was_thought_from_what_was_answered(text: str, thinking: str, answer: str) -> None:
    found, rest = split_thinking(text)
    assert (" ".join(found.split()), rest) == (thinking, answer)


def test_needs_no_torch() -> None:
    code = "import rm.vlm.conversation, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
