"""Fetching from real servers that redirect, lie, stall and never end."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from data_build.cogcanvas.fetching import Fetched, Fetcher, Limits, fetch_each, open_client
from gnomon.errors import UserError
from tests.data_build.cogcanvas.servers import ALLOWED, FORBIDDEN, Servers, is_allowed, serving


def fetch(servers: Servers, url: str, **limits: Any) -> Fetched:
    fetcher = Fetcher(Limits(**limits), resolver=servers.resolve, is_allowed=is_allowed)

    async def one() -> Fetched:
        async with open_client() as client:
            return await fetcher.fetch(client, url)

    return asyncio.run(one())


def test_a_picture_comes_whole_and_with_its_hash(servers: Servers) -> None:
    found = fetch(servers, servers.url("/picture.png"))
    assert found.status == "ok"
    assert found.data == servers.content
    assert found.final_url == servers.url("/picture.png")


def test_redirects_are_followed_up_to_the_limit(servers: Servers) -> None:
    assert fetch(servers, servers.url("/hops/3"), max_redirects=3).data == servers.content
    assert fetch(servers, servers.url("/hops/4"), max_redirects=3).status == "too_many_redirects"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/gone", "gone"),
        ("/broken", "http_error"),
        ("/gzip", "compressed"),
        ("/announced", "too_large"),
        ("/file", "bad_url"),
        ("/to/[", "bad_url"),
        ("/endless", "too_large"),
    ],
)
def test_what_a_server_does_wrong_has_a_name(servers: Servers, path: str, status: str) -> None:
    found = fetch(servers, servers.url(path), max_bytes=10**6)
    assert (found.status, found.data) == (status, None)
    assert found.message


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200",
        b"no HTTP at all\r\n\r\n",
        b"HTTP/1.1 999999 what\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\ncut short",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\nA: " + b"a" * 200_000,
        b"HTTP/1.1 200 OK\r\n\0\xff: \xff\r\n\r\n",
        *(
            b"HTTP/1.1 302 Found\r\nLocation: " + location + b"\r\n\r\n"
            for location in (
                b"",
                b"//",
                b"http://",
                b"http://good.test:99999/",
                b"http://\xff\xfe/",
                b"http://good.test:x/",
                b"http://.../",
                b"http://xn--/",
                b"http://" + b"a." * 200,
                b"http://[fe80::1%25lo]/",
                b"data:,x",
            )
        ),
    ],
)
def test_whatever_a_server_answers_becomes_an_outcome(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def resolver(host: str, port: int) -> list[str]:
        return [ALLOWED]

    async def one() -> Fetched:
        server = await asyncio.start_server(serve, ALLOWED, 0)
        url = f"http://good.test:{server.sockets[0].getsockname()[1]}/"
        async with server, open_client() as client:
            return await Fetcher(Limits(timeout=2), resolver=resolver, is_allowed=is_allowed).fetch(client, url)

    found = asyncio.run(one())
    assert found.status in ("bad_url", "http_error", "unreachable", "too_many_redirects")
    assert found.message


def test_a_server_that_never_ends_is_left_after_the_time_for_the_whole_file(servers: Servers) -> None:
    start = time.monotonic()
    assert fetch(servers, servers.url("/drip"), timeout=0.3).status == "too_slow"
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("host", ["private.test", "both.test", FORBIDDEN])
def test_an_address_that_is_not_public_is_never_connected_to(servers: Servers, host: str) -> None:
    before = list(servers.requests[FORBIDDEN])
    for url in (servers.url("/secret", host), servers.url(f"/to/{host}:{servers.port}")):
        found = fetch(servers, url)
        assert found.status == "refused_address"
        assert FORBIDDEN in (found.message or "")
    assert servers.requests[FORBIDDEN] == before


def test_by_default_this_machine_is_not_reached_under_any_name(servers: Servers) -> None:
    async def one(url: str) -> Fetched:
        async with open_client() as client:
            return await Fetcher().fetch(client, url)

    before = list(servers.requests[ALLOWED])
    for host in ("127.0.0.1", "localhost", "2130706433", "[::1]", "[::ffff:127.0.0.1]"):
        assert asyncio.run(one(servers.url("/secret", host))).status == "refused_address"
    assert servers.requests[ALLOWED] == before


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://good.test/x",
        "//good.test/x",
        "http://",
        "http://me:secret@good.test/x",
        "http://[::1/x",
        "http://good.test:0/x",
        "http://good.test:65536/x",
    ],
)
def test_only_plain_http_addresses_are_taken(servers: Servers, url: str) -> None:
    assert fetch(servers, url).status == "bad_url"


def test_a_name_that_is_not_known_and_a_port_that_is_closed_are_unreachable(servers: Servers) -> None:
    assert fetch(servers, servers.url("/picture.png", "nowhere.test")).status == "unreachable"
    assert fetch(servers, "http://good.test:1/picture.png").status == "unreachable"


def test_the_next_address_is_tried_where_the_first_takes_no_connection(servers: Servers) -> None:
    assert fetch(servers, servers.url("/picture.png", "twice.test")).data == servers.content


def test_proxies_of_the_environment_are_not_used(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://{FORBIDDEN}:{servers.port}")
    monkeypatch.setenv("http_proxy", f"http://{FORBIDDEN}:{servers.port}")
    assert fetch(servers, servers.url("/picture.png")).status == "ok"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with a certificate for good.test and its key."""
    program = shutil.which("openssl")
    if program is None:
        pytest.skip("openssl, which makes a certificate for this test, is not installed")
    file = tmp_path_factory.mktemp("certificate") / "both.pem"
    named = ["-subj", "/CN=good.test", "-addext", "subjectAltName=DNS:good.test"]
    made = [
        program,
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-keyout",
        str(file),
        "-out",
        "-",
        *named,
    ]
    answer = subprocess.run(made, check=True, capture_output=True)
    file.write_bytes(file.read_bytes() + answer.stdout)
    return file


