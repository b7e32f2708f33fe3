"""A generator behind any server that speaks OpenAI's images API: edits of references, or pictures of a text alone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from PIL import Image

from bench.generators import Failure, check_language, instruction_in
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.records import Case
from rm.background import run_to_end
from rm.remote import is_retryable_status, retry_after_seconds
from rm.service import decode_picture, png_bytes, read_picture
from rm.vlm.requests import (
    Connection,
    Endpoint,
    Form,
    Memory,
    NoAnswerError,
    SharedClient,
    StatusError,
    TroubleError,
    ask_each,
)

MAX_PICTURE_BYTES = 64 * 2**20
"""A larger file at an address that a server gives is not read."""

_OURS = ("model", "prompt", "image", "image[]", "n", "stream")  # what the generator itself says in a request
_SEED_RANGE = 2**31  # what servers take for a seed, at the least


@dataclass(frozen=True)
class _Entry:
    """One picture of an answer: base64, or the address of a file."""

    picture: str | None
    url: str


_Item = tuple[Case, Sequence[Image.Image], int]


class ImagesApiGenerator:
    """Asks a server for one picture per case; one bad item is one :class:`bench.generators.Failure`.

    A case with references goes to `/images/edits` with all of them, in their order; one without to
    `/images/generations`. What may pass (408, 425, 429, 5xx, broken connections, silence) is tried again, as in
    :class:`rm.vlm.api.ApiVLM`; a request that the server refuses for its content is "refused" and asked once. A
    401 or 404 from a server that has not answered anything yet stops the run.
    """

    is_itemwise = True

    def __init__(
        self,
        model: str,
        base_url: str,
        *,
        api_key_variable: str | None = None,
        parameters: dict[str, Any] | None = None,
        language: str = "en",
        send_seed: bool = False,
        follow_urls: bool = False,
        max_concurrency: int = 8,
        timeout: float = 300.0,
        max_retries: int = 8,
        backoff: float = 1.0,
        longest_wait: float = 60.0,
    ) -> None:
        """Keep the settings; nothing is sent yet.

        Args:
            model: the name under which the server knows the model.
            base_url: of the server, such as "http://127.0.0.1:8000/v1".
            api_key_variable: name of the environment variable that holds a key; None for no key.
            parameters: further fields of every request, such as `{size: 1024x1024, quality: high}`.
            language: of the instructions: "en", "zh" or "mixed" (per case, by a hash of its id).
            send_seed: whether the server takes a field `seed`, as SGLang and vLLM-Omni do; OpenAI refuses it.
            follow_urls: whether a picture is fetched from the address that a server answers with in place of the
                picture itself. The address is the server's choice, so trust the server.
            max_concurrency: requests at once; a batch of cases should hold more.
            timeout: seconds for one whole request.
            max_retries: further tries per request.
            backoff: seconds before the first of them, twice that before the next, and so on.
            longest_wait: seconds between two tries, at most, also where the server asks for more.

        Raises:
            UserError: names the setting that is wrong.
        """
        self._endpoint = Endpoint(
            base_url.rstrip("/"), model, api_key_variable, timeout, max_retries, backoff, longest_wait
        )
        self._shared = SharedClient(self._endpoint, max_concurrency)
        self._parameters = dict(parameters or {})
        taken = sorted(self._parameters.keys() & {*_OURS, *(("seed",) if send_seed else ())})
        if taken:
            raise UserError(f"expected parameters without {', '.join(taken)}, which the generator says itself")
        self.language = check_language(language)
        self._send_seed, self._follow_urls = send_seed, follow_urls
        self._memory = Memory()

    @property
    def fingerprint(self) -> str:
        """A hash of what decides the pictures: address, model, fields and language; never of a key."""
        decisive = [self._endpoint.base_url, self._endpoint.model, self._parameters, self.language, self._send_seed]
        return stable_hash(["images-api", *decisive])

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> list[Image.Image | Failure]:
        """Return a picture or a failure for every case, in order.

        Raises:
            UserError: for a wrong key, address or model name, and without the package aiohttp.
        """
        return run_to_end(self._generate(list(zip(cases, references, seeds, strict=True))))

    async def _generate(self, items: Sequence[_Item]) -> list[Image.Image | Failure]:
        connection = Connection(self._shared, self._memory, feature="asking a generator behind an API")
        return await ask_each(connection, items, lambda item: self._one(connection, item))

    async def _one(self, connection: Connection, item: _Item) -> Image.Image | Failure:
        try:
            content = await self._content(connection, item)
            return await asyncio.to_thread(_picture, content)
        except NoAnswerError as error:
            return Failure("refused" if error.status == "refused" else "api_error", str(error))
        except ValueError as error:
            # Not asked for again at once: another try costs as much, and mostly brings the same kind of file.
            return Failure("unreadable_image", f"not a picture from the server: {connection.clean(str(error))}")

    async def _content(self, connection: Connection, item: _Item) -> str | bytes:
        """Return the picture that the server makes: base64, or the bytes of a file."""
        case, references, seed = item
        prompt = instruction_in(case, self.language)
        fields: dict[str, Any] = {"model": self._endpoint.model, "prompt": prompt, "n": 1, **self._parameters}
        if self._send_seed:
            fields["seed"] = seed % _SEED_RANGE
        body = Form(_as_texts(fields), await asyncio.to_thread(_files, references)) if references else fields
        path = "/images/edits" if references else "/images/generations"
        async with connection.places:
            try:
                entry = await connection.ask(path, body, lambda content: _first_entry(connection, content))
            except StatusError as error:
                raise connection.explained(error) from error
            if entry.picture is not None:
                return entry.picture
            if not self._follow_urls:
                raise NoAnswerError(
                    "the server answers with the address of a picture; ask for the picture itself by parameters: "
                    "{response_format: b64_json}, or set follow_urls: true"
                )
            url = entry.url
            return await connection.persist(lambda: _fetch(url, connection.endpoint.timeout))


def _files(references: Sequence[Image.Image]) -> list[tuple[str, str, bytes, str]]:
    return [
        ("image[]", f"reference-{place}.png", png_bytes(picture), "image/png")
        for place, picture in enumerate(references)
    ]


def _as_texts(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return fields as a form has them: texts as they are, anything else as JSON, and nothing for a null."""
    return {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in fields.items()
        if value is not None
    }


