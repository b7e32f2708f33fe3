"""Which pictures fit a rule, and how many are left after each of its constraints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.mdmr.cases import ENTITIES
from data_build.mdmr.buckets import EntityRule, Range, ReferenceRule
from data_build.mdmr.candidates import NONE, Candidates, Mask

Constraint = tuple[str, Callable[[Candidates], Mask]]


@dataclass(frozen=True)
class Step:
    """A constraint, and how many pictures are left after it and all before."""

    constraint: str
    left: int


def narrow(candidates: Candidates, rule: ReferenceRule) -> tuple[Mask, list[Step]]:
    """Return which pictures fit a rule, and how many are left after each of its constraints; the first step is all."""
    mask = np.ones(len(candidates), bool)
    steps = [Step("tagged pictures", len(candidates))]
    for label, fits in _constraints(rule):
        mask &= fits(candidates)
        steps.append(Step(label, int(mask.sum())))
    return mask, steps


def _constraints(rule: ReferenceRule) -> Iterator[Constraint]:
    if rule.role in ENTITIES:
        yield (
            f"an entity of kind {rule.role}",
            partial(_with_entities, rule=EntityRule.model_validate({"any_of": [rule.role]})),
        )
    for column in ("category", "framing", "facing", "text_language"):
        words = getattr(rule, column)
        if words is not None:
            yield f"{column} {_words_text(words)}", partial(_with_words, column=column, rule=words)
    if rule.entities is not None:
        yield f"entities {_words_text(rule.entities)}", partial(_with_entities, rule=rule.entities)
    if rule.names is not None:
        fits = partial(_with_names, any_of=rule.names.any_of, none_of=rule.names.none_of)
        yield f"names {_words_text(rule.names)}", fits
    for attribute in rule.has:
        yield f"has {attribute}", partial(_has, attribute=attribute)
    for attribute in rule.lacks:
        yield f"lacks {attribute}", partial(_lacks, attribute=attribute)
    for column in ("num_entities", "num_people", "age", "side"):
        limits = getattr(rule, column)
        if limits is not None:
            yield f"{column} {_range_text(limits)}", partial(_within, column=column, limits=limits)


def _with_words(candidates: Candidates, column: str, rule: Any) -> Mask:
    return candidates.words[column].mask(rule.any_of, rule.none_of)


def _has(candidates: Candidates, attribute: str) -> Mask:
    return np.not_equal(candidates.words[attribute].codes, NONE)


def _lacks(candidates: Candidates, attribute: str) -> Mask:
    return np.equal(candidates.words[attribute].codes, NONE)


def _with_entities(candidates: Candidates, rule: EntityRule) -> Mask:
    any_of, all_of, none_of = (_bits(kinds) for kinds in (rule.any_of, rule.all_of, rule.none_of))
    mask: Mask = ((candidates.kinds & all_of) == all_of) & ((candidates.kinds & none_of) == 0)
    return mask & ((candidates.kinds & any_of) > 0) if rule.any_of else mask


def _bits(kinds: Sequence[str]) -> np.uint8:
    return np.uint8(sum(1 << ENTITIES.index(kind) for kind in set(kinds)))


def _with_names(candidates: Candidates, any_of: Sequence[str], none_of: Sequence[str]) -> Mask:
    mask = ~_rows_with(candidates, none_of)
    return mask & _rows_with(candidates, any_of) if any_of else mask


def _rows_with(candidates: Candidates, names: Sequence[str]) -> Mask:
    wanted = {name.casefold() for name in names}
    codes = [code for code, name in enumerate(candidates.names) if name in wanted]
    mask = np.zeros(len(candidates), bool)
    mask[candidates.entity_rows[np.isin(candidates.entity_names, codes)]] = True
    return mask


def _within(candidates: Candidates, column: str, limits: Range) -> Mask:
    numbers = candidates.side if column == "side" else candidates.numbers[column]
    mask: Mask = numbers != NONE
    if limits.min is not None:
        mask &= numbers >= limits.min
    if limits.max is not None:
        mask &= numbers <= limits.max
    return mask


def _words_text(rule: Any) -> str:
    parts = [(name, getattr(rule, name)) for name in type(rule).model_fields]
    return ", ".join(f"{name.replace('_', ' ')} {'/'.join(words)}" for name, words in parts if words)


def _range_text(limits: Range) -> str:
    if limits.max is None:
        return f">= {limits.min}"
    return f"<= {limits.max}" if limits.min is None else f"{limits.min}..{limits.max}"
