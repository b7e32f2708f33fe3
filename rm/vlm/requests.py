"""Requests to a server that speaks OpenAI's API: tried again where it may help, in words where there is no answer.

What is asked, and how an answer is read, is for the callers: :mod:`rm.vlm.chat` asks for texts,
:mod:`bench.generators_api` for pictures.
"""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

import gnomon
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

_ERRORS_FROM = 400
"""Statuses from here on are no answers (RFC 9110, section 15)."""

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


@dataclass(frozen=True)
class Form:
    """The body of a request that sends files.

    Attributes:
        fields: texts by name.
        files: (name of the field, file name, content, type) of each.
    """

    fields: Mapping[str, str]
    files: Sequence[tuple[str, str, bytes, str]] = field(default_factory=list)


@dataclass
class Memory:
    """What was learnt about a server: whether it has ever answered."""

    has_answered: bool = False


class SharedClient:
    """What the calls of one model share while they overlap: a client with its open connections, and places in flight.

    It is opened by the first call and closed with the last one, so nothing is left open between calls. Everything
    happens on one loop (:mod:`rm.background`), so nothing needs a lock. A copy, or what arrives in another process,
    shares nothing with the original.

    Args:
        endpoint: the server.
        max_concurrency: requests in flight at once, those of all threads together.
    """

    def __init__(self, endpoint: Endpoint, max_concurrency: int) -> None:
        require_positive(max_concurrency=max_concurrency)
        self.endpoint, self.max_concurrency = endpoint, max_concurrency
        self._open: _OpenClient | None = None

    def __reduce__(self) -> tuple[type[SharedClient], tuple[Endpoint, int]]:
        """Leave out what belongs to this process."""
        return SharedClient, (self.endpoint, self.max_concurrency)

    @asynccontextmanager
    async def opened(self, make: Callable[[], Any]) -> AsyncIterator[_OpenClient]:
        """Open what is shared, or join those who have opened it.

        Args:
            make: makes the client.
        """
        loop = asyncio.get_running_loop()
        # A process that was forked in the middle of a call holds a client that it must not use.
        if self._open is None or self._open.loop is not loop:
            self._open = _OpenClient(loop, make(), self.max_concurrency)
        shared = self._open
        shared.users += 1
        try:
            yield shared
        finally:
            shared.users -= 1
            if not shared.users:
                self._open = None
                await shared.client.close()


