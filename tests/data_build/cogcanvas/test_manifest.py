"""Manifests: lines that cannot be used, links that rot, files that changed; everything else goes on."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from data_build.cogcanvas.entries import read_manifests
from data_build.cogcanvas.fetching import Fetcher, Limits
from data_build.cogcanvas.folder import BuildFolder
from data_build.cogcanvas.manifest import gather_pictures, read_pictures
from data_build.cogcanvas.settings import ManifestSettings
from gnomon.errors import UserError
from tests.data_build.cogcanvas.servers import FORBIDDEN, Servers, is_allowed


def write_lines(path: Path, *lines: dict[str, Any] | str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [
        line if isinstance(line, str) else json.dumps({"role": "object", "name": "a thing", **line}) for line in lines
    ]
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def gather(tmp_path: Path, manifest: Path, servers: Servers | None = None, **settings: Any) -> Any:
    fetcher = None
    if servers is not None:
        limits = Limits(max_bytes=10**6, timeout=1.5)
        fetcher = Fetcher(limits, resolver=servers.resolve, is_allowed=is_allowed)
    return gather_pictures(BuildFolder(tmp_path / "build"), ManifestSettings(files=[manifest], **settings), fetcher)


def test_lines_that_cannot_be_used_are_named_and_the_rest_goes_on(tmp_path: Path) -> None:
    found = read_manifests(
        [
            write_lines(
                tmp_path / "m.jsonl",
                {"id": "good", "url": "http://x.test/a"},
                {"id": "GOOD", "url": "http://x.test/b"},
                {"id": "both", "url": "http://x.test/b", "path": "b.png"},
                {"id": "neither"},
                {"id": "outside", "path": "../b.png"},
                {"id": "../x", "url": "http://x.test/b"},
                {"id": "typo", "url": "http://x.test/b", "sha": "0"},
                {"id": "role", "url": "http://x.test/b", "role": "animal"},
                "no json",
            )
        ]
    )
    assert list(found.entries) == ["good"]
    assert [problem.line for problem in found.problems] == [2, 3, 4, 5, 6, 7, 8, 9]
    messages = "\n".join(problem.message for problem in found.problems)
    for words in ("there twice", "exactly one of url and path", "below the folder", "unknown key 'sha'", "JSON object"):
        assert words in messages


def test_every_kind_of_dead_or_bad_link_is_counted_and_nothing_of_it_kept(tmp_path: Path, servers: Servers) -> None:
    sha256 = hashlib.sha256(servers.content).hexdigest()
    paths = {
        **{"good": "/picture.png", "gone": "/gone", "broken": "/broken", "text": "/text", "endless": "/endless"},
        **{"drip": "/drip", "private": f"/to/{FORBIDDEN}:{servers.port}", "loop": "/hops/99"},
    }
    lines = [{"id": name, "url": servers.url(path)} for name, path in paths.items()]
    lines += [
        {"id": "changed", "url": servers.url("/picture.png"), "sha256": "0" * 64},
        {"id": "same", "url": servers.url("/picture.png"), "sha256": sha256},
        {"id": "unknown", "url": servers.url("/picture.png", "nowhere.test")},
    ]
    report = gather(tmp_path, write_lines(tmp_path / "m.jsonl", *lines), servers)

    assert report.outcomes == {
        **{"ok": 2, "gone": 1, "http_error": 1, "unreadable_image": 1, "too_large": 1, "too_slow": 1},
        **{"refused_address": 1, "too_many_redirects": 1, "changed": 1, "unreachable": 1},
    }
    assert (report.num_links, report.num_rotten) == (11, 3)
    pictures = {item.entry.id: item for item in read_pictures(BuildFolder(tmp_path / "build"))}
    assert list(pictures) == ["good", "same"]
    assert pictures["good"].sha256 == sha256
    files = tmp_path / "build" / "manifest" / "files"
    assert [path.name for path in files.iterdir()] == [sha256]


def test_what_was_fetched_is_not_fetched_again_and_what_failed_is(tmp_path: Path, servers: Servers) -> None:
    manifest = write_lines(
        tmp_path / "m.jsonl",
        {"id": "good", "url": servers.url("/picture.png")},
        {"id": "gone", "url": servers.url("/gone")},
    )
    gather(tmp_path, manifest, servers)
    before = Counter(servers.requests["127.0.0.1"])
    report = gather(tmp_path, manifest, servers)
    asked = Counter(servers.requests["127.0.0.1"]) - before
    assert dict(asked) == {"/gone": 1}
    assert report.outcomes == {"ok": 1, "gone": 1}
    fetched = (tmp_path / "build" / "manifest" / "fetched.jsonl").read_text().splitlines()
    assert len(fetched) == 2  # a failure that stays the same is not written again


def test_files_on_disk_stay_where_they_are_and_are_looked_at_again(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6), "red").save(tmp_path / "red.png")
    (tmp_path / "broken.png").write_bytes(b"no picture")
    (tmp_path / "large.png").write_bytes(bytes(20_000))
    manifest = write_lines(
        tmp_path / "m.jsonl",
        {"id": "red", "path": "red.png"},
        {"id": "broken", "path": "broken.png"},
        {"id": "missing", "path": "missing.png"},
        {"id": "large", "path": "large.png"},
    )
    report = gather(tmp_path, manifest, max_bytes=10_000)
    assert report.outcomes == {"ok": 1, "unreadable_image": 1, "missing_file": 1, "too_large": 1}
    folder = BuildFolder(tmp_path / "build")
    (picture,) = read_pictures(folder)
    assert picture.path(folder) == tmp_path / "red.png"
    assert (picture.width, picture.height) == (8, 6)
    assert not (folder.stage("manifest") / "files").exists()

    Image.new("RGB", (8, 6), "blue").save(tmp_path / "missing.png")
    (tmp_path / "red.png").unlink()
    assert gather(tmp_path, manifest, max_bytes=10_000).outcomes["ok"] == 1
    assert [item.entry.id for item in read_pictures(folder)] == ["missing"]


def test_what_is_no_ordinary_file_is_named_and_never_read(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6), "red").save(tmp_path / "red.png")
    (tmp_path / "folder.png").mkdir()
    os.mkfifo(tmp_path / "pipe.png")  # reading it would never end
    names = ("red", "folder", "pipe")
    manifest = write_lines(tmp_path / "m.jsonl", *({"id": name, "path": f"{name}.png"} for name in names))
    assert gather(tmp_path, manifest).outcomes == {"ok": 1, "missing_file": 2}


def test_a_link_out_of_the_folder_of_pictures_is_not_followed(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6), "red").save(tmp_path / "secret.png")
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "link.png").symlink_to(tmp_path / "secret.png")
    manifest = write_lines(tmp_path / "given" / "m.jsonl", {"id": "link", "path": "link.png"})
    with pytest.raises(UserError, match="no picture is there: ok 0, missing_file 1"):
        gather(tmp_path, manifest)


def test_a_picture_bomb_is_not_decoded(tmp_path: Path) -> None:
    Image.new("1", (12_000, 12_000)).save(tmp_path / "bomb.png")
    Image.new("RGB", (8, 6), "red").save(tmp_path / "red.png")
    manifest = write_lines(tmp_path / "m.jsonl", {"id": "bomb", "path": "bomb.png"}, {"id": "red", "path": "red.png"})
    assert gather(tmp_path, manifest).outcomes == {"ok": 1, "unreadable_image": 1}


def test_the_terms_lie_beside_what_was_gathered(tmp_path: Path) -> None:
    Image.new("RGB", (8, 6), "red").save(tmp_path / "red.png")
    report = gather(tmp_path, write_lines(tmp_path / "m.jsonl", {"id": "red", "path": "red.png"}))
    terms = (tmp_path / "build" / "manifest" / "TERMS.md").read_text()
    assert "impersonating" in terms
    assert report.terms.startswith("version 1, ")


def test_settings_out_of_range_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="concurrency >= 1"):
        ManifestSettings(concurrency=0)
    with pytest.raises(UserError, match="at least one file"):
        gather_pictures(BuildFolder(tmp_path), ManifestSettings())
