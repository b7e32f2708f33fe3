"""A real HTTP server that speaks OpenAI's images API, misbehaves as a script says, and serves pictures by address."""

from __future__ import annotations

import base64
import hashlib
import io
import json
from email import message_from_bytes
from email.policy import HTTP
from typing import Any

from PIL import Image

from tests.rm.vlm.server import Answer, ChatServer, Handler, Request, Script


def colour_of(prompt: str) -> tuple[int, int, int]:
    """Return the colour of the picture that an honest answer to `prompt` shows."""
    red, green, blue = hashlib.sha256(prompt.encode()).digest()[:3]
    return red, green, blue


def file_of(colour: tuple[int, int, int], kind: str = "PNG") -> bytes:
    """Return a picture of one colour as a file."""
    buffer = io.BytesIO()
    Image.new("RGB", (8, 6), colour).save(buffer, format=kind)
    return buffer.getvalue()


def picture_answer(content: bytes) -> bytes:
    """Return the body of an answer with these bytes as its picture."""
    return json.dumps({"created": 1, "data": [{"b64_json": base64.b64encode(content).decode()}]}).encode()


def url_answer(url: str) -> bytes:
    """Return the body of an answer with an address in place of a picture."""
    return json.dumps({"created": 1, "data": [{"url": url}]}).encode()


class ImagesHandler(Handler):
    """Reads JSON and multipart forms: `image` holds (file name, type, bytes) of each reference, other fields texts."""

    server: ImagesServer

    def read(self, body: bytes) -> Request:
        kind = self.headers["Content-Type"]
        if kind == "application/json":
            return super().read(body)
        form = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body, policy=HTTP)
        request: dict[str, Any] = {"image": []}
        for part in form.iter_parts():
            name, content = str(part.get_param("name", header="content-disposition")), part.get_payload(decode=True)
            assert isinstance(content, bytes)
            if part.get_filename():
                request["image"].append((part.get_filename(), part.get_content_type(), content))
                request.setdefault("image_field", name)
            else:
                request[name] = content.decode()
        return request

    def honest(self, request: Request) -> bytes:
        return picture_answer(file_of(colour_of(request["prompt"])))

    def do_GET(self) -> None:  # noqa: N802 - the name that the base class looks for
        self.server.fetched.append({name.lower(): value for name, value in self.headers.items()})
        self.send(Answer(headers={"Content-Type": "image/png"}), self.server.files.get(self.path, b""))


class ImagesServer(ChatServer):
    """Makes a picture of one colour for each prompt; `files` are served under their paths."""

    def __init__(self, script: Script | None = None) -> None:
        self.files: dict[str, bytes] = {}
        self.fetched: list[dict[str, str]] = []
        super().__init__(script, ImagesHandler)
