from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from data_build.mdmr.annotate import annotate_gallery
from data_build.mdmr.annotations import Annotation
from data_build.mdmr.annotators import ask_for_tags
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.gallery import build_gallery
from data_build.mdmr.settings import AnnotateSettings, GallerySettings, Source
from data_build.mdmr.tables import read_table
from data_build.tabletop.tiny_judge import make_judge_base, make_processor, save_judge_base
from gnomon.errors import UserError
from gnomon.images import content_hash, save_png
from gnomon.jsonl import read_records
from rm.vlm.conversation import GenerationParameters
from rm.vlm.local import LocalVLM
from rm.vlm.scripted import ScriptedVLM
from rm.vlm.wire import conversation_hash
from tests.data_build.mdmr.pictures import picture, tags


@pytest.fixture
def built(tmp_path: Path) -> BuildFolder:
    """A gallery of four pictures, called 0.png to 3.png."""
    for seed in range(4):
        save_png(picture(seed), tmp_path / "photos" / f"{seed}.png")
    folder = BuildFolder(tmp_path / "out")
    build_gallery(folder, GallerySettings({"photos": Source(tmp_path / "photos")}, min_side=1))
    return folder


def model(replies: Mapping[int, str], name: str = "scripted") -> ScriptedVLM:
    table = {conversation_hash(ask_for_tags(picture(seed))): reply for seed, reply in replies.items()}
    return ScriptedVLM("table", table=table, name=name)


def lines(folder: BuildFolder) -> list[Annotation]:
    return read_records(folder.stage("annotate") / "annotations.jsonl", Annotation)


def table(folder: BuildFolder) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in read_table(folder.tags).to_pylist()}


def image(seed: int) -> str:
    return content_hash(picture(seed))[:16]


def write(file: Path, *rows: object) -> Path:
    file.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return file


REFUSAL = "I'm sorry, I can't help with that."
CAT = tags("animals", ("animal", "tabby cat"), ("object", "sofa"), attributes={"color": "grey"}, age=None)


def test_tags_of_a_model_become_a_table_and_failures_are_statuses(built: BuildFolder) -> None:
    replies = {0: json.dumps(CAT), 1: json.dumps(tags("vehicles")), 2: REFUSAL}

    report = annotate_gallery(built, AnnotateSettings(vlm=model(replies)))

    assert report.outcomes == {"api_error": 1, "ok": 1, "out_of_range": 1, "refused": 1}
    assert (report.num_pictures, report.categories, report.entities) == (4, {"animals": 1}, {"animal": 1, "object": 1})
    assert all(line.reason and line.raw for line in lines(built) if line.status in ("out_of_range", "refused"))
    (row,) = table(built).values()
    assert (row["id"], row["category"], row["attribute_color"], row["attribute_hair"], row["num_people"]) == (
        image(0),
        "animals",
        "grey",
        None,
        0,
    )
    assert (row["entity_kinds"], row["entity_names"]) == (["animal", "object"], ["tabby cat", "sofa"])
    text = (built.stage("annotate") / "report.txt").read_text()
    assert "1 of 4 pictures have tags by scripted" in text


def test_run_again_a_model_is_asked_for_what_is_new_or_failed_in_a_way_that_may_pass(
    built: BuildFolder, tmp_path: Path
) -> None:
    good = {seed: json.dumps(tags()) for seed in range(5)}
    vlm = model({seed: reply for seed, reply in good.items() if seed < 2} | {2: REFUSAL})
    annotate_gallery(built, AnnotateSettings(vlm=vlm))
    before = (built.stage("annotate") / "annotations.jsonl").read_bytes()
    annotate_gallery(built, AnnotateSettings(vlm=vlm))
    assert (built.stage("annotate") / "annotations.jsonl").read_bytes() == before

    save_png(picture(4), tmp_path / "photos" / "new.png")
    build_gallery(built, GallerySettings({"photos": Source(tmp_path / "photos")}, min_side=1))
    report = annotate_gallery(built, AnnotateSettings(vlm=_Mended(good, vlm.fingerprint)))

    assert report.outcomes == {"ok": 4, "refused": 1}
    assert [line.image for line in lines(built)][4:] == [image(3), image(4)]


class _Mended(ScriptedVLM):
    """A model that answers more than it did before, under the fingerprint that it had."""

    def __init__(self, replies: Mapping[int, str], fingerprint: str) -> None:
        table = {conversation_hash(ask_for_tags(picture(seed))): reply for seed, reply in replies.items()}
        super().__init__("table", table=table, name="scripted")
        self._before = fingerprint

    @property
    def fingerprint(self) -> str:
        """That of the model before."""
        return self._before


def test_another_model_needs_another_folder(built: BuildFolder) -> None:
    annotate_gallery(built, AnnotateSettings(vlm=model({0: json.dumps(CAT)})))

    with pytest.raises(UserError, match=r"holds another run, which differs in config\.model"):
        annotate_gallery(built, AnnotateSettings(vlm=model({0: json.dumps(CAT)}, name="other")))