@pytest.mark.parametrize(("host", "status"), [("good.test", "ok"), ("twice.test", "unreachable")])
def test_a_certificate_is_checked_against_the_name_and_not_the_address(
    certificate: Path, host: str, status: str
) -> None:
    trusted, own = ssl.create_default_context(cafile=str(certificate)), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate)
    asked_for: list[str] = []
    own.sni_callback = lambda _, name, __: asked_for.append(name)
    with serving(b"picture", own) as servers:
        fetcher = Fetcher(Limits(timeout=5), resolver=servers.resolve, is_allowed=is_allowed)

        async def one() -> Fetched:
            async with httpx.AsyncClient(verify=trusted, trust_env=False) as client:
                return await fetcher.fetch(client, servers.url("/secret", host).replace("http:", "https:"))

        found = asyncio.run(one())
    assert found.status == status
    assert set(asked_for) == {host}
    assert status == "ok" or "certificate" in (found.message or "").lower()


def test_several_are_fetched_at_once_and_each_has_an_outcome(servers: Servers) -> None:
    urls = {str(number): servers.url("/drip" if number < 8 else "/picture.png") for number in range(12)}
    fetcher = Fetcher(Limits(timeout=1.0), resolver=servers.resolve, is_allowed=is_allowed)

    async def all_of_them() -> dict[str, str]:
        return {name: one.status async for name, one in fetch_each(fetcher, urls, concurrency=8)}

    start = time.monotonic()
    found = asyncio.run(all_of_them())
    assert time.monotonic() - start < 8 * 1.0
    assert found == {name: "too_slow" if int(name) < 8 else "ok" for name in urls}


def test_limits_out_of_range_are_refused() -> None:
    with pytest.raises(UserError, match="max_bytes >= 1"):
        Limits(max_bytes=0)
