"""How CogCanvas's axes are scored, what its numbers are cut by, and that there is no single one of them.

Source: Nguyen et al. 2026 (arXiv 2606.15867), sections 3.5, 4 and 5. Six axes are shown together by number of people,
since each can look good while another fails. The paper's Attr-VQA is a mean over questions, people and prompts at once;
here `attr_vqa` is a prompt's share of right answers, whose mean counts each prompt once, and the share over all
questions stands beside it (:class:`bench.results.QuestionResults`). The paper expects yes of every question, so that
whoever says yes is always right; probes that expect no are `negated`, and in no other share.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence

from bench.benchmarks import Benchmark, Score, Slice
from bench.cogcanvas.cases import (
    BACKGROUND,
    GROUP_SIZES,
    IDENTITY,
    ITEMS,
    NAME,
    QUESTION_DIMENSIONS,
    TEXT_TO_IMAGE,
    facts_of,
    people,
)
from bench.cogcanvas.checks import problems
from bench.questions import share_of_right
from gnomon.records import Case, Question, Reference, Verdict

ATTR_VQA, NEGATED, POSITIVE = "attr_vqa", "negated", "positive"
ID_SIM, DINO_SIM, CLIP_T, BG_SIM, AESTHETIC = "id_sim", "dino_sim", "clip_t", "bg_sim", "aesthetic"
PERSON_COUNT = "person_count"
AXES = (ID_SIM, DINO_SIM, CLIP_T, BG_SIM, AESTHETIC, ATTR_VQA)

NUM_PEOPLE, NUM_PEOPLE_FROM_TEXT = "num_people", "num_people_from_text"
"""Kinds of groups, of pictures with references and of those drawn from text: neither is part of the other."""
DEMOGRAPHICS = ("age", "gender", "ethnicity")
"""Attributes of identity references."""
SIZE = "size_category"
"""Attribute of references to items."""
MIXED = "mixed"
"""The group of a case whose people differ in an attribute."""

FROM_TEXT = ("attribute", "binding")
"""Dimensions of the questions about a picture that is drawn from its text alone."""


def groups(case: Case) -> dict[str, str]:
    """Return a case's task and number of people, and object size, interaction strength and demographics where known.

    A demographic group is one that all people of the case are in, or `MIXED`; none where one of them lacks the
    attribute. Each person counts for their own group in :func:`slices` and :func:`question_groups`.
    """
    facts = facts_of(case)
    number = NUM_PEOPLE_FROM_TEXT if case.task == TEXT_TO_IMAGE else NUM_PEOPLE
    found = {"task": case.task, number: str(len(people(case)))}
    if facts.object_size is not None:
        found["object_size"] = facts.object_size
    if facts.interaction_strength is not None:
        found["interaction_strength"] = facts.interaction_strength
    identities = _with_roles(case, (IDENTITY,))
    for attribute in DEMOGRAPHICS:
        values = [identity.attributes.get(attribute) for identity in identities]
        known = {value for value in values if value is not None}
        if values and None not in values:
            found[attribute] = known.pop() if len(known) == 1 else MIXED
    return found


def asked_questions(case: Case) -> list[Question]:
    """Return the questions that are asked about a case's picture; one drawn from text is asked `FROM_TEXT` alone."""
    if case.task != TEXT_TO_IMAGE:
        return case.questions
    return [question for question in case.questions if question.dimension in FROM_TEXT]


def applies(case: Case, metric: str) -> bool:
    """Tell whether a case can have a value in an axis, in a share of answers, or an answer to one of its questions."""
    if metric in (ATTR_VQA, NEGATED, *QUESTION_DIMENSIONS):
        return not case.questions or bool(_members(asked_questions(case))[metric])
    if metric == PERSON_COUNT:
        return case.task == TEXT_TO_IMAGE
    if metric in (ID_SIM, DINO_SIM, BG_SIM):
        roles = {ID_SIM: (IDENTITY,), DINO_SIM: ITEMS, BG_SIM: (BACKGROUND,)}[metric]
        return case.task != TEXT_TO_IMAGE and bool(_with_roles(case, roles))
    ids = {question.id for question in case.questions}
    return metric not in ids or metric in {question.id for question in asked_questions(case)}


def derive_from_answers(case: Case, answers: Mapping[str, Score]) -> dict[str, Score]:
    """Return an item's Attr-VQA, its part of each dimension, and the share of negated probes that are denied.

    A failed answer is left out of its share; see :func:`bench.questions.share_of_right`.

    Args:
        case: whose questions were asked.
        answers: 1 for what was expected, 0 for the other, or a failure, by question.
    """
    found = {name: share_of_right(ids, answers) for name, ids in _members(asked_questions(case)).items()}
    return {name: score for name, score in found.items() if score is not None}


