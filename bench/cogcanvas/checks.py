"""What is wrong with a case of CogCanvas beyond what any dataset asks for: who is there, what holds between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bench.cogcanvas.cases import (
    BACKGROUND,
    FASHION,
    GROUP_SIZES,
    IDENTITY,
    ITEMS,
    OBJECT,
    QUESTION_DIMENSIONS,
    TASKS,
    SceneFacts,
    facts_of,
    people,
)
from bench.cogcanvas.positions import cycles
from gnomon.errors import UserError
from gnomon.records import Case

ROLES = (IDENTITY, OBJECT, FASHION, BACKGROUND)


def problems(case: Case) -> Iterator[str]:
    """Yield what is wrong with a case: its task, references, graphs and questions.

    A `meta` that is none of CogCanvas's is left to the reader of groups, which names it.
    """
    where = f"case {case.id!r}"
    if case.task not in TASKS:
        yield f"{where}: expected one of the tasks {', '.join(TASKS)}, got {case.task!r}"
    yield from _references(case, where)
    try:
        facts = facts_of(case)
    except UserError:
        return
    yield from _graphs(case, facts, where)
    yield from _questions(case, where)


def _references(case: Case, where: str) -> Iterator[str]:
    for role in sorted({reference.role for reference in case.references} - set(ROLES)):
        yield f"{where}: expected references with roles out of {', '.join(ROLES)}, got {role!r}"
    names = people(case)
    if len(names) not in GROUP_SIZES:
        yield f"{where}: expected {min(GROUP_SIZES)} to {max(GROUP_SIZES)} identities, got {len(names)}"
    if sum(reference.role == BACKGROUND for reference in case.references) > 1:
        yield f"{where}: expected one background at most, got several"
    unnamed = [one.path for one in case.references if one.role in (IDENTITY, *ITEMS) and not one.name]
    if unnamed:
        yield f"{where}: expected people and items with names, got none of {', '.join(unnamed)}"
    if twice := sorted(name for name, count in Counter(names).items() if count > 1 and name):
        yield f"{where}: expected people with names of their own, got {', '.join(twice)} twice"
    pictures = Counter(one.path for one in case.references if one.role == IDENTITY)
    if same := sorted(path for path, count in pictures.items() if count > 1):
        yield f"{where}: expected a picture of their own for each person, got {', '.join(same)} twice"


def _graphs(case: Case, facts: SceneFacts, where: str) -> Iterator[str]:
    present = set(people(case))
    items = {one.name for one in case.references if one.role in ITEMS}
    edges = [(edge.first, edge.second) for edge in facts.interactions]
    edges += [(edge.first, edge.second) for edge in facts.positions]
    named = {name for edge in edges for name in edge} | {binding.person for binding in facts.bindings}
    if absent := sorted(named - present):
        yield f"{where}: expected bindings, interactions and positions of people in it, got {', '.join(absent)}"
    if unknown := sorted({binding.item for binding in facts.bindings} - items):
        yield f"{where}: expected bindings of items in it, got {', '.join(unknown)}"
    shared = Counter(binding.item for binding in facts.bindings)
    if several := sorted(item for item, count in shared.items() if count > 1):
        yield f"{where}: expected items of one person each, got {', '.join(several)} bound to several"
    for relation, cycle in cycles(facts.positions).items():
        yield f"{where}: expected positions that can hold together, got {f' {relation} '.join(cycle)}"


def _questions(case: Case, where: str) -> Iterator[str]:
    known = {one.name for one in case.references} | {f"reference-{k}" for k in range(1, len(case.references) + 1)}
    for question in case.questions:
        about = f"{where}, question {question.id!r}"
        if question.dimension not in QUESTION_DIMENSIONS:
            known_words = ", ".join(QUESTION_DIMENSIONS)
            yield f"{about}: expected one of the dimensions {known_words}, got {question.dimension!r}"
        if not question.about:
            yield f"{about}: expected names of references that it is about, got none"
        for link in question.about:
            if link not in known and link.partition(".")[0] not in known:
                yield f"{about}: expected names of references or 'reference-1' in about, got {link!r}"
