"""Answers survive kills and many processes at once; broken files count as none."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import pytest

from gnomon.records import Status
from rm.vlm.cache import ReplyCache
from rm.vlm.conversation import ChoiceScores, Reply, Usage

REPLY = Reply("text", "ok", "stop", "thought", None, Usage(1, 2, 0.5), False, 1.25)


def test_answers_come_back_as_they_were(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path / "new")
    key = cache.key("model", "conversation", {"seed": 0})
    scores = ChoiceScores({"Yes": -0.1, "No": -2.0}, usage=Usage(1, 2))
    assert cache.get(key, Reply) is None

    cache.put(key, REPLY)
    cache.put(key, scores)

    assert cache.get(key, Reply) == REPLY
    assert cache.get(key, ChoiceScores) == scores


@pytest.mark.parametrize(
    ("status", "kept"),
    [("ok", True), ("truncated", True), ("refused", True), ("api_error", False), ("unreadable_image", False)],
)
def test_only_what_a_model_said_is_kept(tmp_path: Path, status: str, kept: bool) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("a" * 64, Reply("I", cast(Status, status)))
    assert (cache.get("a" * 64, Reply) is not None) == kept


def test_a_reply_of_no_words_is_asked_for_again(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("a" * 64, Reply("", "ok", "stop"))
    assert cache.get("a" * 64, Reply) is None
    cache.put("a" * 64, Reply("", "refused", "content_filter"))
    assert cache.get("a" * 64, Reply) is not None


@pytest.mark.parametrize("content", [b"", b'{"text": "ha', b'{"text": 3}', b'{"text": "x", "status": "fine"}', b"\xff"])
def test_a_broken_file_counts_as_none_and_is_replaced(tmp_path: Path, content: bytes) -> None:
    cache = ReplyCache(tmp_path)
    cache.put("a" * 64, REPLY)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(content)

    assert cache.get("a" * 64, Reply) is None
    cache.put("a" * 64, REPLY)
    assert cache.get("a" * 64, Reply) == REPLY


def test_keys_tell_their_parts_apart(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    parts = [("a", "b", "c"), ("ab", "", "c"), ("a", "b", {"seed": 1}), ("a", "b", {"seed": 2}), ("b", "a", "c")]
    assert len({cache.key(*part) for part in parts}) == len(parts)


_WRITER = """
import sys
from rm.vlm.cache import ReplyCache
from rm.vlm.conversation import Reply
cache, number = ReplyCache(sys.argv[1]), 0
while True:
    cache.put(f"{number % 50:064x}", Reply(f"{number % 50} " * 5000))
    number += 1
"""


def test_writers_that_are_killed_leave_whole_answers_or_none(tmp_path: Path) -> None:
    cache = ReplyCache(tmp_path)
    writers = [subprocess.Popen([sys.executable, "-c", _WRITER, str(tmp_path)]) for _ in range(3)]
    try:
        deadline = time.monotonic() + 30
        while not (found := list(tmp_path.rglob("*.json"))) or len(found) < 50:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.wait()

    for number in range(50):
        reply = cache.get(f"{number:064x}", Reply)
        assert reply is not None
        assert reply.text == f"{number} " * 5000
