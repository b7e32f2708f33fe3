"""The command `gnomon data build mdmr`: all stages over one folder, or one of them; a thin shell."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.settings import (
    AnnotateSettings,
    ChecklistSettings,
    DatasetSettings,
    FilterSettings,
    GallerySettings,
    InstructSettings,
    SampleSettings,
)
from data_build.stages import Stage, Stages


def build_mdmr(
    *,
    out: Path,
    stage: Literal["gallery", "annotate", "sample", "instruct", "filter", "checklists", "dataset"] | None = None,
    gallery: GallerySettings | None = None,
    annotate: AnnotateSettings | None = None,
    sample: SampleSettings | None = None,
    instruct: InstructSettings | None = None,
    filter: FilterSettings | None = None,
    checklists: ChecklistSettings | None = None,
    dataset: DatasetSettings | None = None,
) -> None:
    """Build MDMR-Bench from pictures, in stages over one folder.

    Args:
        out: folder to write, one below it for each stage; run again to go on after a stop.
        stage: the only one to run; all that there are settings for by default, in this order.
        gallery: which pictures, without small ones and duplicates.
        annotate: who says what is in them.
        sample: which of them make up cases.
        instruct: who checks these and writes the instructions.
        filter: which cases people keep.
        checklists: who writes the questions, and which of them serve.
        dataset: how the benchmark is written.
    """
    settings = {
        "gallery": gallery,
        "annotate": annotate,
        "sample": sample,
        "instruct": instruct,
        "filter": filter,
        "checklists": checklists,
        "dataset": dataset,
    }
    Stages(_STAGES, settings, stage).run(BuildFolder(out))


def _gallery(folder: BuildFolder, settings: GallerySettings) -> list[str]:
    from data_build.mdmr.gallery import build_gallery, report_lines

    return report_lines(build_gallery(folder, settings))


def _annotate(folder: BuildFolder, settings: AnnotateSettings) -> list[str]:
    from data_build.mdmr.annotate import annotate_gallery, report_lines

    return report_lines(annotate_gallery(folder, settings))


def _sample(folder: BuildFolder, settings: SampleSettings) -> list[str]:
    from data_build.mdmr.sampling import draw_samples
    from data_build.mdmr.sampling_report import report_lines

    return report_lines(draw_samples(folder, settings))


def _instruct(folder: BuildFolder, settings: InstructSettings) -> list[str]:
    from data_build.mdmr.instructions import report_lines, write_instructions

    return report_lines(write_instructions(folder, settings))


def _filter(folder: BuildFolder, settings: FilterSettings) -> list[str]:
    from data_build.mdmr.human_filter import filter_samples, report_lines

    return report_lines(filter_samples(folder, settings))


def _checklists(folder: BuildFolder, settings: ChecklistSettings) -> list[str]:
    from data_build.mdmr.checklist_report import report_lines
    from data_build.mdmr.checklists import write_checklists

    return report_lines(write_checklists(folder, settings))


def _dataset(folder: BuildFolder, settings: DatasetSettings) -> list[str]:
    from data_build.mdmr.dataset import report_lines, write_dataset

    return report_lines(write_dataset(folder, settings))


_STAGES: dict[str, Stage[BuildFolder]] = {
    "gallery": _gallery,
    "annotate": _annotate,
    "sample": _sample,
    "instruct": _instruct,
    "filter": _filter,
    "checklists": _checklists,
    "dataset": _dataset,
}
