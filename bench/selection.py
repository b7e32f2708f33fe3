"""Which cases of a dataset a run is about: by task, by id, by place."""

from __future__ import annotations

from collections.abc import Sequence

from bench.placement import nearest
from gnomon.datasets import CASES
from gnomon.errors import UserError
from gnomon.records import Case


def select(
    cases: Sequence[Case],
    *,
    tasks: Sequence[str] | None = None,
    sample_ids: Sequence[str] | None = None,
    offset: int = 0,
    limit: int | None = None,
) -> list[Case]:
    """Return the cases of these tasks with these ids, without the first `offset` of them, at most `limit`.

    They keep the dataset's order, whatever the order of tasks and ids.

    Raises:
        UserError: for a task or id that no case has, and when there are no cases or none is left.
    """
    if not cases:
        raise UserError(f"expected at least one case in {CASES}, it is empty; make the dataset again")
    known_tasks = list(dict.fromkeys(case.task for case in cases))
    _refuse_unknown("task", tasks, known_tasks, f"; the tasks are {', '.join(known_tasks)}")
    _refuse_unknown("id", sample_ids, [case.id for case in cases], "")
    wanted_tasks, wanted_ids = set(tasks or ()), set(sample_ids or ())
    chosen = [
        case
        for case in cases
        if (tasks is None or case.task in wanted_tasks) and (sample_ids is None or case.id in wanted_ids)
    ]
    left = chosen[offset:][:limit]
    if not left:
        raise UserError(
            f"no case is left of {len(cases)}: {len(chosen)} have the tasks and ids asked for, and the first {offset} "
            "are skipped; ask for others or lower the offset"
        )
    return left


def listed(names: str | Sequence[str] | None, *, flag: str) -> tuple[str, ...] | None:
    """Return names that were given as "A,B" or as a list; None where none were.

    A name with a comma in it can only be given in a list.

    Raises:
        UserError: for an empty one.
    """
    if names is None:
        return None
    parts = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    if not all(parts) or not parts:
        raise UserError(f"expected names in {flag}, such as A,B, got {names!r}")
    return tuple(parts)


def check_roles(cases: Sequence[Case], roles: Sequence[str] | None) -> None:
    """Refuse roles that no reference of a dataset has: a misspelt one would withhold references unnoticed.

    Raises:
        UserError: names them, and those that there are.
    """
    known = sorted({reference.role for case in cases for reference in case.references})
    _refuse_unknown("references with the role", roles, known, f"; the roles are {', '.join(known) or 'none'}")


def _refuse_unknown(what: str, wanted: Sequence[str] | None, known: Sequence[str], way_out: str) -> None:
    known_set = set(known)
    unknown = [name for name in wanted or () if name not in known_set]
    if unknown:
        shown = ", ".join(f"{name!r}{nearest(name, known)}" for name in unknown[:3])
        more = f" and {len(unknown) - 3} more" if len(unknown) > 3 else ""
        raise UserError(f"no case has the {what} {shown}{more}{way_out}")