class _OpenClient:
    """A client that is in use.

    Attributes:
        loop: where.
        client: a session of aiohttp.
        places: see :attr:`Connection.places`.
        rooms: see :attr:`Connection.rooms`.
        users: how many calls use it.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, client: Any, max_concurrency: int) -> None:
        self.loop, self.client, self.users = loop, client, 0
        self.places = asyncio.Semaphore(max_concurrency)
        self.rooms = asyncio.Semaphore(max_concurrency + math.ceil(max_concurrency / 4))


class Connection:
    """A connection to a server for one call; use it as an asynchronous context.

    Answers of 408, 425, 429 and 5xx, connections that break, bodies that are no answer and silence are tried
    again. Once a request has had no answer at all in all of its tries, the server counts as down and further requests
    get one try each until it answers again.
    """

    def __init__(self, shared: SharedClient, memory: Memory, *, feature: str) -> None:
        """Prepare to talk to a server; `shared` and `memory` outlive the connection.

        Args:
            shared: the server's client.
            memory: of the server.
            feature: what is asked for, for the message about a missing package.

        Raises:
            UserError: without the package aiohttp, and for a missing key.
        """
        self.endpoint, self.memory = shared.endpoint, memory
        self._aiohttp = require("aiohttp", feature=feature, extra="api")
        self._key = read_api_key(self.endpoint.api_key_variable)
        self._down = False
        self._opened: AbstractAsyncContextManager[_OpenClient] = shared.opened(self._make_client)

    def _make_client(self) -> Any:
        aiohttp = self._aiohttp
        near = urlsplit(self.endpoint.base_url).hostname in ("localhost", "127.0.0.1", "::1")
        headers = {"User-Agent": f"gnomon/{gnomon.__version__}"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # places are the limit
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=None),
            trust_env=not near,  # a proxy of the environment is for far machines only
        )

    async def __aenter__(self) -> Self:
        """Open the connection."""
        self._shared = await self._opened.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._opened.__aexit__(kind, error, trace)

    @property
    def places(self) -> asyncio.Semaphore:
        """For elements in flight; an element keeps its place for all its requests and the pauses between them."""
        return self._shared.places

    @property
    def rooms(self) -> asyncio.Semaphore:
        """For elements in flight and those that get ready to be the next; all that wait may not fit into memory."""
        return self._shared.rooms

    async def ask(self, path: str, body: Mapping[str, Any] | Form, read: Callable[[bytes], _Value]) -> _Value:
        """Return what `read` makes of the body of the server's answer.

        Args:
            path: what is asked, below the endpoint's `base_url`.
            body: of the request, sent as JSON unless it is a form.
            read: raises :class:`TroubleError` for a body that is no answer.

        Raises:
            NoAnswerError: when no try got an answer.
            StatusError: when the server said no for good; see :meth:`explained`.
        """

        async def once() -> _Value:
            return read(await self._once(path, body))

        value = await self.persist(once)
        self.memory.has_answered = True
        return value

    async def persist(self, once: Callable[[], Awaitable[_Value]]) -> _Value:
        """Return what `once` does; what it raises as :class:`TroubleError` is tried again.

        Raises:
            NoAnswerError: when all tries were in vain.
        """
        # Nearly every first try succeeds, and to set up the others takes as long as all else about a request.
        try:
            return await once()
        except TroubleError as trouble:
            return await self._persist(once, trouble)

    async def _persist(self, once: Callable[[], Awaitable[_Value]], first: TroubleError) -> _Value:
        """Go on after a first try that ended in trouble."""
        troubles = [first]
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
            if troubles:
                raise troubles.pop()
            return await once()

        try:
            return await retrying(attempt)
        except TroubleError as trouble:
            self._down |= not trouble.answered
            tries = retrying.statistics["attempt_number"]
            raise NoAnswerError(f"{trouble} ({tries} {'tries' if tries > 1 else 'try'})") from trouble

    def _stops(self, state: RetryCallState) -> bool:
        return self._down or state.attempt_number > self.endpoint.max_retries

    async def _once(self, path: str, body: Mapping[str, Any] | Form) -> bytes:
        """Ask once, and return the body of the answer."""
        url = f"{self.endpoint.base_url}{path}"
        try:
            async with (
                asyncio.timeout(self.endpoint.timeout),
                self._shared.client.post(url, **self._payload(body)) as response,
            ):
                content: bytes = await response.read()
        except TimeoutError as error:
            raise TroubleError(f"no answer within {self.endpoint.timeout:g} seconds", answered=False) from error
        except (self._aiohttp.ClientError, OSError) as error:
            reason = self.clean(str(error) or type(error).__name__)
            raise TroubleError(f"no whole answer from {self.endpoint.base_url}: {reason}", answered=False) from error
        self._down = False
        if response.status >= _ERRORS_FROM:
            raise self._of_status(response.status, response.headers, content)
        return content

    def _payload(self, body: Mapping[str, Any] | Form) -> dict[str, Any]:
        """Return a body as aiohttp takes it: anew for every try, since a form can be sent once."""
        if isinstance(body, Form):
            form = self._aiohttp.FormData(body.fields)
            for name, file_name, content, kind in body.files:
                form.add_field(name, content, filename=file_name, content_type=kind)
            return {"data": form}
        # As a file, which is sent in pieces: other requests have their turn between those of a large one.
        return {
            "data": io.BytesIO(json.dumps(body, ensure_ascii=False).encode()),
            "headers": {"Content-Type": "application/json"},
        }

    def _of_status(self, status: int, headers: Mapping[str, str], content: bytes) -> TroubleError | StatusError:
        message, code = _read_error(content)
        said = f"HTTP {status}: {self.clean(message) or 'no reason given'}"
        if is_retryable_status(status):
            return TroubleError(said, retry_after=retry_after_seconds(headers))
        return StatusError(status, said, code)

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


def _read_error(content: bytes) -> tuple[str, object]:
    """Return the message and code of a refusal: OpenAI's and its like's, or whatever a gateway says."""
    text = content.decode("utf-8", errors="replace")
    try:
        answer = json.loads(text)
    except ValueError:
        return text, None
    error = answer.get("error", answer) if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return str(error), None
    message = error.get("message")
    return message if isinstance(message, str) and message else json.dumps(error, ensure_ascii=False), error.get("code")


async def ask_each(
    connection: Connection, elements: Sequence[_Element], one: Callable[[_Element], Awaitable[_Value]]
) -> list[_Value]:
    """Open the connection and return what `one` makes of each element, in order, some of them at once.

    Each element gets a room; for what it asks, `one` takes a place.

    Raises:
        UserError: the first that `one` raises; the others are given up.
    """

    async def in_its_room(element: _Element) -> _Value:
        async with connection.rooms:  # pictures are encoded when it is their turn: all of them together may not fit
            return await one(element)

    try:
        async with connection, asyncio.TaskGroup() as group:
            jobs = [group.create_task(in_its_room(element)) for element in elements]
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None  # several at once say the same: the key, the address or the disk
    return [job.result() for job in jobs]
