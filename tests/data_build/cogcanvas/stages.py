"""A small build whose references are described already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from data_build.cogcanvas.attributes import describe_references
from data_build.cogcanvas.curate import curate_pictures
from data_build.cogcanvas.folder import BuildFolder
from data_build.cogcanvas.manifest import gather_pictures
from data_build.cogcanvas.sample import sample_scenes
from data_build.cogcanvas.settings import (
    AttributesSettings,
    CurateSettings,
    ManifestSettings,
    SampleSettings,
    VerifySettings,
    WriteSettings,
)
from data_build.cogcanvas.verify import VerifyReport, verify_drafts
from data_build.cogcanvas.write import write_drafts
from tests.data_build.cogcanvas.annotator import Annotator
from tests.data_build.cogcanvas.small_manifest import write_manifest


def sampled(tmp_path: Path, num: int = 4, **changes: Any) -> BuildFolder:
    """Return a build with scenes."""
    folder = BuildFolder(tmp_path / "build")
    gather_pictures(folder, ManifestSettings([write_manifest(tmp_path / "given", **changes)]))
    curate_pictures(folder, CurateSettings(min_side=64))
    describe_references(folder, AttributesSettings(Annotator()))
    sample_scenes(folder, SampleSettings(num))
    return folder


def written(folder: BuildFolder, annotator: Annotator, *, rounds: int = 1, max_attempts: int = 3) -> VerifyReport:
    """Write and verify some times."""
    writing = WriteSettings(annotator, max_attempts=max_attempts)
    for _ in range(rounds):
        write_drafts(folder, writing)
        report = verify_drafts(folder, VerifySettings(annotator), writing)
    return report
