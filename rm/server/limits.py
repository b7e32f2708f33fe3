"""How much a client may send, and a guard that reads no more than that."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass(frozen=True)
class Limits:
    """What one request may hold.

    Attributes:
        body_bytes: of the whole request.
        pixels: of one picture, decoded.
        images: references of one item.
        items: of one request.
    """

    body_bytes: int = 64 * 2**20
    pixels: int = 2**25
    images: int = 32
    items: int = 256


class BodyTooLargeError(Exception):
    """The body is longer than it may be; what was read so far is dropped."""


class BodyLimit:
    """ASGI middleware: answers 413 to a body that announces or turns out to be too long.

    Args:
        app: what is guarded.
        max_bytes: longest body.
    """

    def __init__(self, app: ASGIApp, max_bytes: int) -> None:
        self.app, self.max_bytes = app, max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Guard one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > self.max_bytes:
            await _refuse(send, self.max_bytes)
            return
        started, received = False, 0

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > self.max_bytes:
                raise BodyTooLargeError
            return message

        async def noted(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self.app(scope, limited, noted)
        except BodyTooLargeError:
            if not started:
                await _refuse(send, self.max_bytes)


async def _refuse(send: Send, max_bytes: int) -> None:
    body = f'{{"detail": "a request may have {max_bytes} bytes; send fewer or smaller pictures"}}'.encode()
    headers = [(b"content-type", b"application/json"), (b"connection", b"close")]
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