def test_a_picture_that_changed_or_is_gone_is_a_status(built: BuildFolder, tmp_path: Path) -> None:
    save_png(picture(9), tmp_path / "photos" / "1.png")
    (tmp_path / "photos" / "2.png").unlink()
    (tmp_path / "photos" / "3.png").write_text("broken")

    report = annotate_gallery(built, AnnotateSettings(vlm=model({0: json.dumps(CAT)})))

    assert report.outcomes == {"ok": 1, "unreadable_image": 3}
    reasons = {line.image: line.reason or "" for line in lines(built)}
    assert "replaced" in reasons[image(1)]
    assert "no longer" in reasons[image(2)]
    assert "could not read" in reasons[image(3)]


def test_a_limit_leaves_the_rest_untagged(built: BuildFolder) -> None:
    report = annotate_gallery(built, AnnotateSettings(vlm=model({0: json.dumps(CAT)}), limit=1, batch_size=1))

    assert report.outcomes == {"ok": 1, "untagged": 3}


def test_tags_out_of_a_file_by_any_name_of_a_picture(built: BuildFolder, tmp_path: Path) -> None:
    file = write(
        tmp_path / "tags.jsonl",
        {"image": "0.png", "tags": CAT},
        {"image": "photos/1.png", "tags": tags()},
        "",
        {"image": image(2), "tags": tags("vehicles")},
        {"image": "nobody", "tags": tags()},
        "{",
        {"image": "0", "tags": tags()},
    )

    report = annotate_gallery(built, AnnotateSettings(file=file))

    assert (report.outcomes, report.num_problems) == ({"ok": 2, "out_of_range": 1, "untagged": 1}, 3)
    assert set(table(built)) == {image(0), image(1)}
    assert [line.reason for line in lines(built) if line.status != "ok"] == [
        "tags.jsonl:4: category: Input should be 'people', 'animals', 'objects', 'scenes', 'posters', 'logos', "
        "'lettering', 'charts' or 'artworks', got 'vehicles'"
    ]
    problems = (built.stage("annotate") / "problems.jsonl").read_text().splitlines()
    assert [(json.loads(line)["line"], json.loads(line)["message"][:12]) for line in problems] == [
        (5, "'nobody' is "),
        (6, "expected an "),
        (7, "line 1 is ab"),
    ]

    write(file, {"image": "1.png", "tags": tags("scenes")})
    report = annotate_gallery(built, AnnotateSettings(file=file))
    assert (report.outcomes, report.categories) == ({"ok": 1, "untagged": 3}, {"scenes": 1})


def test_who_annotates_is_one_of_two(built: BuildFolder, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"exactly one of annotate\.vlm and annotate\.file"):
        annotate_gallery(built, AnnotateSettings())
    with pytest.raises(UserError, match=r"check annotate\.file"):
        annotate_gallery(built, AnnotateSettings(file=tmp_path / "nowhere.jsonl"))
    with pytest.raises(UserError, match="run it first, with --stage gallery"):
        annotate_gallery(BuildFolder(tmp_path / "empty"), AnnotateSettings(file=tmp_path / "nowhere.jsonl"))


def test_a_real_model_that_cannot_write_ends_in_statuses(built: BuildFolder, tmp_path: Path) -> None:
    processor = make_processor()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        base = make_judge_base(processor, layers=1)
    save_judge_base(tmp_path / "model", base, processor)
    parameters = GenerationParameters(max_tokens=8)

    with pytest.raises(UserError, match="no picture has tags"):
        annotate_gallery(built, AnnotateSettings(vlm=LocalVLM(tmp_path / "model", name="tiny"), parameters=parameters))

    assert len(lines(built)) == 4
    assert all(line.tags is None and line.reason for line in lines(built))
    report = json.loads((built.stage("annotate") / "report.json").read_text())
    assert report["outcomes"] == {"truncated": 4}


def test_no_tags_at_all_is_an_error_with_the_counts(built: BuildFolder) -> None:
    with pytest.raises(UserError, match="no picture has tags: parse_error 4"):
        annotate_gallery(built, AnnotateSettings(vlm=ScriptedVLM("always_yes")))


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    tmp_path: Path, contents: Callable[[Path], dict[str, Any]], kill_when: Callable[[str, Callable[[], bool]], None]
) -> None:
    for seed in range(30):
        save_png(picture(seed, 300, 300), tmp_path / "photos" / f"{seed:02}.png")
    for name in ("cut", "whole"):
        sources = {"photos": Source(tmp_path / "photos")}
        build_gallery(BuildFolder(tmp_path / name), GallerySettings(sources, min_side=1))
    written = tmp_path / "cut" / "annotate" / "annotations.jsonl"
    program = f"from tests.data_build.mdmr.test_annotate import annotate_all\nannotate_all({str(tmp_path / 'cut')!r})"

    kill_when(program, lambda: written.exists() and written.stat().st_size > 300)
    assert written.read_bytes().count(b"\n") < 30
    annotate_all(tmp_path / "cut")
    annotate_all(tmp_path / "whole")

    assert contents(tmp_path / "cut") == contents(tmp_path / "whole")


def annotate_all(folder: str | Path) -> None:
    """Ask one that says the same of every picture, one after the other."""
    vlm = ScriptedVLM("always_first", answers=[json.dumps(tags())])
    annotate_gallery(BuildFolder(folder), AnnotateSettings(vlm=vlm, batch_size=1))
