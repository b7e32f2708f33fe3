"""Requests to a server that speaks OpenAI's API: tried again where it may help, in words where there is no answer.

What is asked, and how an answer is read, is for the callers: :mod:`rm.vlm.chat` asks for texts,
:mod:`bench.generators_api` for pictures.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from gnomon.errors import UserError
from gnomon.optional import require
from gnomon.records import Status
from rm.remote import (
    check_address,
    is_retryable_status,
    one_line,
    read_api_key,
    retry_after_seconds,
    wait_strategy,
)

WITHHELD = frozenset({"content_filter", "content_policy_violation", "contentFilter", "moderation_blocked"})
"""Error codes of a request that was refused for its content."""

_Element = TypeVar("_Element")
_Value = TypeVar("_Value")


class NoAnswerError(Exception):
    """One request got no answer; the text is for people, `status` for the record."""

    def __init__(self, reason: str, status: Status = "api_error") -> None:
        super().__init__(reason)
        self.status: Status = status


class TroubleError(Exception):
    """Something that may pass; `answered` tells an overload from an outage."""

    def __init__(self, reason: str, *, retry_after: float | None = None, answered: bool = True) -> None:
        super().__init__(reason)
        self.retry_after, self.answered = retry_after, answered


class StatusError(Exception):
    """The server said no for good."""

    def __init__(self, status: int, reason: str, code: object) -> None:
        super().__init__(reason)
        self.status, self.code = status, code

    @property
    def is_withheld(self) -> bool:
        """Whether the request's content is the reason."""
        return isinstance(self.code, str) and self.code in WITHHELD