def _picture(content: str | bytes) -> Image.Image:
    return decode_picture(content) if isinstance(content, str) else read_picture(content)


def _first_entry(connection: Connection, content: bytes) -> _Entry:
    """Return the first picture of an answer."""
    answer = connection.parsed(content)
    try:
        entry = answer["data"][0]
        picture, url = entry.get("b64_json"), entry.get("url")
    except (KeyError, IndexError, TypeError, AttributeError):
        raise connection.without("a picture", answer) from None
    if isinstance(picture, str) and picture:
        return _Entry(picture, "")
    if isinstance(url, str) and url:
        return _Entry(None, url)
    raise connection.without("a picture", answer)


async def _fetch(url: str, timeout: float) -> bytes:
    """Return a file from the address that a server gave; no key goes there, and no message repeats its signature."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in ("http", "https") else None
    except ValueError:
        host = None
    if not host:
        raise NoAnswerError("the server answers with an address that is not of http or https")
    near = host in ("localhost", "127.0.0.1", "::1")
    content = bytearray()
    try:
        async with (
            asyncio.timeout(timeout),
            httpx.AsyncClient(timeout=None, trust_env=not near) as http,
            http.stream("GET", url) as response,
        ):
            if is_retryable_status(response.status_code):
                asked = retry_after_seconds(response.headers)
                raise TroubleError(f"HTTP {response.status_code} for the picture at {host}", retry_after=asked)
            if response.status_code != httpx.codes.OK:
                raise NoAnswerError(f"HTTP {response.status_code} for the picture at {host}")
            async for chunk in response.aiter_bytes():
                content += chunk
                if len(content) > MAX_PICTURE_BYTES:
                    raise NoAnswerError(f"the picture at {host} is larger than {MAX_PICTURE_BYTES >> 20} MiB")
    except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
        raise TroubleError(f"no whole picture from {host}: {type(error).__name__}") from error
    return bytes(content)
