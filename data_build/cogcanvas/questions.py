"""The questions of a scene: what each subject is like, whose the items are, what people do together, where they are.

One for each subject and attribute, each binding, each pair and interaction, each position that was stated. Every answer
is yes, so a judge that always says yes has all of them right; negated ones, on demand, say how far that goes. They ask
for what must not be: another person with the item, another subject's outfit or colour, a position turned round. What
people do is never negated, since a picture may show more than a prompt says: who is looked at may look back. Source:
Nguyen et al. 2026 (arXiv 2606.15867), section 4. Pure functions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.cogcanvas.cases import IDENTITY, INVERSE, ITEMS, Binding, Interaction, Position
from data_build.cogcanvas.drafts import mentions
from data_build.cogcanvas.entries import name_key
from data_build.cogcanvas.references import VISIBLE
from data_build.cogcanvas.terms import PACKAGE
from data_build.cogcanvas.vocabulary import IN_WORDS, RELATION_IN_WORDS
from data_build.texts import load_texts
from gnomon.records import Question, Reference, Text

TEXTS = "questions"
NEGATED = "not"
_COVERED = ("outfit", "headwear")
"""What cannot be asked of a person who wears another reference."""
_TELLING = ("outfit", "color")
"""What one subject does not have where another word for it holds; hair may be dark, short and curly at once."""
_EXCLUSIVE = {IN_WORDS[action] for action in ("wear", "hold", "carry", "embrace", "ride", "sit_on", "play", "use")}
"""What one person does to an item, as a rule, and no second one at the same time."""


@dataclass(frozen=True)
class Asked:
    """What questions are made from.

    Attributes:
        references: of the case, in the order in which a judge sees them.
        bindings: of items to people.
        interactions: each once.
        positions: likewise.
        prompt: of a scene that is made from words alone: questions then go by names, and ask for an attribute only
            where the prompt says it.
    """

    references: Sequence[Reference]
    bindings: Sequence[Binding]
    interactions: Sequence[Interaction]
    positions: Sequence[Position]
    prompt: str | None = None

    def words(self, name: str) -> str:
        """Return how a question speaks of a reference."""
        if self.prompt is not None:
            return name
        number, role = next(
            (number, reference.role)
            for number, reference in enumerate(self.references, start=1)
            if reference.name == name
        )
        form: str = load_texts(PACKAGE, TEXTS)["item" if role in ITEMS else "person"]
        return form.format(number=number, name=name)


def questions_of(asked: Asked, *, negated: bool) -> list[Question]:
    """Return all questions of a scene.

    Args:
        asked: what they are made from.
        negated: whether there are also such whose answer is no.
    """
    found = [*_attributes(asked), *_bindings(asked), *_interactions(asked), *_positions(asked)]
    if negated:
        found += [
            *_foreign_attributes(asked),
            *_foreign_bindings(asked),
            *_turned_positions(asked),
        ]
    return found


def _question(dimension: str, place: object, words: str, about: Sequence[str], *, expected: bool = True) -> Question:
    marks = [dimension, str(place), *([] if expected else [NEGATED])]
    return Question(
        id="-".join(marks),
        text=Text(en=words[:1].upper() + words[1:]),
        dimension=dimension,
        expected=expected,
        about=list(about),
    )


def visible(asked: Asked, reference: Reference) -> dict[str, str]:
    """Return the attributes of a reference that the picture has to show; a worn item hides what was worn before."""
    wears = any(
        binding.person == reference.name and binding.interaction == IN_WORDS["wear"] for binding in asked.bindings
    )
    names = [name for name in VISIBLE[reference.role] if not (wears and name in _COVERED)]
    found = {name: reference.attributes[name] for name in names if name in reference.attributes}
    return {name: value for name, value in found.items() if asked.prompt is None or mentions(asked.prompt, value)}


def _attribute(asked: Asked, reference: Reference, name: str, value: str) -> str:
    form: str = load_texts(PACKAGE, TEXTS)["attribute"][name]
    return form.format(subject=asked.words(reference.name or ""), value=value)


def _attributes(asked: Asked) -> Iterator[Question]:
    for number, reference in enumerate(asked.references, start=1):
        for name, value in visible(asked, reference).items():
            words = _attribute(asked, reference, name, value)
            yield _question("attribute", f"{number}-{name}", words, [reference.name or ""])


def _foreign_attributes(asked: Asked) -> Iterator[Question]:
    """Ask each subject for the outfit or colour of another one of its role, where the two have no word in common."""
    for number, reference in enumerate(asked.references, start=1):
        others = [one for one in asked.references if one.role == reference.role and one is not reference]
        own = {name: value for name, value in visible(asked, reference).items() if name in _TELLING}
        for name, value in own.items():
            values = [visible(asked, one).get(name) for one in others]
            foreign = next((one for one in values if one is not None and _differ(one, value)), None)
            if foreign is not None:
                words = _attribute(asked, reference, name, foreign)
                yield _question("attribute", f"{number}-{name}", words, [reference.name or ""], expected=False)


def _differ(one: str, other: str) -> bool:
    """Tell whether two texts have no word in common, so that the one does not hold where the other does."""
    return not set(name_key(one).split()) & set(name_key(other).split())


def _bindings(asked: Asked) -> Iterator[Question]:
    for place, binding in enumerate(asked.bindings, start=1):
        yield _question("binding", place, _binding(asked, binding, binding.person), [binding.person, binding.item])


def _foreign_bindings(asked: Asked) -> Iterator[Question]:
    """Ask whether the next person has the item. What anybody may do as well, such as looking at it, is not asked."""
    people = [reference.name or "" for reference in asked.references if reference.role == IDENTITY]
    for place, binding in enumerate(asked.bindings, start=1):
        if binding.interaction in _EXCLUSIVE:
            other = people[(people.index(binding.person) + 1) % len(people)]
            words = _binding(asked, binding, other)
            yield _question("binding", place, words, [other, binding.item], expected=False)


def _binding(asked: Asked, binding: Binding, person: str) -> str:
    form: str = load_texts(PACKAGE, TEXTS)["binding"]
    return form.format(subject=asked.words(person), interaction=binding.interaction, item=asked.words(binding.item))


def _interactions(asked: Asked) -> Iterator[Question]:
    for place, edge in enumerate(asked.interactions, start=1):
        yield _question("interaction", place, _interaction(asked, edge), [edge.first, edge.second])


def _interaction(asked: Asked, edge: Interaction) -> str:
    form: str = load_texts(PACKAGE, TEXTS)["interaction"]
    return form.format(first=asked.words(edge.first), action=edge.action, second=asked.words(edge.second))


def _positions(asked: Asked) -> Iterator[Question]:
    for place, edge in enumerate(asked.positions, start=1):
        yield _question("position", place, _position(asked, edge, edge.relation), [edge.first, edge.second])


def _turned_positions(asked: Asked) -> Iterator[Question]:
    for place, edge in enumerate(asked.positions, start=1):
        words = _position(asked, edge, INVERSE[edge.relation])
        yield _question("position", place, words, [edge.first, edge.second], expected=False)


def _position(asked: Asked, edge: Position, relation: str) -> str:
    form: str = load_texts(PACKAGE, TEXTS)["position"]
    return form.format(
        first=asked.words(edge.first), relation=RELATION_IN_WORDS[relation], second=asked.words(edge.second)
    )
