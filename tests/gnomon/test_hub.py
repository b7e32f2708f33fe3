"""A name on the hub: asked for once, and what is said when it is nowhere."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from huggingface_hub import constants

from gnomon.errors import UserError
from gnomon.hub import cached_file, reason_of
from rl.loading import load_pipeline
from rl.lora import WEIGHTS_NAME, find_lora


@dataclass
class Hub:
    """A hub on this machine: it answers all with one status, and counts."""

    status: int = 503
    error_code: str = ""
    paths: list[str] = field(default_factory=list)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Put a local server in the place of the hub, with an empty cache."""
    hub = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            hub.paths.append(self.path)
            self.send_response(hub.status)
            self.send_header("X-Error-Code", hub.error_code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(constants, "ENDPOINT", endpoint)
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", endpoint + "/{repo_id}/resolve/{revision}/{filename}")
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    yield hub
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_hub_that_does_not_answer_is_asked_once_and_not_for_every_file_again_and_again(hub: Hub) -> None:
    with pytest.raises(UserError, match="found 'someone/editor' nowhere: there is no model folder of this name, "):
        load_pipeline("someone/editor", None, torch.float32)
    with pytest.raises(UserError, match=r"there is no folder or file with a LoRA of this name, .*503"):
        find_lora("someone/lora")
    assert hub.paths == [
        "/someone/editor/resolve/main/model_index.json",
        f"/someone/lora/resolve/main/{WEIGHTS_NAME}",
    ]


@pytest.mark.parametrize(
    ("status", "error_code", "message"),
    [
        (404, "RepoNotFound", r"Check the name; a private repository needs `hf auth login`$"),
        (404, "RevisionNotFound", r"'someone/editor' in revision 'v2' nowhere.*Choose another revision$"),
        (403, "GatedRepo", r"Ask for access on its page"),
        (500, "", r"Check the name and the connection"),
    ],
)
def test_an_answer_of_the_hub_comes_with_what_to_do(hub: Hub, status: int, error_code: str, message: str) -> None:
    hub.status, hub.error_code = status, error_code
    with pytest.raises(UserError, match=message) as raised:
        cached_file("model folder", "someone/editor", ["model_index.json"], "v2")
    assert "\n" not in str(raised.value)


def test_a_repository_that_has_another_of_the_files_is_found(hub: Hub) -> None:
    hub.status, hub.error_code = 404, "EntryNotFound"
    assert cached_file("model folder", "someone/editor", ["model_index.json"]) is None
    assert find_lora("someone/lora") == "someone/lora"


def test_an_earlier_download_is_taken_when_the_hub_does_not_answer(hub: Hub, tmp_path: Path) -> None:
    root = tmp_path / "cache" / "models--someone--lora"
    (root / "refs").mkdir(parents=True)
    (root / "refs" / "main").write_text("a" * 40)
    file = root / "snapshots" / ("a" * 40) / WEIGHTS_NAME
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    assert find_lora("someone/lora") == str(file)
    assert len(hub.paths) == 1


@pytest.mark.parametrize("name", ["", "editor", "my model", "./editor", "/models/editor", "~/editor", "runs/a/editor"])
def test_what_can_be_no_repository_is_not_asked_for(hub: Hub, name: str) -> None:
    with pytest.raises(UserError, match=r"expected a model folder at .*, there is none"):
        load_pipeline(name, None, torch.float32)
    assert hub.paths == []


def test_a_reason_names_the_first_error_unless_it_says_nothing_alone() -> None:
    def raised(first: Exception) -> ValueError:
        second = ValueError("could not load\nit. ")
        second.__context__ = first
        return second

    assert reason_of(raised(OSError("file not fully covered"))) == "could not load it (file not fully covered)"
    assert reason_of(raised(KeyError("i"))) == "could not load it"
    assert reason_of(raised(OSError("load it"))) == "could not load it"
    assert reason_of(TimeoutError()) == "TimeoutError"
