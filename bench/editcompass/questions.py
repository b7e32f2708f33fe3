"""What is asked about an edit: our texts in `rubrics/`, put together by metric, by the kind of case and by language.

A question is a skeleton that all share, a part of the metric and a part of the variant. What a case brings along is
put in last and never looked at for places to fill in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args

import yaml

from bench.editcompass.cases import JUDGE_INSTRUCTION, METRICS, OUTCOME, category_of
from gnomon.hashing import stable_hash
from gnomon.records import CLEAN_SOURCE, Case, Reference
from rm.pictures import Pictures
from rm.protocols.templates import compose, quoted, text_hash
from rm.vlm.conversation import Conversation

Variant = Literal["single", "multi_image", "complex_instruction", "complex_paint"]
VARIANTS: tuple[Variant, ...] = get_args(Variant)

DIFFERENCES = "differences"
"""The question before that about the unedited region: its answer is a list and no score."""

TWO_STAGES = "unedited_region_consistency"
ALONE = "visual_quality"
_SHOWN = {DIFFERENCES: "images_alone", TWO_STAGES: "list", ALONE: "edited_alone"}  # the others: "images"
REASONING = ("world_knowledge_reasoning", "algorithmic_visual_reasoning")
_PLACE = re.compile(r"\{([a-z_]+)\}")


def variant_of(case: Case) -> Variant:
    """Return how the questions about a case are put."""
    roles = [reference.role for reference in case.references]
    category = category_of(case)
    if CLEAN_SOURCE in roles:
        return "complex_paint"
    if len(roles) > 1 or category == "multi_image":
        return "multi_image"
    return "complex_instruction" if category == "complex" else "single"


def shown_references(case: Case, metric: str) -> list[Reference]:
    """Return the references that a question shows, a clean source first; the quality of an image is judged alone."""
    if metric == ALONE:
        return []
    return sorted(case.references, key=lambda reference: reference.role != CLEAN_SOURCE)


def names_of(references: Sequence[Reference], variant: Variant, language: str) -> list[str]:
    """Return the captions of the references that are shown."""
    captions = _skeleton(language)["captions"]
    if variant == "complex_paint":
        names = {CLEAN_SOURCE: captions["clean"], "source": captions["marked"]}
        return [names.get(reference.role, captions["input"]) for reference in references]
    if len(references) == 1 and variant != "multi_image":
        return [captions["source"]]
    return [f"{captions['input']} {number}" for number in range(1, len(references) + 1)]


def works_out(case: Case, metric: str) -> bool:
    """Tell whether the expected outcome has to be worked out before the score."""
    return metric == "world_awareness" or (metric == "instruction_following" and category_of(case) in REASONING)


def ask(question: str, case: Case, pictures: Pictures, language: str, *, differences: str = "") -> Conversation:
    """Return a question about one candidate.

    Args:
        question: one of the metrics, or `DIFFERENCES`.
        case: what the candidate is for.
        pictures: those of :func:`shown_references`, and the candidate.
        language: of the texts and the instruction.
        differences: for the unedited region, those that were found, as JSON.
    """
    variant = variant_of(case)
    sees = question != TWO_STAGES  # the second stage goes by the list alone
    return compose(
        form_of(question, variant, language, works_out(case, question)),
        language=language,
        references=pictures.references if sees else (),
        candidates=pictures.candidates if sees else (),
        values={
            "instruction": quoted(_instruction(case, language)),
            "outcome": _outcome(case, language),
            "differences": differences,
        },
        names=names_of(shown_references(case, question), variant, language) if sees else (),
    )


def prompt_hash(case: Case, metric: str, language: str) -> str:
    """Return a hash of all words that a case is asked about with, apart from what it brings along."""
    return words_hash(metric, variant_of(case), language, works_out(case, metric))


@cache
def words_hash(metric: str, variant: Variant, language: str, reasoning: bool) -> str:
    """Return a hash of the words of one form of a metric, both stages of it where it has two."""
    stages = (DIFFERENCES, TWO_STAGES) if metric == TWO_STAGES else (metric,)
    around = {**_skeleton(language)["captions"], "outcome": _skeleton(language)["outcome"]}
    return stable_hash([text_hash(form_of(stage, variant, language, reasoning), around) for stage in stages])


def all_words(language: str) -> list[str]:
    """Return the hashes of all questions in a language."""
    return [
        words_hash(metric, variant, language, reasoning)
        for metric in METRICS.values()
        for variant in VARIANTS
        for reasoning in (False, True)
    ]


@cache
def form_of(question: str, variant: Variant, language: str, reasoning: bool) -> dict[str, str]:
    """Return the texts of a question, with places for pictures and for what the case brings along.

    Args:
        question: one of the metrics, or `DIFFERENCES`.
        variant: of the case.
        language: "en" or "zh".
        reasoning: whether the expected outcome is to be worked out first.
    """
    skeleton, texts = _skeleton(language), _texts(question)[language]
    expected = skeleton["expected"] if reasoning else ""
    parts = {
        "pictures": skeleton["pictures"][variant],
        "analysis": _fill(texts["analysis"], {"expected": expected}),
        **texts.get("scale", {}),
    }
    body = [
        skeleton["shown"][_SHOWN.get(question, "images")],
        texts["question"],
        texts["steps"],
        texts["variants"][variant],
        skeleton["reasoning"] if reasoning else "",
        skeleton["listing" if question == DIFFERENCES else "scored"],
    ]
    return {"system": skeleton["system"], "user": _fill("\n".join(filter(None, body)), parts)}


def _fill(text: str, values: Mapping[str, str]) -> str:
    """Put texts into their places; places of other names stay."""
    return _PLACE.sub(lambda place: values.get(place[1], place[0]), text)


def _skeleton(language: str) -> dict[str, Any]:
    found: dict[str, Any] = _texts("skeleton")[language]
    return found


@cache
def _texts(name: str) -> Any:
    return yaml.safe_load(files("bench.editcompass.rubrics").joinpath(f"{name}.yaml").read_text(encoding="utf-8"))


def _instruction(case: Case, language: str) -> str:
    """Return the instruction as judges read it."""
    own = case.meta.get(JUDGE_INSTRUCTION)
    text = own.get(language) if isinstance(own, dict) else None
    return text if isinstance(text, str) and text else case.instruction.get(language)


def _outcome(case: Case, language: str) -> str:
    text = case.hints.get(OUTCOME)
    return f"{_skeleton(language)['outcome']}{quoted(text)}\n" if text else ""
