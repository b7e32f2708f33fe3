"""`gnomon rm parse`: saved replies of a judge are read again, without a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, StrictInt, StrictStr

from gnomon.errors import UserError
from gnomon.jsonl import iterate_lines, write_records
from gnomon.records import Record
from rm.protocols.parsing import (
    Parsed,
    Rule,
    Scale,
    count_table,
    read_checklist,
    read_pairwise,
    read_rubric,
    read_score_list,
)

ProtocolName = Literal["rubric", "checklist", "pairwise", "score-list"]


class SavedReply(Record):
    """One line of a file of replies; keys that are not named here are left alone.

    Attributes:
        id: names the reply, once in a file.
        reply: what the model said; None where nothing came.
        finish_reason: the backend's word for how the reply ended, such as "stop" or "length".
    """

    model_config = ConfigDict(extra="ignore")

    id: StrictStr | StrictInt
    reply: str | None
    finish_reason: str | None = None


def parse_replies(
    protocol: ProtocolName,
    replies: str | Path,
    out: str | Path,
    *,
    scale: Scale,
    keys: Sequence[str] = (),
    count: int | None = None,
    rule: Rule = "strict",
) -> str:
    """Read all replies of a file, write `{id, value, status}` a line in the same order, and return a table of counts.

    Args:
        protocol: one of `ProtocolName`.
        replies: lines of :class:`SavedReply`.
        out: file for the values; null wherever the status is not "ok".
        scale: of scores.
        keys: further names of a rubric's score in JSON.
        count: how many scores a list must hold.
        rule: how labels are read, see :func:`rm.protocols.parsing.read_pairwise`.

    Raises:
        UserError: for a broken line, an id that comes twice, or an argument that the protocol does not have.
    """
    if Path(out).resolve() == Path(replies).resolve():
        raise UserError(f"expected another file than the replies in --out, got {out} for both; choose another name")
    reader = make_reader(protocol, scale=scale, keys=keys, count=count, rule=rule)
    saved = _read_saved(Path(replies))
    readings = [reader(reply.reply, finish_reason=reply.finish_reason) for reply in saved]
    lines = [
        {"id": reply.id, "value": reading.value, "status": reading.status}
        for reply, reading in zip(saved, readings, strict=True)
    ]
    write_records(out, lines)
    return format_counts(readings)


def make_reader(
    protocol: ProtocolName, *, scale: Scale, keys: Sequence[str] = (), count: int | None = None, rule: Rule = "strict"
) -> Callable[..., Parsed[Any]]:
    """Return the reader of a protocol; the arguments are those of :func:`parse_replies`.

    Raises:
        UserError: for an argument that the protocol does not have.
    """
    for flag, given, owner in (
        ("key", bool(keys), "rubric"),
        ("count", count is not None, "score-list"),
        ("rule", rule != "strict", "pairwise"),
    ):
        if given and protocol != owner:
            raise UserError(f"--{flag} belongs to --protocol {owner}, got --protocol {protocol}; leave it out")
    readers: dict[str, Callable[..., Parsed[Any]]] = {
        "rubric": partial(read_rubric, scale=scale, keys=tuple(keys)),
        "checklist": read_checklist,
        "pairwise": partial(read_pairwise, rule=rule),
        "score-list": partial(read_score_list, scale=scale, count=count),
    }
    return readers[protocol]


def _read_saved(path: Path) -> list[SavedReply]:
    first: dict[str | int, int] = {}
    saved = []
    for line in iterate_lines(path, SavedReply):
        if line.record is None:
            raise UserError(f"{path}:{line.number}: {line.problem}")
        name = line.record.id
        if name in first:
            raise UserError(
                f"{path}:{line.number}: expected every id once, {name!r} is also on line {first[name]}; rename one"
            )
        first[name] = line.number
        saved.append(line.record)
    return saved


def format_counts(readings: Sequence[Parsed[Any]]) -> str:
    """Return a table of how many replies there are of each status, and of those read of each level."""
    statuses, levels = count_table(readings)
    rows = [("status", "replies"), *((name, str(number)) for name, number in statuses.most_common())]
    rows += [("", ""), ("read as", "replies"), *((name, str(number)) for name, number in levels.most_common())]
    rows += [("", ""), ("all", str(len(readings)))]
    return "\n".join(f"{name:<16}{number:>8}".rstrip() for name, number in rows)
