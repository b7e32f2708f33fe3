"""Fetching files from places that nobody vouches for: bounded in size, time and redirects, public addresses alone.

Every hop is resolved and checked, and the connection goes to the very address that was checked, so that a name cannot
lead elsewhere a moment later. Proxies of the environment are not used, answers are not decompressed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal
from urllib.parse import urljoin

from data_build.cogcanvas.addresses import Resolver, is_public, resolve
from gnomon.errors import UserError

if TYPE_CHECKING:
    import httpx

FetchStatus = Literal[
    "ok",
    "bad_url",
    "refused_address",
    "unreachable",
    "gone",
    "http_error",
    "too_many_redirects",
    "too_slow",
    "too_large",
    "compressed",
]
_REDIRECTS = (301, 302, 303, 307, 308)
_GONE = (404, 410)


@dataclass(frozen=True)
class Limits:
    """What one file may cost.

    Attributes:
        max_bytes: of the file.
        timeout: seconds for all of it: names, every redirect, the content.
        max_redirects: hops after the first.
    """

    max_bytes: int = 50 * 2**20
    timeout: float = 60.0
    max_redirects: int = 5

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.max_bytes < 1 or self.timeout <= 0 or self.max_redirects < 0:
            raise UserError(
                "expected max_bytes >= 1, timeout > 0 and max_redirects >= 0, got "
                f"{self.max_bytes}, {self.timeout} and {self.max_redirects}"
            )


@dataclass(frozen=True)
class Fetched:
    """What came back, or why nothing did.

    Attributes:
        status: "ok", or what went wrong.
        data: the file's bytes, exactly where `status` is "ok".
        message: for people.
        final_url: where the last redirect led.
    """

    status: FetchStatus
    data: bytes | None = None
    message: str | None = None
    final_url: str | None = None

    @property
    def sha256(self) -> str | None:
        """Of the bytes."""
        return None if self.data is None else hashlib.sha256(self.data).hexdigest()


class _FetchError(Exception):
    """Ends one fetch with a status."""

    def __init__(self, status: FetchStatus, message: str) -> None:
        super().__init__(message)
        self.status: FetchStatus = status


class Fetcher:
    """Fetches files.

    Args:
        limits: of each file.
        resolver: names to addresses; the system's by default.
        is_allowed: which addresses may be connected to; public ones by default.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        *,
        resolver: Resolver = resolve,
        is_allowed: Callable[[str], bool] = is_public,
    ) -> None:
        self.limits, self._resolver, self._is_allowed = limits or Limits(), resolver, is_allowed

    async def fetch(self, client: httpx.AsyncClient, url: str) -> Fetched:
        """Fetch one file; never raises for what a server, a name or a network does.

        Args:
            client: made by :func:`open_client`.
            url: http or https.
        """
        import httpx

        try:
            async with asyncio.timeout(self.limits.timeout):
                return await self._follow(client, url)
        except TimeoutError:
            return Fetched("too_slow", message=f"not done after {self.limits.timeout:g} s")
        except _FetchError as error:
            return Fetched(error.status, message=str(error))
        except (httpx.InvalidURL, ValueError) as error:  # urljoin has a ValueError for it
            return Fetched("bad_url", message=str(error))
        except (httpx.HTTPError, OSError) as error:
            return Fetched("unreachable", message=f"{type(error).__name__}: {error}")

    async def _follow(self, client: httpx.AsyncClient, url: str) -> Fetched:
        for _ in range(self.limits.max_redirects + 1):
            response = await self._send(client, url)
            try:
                if response.status_code not in _REDIRECTS:
                    return Fetched("ok", await self._body(response), final_url=url)
                location = response.headers.get("location")
            finally:
                await response.aclose()
            if not location:
                raise _FetchError("http_error", f"HTTP {response.status_code} without a place to go")
            url = urljoin(url, location)
        raise _FetchError("too_many_redirects", f"more than {self.limits.max_redirects} redirects")

    async def _send(self, client: httpx.AsyncClient, url: str) -> httpx.Response:
        """Return the answer of one hop, from the first address that takes a connection; all were checked before."""
        import httpx

        parsed = httpx.URL(url)
        if parsed.scheme not in ("http", "https") or not parsed.host:
            raise _FetchError("bad_url", f"expected http or https and a host, got {url!r:.200}")
        if parsed.userinfo:
            raise _FetchError("bad_url", "expected no user or password in the URL")
        port = {"http": 80, "https": 443}[parsed.scheme] if parsed.port is None else parsed.port
        if not 0 < port < 2**16:  # httpx takes it, and the system's own error would not be one of a network
            raise _FetchError("bad_url", f"expected a port of 1 to 65535, got {port}")
        host = parsed.raw_host.decode("ascii")
        addresses = list(await self._resolver(host, port))
        if not addresses:
            raise _FetchError("unreachable", f"{host} has no address")
        if refused := [address for address in addresses if not self._is_allowed(address)]:
            raise _FetchError("refused_address", f"{host} is at {refused[0]}, which is no public address")
        for place, address in enumerate(addresses, start=1):
            # To the address, by the name: TLS is checked against the name, and nothing is resolved again.
            request = client.build_request(
                "GET",
                parsed.copy_with(host=address),
                headers={"Host": parsed.netloc.decode("ascii")},
                extensions={"sni_hostname": host},
            )
            try:
                return await client.send(request, stream=True)
            except httpx.ConnectError:
                if place == len(addresses):
                    raise
        raise AssertionError("there is an address")

    async def _body(self, response: httpx.Response) -> bytes:
        code = response.status_code
        if code in _GONE:
            raise _FetchError("gone", f"HTTP {code}")
        if code != 200:
            raise _FetchError("http_error", f"HTTP {code}")
        if (encoding := response.headers.get("content-encoding", "identity").lower()) != "identity":
            raise _FetchError("compressed", f"the server compressed the file ({encoding}) though it was asked not to")
        limit, announced = self.limits.max_bytes, response.headers.get("content-length", "")
        too_large = _FetchError("too_large", f"more than {limit:,} bytes")
        if announced.isdigit() and int(announced) > limit:
            raise too_large
        chunks, size = [], 0
        async for chunk in response.aiter_raw():
            size += len(chunk)
            if size > limit:
                raise too_large
            chunks.append(chunk)
        return b"".join(chunks)


async def fetch_each(
    fetcher: Fetcher, urls: dict[str, str], *, concurrency: int
) -> AsyncGenerator[tuple[str, Fetched], None]:
    """Yield what came of each URL as soon as it is known, some of them fetched at once.

    Args:
        fetcher: of each.
        urls: by any name.
        concurrency: files in flight, and in memory, at once.
    """
    async with open_client() as client:
        waiting, running = iter(urls.items()), set[asyncio.Task[tuple[str, Fetched]]]()

        async def one(name: str, url: str) -> tuple[str, Fetched]:
            return name, await fetcher.fetch(client, url)

        try:
            while True:
                while len(running) < concurrency and (item := next(waiting, None)) is not None:
                    running.add(asyncio.create_task(one(*item)))
                if not running:
                    return
                done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    yield task.result()
        finally:
            for task in running:
                task.cancel()


def open_client() -> httpx.AsyncClient:
    """Return a client that follows no redirect by itself, and knows no proxy and no password."""
    import httpx

    # Each connection is for one request: a kept one would serve another name at the same address.
    return httpx.AsyncClient(
        follow_redirects=False,
        trust_env=False,
        timeout=None,
        limits=httpx.Limits(max_keepalive_connections=0),
        headers={"User-Agent": "gnomon", "Accept": "image/*", "Accept-Encoding": "identity", "Connection": "close"},
    )
