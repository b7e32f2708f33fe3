"""Scoring beside sampling: one thread judges finished groups while the generator samples the next ones."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import torch
from PIL.Image import Image

from gnomon.records import Case
from rl.rewards import Reward, RewardOutput, ask_reward, concatenate


@dataclass(frozen=True)
class _Part:
    """Some rows to judge together."""

    cases: Sequence[Case]
    references: Sequence[list[Image]]
    images: Sequence[Image]


class OverlappedScoring:
    """Judges parts of a batch in the order in which they are handed in, beside the thread that hands them in.

        with OverlappedScoring(reward, device=device) as scoring:
            for ...:
                scoring.submit(cases, references, images)   # returns at once
            rewards = scoring.result()                      # waits; all rows, in order of submission

    The reward is called with the same parts in the same order with and without overlap, so the numbers are the same
    where they depend on nothing but the pictures. There is one thread: a judge that is not safe for several needs no
    lock, but sampling and judging must not share what either of them changes. What the reward raises is raised again
    by the next `submit` or by `result`. When the block is left early, waiting parts are dropped.
    """

    def __init__(self, reward: Reward, *, device: torch.device | None = None, overlap: bool = True) -> None:
        """Prepare to judge.

        Args:
            reward: the judge.
            device: the CUDA device that is the current one for the caller: a new thread has its own current device,
                0, whatever the rank.
            overlap: False judges inside `submit`, in the caller's thread.
        """
        self._reward, self._overlap = reward, overlap
        self._device = device if device is not None and device.type == "cuda" else None
        self._waiting: queue.SimpleQueue[_Part | None] = queue.SimpleQueue()
        self._outputs: list[RewardOutput] = []
        self._error: BaseException | None = None
        # A daemon: Ctrl-C in a run whose service is down ends the program and does not wait for the service.
        self._thread = threading.Thread(target=self._work, name="gnomon-scoring", daemon=True)

    def __enter__(self) -> Self:
        if self._overlap:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._thread.is_alive():
            return
        with suppress(queue.Empty):  # the thread may take the last one at the same moment
            while True:
                self._waiting.get_nowait()
        self._waiting.put(None)
        # After an ordinary error the judge finishes its part, so that nothing of it is left in the background.
        if kind is None or issubclass(kind, Exception):
            self._thread.join()

    def submit(self, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]) -> None:
        """Hand in finished rows, at least one.

        Raises:
            Whatever the reward raised on an earlier part.
        """
        self._raise_what_went_wrong()
        part = _Part(cases, references, images)
        if self._overlap:
            self._waiting.put(part)
        else:
            self._judge(part)

    def result(self) -> RewardOutput:
        """Wait for what was handed in and return its rewards in order of submission; nothing can follow.

        Raises:
            ValueError: when nothing was handed in.
            Whatever the reward raised.
        """
        if self._overlap:
            self._waiting.put(None)
            self._thread.join()
        self._raise_what_went_wrong()
        if not self._outputs:
            raise ValueError("expected at least one part to judge, nothing was submitted")
        return concatenate(self._outputs)

    def _work(self) -> None:
        try:
            if self._device is not None:
                torch.cuda.set_device(self._device)
            while (part := self._waiting.get()) is not None:
                self._judge(part)
        except BaseException as error:  # the main thread raises it
            self._error = error

    def _judge(self, part: _Part) -> None:
        # Gradient mode and autocast belong to a thread; ask_reward sets both, so they are the same in any.
        output = ask_reward(self._reward, cases=part.cases, references=part.references, images=part.images)
        self._outputs.append(output)

    def _raise_what_went_wrong(self) -> None:
        if self._error is not None:
            raise self._error
