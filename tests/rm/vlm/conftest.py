"""One tiny checkpoint per family, made once, conversations with none to three pictures, and servers to ask."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from rm.vlm.conversation import Conversation, Message
from rm.vlm.local import LocalVLM
from tests.rm.vlm.families import save_checkpoint
from tests.rm.vlm.server import ChatServer, Script


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that returns the folder of a family's checkpoint."""
    folders: dict[str, Path] = {}

    def get(family: str) -> Path:
        if family not in folders:
            folders[family] = save_checkpoint(family, tmp_path_factory.mktemp(family) / family)
        return folders[family]

    return get


@pytest.fixture(scope="session")
def local_vlm(checkpoint: Callable[[str], Path]) -> Callable[[str], LocalVLM]:
    """A function that returns a family's model."""
    loaded: dict[str, LocalVLM] = {}

    def get(family: str) -> LocalVLM:
        if family not in loaded:
            loaded[family] = LocalVLM(checkpoint(family))
        vlm = loaded[family]
        vlm.batch_size, vlm.share_prefixes = 8, True
        return vlm

    return get


@pytest.fixture(scope="session")
def questions(make_picture: Callable[..., Image.Image]) -> list[Conversation]:
    """Four questions of different length on the same three pictures."""
    pictures = make_picture(1, (48, 32)), make_picture(2, (32, 56)), make_picture(3, (40, 40))
    texts = (
        "Is the circle red?",
        "Is the square blue, or is the circle?",
        "yes?",
        "Is it so that the red square is blue and the circle is red? Answer",
    )
    return [(Message("system", ("Answer yes or no.",)), Message("user", ("Look: ", *pictures, text))) for text in texts]


@pytest.fixture(scope="session")
def mixed(questions: list[Conversation], make_picture: Callable[..., Image.Image]) -> list[Conversation]:
    """Conversations with three, no, one and two pictures."""
    return [
        questions[1],
        (Message("user", ("Is it red?",)),),
        (Message("user", (make_picture(7, (56, 28)), "Is the circle red?")),),
        (
            Message("user", ("Look", make_picture(8, (28, 28)))),
            Message("assistant", ("yes",)),
            Message("user", (make_picture(9, (28, 56)), "and the square?")),
        ),
    ]


@pytest.fixture
def serve() -> Iterator[Callable[..., ChatServer]]:
    """A function that starts a server; all of them are closed in the end."""
    servers = []

    def start(script: Script | None = None) -> ChatServer:
        servers.append(ChatServer(script))
        return servers[-1]

    yield start
    for server in servers:
        server.close()
