"""XVerseBench: prompts with one to three reference pictures, and the graph of questions about each, as cases.

The release has `XVerseBench_single.json` and `XVerseBench_multi.json` with a row a prompt, beside each a `..._DSG.json`
with the questions of the same rows, and the pictures that the rows name, from the repository's folder on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

from bench.cogcanvas.cases import IDENTITY, OBJECT
from bench.xversebench import DIMENSIONS, NAME
from data_build.importers.pictures import Pictures
from data_build.importers.rows import Row, RowError
from gnomon.errors import UserError
from gnomon.records import Case, Question, Reference, Text

GRAPH = "_DSG"
"""What the name of a file of questions ends with, before the suffix."""

NO_PARENT = 0


def convert(row: Row, pictures: Pictures) -> list[Case]:
    """Return the case of a row, with the questions of the same row of the file beside it, where there is such a file.

    Pictures of people are identities, those of things and animals objects, so that ID-Sim and DINO-Sim can be asked as
    well. A reference is called by its word of the prompt, with a number where several have the same.

    Raises:
        RowError: for missing or wrong fields, a picture that is not there, and questions of another prompt.
    """
    prompt = row.text("prompt")
    folders = [PurePosixPath(), *reversed(PurePosixPath(row.file).parents)]
    references = [_reference(source, word, pictures, folders) for source, word in zip(*_sources(row), strict=True)]
    named = _told_apart(references)
    kind = "single_subject" if len(named) == 1 else "multi_subject"
    return [
        Case(
            id=row.id,
            benchmark=NAME,
            task=kind,
            instruction=Text(en=prompt),
            references=named,
            questions=_questions(row, prompt, named, pictures.root),
        )
    ]


def _sources(row: Row) -> tuple[list[Any], list[str]]:
    """Return the reference pictures of a row, and the word of the prompt that each stands for."""
    parts = row.items("modulation")
    sources = [source for part in parts for source in _list(part, "src_inputs")]
    words = [word for part in parts for word in _list(part, "use_words")]
    if not sources or len(sources) != len(words):
        raise RowError(f"expected as many 'use_words' as 'src_inputs', got {len(words)} and {len(sources)}")
    for word in words:
        if not isinstance(word, list) or len(word) < 2 or not isinstance(word[1], str) or not word[1].strip():
            raise RowError(f"expected a word of the prompt under 'use_words', got {word!r:.80}")
    return sources, [word[1].strip() for word in words]


def _list(part: Any, name: str) -> list[Any]:
    found = part.get(name) if isinstance(part, dict) else None
    if not isinstance(found, list):
        raise RowError(f"expected a list under '{name}' of 'modulation', got {found!r:.80}")
    return found


def _reference(source: Any, word: str, pictures: Pictures, folders: Sequence[PurePosixPath]) -> Reference:
    path = source.get("image_path") if isinstance(source, dict) else None
    if not isinstance(path, str) or not path.strip():
        raise RowError(f"expected a path under 'image_path', got {path!r:.80}")
    kind = PurePosixPath(path).parent.name
    return Reference(
        path=pictures.find(path, folders, "image_path"),
        role=IDENTITY if kind == "human" else OBJECT,
        name=word,
        attributes={"kind": kind},
    )


def _told_apart(references: Sequence[Reference]) -> list[Reference]:
    """Return references of which no two have one name."""
    found: list[Reference] = []
    for reference in references:
        before = sum(other.name == reference.name for other in references[: len(found)])
        name = f"{reference.name} {before + 1}" if before else reference.name
        found.append(reference.model_copy(update={"name": name}))
    return found


def _questions(row: Row, prompt: str, references: Sequence[Reference], root: Path) -> list[Question]:
    file = root / row.file
    graphs = _graphs(file.with_name(f"{file.stem}{GRAPH}{file.suffix}"))
    if graphs is None:
        return []
    graph = graphs[row.number - 1] if row.number <= len(graphs) else None
    got = str(graph.get("prompt")).strip() if isinstance(graph, dict) else None
    if not isinstance(graph, dict) or got != prompt:
        where = f"row {row.number} of {file.stem}{GRAPH}{file.suffix}"
        raise RowError(f"expected questions of the same prompt in {where}, got those of {got!r:.80}")
    texts, kinds, parents = (_mapping(graph, name) for name in ("qid2question", "qid2tuple", "qid2dependency"))
    if not texts.keys() == kinds.keys() == parents.keys():
        raise RowError("expected a question, a kind and dependencies under the same numbers")
    try:
        return [
            Question(
                id=name,
                text=Text(en=text),
                dimension=_dimension(kinds[name]),
                about=_about(text, references),
                depends_on=_parents(name, parents[name], texts),
            )
            for name, text in texts.items()
        ]
    except ValueError as error:
        raise RowError(str(error)) from error


@cache
def _graphs(file: Path) -> list[Any] | None:
    """Return the rows of a file of questions; None where there is no such file."""
    if not file.is_file():
        return None
    try:
        found = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise UserError(f"expected a readable .json file at {file}: {error}; download it again") from error
    if not isinstance(found, list):
        raise UserError(f"expected a list of rows in {file}, got {type(found).__name__}; download it again")
    return found


def _mapping(graph: Mapping[str, Any], name: str) -> dict[str, Any]:
    found = graph.get(name)
    if not isinstance(found, dict):
        raise RowError(f"expected an object under '{name}', got {found!r:.80}")
    return found


def _dimension(kind: Any) -> str:
    """Return the first word of a kind such as "attribute - color"."""
    word = str(kind).partition(" ")[0]
    return word if word in DIMENSIONS else "other"


def _parents(name: str, parents: Any, texts: Mapping[str, Any]) -> list[str]:
    if not isinstance(parents, list):
        raise RowError(f"expected a list of what question {name} depends on, got {parents!r:.80}")
    found = [str(parent) for parent in parents if parent != NO_PARENT]
    if unknown := sorted(set(found) - texts.keys()):
        raise RowError(f"question {name} depends on questions that are not there: {', '.join(unknown)}")
    return found


def _about(text: Any, references: Sequence[Reference]) -> list[str]:
    """Return the names of the references that a question speaks of, those of which there are several left out."""
    bases = [re.sub(r" \d+$", "", reference.name or "") for reference in references]
    return [
        base
        for base in bases
        if bases.count(base) == 1 and re.search(rf"\b{re.escape(base)}\b", str(text), re.IGNORECASE)
    ]
