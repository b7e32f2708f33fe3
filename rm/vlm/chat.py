"""Sends chat requests to a server, again where it may help, and says in words why one got no answer."""

from __future__ import annotations

import asyncio
import json
import ssl
import warnings
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from gnomon.errors import UserError
from gnomon.optional import require
from gnomon.records import Status
from rm.remote import is_retryable_status, one_line, read_api_key, retry_after_seconds, wait_strategy
from rm.vlm.wire import Body

_WITHHELD = ("content_filter", "content_policy_violation")  # error codes of a request that was refused for its content


class NoAnswerError(Exception):
    """One request got no answer; the text is for people, `status` for the record."""

    def __init__(self, reason: str, status: Status = "api_error") -> None:
        super().__init__(reason)
        self.status: Status = status


class _TroubleError(Exception):
    """Something that may pass; `answered` tells an overload from an outage."""

    def __init__(self, reason: str, *, retry_after: float | None = None, answered: bool = True) -> None:
        super().__init__(reason)
        self.retry_after, self.answered = retry_after, answered


class _StatusError(Exception):
    """The server said no for good."""

    def __init__(self, status: int, reason: str, code: object) -> None:
        super().__init__(reason)
        self.status, self.code = status, code


@dataclass(frozen=True)
class Endpoint:
    """Where requests go and how patiently.

    Attributes:
        base_url: of the server, such as "http://127.0.0.1:8000/v1"; `/chat/completions` is added.
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


@dataclass
class Memory:
    """What was learnt about a server: whether it has ever answered, and whether it takes no JSON schemas."""

    has_answered: bool = False
    no_schemas: bool = False


class ChatClient:
    """A connection to a server inside one event loop; use it as an asynchronous context.

    Answers of 408, 425, 429 and 5xx, connections that break, bodies that are no chat completion and silence are tried
    again. Once a request has had no answer at all in all of its tries, the server counts as down and further requests
    get one try each until it answers again.
    """

    def __init__(self, endpoint: Endpoint, memory: Memory) -> None:
        """Prepare to talk to `endpoint`; `memory` outlives the connection.

        Raises:
            UserError: without the package openai, and for a missing key.
        """
        self._endpoint, self._memory = endpoint, memory
        self._openai = require("openai", feature="asking a model behind an API", extra="api")
        self._key = read_api_key(endpoint.api_key_variable)
        self._down = False

    async def __aenter__(self) -> ChatClient:
        """Open the connection."""
        address = urlsplit(self._endpoint.base_url)
        near = address.hostname in ("localhost", "127.0.0.1", "::1")
        # Reading the machine's certificates takes a while, and http needs none.
        verify = True if address.scheme == "https" else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._client = self._openai.AsyncOpenAI(
            base_url=self._endpoint.base_url,
            api_key=self._key or "none",  # otherwise a key for OpenAI in the environment would go to any server
            max_retries=0,
            timeout=None,
            # A proxy of the environment is for far machines only.
            http_client=self._openai.DefaultAsyncHttpxClient(trust_env=not near, verify=verify),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        await self._client.close()

    async def complete(self, body: Body) -> Body:
        """Return the server's answer, with at least one choice that holds a message.

        A server that refuses a request with a JSON schema is asked without; if that helps, it is remembered.

        Args:
            body: of the request, without the model.

        Raises:
            NoAnswerError: why there is none.
            UserError: for a wrong key or model name (401, 404) of a server that has not answered anything yet.
        """
        asked = body
        if self._memory.no_schemas:
            asked = {name: value for name, value in body.items() if name != "response_format"}
        try:
            return await self._persist(asked)
        except _StatusError as error:
            if error.status in (400, 422) and "response_format" in asked and error.code not in _WITHHELD:
                return await self._without_schema(asked, error)
            raise self._explained(error) from error

    async def _without_schema(self, body: Body, refusal: _StatusError) -> Body:
        try:
            answer = await self._persist({name: value for name, value in body.items() if name != "response_format"})
        except _StatusError as error:  # so the schema was not the reason
            raise self._explained(error) from error
        if not self._memory.no_schemas:
            self._memory.no_schemas = True
            warnings.warn(
                f"{self._endpoint.base_url} takes no JSON schema ({refusal}); {self._endpoint.model} is asked without, "
                "so its replies may have any form",
                stacklevel=2,
            )
        return answer

    def _explained(self, error: _StatusError) -> NoAnswerError:
        if error.code in _WITHHELD:
            return NoAnswerError(str(error), "refused")
        if error.status in (401, 404) and not self._memory.has_answered:
            endpoint = self._endpoint
            way_out = "base_url (it ends in /v1 for most servers) and model"
            if error.status == 401:
                way_out = f"the key in {endpoint.api_key_variable}" if self._key else "api_key_variable"
            raise UserError(
                f"expected {endpoint.base_url} to answer for the model {endpoint.model!r}, got {error}; check {way_out}"
            ) from error
        return NoAnswerError(str(error))

    async def _persist(self, body: Body) -> Body:
        endpoint = self._endpoint
        retrying = AsyncRetrying(
            retry=retry_if_exception_type(_TroubleError),
            stop=self._stops,
            wait=wait_strategy(
                first=endpoint.backoff,
                longest=endpoint.longest_wait,
                asked=lambda error: getattr(error, "retry_after", None),
            ),
            reraise=True,
        )
        try:
            answer: Body = await retrying(self._once, body)
        except _TroubleError as trouble:
            self._down |= not trouble.answered
            tries = retrying.statistics["attempt_number"]
            raise NoAnswerError(f"{trouble} ({tries} {'tries' if tries > 1 else 'try'})") from trouble
        else:
            self._memory.has_answered = True
            return answer

    def _stops(self, state: RetryCallState) -> bool:
        return self._down or state.attempt_number > self._endpoint.max_retries

    async def _once(self, body: Body) -> Body:
        """Ask once."""
        openai, rest = self._openai, {name: value for name, value in body.items() if name != "messages"}
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                response = await self._client.chat.completions.with_raw_response.create(
                    model=self._endpoint.model, messages=body["messages"], extra_body=rest
                )
        except (TimeoutError, openai.APITimeoutError) as error:
            raise _TroubleError(f"no answer within {self._endpoint.timeout:g} seconds", answered=False) from error
        except openai.APIConnectionError as error:
            reason = self._clean(str(error.__cause__ or error))
            raise _TroubleError(f"no whole answer from {self._endpoint.base_url}: {reason}", answered=False) from error
        except openai.APIStatusError as error:
            self._down = False
            raise self._of_status(error) from error
        self._down = False
        return self._parsed(response.content)

    def _of_status(self, error: Any) -> _TroubleError | _StatusError:
        said = f"HTTP {error.status_code}: {self._clean(error.message) or 'no reason given'}"
        if is_retryable_status(error.status_code):
            return _TroubleError(said, retry_after=retry_after_seconds(error.response.headers))
        return _StatusError(error.status_code, said, error.code)

    def _parsed(self, content: bytes) -> Body:
        """Return a body as a chat completion; some gateways say 200 and put an error into it."""
        try:
            answer = json.loads(content)
        except ValueError as error:
            raise _TroubleError(f"an answer that is no JSON ({len(content)} bytes)") from error
        try:
            if isinstance(answer["choices"][0]["message"], dict):
                return dict(answer)
        except (KeyError, IndexError, TypeError):
            pass
        said = answer.get("error") if isinstance(answer, dict) else None
        raise _TroubleError(f"an answer without a message: {self._clean(json.dumps(said or answer))}")

    def _clean(self, text: str) -> str:
        return one_line(text, without=self._key)
