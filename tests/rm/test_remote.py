"""When a server is asked again and after how long, by hand-made answers and the documents that define them."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import Retrying, stop_after_attempt

from gnomon.errors import UserError
from rm.remote import (
    check_address,
    is_retryable_status,
    one_line,
    read_api_key,
    retry_after_seconds,
    wait_strategy,
)


def test_what_may_pass_is_asked_again_and_nothing_else() -> None:
    assert [status for status in range(100, 700) if is_retryable_status(status)] == [408, 425, 429, *range(500, 600)]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("17", 17.0),
        (" 0 ", 0.0),
        ("1.5", 1.5),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("-3", None),
        ("soon", None),
        ("", None),
        ("1e3", None),
        ("nan", None),
        ("inf", None),
        ("\u0663", None),  # a digit, but no ASCII one
        ("9" * 400, None),
        ("Mon, 01 Jan 99999999999999999999 00:00:00 GMT", None),
        ("Mon, 41 Jan 2024 00:00:00 GMT", None),
    ],
)
def test_a_retry_after_is_a_number_or_a_date(value: str, seconds: float | None) -> None:
    assert retry_after_seconds({"Retry-After": value}) == seconds


@given(st.text(max_size=40))
def test_no_header_breaks_anything(value: str) -> None:
    seconds = retry_after_seconds({"retry-after": value})
    assert seconds is None or 0 <= seconds < float("inf")


def test_a_date_is_seconds_from_now_whatever_its_zone_and_the_case_of_the_header() -> None:
    later = datetime.now(UTC) + timedelta(seconds=100)
    date = format_datetime(later, usegmt=True)
    elsewhere = format_datetime(later.astimezone(datetime.strptime("+0530", "%z").tzinfo))
    for headers in ({"RETRY-AFTER": date}, httpx.Headers({"retry-after": date}), {"Retry-After": elsewhere}):
        assert 98 < (retry_after_seconds(headers) or 0) <= 100
    assert retry_after_seconds({}) is None
    assert retry_after_seconds({"Date": date}) is None


class BusyError(Exception):
    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds


def waits(*asked: float | None, first: float = 1.0, longest: float = 60.0) -> list[float]:
    """Return the pauses of tenacity between tries that fail, each with what the server asked for."""
    pauses: list[float] = []
    answers = iter(asked)

    def fail() -> None:
        raise BusyError(next(answers))

    def seconds(error: BaseException) -> float | None:
        assert isinstance(error, BusyError)
        return error.seconds

    retrying = Retrying(
        wait=wait_strategy(first=first, longest=longest, asked=seconds),
        stop=stop_after_attempt(len(asked)),
        sleep=pauses.append,
        reraise=True,
    )
    with pytest.raises(BusyError):
        retrying(fail)
    return pauses


def test_waits_double_up_to_the_longest_and_lie_a_little_apart() -> None:
    found = waits(*[None] * 9, first=0.5, longest=20.0)
    expected = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 20.0, 20.0]
    assert len(found) == len(expected)
    assert all(0.75 * limit <= wait <= limit for wait, limit in zip(found, expected, strict=True))
    assert len(set(found)) == len(found)
    assert waits(*[None] * 9, first=0.5, longest=20.0) != found


def test_as_long_as_the_server_asks_is_waited_but_never_longer_than_allowed() -> None:
    short, exact, cut, own = waits(0.0, 30.0, 86400.0, 1.0, None, first=1.0, longest=60.0)
    assert 0.75 <= short <= 1.0
    assert (exact, cut) == (30.0, 60.0)
    assert 6.0 <= own <= 8.0


def test_without_a_word_of_the_server_it_is_a_plain_strategy_and_the_users_random_numbers_stay() -> None:
    random.seed(0)
    before = random.getstate()
    pauses: list[float] = []
    retrying = Retrying(wait=wait_strategy(first=1.0, longest=4.0), stop=stop_after_attempt(2), sleep=pauses.append)
    with pytest.raises(Exception, match="RetryError"):
        retrying(lambda: 1 / 0)
    assert 0.75 <= pauses[0] <= 1.0
    assert random.getstate() == before


@pytest.mark.parametrize(
    "url", ["", "localhost:8000", "ftp://a", "http://", "http://a?b=c", "http://a:99999", "http://[a"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="expected an address such as"):
        check_address(url)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(UserError, match="without user and password") as caught:
        check_address("http://me:secret@host")
    assert "secret" not in str(caught.value)


def test_a_key_comes_from_a_variable_and_is_never_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "sk-123")
    assert read_api_key("JUDGE_KEY") == "sk-123"
    assert read_api_key(None) is None
    monkeypatch.setenv("JUDGE_KEY", "two\nlines")
    for name in ("JUDGE_KEY", "NO_SUCH_KEY", "sk-123-secret"):
        with pytest.raises(UserError) as caught:
            read_api_key(name)
        assert "secret" not in str(caught.value)
        assert "lines" not in str(caught.value)


def test_a_server_s_text_is_one_short_line_without_the_key() -> None:
    assert one_line("bad\n key sk-123 \x1b[31m", without="sk-123") == "bad key *** [31m"
    assert len(one_line("a" * 999, without=None)) == 300
