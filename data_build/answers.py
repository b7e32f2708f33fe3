"""Asking a model about many things, some at once: what was answered stays, and only what is missing is asked again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from bench.folder import TRIED_AGAIN
from gnomon.progress import track
from gnomon.records import Record, Status
from gnomon.runs import RunFolder


class Answer(Record):
    """What a model said about one thing, or why it said nothing.

    Attributes:
        about: id of the thing.
        asked: hash of what it was asked from; an answer to something else is none.
        status: "ok", or what went wrong.
        reason: the same for people.
        raw: the whole reply.
    """

    about: str
    asked: str
    status: Status = "ok"
    reason: str | None = None
    raw: str | None = None


Answered = TypeVar("Answered", bound=Answer)


def ask_missing(
    run: RunFolder,
    file: str,
    model: type[Answered],
    wanted: Mapping[str, str],
    ask: Callable[[Sequence[str]], Sequence[Answered]],
    *,
    batch_size: int,
    description: str,
) -> dict[str, Answered]:
    """Return the last answer about each thing, after asking for what is missing or failed in a way that may pass.

    Such ways are :data:`bench.folder.TRIED_AGAIN`. A failure that stays the same is not written again.

    Args:
        run: where the file is.
        file: append-only, a line an answer.
        model: what its lines are.
        wanted: by the id of a thing, the hash of what it is asked from.
        ask: asks about things by their ids; one answer each.
        batch_size: things at once; a kill loses the answers of one batch at most.
        description: for the progress.
    """
    written = {(answer.about, answer.asked): answer for answer in run.read(model, file)}
    known = {name: written[name, asked] for name, asked in wanted.items() if (name, asked) in written}
    waiting = [name for name in wanted if name not in known or known[name].status in TRIED_AGAIN]
    batches = [waiting[start : start + batch_size] for start in range(0, len(waiting), batch_size)]
    for batch in track(batches, description):
        for answer in ask(batch):
            if answer != known.get(answer.about):
                run.append(answer, file)
                known[answer.about] = answer
    return {name: known[name] for name in wanted}