def _members(questions: Sequence[Question]) -> dict[str, list[str]]:
    """Return the ids of the questions that each share is made of."""
    positive = [question for question in questions if question.expected]
    members = {ATTR_VQA: [question.id for question in positive]}
    for dimension in QUESTION_DIMENSIONS:
        members[dimension] = [question.id for question in positive if question.dimension == dimension]
    members[NEGATED] = [question.id for question in questions if not question.expected]
    return members


def question_groups(case: Case, question: Question) -> dict[str, Collection[str]]:
    """Return what a question is cut by: dimension, number of people, and the groups of the people that it is about.

    A negated probe is in no other group than that of negated probes.
    """
    if not question.expected:
        return {"probe": (NEGATED,)}
    found: dict[str, Collection[str]] = {"probe": (POSITIVE,), "dimension": (question.dimension,)}
    of_case = groups(case)
    kinds = ("task", NUM_PEOPLE, NUM_PEOPLE_FROM_TEXT, "object_size", "interaction_strength")
    found |= {kind: (of_case[kind],) for kind in kinds if kind in of_case}
    about = subjects(case, question)
    for attribute in DEMOGRAPHICS:
        if values := dict.fromkeys(one.attributes[attribute] for one in about if attribute in one.attributes):
            found[attribute] = tuple(values)
    return found


def subjects(case: Case, question: Question) -> list[Reference]:
    """Return the references that a question is about: by name or number ("reference-1"), or by an attribute of one."""
    named = set(question.about)
    return [
        reference
        for number, reference in enumerate(case.references, start=1)
        if any(
            link == handle or link.startswith(f"{handle}.")
            for link in named
            for handle in (reference.name, f"reference-{number}")
            if handle
        )
    ]


def slices(case: Case, verdict: Verdict) -> Iterator[Slice]:
    """Yield what each person contributes to ID-Sim by age, gender and ethnicity, and each item to DINO-Sim by its size.

    A failed verdict fails for everyone in the picture.
    """
    if verdict.metric == ID_SIM:
        yield from _parts(_with_roles(case, (IDENTITY,)), verdict, "people", DEMOGRAPHICS)
    elif verdict.metric == DINO_SIM:
        yield from _parts(_with_roles(case, ITEMS), verdict, "slots", (SIZE,))


def _parts(references: Sequence[Reference], verdict: Verdict, key: str, kinds: Sequence[str]) -> Iterator[Slice]:
    """Yield a slice for each reference and kind; a judge notes its similarities in the order of the references."""
    scores = [Score(None, verdict.status)] * len(references)
    if verdict.value is not None:
        noted = _similarities(verdict.raw, key)
        if noted is None or len(noted) != len(references):  # a judge of its own kind, which does not say
            return
        scores = [Score(similarity) for similarity in noted]
    for reference, score in zip(references, scores, strict=True):
        for kind in kinds:
            if kind in reference.attributes:
                yield Slice(kind, reference.attributes[kind], score)


def _similarities(raw: str | None, key: str) -> list[float] | None:
    """Return what a judge noted of each person or item; None where it notes something else."""
    try:
        found = json.loads(raw or "null")
    except ValueError:
        return None
    listed = found.get(key) if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return None
    noted = [one.get("similarity") if isinstance(one, dict) else None for one in listed]
    known = [float(value) for value in noted if isinstance(value, int | float)]
    return known if len(known) == len(noted) else None


def _with_roles(case: Case, roles: Collection[str]) -> list[Reference]:
    return [reference for reference in case.references if reference.role in roles]


COGCANVAS = Benchmark(
    NAME,
    "scenes of two to five given people with given objects before a given place; six axes, and no single number",
    derive_from_answers=derive_from_answers,
    groups=groups,
    parts={NUM_PEOPLE: frozenset(map(str, GROUP_SIZES))},
    source="built by `gnomon data build cogcanvas --config FILE`",
    metrics={
        ID_SIM: "whether the people are those of the references",
        DINO_SIM: "whether their objects and fashion items are those of the references",
        CLIP_T: "whether the picture fits the prompt",
        "prompt_read_whole": "whether that judge reads the prompt to its end",
        BG_SIM: "whether the place is that of the reference, for methods that are given one",
        AESTHETIC: "how well it looks, from 1 to 10",
        PERSON_COUNT: "whether there are as many people as asked for, of pictures that are drawn from text",
    },
    derived={
        ATTR_VQA: "share of a prompt's questions that are answered yes, as they should be",
        "attribute": "the same of the questions on how people look",
        "binding": "the same of those on whose an item is",
        "interaction": "the same of those on what people do together",
        "position": "the same of those on where people are",
        NEGATED: "share of the questions that expect no which are answered so; in no other share",
    },
    applies=applies,
    shown_times=100,
    shown_times_of={AESTHETIC: 10},
    question_groups=question_groups,
    slices=slices,
    axes=AXES,
    axis_groups=NUM_PEOPLE,
    check=problems,
)
