"""What may be passed on of a build: prompts, graphs, questions, and where the references come from; no picture.

`manifest.jsonl` has addresses, names, hashes and attributes, `prompts.jsonl` the rest by ids of the manifest, and
`TERMS.md` under which terms both may be used. Whoever has the pictures builds the cases from them (`dataset.prompts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field

from bench.cogcanvas.cases import SceneFacts
from data_build.cogcanvas.entries import ManifestEntry
from data_build.cogcanvas.folder import RELEASE, BuildFolder
from data_build.cogcanvas.references import DescribedReference
from data_build.cogcanvas.terms import TERMS, terms_text
from gnomon.files import atomic_write_text
from gnomon.jsonl import read_records, write_records
from gnomon.records import Question, Record, Text

MANIFEST_FILE, PROMPTS_FILE = "manifest.jsonl", "prompts.jsonl"


class ReleasedPrompt(Record):
    """A case without its pictures.

    Attributes:
        id: of the case.
        task: out of :data:`bench.cogcanvas.cases.TASKS`.
        prompt: the instruction.
        references: ids of the manifest: people, items, the place.
        facts: bindings, graphs and what results are cut by.
        questions: of the case.
    """

    id: str = Field(min_length=1)
    task: str
    prompt: Text
    references: list[str] = Field(min_length=1)
    facts: SceneFacts
    questions: list[Question]


def write_release(
    folder: BuildFolder, prompts: Sequence[ReleasedPrompt], references: Mapping[str, DescribedReference]
) -> Path:
    """Write what may be passed on, and return its folder.

    Args:
        folder: of the build.
        prompts: of all cases.
        references: all, by id; those that no prompt has are left out.
    """
    place = folder.stage(RELEASE)
    used = dict.fromkeys(name for prompt in prompts for name in prompt.references)
    write_records(place / MANIFEST_FILE, [_released(references[name]) for name in used])
    write_records(place / PROMPTS_FILE, prompts)
    atomic_write_text(place / TERMS, terms_text())
    return place


def read_prompts(path: str | Path) -> list[ReleasedPrompt]:
    """Read a `prompts.jsonl`.

    Raises:
        UserError: for a broken line, with file and line, and where there is no such file.
    """
    return read_records(path, ReleasedPrompt)


def _released(reference: DescribedReference) -> ManifestEntry:
    attributes = reference.attributes.model_dump(exclude_none=True)
    return reference.picture.entry.model_copy(update={"sha256": reference.picture.sha256, "attributes": attributes})
