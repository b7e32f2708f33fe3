"""A real HTTP server in a thread that speaks chat completions and misbehaves as a script says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Request = dict[str, Any]


@dataclass
class Answer:
    """What is sent: `body` None for the honest completion; of it `cut` bytes are promised and not sent.

    `drop` hangs up without a word; `delay` is in seconds.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    delay: float = 0.0
    cut: int = 0
    drop: bool = False


Script = Callable[[int, Request], Answer]


class KeptBusy:
    """Answers only while `most` requests are in flight, or no more are to come.

    Every twentieth takes as long as ten times as many others as there are in flight. A client that leaves a place free
    while it has something to ask gets no answer any more, and `stalled` says so; how fast anything is does not matter.
    """

    def __init__(self, most: int, total: int) -> None:
        self.most, self.total = most, total
        self.changed = threading.Condition()
        self.arrived = self.passed = self.most_inside = 0
        self.inside: set[tuple[int, int]] = set()  # when each is to be answered, in answers, and its number
        self.stalled = False

    def __call__(self, number: int, request: Request) -> Answer:
        with self.changed:
            self.arrived += 1
            turn = self.passed + (10 * self.most if number % 20 == 0 else 0), number
            self.inside.add(turn)
            self.most_inside = max(self.most_inside, len(self.inside))
            self.changed.notify_all()
            if not self.changed.wait_for(lambda: self._may_pass(turn), timeout=20):
                self.stalled = True
            self.inside.remove(turn)
            self.passed += 1
            self.changed.notify_all()
        return Answer()

    def _may_pass(self, turn: tuple[int, int]) -> bool:
        next_of_all = len(self.inside) == self.most and turn == min(self.inside)
        return next_of_all or self.arrived == self.total or self.stalled


def texts(request: Request) -> list[str]:
    """Return all texts of a request in order."""
    found = []
    for message in request["messages"]:
        content = message["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        found += [part["text"] for part in parts if part["type"] == "text"]
    return found


def completion(
    text: str | None = "hello", *, finish_reason: str = "stop", logprobs: Any = None, **message: Any
) -> bytes:
    """Return an answer's body with one choice and some usage."""
    choice = {
        "index": 0,
        "finish_reason": finish_reason,
        "message": {"role": "assistant", "content": text, **message},
        "logprobs": logprobs,
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    return json.dumps({"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}).encode()


def error(status: int, message: str, code: str | None = None, **headers: str) -> Answer:
    """Return an error as vendors write it."""
    body = json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
    return Answer(status, headers=headers, body=body)


class ChatServer(ThreadingHTTPServer):
    """Echoes the last text of a request; `script` says how the n-th request (from 0) is answered."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, script: Script | None = None, handler: type[Handler] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), handler or Handler)
        self.script: Script = script or (lambda number, request: Answer())
        self.requests: list[Request] = []
        self.headers: list[dict[str, str]] = []
        self.at_once = self.most_at_once = self.connections = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def close(self) -> None:
        """Stop at once, answers that are delayed included."""
        self.closing.set()
        self.shutdown()
        self.thread.join()
        self.server_close()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Count the connections."""
        self.connections += 1
        super().process_request(request, client_address)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: a client that hangs up is what some tests are about."""


class Handler(BaseHTTPRequestHandler):
    """Reads chat requests and answers them; other APIs read and answer honestly in their own way."""

    server: ChatServer
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # headers and body in one packet, or the client's system holds its receipt back for 40 ms
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        server = self.server
        request = self.read(self.rfile.read(int(self.headers["Content-Length"])))
        with server.lock:
            number = len(server.requests)
            server.requests.append(request | {"path": self.path})
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.at_once += 1
            server.most_at_once = max(server.most_at_once, server.at_once)
        answer = server.script(number, request)
        server.closing.wait(answer.delay)
        with server.lock:
            server.at_once -= 1
        self.close_connection = answer.drop or answer.cut > 0
        if not answer.drop:
            self.send(answer, self.honest(request) if answer.body is None else answer.body)

    def read(self, body: bytes) -> Request:
        """Return a request's body as plain data."""
        request: Request = json.loads(body)
        return request

    def honest(self, request: Request) -> bytes:
        """Return the body of a right answer."""
        return completion(texts(request)[-1])

    def send(self, answer: Answer, body: bytes) -> None:
        """Send an answer, or as much of it as it says."""
        self.send_response(answer.status)
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body))} | answer.headers
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body[: len(body) - answer.cut])

    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the tests clean."""
