"""From the command line's settings to a listening server."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from gnomon.errors import UserError
from gnomon.optional import require
from rm.remote import read_api_key

if TYPE_CHECKING:
    from rm.server.chat import ChatModel
    from rm.server.scoring import PictureScorer

LOOPBACK = ("127.0.0.1", "::1", "localhost")


def run(
    load: Callable[[], tuple[PictureScorer | None, ChatModel | None]],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    batch_size: int = 16,
    max_wait: float = 0.01,
    queue_size: int = 1024,
    max_body_bytes: int = 64 * 2**20,
    api_key_variable: str | None = None,
) -> None:
    """Load and serve until interrupted; the address is taken before anything is loaded.

    Args:
        load: returns what scores pictures and what chats; one of them may be None.
        host: address to listen at.
        port: port; 0 takes a free one.
        batch_size: see :func:`rm.server.app.create_app`.
        max_wait: see :func:`rm.server.app.create_app`.
        queue_size: see :func:`rm.server.app.create_app`.
        max_body_bytes: longest request.
        api_key_variable: environment variable with the key that clients must send; None for no key.

    Raises:
        UserError: when a package is missing, a setting is wrong or the address is taken.
    """
    for name in ("fastapi", "uvicorn", "prometheus_client"):
        require(name, feature="a server of scores", extra="serve", distribution=name.replace("_", "-"))
    import uvicorn

    from rm.server.app import create_app
    from rm.server.limits import Limits

    _check(batch_size, max_wait, queue_size, Limits().items)
    key = read_api_key(api_key_variable)
    listener = _listen(host, port)
    with listener:
        scorer, chat = load()
        app = create_app(
            scorer,
            chat=chat,
            limits=Limits(body_bytes=max_body_bytes),
            batch_size=batch_size,
            max_wait=max_wait,
            queue_size=queue_size,
            api_key=key,
        )
        shown = f"[{host}]" if ":" in host else host
        scores = None if scorer is None else f"{scorer.name} ({', '.join(scorer.dimensions)})"
        what = " and ".join(filter(None, [scores, None if chat is None else f"{chat.name} (chat)"]))
        print(f"{what} at http://{shown}:{listener.getsockname()[1]}", flush=True)
        if host not in LOOPBACK and key is None:
            print("warning: whoever reaches this machine can use it; api_key_variable asks for a key", flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=10)).run([listener])


def _check(batch_size: int, max_wait: float, queue_size: int, items: int) -> None:
    if batch_size < 1:
        raise UserError(f"expected batch_size of 1 or more, got {batch_size}")
    if not 0 <= max_wait < 60:
        raise UserError(f"expected max_wait from 0 to 60 seconds, got {max_wait}")
    if queue_size < items:
        raise UserError(f"expected queue_size of at least {items}, the pictures of one request, got {queue_size}")


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise UserError(f"cannot listen at {host}:{port}: {error}; choose another host or port") from error
    return listener
