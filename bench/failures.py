"""When a step ends with an error because of items that failed: it did all that it could, and says what did not work."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gnomon.errors import UserError


def by_status(failures: Sequence[tuple[str, str | None]]) -> str:
    """Return how many failures there are of each status, the commonest first."""
    return ", ".join(f"{count} {status}" for status, count in Counter(name for name, _ in failures).most_common())


def check_failures(
    what: str, failures: Sequence[tuple[str, str | None]], *, num_items: int, fail_on_error: bool | float = False
) -> None:
    """Make sure that not too many items failed, and not all of them.

    Args:
        what: failed, in the plural.
        failures: status and reason of each.
        num_items: how many there are in all, those that are not applicable aside.
        fail_on_error: True for an error where any failed; a number below 1 for one from that share of the items on, a
            number from 1 on for one from so many on (as inspect_ai has it; 0 is True). False for one only where all
            failed.

    Raises:
        UserError: with the counts by status and an example of the commonest.
    """
    if not failures or not (len(failures) == num_items or _is_too_many(len(failures), num_items, fail_on_error)):
        return
    (status, count), *others = Counter(status for status, _ in failures).most_common()
    reason = next((text for other, text in failures if other == status and text), "no reason given")
    if len(failures) == num_items:
        told = f"all {num_items} {what} failed, {count} of them with {status}"
    else:
        told = f"{len(failures)} of {num_items} {what} failed (--fail-on-error {_shown(fail_on_error)}): "
        told += by_status(failures) + (f"; the first {status}" if others else "")
    raise UserError(f"{told}: {reason}. Mend that and run the same command again")


def _is_too_many(failed: int, num_items: int, fail_on_error: bool | float) -> bool:
    if isinstance(fail_on_error, bool):
        return fail_on_error
    return (failed / num_items if fail_on_error < 1 else failed) >= fail_on_error


def _shown(fail_on_error: bool | float) -> str:
    return str(fail_on_error).lower() if isinstance(fail_on_error, bool) else f"{fail_on_error:g}"
