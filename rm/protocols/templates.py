"""Our own texts in `rm/rubrics` and in folders like it, and how pictures and data are put into them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import yaml

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from rm.vlm.conversation import Conversation, Message

if TYPE_CHECKING:
    from PIL import Image

_PLACE = re.compile(r"\{([a-z_]+)\}")
RUBRICS = "rm.rubrics"
"""The package whose texts are about edits. Another one has rubrics and, where it asks otherwise, forms of its own."""
_CAPTIONS = {
    "en": {"source": "Source image", "one": "Edited image", "several": "Edited image"},
    "zh": {"source": "源图像", "one": "编辑后的图像", "several": "编辑后的图像"},
}


@cache
def _load(name: str, package: str) -> Any:
    return yaml.safe_load(files(package).joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


@cache
def metrics(package: str = RUBRICS) -> tuple[str, ...]:
    """Return the metrics for which there is a rubric, sorted."""
    names = (path.name for path in files(package).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml") and "form_" not in name))


def load_form(name: str, language: str, package: str = RUBRICS) -> dict[str, str]:
    """Return a form of question: its `system` and `user` texts in one language.

    A form about other pictures than edits also says what they are called: `reference`, which is numbered, and
    `candidate`.

    Raises:
        UserError: for a language that there are no texts in.
    """
    return _in_language(_load(f"form_{name}", package), language)


def load_rubric(metric: str, language: str, package: str = RUBRICS) -> dict[str, str]:
    """Return the texts of a metric in one language: `question`, `look`, `low`, `middle` and `high`.

    Raises:
        UserError: for a metric or language that there are no texts of.
    """
    if metric not in metrics(package):
        raise UserError(f"expected a metric with a rubric ({', '.join(metrics(package))}), got {metric!r}")
    return _in_language(_load(metric, package), language)


def load_aspects(metric: str, language: str) -> dict[str, str]:
    """Return the two short questions of a metric that the form "score_list" asks: `first` and `second`.

    Raises:
        UserError: for a metric or language that there are no texts of.
    """
    load_rubric(metric, language)
    found: dict[str, str] = _load("form_score_list", RUBRICS)["aspects"][language][metric]
    return found


def _in_language(texts: Any, language: str) -> dict[str, str]:
    if language not in _CAPTIONS:
        raise UserError(f"expected a language out of {', '.join(_CAPTIONS)}, got {language!r}")
    found: dict[str, str] = texts[language]
    return found


def quoted(text: str) -> str:
    """Return foreign text in quotation marks that it cannot close, on one line: data, not words of ours."""
    return json.dumps(text, ensure_ascii=False)


def compose(
    form: Mapping[str, str],
    *,
    language: str,
    references: Sequence[Image.Image],
    candidates: Sequence[Image.Image],
    values: Mapping[str, str],
    names: Sequence[str] | None = None,
) -> Conversation:
    """Fill in a form of question.

    Args:
        form: of :func:`load_form`.
        language: of the captions.
        references: shown at `{references}`, one after the other, each with a caption; there may be none.
        candidates: shown at `{candidate}`; two of them are called A and B.
        values: texts for the other places. What stands in braces and has no value is left as it is.
        names: captions of the references; numbered ones by the form's name for them by default.
    """
    captions = _CAPTIONS[language]
    if names is None:
        called = form.get("reference", captions["source"])
        names = [f"{called} {number}" for number in range(1, len(references) + 1)]
    shown = (
        [form.get("candidate", captions["one"])]
        if len(candidates) == 1
        else [f"{captions['several']} {name}" for name in "AB"]
    )
    pictures = {"references": (list(names), references), "candidate": (shown, candidates)}
    parts: list[str | Image.Image] = []
    position = 0
    for place in _PLACE.finditer(form["user"]):
        if place[1] not in pictures and place[1] not in values:
            continue
        parts.append(form["user"][position : place.start()])
        position = place.end()
        if place[1] in values:
            parts.append(values[place[1]])
        else:
            for name, picture in zip(*pictures[place[1]], strict=True):
                parts += [f"{name}:\n", picture, "\n"]
    parts.append(form["user"][position:])
    return Message("system", (form["system"],)), Message("user", _joined(parts))


def _joined(parts: Sequence[str | Image.Image]) -> tuple[str | Image.Image, ...]:
    """Put neighbouring texts together."""
    result: list[str | Image.Image] = []
    texts: list[str] = []
    for part in (*parts, None):
        if isinstance(part, str):
            texts.append(part)
            continue
        if any(texts):
            result.append("".join(texts))
            texts = []
        if part is not None:
            result.append(part)
    return tuple(result)


def text_hash(form: Mapping[str, str], values: Mapping[str, str]) -> str:
    """Return a hash of all the words around the pictures and the data of a case."""
    return stable_hash([dict(form), dict(values), _CAPTIONS])
