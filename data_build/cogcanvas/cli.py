"""The command `gnomon data build cogcanvas`: all stages over one folder, or one of them; a thin shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from data_build.cogcanvas.folder import VERIFY, WRITE, BuildFolder
from data_build.cogcanvas.settings import (
    AttributesSettings,
    CurateSettings,
    DatasetSettings,
    GraphSettings,
    ManifestSettings,
    QuestionSettings,
    SampleSettings,
    VerifySettings,
    WriteSettings,
)
from data_build.stages import REPORT_JSON, Stage, Stages


def build_cogcanvas(
    *,
    out: Path,
    stage: Literal["manifest", "curate", "attributes", "sample", "write", "verify", "graphs", "questions", "dataset"]
    | None = None,
    manifest: ManifestSettings | None = None,
    curate: CurateSettings | None = None,
    attributes: AttributesSettings | None = None,
    sample: SampleSettings | None = None,
    write: WriteSettings | None = None,
    verify: VerifySettings | None = None,
    graphs: GraphSettings | None = None,
    questions: QuestionSettings | None = None,
    dataset: DatasetSettings | None = None,
) -> None:
    """Build CogCanvas from a manifest of references, in stages over one folder, under the terms that it shows.

    Args:
        out: folder to write, one below it for each stage; run again to go on after a stop.
        stage: the only one to run; all that there are settings for by default, in this order.
        manifest: where the references are, and what fetching one may cost.
        curate: which of their pictures are used.
        attributes: who says what they are like.
        sample: how many scenes are drawn.
        write: who writes prompts and graphs.
        verify: who checks them; with `write`, drafts that are turned down are written again.
        graphs: how graphs are completed.
        questions: which questions there are.
        dataset: how the benchmark is written.
    """
    from data_build.cogcanvas.terms import terms_text

    settings = {
        "manifest": manifest,
        "curate": curate,
        "attributes": attributes,
        "sample": sample,
        "write": write,
        "verify": verify,
        "graphs": graphs,
        "questions": questions,
        "dataset": dataset,
    }
    writing = write or WriteSettings()
    folder = BuildFolder(out)
    stages = Stages({**_STAGES, VERIFY: _verify_with(writing)}, settings, stage)
    print(terms_text(), flush=True)
    for name in stages.names:
        stages.run(folder, [name])
        for _ in range(writing.max_attempts if name == VERIFY and WRITE in stages.names else 0):
            if not _num_waiting(folder):
                break
            stages.run(folder, [WRITE, VERIFY])


def _num_waiting(folder: BuildFolder) -> int:
    """Return how many scenes wait for another draft."""
    report = json.loads((folder.stage(VERIFY) / REPORT_JSON).read_text(encoding="utf-8"))
    return int(report["num_waiting"])


def _manifest(folder: BuildFolder, settings: ManifestSettings) -> list[str]:
    from data_build.cogcanvas.manifest import gather_pictures, report_lines

    return report_lines(gather_pictures(folder, settings))


def _curate(folder: BuildFolder, settings: CurateSettings) -> list[str]:
    from data_build.cogcanvas.curate import curate_pictures, report_lines

    return report_lines(curate_pictures(folder, settings))


def _attributes(folder: BuildFolder, settings: AttributesSettings) -> list[str]:
    from data_build.cogcanvas.attributes import describe_references, report_lines

    return report_lines(describe_references(folder, settings))


def _sample(folder: BuildFolder, settings: SampleSettings) -> list[str]:
    from data_build.cogcanvas.sample import report_lines, sample_scenes

    return report_lines(sample_scenes(folder, settings))


def _write(folder: BuildFolder, settings: WriteSettings) -> list[str]:
    from data_build.cogcanvas.write import report_lines, write_drafts

    return report_lines(write_drafts(folder, settings))


def _verify_with(writing: WriteSettings) -> Stage[BuildFolder]:
    def verify(folder: BuildFolder, settings: VerifySettings) -> list[str]:
        from data_build.cogcanvas.verify import report_lines, verify_drafts

        return report_lines(verify_drafts(folder, settings, writing))

    return verify


def _graphs(folder: BuildFolder, settings: GraphSettings) -> list[str]:
    from data_build.cogcanvas.scene_graphs import complete_graphs, report_lines

    return report_lines(complete_graphs(folder, settings))


def _questions(folder: BuildFolder, settings: QuestionSettings) -> list[str]:
    from data_build.cogcanvas.scene_questions import report_lines, write_questions

    return report_lines(write_questions(folder, settings))


def _dataset(folder: BuildFolder, settings: DatasetSettings) -> list[str]:
    from data_build.cogcanvas.dataset import report_lines, write_dataset

    return report_lines(write_dataset(folder, settings))


_STAGES: dict[str, Stage[BuildFolder]] = {
    "manifest": _manifest,
    "curate": _curate,
    "attributes": _attributes,
    "sample": _sample,
    "write": _write,
    "graphs": _graphs,
    "questions": _questions,
    "dataset": _dataset,
}
