"""Progress with time left: a bar on a terminal, a line now and then in a log file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

Item = TypeVar("Item")

LINE_EVERY_SECONDS = 10.0


def track(iterable: Iterable[Item], description: str, total: int | None = None) -> Iterator[Item]:
    """Yield the items of `iterable` and show on stderr how far it is and how long it will take.

    Args:
        iterable: what is gone through.
        description: a few words, such as "judging".
        total: the number of items, where `iterable` has no length.
    """
    if total is None and isinstance(iterable, Sized):
        total = len(iterable)
    if sys.stderr.isatty():
        yield from _bar(iterable, description, total)
    else:
        yield from _lines(iterable, description, total)


def _bar(iterable: Iterable[Item], description: str, total: int | None) -> Iterator[Item]:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as progress:
        yield from progress.track(iterable, total=total, description=description)


def _lines(iterable: Iterable[Item], description: str, total: int | None) -> Iterator[Item]:
    start = last = time.monotonic()
    for count, item in enumerate(iterable):
        now = time.monotonic()
        if now - last >= LINE_EVERY_SECONDS:
            last = now
            print(_line(description, count, total, now - start), file=sys.stderr, flush=True)
        yield item


def _line(description: str, count: int, total: int | None, elapsed: float) -> str:
    """Return "judging: 30/120 in 0:01:00, 0:03:00 left"."""
    if not total:
        return f"{description}: {count} in {_clock(elapsed)}"
    left = f", {_clock(elapsed / count * (total - count))} left" if count else ""
    return f"{description}: {count}/{total} in {_clock(elapsed)}{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{rest:02}"
