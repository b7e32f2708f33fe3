"""What a model is asked that writes instructions and checklists, or answers a question blindly; by our own texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image

from bench.mdmr.cases import REASONING, WEIGHTS
from data_build.mdmr.samples import Sample
from data_build.mdmr.tags import TAG_ATTRIBUTES
from data_build.texts import load_texts
from gnomon.records import Text
from rm.protocols.templates import compose, quoted
from rm.vlm.conversation import Conversation

PACKAGE = "data_build.mdmr"
PROBLEMS: tuple[str, ...] = tuple(load_texts(PACKAGE, "instruct")["problems"])
"""What may be wrong with a combination of references."""

FRAMES = ("followed", "ignored")
SIDES = ("plain", "opposite")
PROBES: tuple[tuple[str, str], ...] = tuple((frame, side) for frame in FRAMES for side in SIDES)
"""The four ways in which a question is put to a model that sees no picture."""

_TEXT_OR_NULL = {"type": ["string", "null"]}
INSTRUCTION_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["case"],
    "properties": {
        "case": {
            "type": "object",
            "additionalProperties": False,
            "required": ["valid", "problem", "reason", "en", "zh"],
            "properties": {
                "valid": {"type": "boolean"},
                "problem": {"type": ["string", "null"], "enum": [*PROBLEMS, None]},
                "reason": {"type": "string"},
                "en": _TEXT_OR_NULL,
                "zh": _TEXT_OR_NULL,
            },
        }
    },
}
CHECKLIST_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["checklist"],
    "properties": {
        "checklist": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["dimension", "level", "about", "expected", "en", "zh"],
                "properties": {
                    "dimension": {"type": "string", "enum": list(WEIGHTS)},
                    "level": {"type": "string", "enum": ["global", "atomic"]},
                    "about": {"type": "array", "items": {"type": "string"}},
                    "expected": {"type": "string", "enum": ["yes", "no"]},
                    "en": {"type": "string"},
                    "zh": {"type": "string"},
                },
            },
        }
    },
}


def ask_for_instruction(sample: Sample, pictures: Sequence[Image.Image]) -> Conversation:
    """Return the question whether a sample is a good case, and for its instruction."""
    form = load_texts(PACKAGE, "instruct")
    values = {
        "family": form["families"][sample.family],
        "subtask": subtask_text(sample.subtask),
        "roles": _roles(sample),
        "writing": form["writing"][sample.text_language] if sample.text_language else "",
        "problems": _listed(form["problems"]),
    }
    return _shown(form, pictures, values)


def ask_for_checklist(sample: Sample, instruction: Text, pictures: Sequence[Image.Image], num: int) -> Conversation:
    """Return the question for about `num` yes/no questions about pictures that are made for a case."""
    form = load_texts(PACKAGE, "checklist")
    values = {
        "roles": _roles(sample),
        "instruction": quoted(instruction.get("en")),
        "instruction_zh": quoted(instruction.get("zh")),
        "num": str(num),
        "dimensions": _listed(form["dimensions"]),
        "attributes": ", ".join(TAG_ATTRIBUTES),
    }
    return _shown(form, pictures, values)


def ask_blindly(instruction: str, question: str, frame: str, side: str) -> Conversation:
    """Return a question of a checklist without any picture, in one of `PROBES`."""
    form = load_texts(PACKAGE, "blind")
    values = {
        "instruction": quoted(instruction),
        "question": quoted(question),
        "frame": form["frames"][frame],
        "asked": form["asked"][side],
    }
    return compose(form, language="en", references=[], candidates=[], values=values)


def subtask_text(subtask: str) -> str:
    """Return what a sub-task is; one of visual reasoning is a kind of reasoning about a kind of change."""
    texts: dict[str, str] = load_texts(PACKAGE, "instruct")["subtasks"]
    kind, _, change = subtask.partition("_")
    return f"{texts[kind]} {texts[change]}" if kind in REASONING else texts[subtask]


def _shown(form: Mapping[str, Any], pictures: Sequence[Image.Image], values: Mapping[str, str]) -> Conversation:
    names = [f"Reference {number}" for number in range(1, len(pictures) + 1)]
    return compose(form, language="en", references=pictures, candidates=[], values=values, names=names)


def _roles(sample: Sample) -> str:
    form = load_texts(PACKAGE, "instruct")
    texts = form["roles"] | form["roles_of_families"].get(sample.family, {})
    lines = []
    for number, reference in enumerate(sample.references, start=1):
        known = [reference.name] if reference.name else []
        known += [f"{name.replace('_', ' ')}: {text}" for name, text in reference.attributes.items()]
        said = f" ({', '.join(quoted(text) for text in known)})" if known else ""
        lines.append(f"Reference {number} is {texts[reference.role]}{said}.")
    return "\n".join(lines)


def _listed(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- {name}: {text}" for name, text in texts.items())
