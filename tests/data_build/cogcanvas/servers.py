"""Real servers on this machine that do what servers of the internet do, and a resolver that gives them names."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

ALLOWED, FORBIDDEN, CLOSED = "127.0.0.1", "127.0.0.2", "127.0.0.3"
"""All are loopback; a test takes the first and the last one, where nothing listens, for public."""


@dataclass
class Servers:
    """Two servers, one at each address, on one port.

    Attributes:
        port: of both.
        content: what the path /picture.png holds.
        requests: paths that were asked for, by address.
    """

    port: int
    content: bytes
    requests: dict[str, list[str]] = field(default_factory=lambda: {ALLOWED: [], FORBIDDEN: []})

    def url(self, path: str, host: str = "good.test") -> str:
        """Return the address of a path."""
        return f"http://{host}:{self.port}{path}"

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return what a name stands for; an address is its own."""
        known = {
            "good.test": [ALLOWED],
            "private.test": [FORBIDDEN],
            "both.test": [ALLOWED, FORBIDDEN],
            "twice.test": [CLOSED, ALLOWED],
        }
        if host.replace(".", "").isdigit():
            return [host]
        if host not in known:
            raise OSError(f"{host} is not known")
        return known[host]


def is_allowed(address: str) -> bool:
    """Tell whether an address counts as public here."""
    return address in (ALLOWED, CLOSED)


class _Server(ThreadingHTTPServer):
    """A server that knows what it serves."""

    daemon_threads = True
    servers: Servers


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self.server.servers.requests[str(self.server.server_address[0])].append(self.path)
        name, _, rest = self.path.strip("/").partition("/")
        try:
            getattr(self, f"serve_{name.partition('.')[0]}")(rest)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def answer(self, code: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(code)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def serve_picture(self, rest: str) -> None:
        assert self.headers["Host"] in (
            f"good.test:{self.server.servers.port}",
            f"twice.test:{self.server.servers.port}",
        )
        self.answer(200, self.server.servers.content)

    def serve_text(self, rest: str) -> None:
        self.answer(200, b"this is no picture")

    def serve_gone(self, rest: str) -> None:
        self.answer(404)

    def serve_broken(self, rest: str) -> None:
        self.answer(500)

    def serve_gzip(self, rest: str) -> None:
        self.answer(200, b"\x1f\x8b", Content_Encoding="gzip")

    def serve_hops(self, rest: str) -> None:
        self.answer(302, Location=f"/hops/{int(rest) - 1}" if int(rest) > 1 else "/picture.png")

    def serve_to(self, rest: str) -> None:
        self.answer(302, Location=f"http://{rest}/secret")

    def serve_file(self, rest: str) -> None:
        self.answer(302, Location="file:///etc/passwd")

    def serve_announced(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(10**12))
        self.end_headers()

    def serve_endless(self, rest: str) -> None:
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        while True:
            self.wfile.write(bytes(2**16))

    def serve_drip(self, rest: str) -> None:
        for _ in range(300):
            self.wfile.write(b"H")
            time.sleep(0.02)

    def serve_secret(self, rest: str) -> None:
        self.answer(200, b"secret")


@contextmanager
def serving(content: bytes, encryption: ssl.SSLContext | None = None) -> Iterator[Servers]:
    """Run both servers, by https where there is something to encrypt with."""
    first = _Server((ALLOWED, 0), _Handler)
    servers = Servers(first.server_address[1], content)
    both = [first, _Server((FORBIDDEN, servers.port), _Handler)]
    for server in both:
        server.servers = servers
        if encryption is not None:
            server.socket = encryption.wrap_socket(server.socket, server_side=True)
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield servers
    finally:
        for server in both:
            server.shutdown()
            server.server_close()