@dataclass(frozen=True)
class Endpoint:
    """Where requests go and how patiently.

    Attributes:
        base_url: of the server, such as "http://127.0.0.1:8000/v1", without a slash at its end; the path of what is
            asked is added.
        model: the name under which the server knows the model.
        api_key_variable: name of the environment variable that holds a key; None for no key.
        timeout: seconds for one whole request, from connecting to the last byte.
        max_retries: further tries per request.
        backoff: seconds before the first of them.
        longest_wait: seconds between two tries, at most, also where `Retry-After` asks for more.
    """

    base_url: str
    model: str
    api_key_variable: str | None
    timeout: float
    max_retries: int
    backoff: float
    longest_wait: float

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            UserError: names the one that is wrong.
        """
        check_address(self.base_url, setting="base_url")
        read_api_key(self.api_key_variable)
        require_positive(timeout=self.timeout, backoff=self.backoff, longest_wait=self.longest_wait)
        if self.max_retries < 0:
            raise UserError(f"expected max_retries of 0 or more, got {self.max_retries}")


def require_positive(**settings: float) -> None:
    """Refuse settings that are not above 0.

    Raises:
        UserError: names the first of them.
    """
    for setting, value in settings.items():
        if not value > 0:
            raise UserError(f"expected {setting} above 0, got {value}")


@dataclass
class Memory:
    """What was learnt about a server: whether it has ever answered."""

    has_answered: bool = False


class Connection:
    """A connection to a server inside one event loop; use it as an asynchronous context.

    Answers of 408, 425, 429 and 5xx, connections that break, bodies that are no answer and silence are tried
    again. Once a request has had no answer at all in all of its tries, the server counts as down and further requests
    get one try each until it answers again.
    """

    def __init__(self, endpoint: Endpoint, memory: Memory, *, feature: str) -> None:
        """Prepare to talk to `endpoint`; `memory` outlives the connection.

        Args:
            endpoint: where requests go.
            memory: of the server.
            feature: what is asked for, for the message about a missing package.

        Raises:
            UserError: without the package openai, and for a missing key.
        """
        self.endpoint, self.memory = endpoint, memory
        self._openai = require("openai", feature=feature, extra="api")
        self._key = read_api_key(endpoint.api_key_variable)
        self._down = False

    async def __aenter__(self) -> Self:
        """Open the connection."""
        address = urlsplit(self.endpoint.base_url)
        near = address.hostname in ("localhost", "127.0.0.1", "::1")
        # Reading the machine's certificates takes a while, and http needs none.
        verify = True if address.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = self._openai.AsyncOpenAI(
            base_url=self.endpoint.base_url,
            api_key=self._key or "none",  # otherwise a key for OpenAI in the environment would go to any server
            max_retries=0,
            timeout=None,
            # By aiohttp, since httpx looks through all connections at each request: 64 of them cost it 2 ms.
            # A proxy of the environment is for far machines only.
            http_client=self._openai.DefaultAioHttpClient(trust_env=not near, verify=verify),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._client.close()

    async def ask(self, send: Callable[[Any], Awaitable[Any]], read: Callable[[bytes], _Value]) -> _Value:
        """Return what `read` makes of the body of the server's answer.

        Args:
            send: makes one request with the client that it is given, and returns the raw response.
            read: raises :class:`TroubleError` for a body that is no answer.

        Raises:
            NoAnswerError: when no try got an answer.
            StatusError: when the server said no for good; see :meth:`explained`.
        """

        async def once() -> _Value:
            return read(await self._once(send))

        value = await self.persist(once)
        self.memory.has_answered = True
        return value

    async def persist(self, once: Callable[[], Awaitable[_Value]]) -> _Value:
        """Return what `once` does; what it raises as :class:`TroubleError` is tried again.

        Raises:
            NoAnswerError: when all tries were in vain.
        """
        endpoint = self.endpoint
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(TroubleError),
            stop=self._stops,
            wait=wait_strategy(
                first=endpoint.backoff,
                longest=endpoint.longest_wait,
                asked=lambda error: getattr(error, "retry_after", None),
            ),
            reraise=True,
        )

        async def attempt() -> _Value:  # tenacity awaits only what is written as a coroutine function
            return await once()

        try:
            return await retrying(attempt)
        except TroubleError as trouble:
            self._down |= not trouble.answered
            tries = retrying.statistics["attempt_number"]
            raise NoAnswerError(f"{trouble} ({tries} {'tries' if tries > 1 else 'try'})") from trouble

    def _stops(self, state: RetryCallState) -> bool:
        return self._down or state.attempt_number > self.endpoint.max_retries

    async def _once(self, send: Callable[[Any], Awaitable[Any]]) -> bytes:
        """Ask once, and return the body of the answer."""
        openai = self._openai
        try:
            async with asyncio.timeout(self.endpoint.timeout):
                response = await send(self._client)
        except TimeoutError as error:
            raise TroubleError(f"no answer within {self.endpoint.timeout:g} seconds", answered=False) from error
        # That of the client's own time-outs too, of which there are none: a refused connection is called one.
        except openai.APIConnectionError as error:
            reason = self.clean(str(error.__cause__ or error))
            raise TroubleError(f"no whole answer from {self.endpoint.base_url}: {reason}", answered=False) from error
        except openai.APIStatusError as error:
            self._down = False
            raise self._of_status(error) from error
        self._down = False
        content: bytes = response.content
        return content

    def _of_status(self, error: Any) -> TroubleError | StatusError:
        said = f"HTTP {error.status_code}: {self.clean(error.message) or 'no reason given'}"
        if is_retryable_status(error.status_code):
            return TroubleError(said, retry_after=retry_after_seconds(error.response.headers))
        return StatusError(error.status_code, said, error.code)

    def explained(self, error: StatusError) -> NoAnswerError:
        """Return what a refusal means for the item.

        Raises:
            UserError: for a wrong key, address or model name (401, 404) of a server that has not answered anything yet.
        """
        if error.is_withheld:
            return NoAnswerError(str(error), "refused")
        if error.status in (401, 404) and not self.memory.has_answered:
            endpoint = self.endpoint
            way_out = "base_url (it ends in /v1 for most servers) and model"
            if error.status == 401:
                way_out = f"the key in {endpoint.api_key_variable}" if self._key else "api_key_variable"
            raise UserError(
                f"expected {endpoint.base_url} to answer for the model {endpoint.model!r}, got {error}; check {way_out}"
            ) from error
        return NoAnswerError(str(error))

    def parsed(self, content: bytes) -> Any:
        """Return a body as plain data.

        Raises:
            TroubleError: when it is no JSON.
        """
        try:
            return json.loads(content)
        except ValueError as error:
            raise TroubleError(f"an answer that is no JSON ({len(content)} bytes)") from error

    def without(self, part: str, answer: Any) -> TroubleError:
        """Return what to raise for an answer that lacks `part`; some gateways say 200 and put an error into it."""
        said = answer.get("error") if isinstance(answer, dict) else None
        return TroubleError(f"an answer without {part}: {self.clean(json.dumps(said or answer))}")

    def clean(self, text: str) -> str:
        """Return a server's text as one short line without our key."""
        return one_line(text, without=self._key)


async def ask_each(
    connection: Connection,
    elements: Sequence[_Element],
    one: Callable[[_Element], Awaitable[_Value]],
    *,
    max_concurrency: int,
) -> list[_Value]:
    """Open the connection and return what `one` makes of each element, in order, some of them at once.

    Raises:
        UserError: the first that `one` raises; the others are given up.
    """
    places = asyncio.Semaphore(max_concurrency)

    async def in_its_place(element: _Element) -> _Value:
        async with places:  # pictures are encoded when it is their turn: all of them together may not fit
            return await one(element)

    try:
        async with connection, asyncio.TaskGroup() as group:
            jobs = [group.create_task(in_its_place(element)) for element in elements]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # several at once say the same: the key, the address or the disk
    return [job.result() for job in jobs]
