"""When a server is asked again, and after how long: what every client of a model behind HTTP has in common.

Also where a key comes from and which addresses may be kept. Nothing here sends anything, so each client keeps its own
transport and its own words for what went wrong; :mod:`rm.background` is where requests run.
"""

from __future__ import annotations

import math
import os
import random
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

from tenacity import RetryCallState, wait_exponential
from tenacity.wait import wait_base

from gnomon.errors import UserError

_JITTER = random.Random()  # of its own: the global one, which tenacity's waits draw from, belongs to the user


def is_retryable_status(status: int) -> bool:
    """Return whether the same request may succeed later: 408, 425, 429 and all of 5xx (RFC 9110, 8470 and 6585)."""
    return status in (408, 425, 429) or 500 <= status <= 599


def retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a `Retry-After` header asks for; None where there is none that makes sense.

    RFC 9110, 10.2.3: a number of seconds or a date; one that has passed is 0. Fractions, which some servers send, are
    understood.

    Args:
        headers: of an answer, in any case.
    """
    header = next((value.strip() for name, value in headers.items() if name.lower() == "retry-after"), None)
    if header is None:
        return None
    if re.fullmatch(r"[0-9]+(\.[0-9]*)?", header):
        seconds = float(header)
        return seconds if math.isfinite(seconds) else None
    try:
        when = parsedate_to_datetime(header)
        return max(0.0, (when.replace(tzinfo=when.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    except (ValueError, TypeError, OverflowError):
        return None


def wait_strategy(
    *, first: float, longest: float, asked: Callable[[BaseException], float | None] | None = None
) -> wait_base:
    """Return how long tenacity waits between tries: `first`, twice that, and so on up to `longest`.

    Each wait is shortened by up to a quarter at random, so that what failed together does not come back together, and
    is never shorter than what the server asked for, unless that is over `longest`.

    Args:
        first: seconds before the second try.
        longest: seconds between two tries, at most.
        asked: from what a try raised to the seconds that the server asked for, see :func:`retry_after_seconds`.
    """
    return _Wait(wait_exponential(multiplier=first, max=longest), longest, asked or (lambda error: None))


class _Wait(wait_base):
    """What :func:`wait_strategy` returns."""

    def __init__(
        self, growing: wait_exponential, longest: float, asked: Callable[[BaseException], float | None]
    ) -> None:
        self._growing, self._longest, self._asked = growing, longest, asked

    def __call__(self, retry_state: RetryCallState) -> float:
        error = None if retry_state.outcome is None else retry_state.outcome.exception()
        asked = None if error is None else self._asked(error)
        pause = self._growing(retry_state) * _JITTER.uniform(0.75, 1.0)
        return max(pause, min(asked or 0.0, self._longest))


def check_address(url: str, *, setting: str = "url") -> None:
    """Make sure that `url`, given as `setting`, is an address that may be kept in configs and manifests.

    Raises:
        UserError: for anything but http(s)://host[:port][/path]. A password in it is not repeated.
    """
    if "@" in url:
        raise UserError("expected an address without user and password, since configs are kept; use api_key_variable")
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise UserError(f"expected an address such as http://127.0.0.1:8000 as {setting}, got {url!r}")


def read_api_key(variable: str | None) -> str | None:
    """Read a key where it is used, so that no object and no message holds it; None where no variable is named.

    Raises:
        UserError: for a name that is none (perhaps the key itself, which is not repeated), and an unusable key.
    """
    if variable is None:
        return None
    if not re.fullmatch(r"[A-Z][A-Z0-9_]*", variable):
        raise UserError(
            "expected the NAME of an environment variable as api_key_variable, in capitals, not a key itself"
        )
    key = os.environ.get(variable, "")
    if not re.fullmatch(r"[!-~]+", key):
        raise UserError(f"expected a key of visible ASCII characters in the environment variable {variable}")
    return key


def one_line(text: str, *, without: str | None, longest: int = 300) -> str:
    """Cut a server's text down to one short line without our key (`without`)."""
    shown = text if not without else text.replace(without, "***")
    return " ".join("".join(c if c.isprintable() else " " for c in shown).split())[:longest]
