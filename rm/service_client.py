"""A client of reward services that loses and reorders nothing; :mod:`rm.service` is what goes over the wire."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NoReturn, TypeVar

import httpx
from PIL import Image
from pydantic_core import to_json
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from gnomon.errors import UserError
from rm.background import run_to_end
from rm.remote import (
    check_address,
    is_retryable_status,
    one_line,
    read_api_key,
    retry_after_seconds,
    wait_strategy,
)
from rm.service import PATH, ScoreItem, ScoreRequest, ScoreResult, encode_picture, match_results

MAX_ANSWER_BYTES = 64 * 2**20
"""A larger answer is not read: scores of a chunk fit into kilobytes."""

_Value = TypeVar("_Value")
# Reading the machine's certificates takes a while, and http needs none.
_NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
_certificates = cache(httpx.create_ssl_context)


@dataclass(frozen=True, eq=False)
class ScoreTask:
    """One picture to score, not encoded yet; the attributes are those of :class:`ScoreItem`."""

    id: str
    instruction: str
    references: Sequence[Image.Image]
    candidate: Image.Image
    meta: dict[str, Any] = field(default_factory=dict)


class _RefusedError(Exception):
    """The service said no for good: asking again would change nothing."""


class _TroubleError(Exception):
    """Something that may pass: `wait` seconds were asked for, or none; `answered` tells an overload from an outage."""

    def __init__(self, reason: str, *, wait: float | None = None, answered: bool = True) -> None:
        super().__init__(reason)
        self.wait, self.answered = wait, answered


@dataclass(frozen=True)
class ScoreClient:
    """Asks a service to score pictures: in chunks, some of them at once, again where it may help.

    An answer of 408, 425, 429 or 5xx, a connection that breaks, a body that is no JSON and silence for `timeout`
    seconds are tried again, after waiting `backoff`, twice that, and so on up to `longest_wait` (or as long as
    `Retry-After` says).
    Once a chunk has had no answer at all in all of its tries, the service counts as down and further chunks get one
    try each until it answers again.

    Attributes:
        url: where the service is, such as "http://127.0.0.1:8000"; the path `/v1/score` is added.
        dimensions: what is asked for; None for all that the service has.
        required: those of `dimensions` without which an item is an error; None for all of them.
        chunk_size: pictures per request.
        max_concurrency: requests at once.
        timeout: seconds for one whole request, from connecting to the last byte.
        max_retries: further tries per request.
        backoff: seconds before the first of them; about 3 minutes pass until the eighth.
        longest_wait: seconds between two tries, at most.
        api_key_variable: name of the environment variable that holds a key, sent as a bearer token; None for no key.
    """

    url: str
    dimensions: tuple[str, ...] | None = None
    required: tuple[str, ...] | None = None
    chunk_size: int = 16
    max_concurrency: int = 4
    timeout: float = 120.0
    max_retries: int = 8
    backoff: float = 1.0
    longest_wait: float = 60.0
    api_key_variable: str | None = None

    def __post_init__(self) -> None:
        """Check the settings.

        Raises:
            UserError: names the setting. Neither a password in the address nor a key is ever repeated.
        """
        check_address(self.url)
        for name in ("chunk_size", "max_concurrency", "timeout", "backoff", "longest_wait"):
            if not getattr(self, name) > 0:
                raise UserError(f"expected {name} above 0, got {getattr(self, name)}")
        if self.max_retries < 0:
            raise UserError(f"expected max_retries of 0 or more, got {self.max_retries}")
        read_api_key(self.api_key_variable)

    def score(self, tasks: Sequence[ScoreTask]) -> list[ScoreResult]:
        """Return one result per task, in the tasks' order; what could not be scored has its `error`.

        Every score that is required is there, and every score is finite, or the item is an error.

        Raises:
            ValueError: when two tasks share an id.
        """
        repeated = [task for task, count in Counter(task.id for task in tasks).items() if count > 1]
        if repeated:
            raise ValueError(f"expected tasks with different ids, got {', '.join(repeated[:3])} more than once")
        return run_to_end(self._score(tasks))

    async def _score(self, tasks: Sequence[ScoreTask]) -> list[ScoreResult]:
        key = read_api_key(self.api_key_variable)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        near = httpx.URL(self.url).host in ("localhost", "127.0.0.1", "::1")
        chunks = [tasks[start : start + self.chunk_size] for start in range(0, len(tasks), self.chunk_size)]
        # A proxy of the environment is for far machines only.
        verify = _certificates() if self.url.startswith("https") else _NO_CERTIFICATES
        # Waiting for a free connection would count as waiting for the service.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.max_concurrency)
        async with httpx.AsyncClient(
            headers=headers, timeout=None, limits=limits, trust_env=not near, verify=verify
        ) as http:
            call = _Call(self, http, asyncio.Semaphore(self.max_concurrency), key)
            async with asyncio.TaskGroup() as group:
                jobs = [group.create_task(call.chunk(chunk)) for chunk in chunks]
        return [result for job in jobs for result in job.result()]


@dataclass
class _Call:
    """One call of :meth:`ScoreClient.score`: what its chunks share."""

    client: ScoreClient
    http: httpx.AsyncClient
    places: asyncio.Semaphore
    key: str | None
    down: bool = False

    async def chunk(self, tasks: Sequence[ScoreTask]) -> list[ScoreResult]:
        """Score some tasks with one request (and its retries)."""
        async with self.places:  # pictures are encoded when it is their turn: all of them together may not fit
            items, broken = await asyncio.to_thread(_encode, tasks)
            found = dict(broken)
            if items:
                found |= await self._results(items)
        return [found[task.id] for task in tasks]

    async def _results(self, items: list[ScoreItem]) -> dict[str, ScoreResult]:
        dimensions = self.client.dimensions
        request = ScoreRequest(items=items, dimensions=None if dimensions is None else list(dimensions))
        try:
            results = await self._persist(request.model_dump_json().encode())
        except _RefusedError as error:
            return {item.id: ScoreResult(id=item.id, error=str(error)) for item in items}
        required = dimensions if self.client.required is None else self.client.required
        found = match_results([item.id for item in items], results, required)
        return {name: self._cleaned(result) for name, result in found.items()}

    async def _persist(self, body: bytes) -> list[Any]:
        client = self.client
        retrying = AsyncRetrying(
            sleep=asyncio.sleep,
            retry=retry_if_exception_type(_TroubleError),
            wait=wait_strategy(first=client.backoff, longest=client.longest_wait, asked=_wait_asked),
            stop=self._is_over,
            retry_error_callback=_give_up,
        )
        results: list[Any] = await retrying(self._once, body)
        self.down = False
        return results

    def _is_over(self, state: RetryCallState) -> bool:
        """Decide whether a request that met trouble is given up, and remember whether the service answers at all."""
        answered = _trouble(state).answered
        self.down &= not answered
        over = self.down or state.attempt_number > self.client.max_retries
        self.down |= over and not answered
        return over

    async def _once(self, body: bytes) -> list[Any]:
        """Ask once; the results are not checked yet."""
        client = self.client
        try:
            async with asyncio.timeout(client.timeout):
                async with self.http.stream("POST", client.url.rstrip("/") + PATH, content=body) as response:
                    content = await _read(response)
        except TimeoutError as error:
            raise _TroubleError(f"no answer within {client.timeout:g} seconds", answered=False) from error
        except (httpx.TransportError, httpx.DecodingError) as error:
            reason = (
                f"no connection to {client.url}" if isinstance(error, httpx.ConnectError) else "the connection broke"
            )
            raise _TroubleError(f"{reason}: {self._clean(str(error))}", answered=False) from error
        status = response.status_code
        # A service may say that a request's pictures are all unusable; the reasons are in the usual place then.
        if status == 422 and _has_results(content):
            return self._parse(content)
        if status != 200:
            said = f"HTTP {status}: {self._clean(content.decode(errors='replace')) or response.reason_phrase}"
            if is_retryable_status(status):
                raise _TroubleError(said, wait=retry_after_seconds(response.headers))
            raise _RefusedError(said)
        return self._parse(content)

    def _parse(self, content: bytes) -> list[Any]:
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise _TroubleError(f"an answer that is no JSON ({len(content)} bytes)") from error
        if not isinstance(answer, dict) or not isinstance(answer.get("results"), list):
            raise _RefusedError("an answer without a list of results")
        return list(answer["results"])

    def _cleaned(self, result: ScoreResult) -> ScoreResult:
        return result if result.error is None else ScoreResult(id=result.id, error=self._clean(result.error))

    def _clean(self, text: str) -> str:
        return one_line(text, without=self.key, longest=200)


def _has_results(content: bytes) -> bool:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        return False
    return isinstance(answer, dict) and isinstance(answer.get("results"), list)


def _trouble(state: RetryCallState) -> _TroubleError:
    assert state.outcome is not None
    error = state.outcome.exception()
    assert isinstance(error, _TroubleError)
    return error


def _wait_asked(error: BaseException) -> float | None:
    return error.wait if isinstance(error, _TroubleError) else None


def _give_up(state: RetryCallState) -> NoReturn:
    tries, trouble = state.attempt_number, _trouble(state)
    raise _RefusedError(f"{trouble} ({tries} {'tries' if tries > 1 else 'try'})") from trouble


async def _read(response: httpx.Response) -> bytes:
    content = bytearray()
    async for block in response.aiter_bytes():
        content += block
        if len(content) > MAX_ANSWER_BYTES:
            raise _RefusedError(f"an answer of more than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(content)


def _encode(tasks: Sequence[ScoreTask]) -> tuple[list[ScoreItem], dict[str, ScoreResult]]:
    """Encode tasks; those with a picture that cannot be encoded become errors at once."""
    known: dict[int, str] = {}  # the members of a group share their references

    def encode(image: Image.Image) -> str:
        if id(image) not in known:
            known[id(image)] = encode_picture(image)
        return known[id(image)]

    items, broken = [], {}
    for task in tasks:
        try:
            to_json([task.instruction, task.meta])  # fails here, or the whole request would be lost
            references = [encode(picture) for picture in task.references]
            items.append(
                ScoreItem(
                    id=task.id,
                    instruction=task.instruction,
                    references=references,
                    candidate=encode_picture(task.candidate),
                    meta=task.meta,
                )
            )
        except (ValueError, OSError) as error:
            broken[task.id] = ScoreResult(id=task.id, error=f"something that cannot be sent: {error}")
    return items, broken
