"""What references are like: by the manifest, by a model in a schema, or by both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from data_build.cogcanvas.asking import reply_schema
from data_build.cogcanvas.attributes import Undescribed, describe_references, read_references
from data_build.cogcanvas.curate import curate_pictures
from data_build.cogcanvas.folder import BuildFolder
from data_build.cogcanvas.manifest import gather_pictures
from data_build.cogcanvas.references import IdentityAttributes, ItemAttributes
from data_build.cogcanvas.settings import AttributesSettings, CurateSettings, ManifestSettings
from gnomon.errors import UserError
from gnomon.jsonl import read_records
from rm.vlm.scripted import ScriptedVLM
from tests.data_build.cogcanvas.annotator import Annotator
from tests.data_build.cogcanvas.small_manifest import write_manifest

KITE = {
    "size_category": "large_handheld",
    "afforded_interactions": ["hold"],
    "color": "green",
    "description": "a green kite with a long tail",
}


def curated(tmp_path: Path, **changes: Any) -> BuildFolder:
    folder = BuildFolder(tmp_path / "build")
    gather_pictures(folder, ManifestSettings([write_manifest(tmp_path / "given", **changes)]))
    curate_pictures(folder, CurateSettings(min_side=64))
    return folder


def test_what_the_manifest_says_stands_in_place_of_the_models_words(tmp_path: Path) -> None:
    folder = curated(
        tmp_path,
        paper_kite_1={"attributes": KITE},
        tin_whistle_1={"attributes": {"color": "tin"}},
        brass_lamp_1={"attributes": {"size_category": "enormous"}},
        ada_bell_1={"attributes": {"shoes": "red"}},
    )
    annotator = Annotator()
    report = describe_references(folder, AttributesSettings(annotator))
    found = read_references(folder)
    assert annotator.num_asked == 18  # the kite needs nobody
    assert (report.num_given, report.statuses) == (1, {"ok": 16, "contradicts_schema": 2})
    assert found["paper-kite-1"].plain == {**KITE, "afforded_interactions": "hold"}
    whistle = found["tin-whistle-1"].attributes
    assert isinstance(whistle, ItemAttributes)
    assert (whistle.color, whistle.size_category) == ("tin", "small_handheld")
    left_out = {one.id: one for one in read_records(folder.stage("attributes") / "left_out.jsonl", Undescribed)}
    assert "got 'enormous'" in (left_out["brass-lamp-1"].reason or "")
    assert left_out["ada-bell-1"].reason == "unknown key 'shoes'"


def test_a_model_is_asked_once_about_a_picture(tmp_path: Path) -> None:
    folder = curated(tmp_path)
    first, again = Annotator(), Annotator()
    before = describe_references(folder, AttributesSettings(first))
    assert describe_references(folder, AttributesSettings(again)) == before
    assert (first.num_asked, again.num_asked) == (19, 0)
    assert before.people == {"woman, young_adult, unclear": 6}


def test_where_everything_is_given_no_model_is_needed(tmp_path: Path) -> None:
    folder = curated(tmp_path)
    lines = folder.curated.read_text().splitlines(keepends=True)
    folder.curated.write_text("".join(line for line in lines if '"name": "paper kite"' in line))
    with pytest.raises(UserError, match=r"expected a model under attributes\.vlm"):
        describe_references(folder, AttributesSettings())
    folder.curated.write_text(folder.curated.read_text().replace('"attributes": null', f'"attributes": {_json(KITE)}'))
    assert describe_references(folder, AttributesSettings()).num_given == 1


def _json(value: object) -> str:
    import json

    return json.dumps(value)


def test_replies_outside_the_schema_are_statuses_and_no_attributes(tmp_path: Path) -> None:
    folder = curated(tmp_path)
    outside = '{"attributes": {"scene_type": "bridge", "landmark_name": null, "description": "a bridge"}}'
    report = describe_references(folder, AttributesSettings(ScriptedVLM("always_first", answers=[outside])))
    assert report.statuses == {"ok": 2, "parse_error": 17}
    with pytest.raises(UserError, match="no reference is described: ok 0, parse_error 19"):
        describe_references(
            BuildFolder(curated(tmp_path / "other").path),
            AttributesSettings(ScriptedVLM("always_first", answers=["?"])),
        )


def test_the_schema_names_every_key_and_every_word() -> None:
    schema = reply_schema("attributes", IdentityAttributes)
    inner = schema["properties"]["attributes"]
    assert schema["required"] == ["attributes"]
    assert inner["required"] == list(IdentityAttributes.model_fields)
    assert inner["additionalProperties"] is False
    assert inner["properties"]["gender"]["enum"] == ["woman", "man", "unclear"]
    assert reply_schema("attributes", ItemAttributes)["properties"]["attributes"]["properties"]["size_category"]["enum"]
