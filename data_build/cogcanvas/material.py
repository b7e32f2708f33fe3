"""A scene with the names and attributes of its references: what prompts, checks and questions are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from bench.cogcanvas.cases import Binding
from bench.cogcanvas.retrieval import DESCRIPTION
from data_build.cogcanvas.entries import name_key
from data_build.cogcanvas.references import DescribedReference
from data_build.cogcanvas.scenes import SampledBinding, Scene
from data_build.cogcanvas.vocabulary import IN_WORDS
from gnomon.hashing import stable_hash
from gnomon.records import Reference
from rm.protocols.templates import quoted


@dataclass(frozen=True)
class Material:
    """A scene and its references, by id."""

    scene: Scene
    references: Mapping[str, DescribedReference]

    @property
    def names(self) -> list[str]:
        """Names of the people, in their order."""
        return [self.references[name].name for name in self.scene.people]

    @property
    def background(self) -> DescribedReference:
        """The place."""
        return self.references[self.scene.background]

    @property
    def items(self) -> list[DescribedReference]:
        """Objects and fashion items, in their order."""
        return [self.references[binding.item] for binding in self.scene.bindings]

    @property
    def bindings(self) -> list[Binding]:
        """Whose the items are, by names."""
        return [
            Binding(
                item=self.references[binding.item].name,
                person=self.references[binding.person].name,
                interaction=IN_WORDS[binding.action],
            )
            for binding in self.scene.bindings
        ]

    @property
    def plain(self) -> list[Reference]:
        """The references as a case has them, people first, then items and the place; paths are ids."""
        return [
            Reference(
                path=name,
                role=self.references[name].role,
                name=self.references[name].name,
                attributes=self.references[name].plain,
            )
            for name in self.scene.references
        ]

    @cached_property
    def hash(self) -> str:
        """Of all that is said of the scene, and its pictures."""
        said = {name: [one.name, one.picture.pixels, one.plain] for name, one in self.references.items()}
        return stable_hash([self.scene, said])

    def text(self) -> str:
        """Return what is known of the scene, line by line."""
        lines = [f"Place: {quoted(self.background.name)}, {quoted(self.background.plain[DESCRIPTION])}."]
        lines += [
            f"Person: {quoted(self.references[name].name)}, {quoted(self.references[name].plain[DESCRIPTION])}."
            for name in self.scene.people
        ]
        lines += [self._binding(binding) for binding in self.scene.bindings]
        return "\n".join(lines)

    def _binding(self, binding: SampledBinding) -> str:
        item, person = self.references[binding.item], self.references[binding.person]
        what = f"{quoted(item.name)}, {quoted(item.plain[DESCRIPTION])}"
        return f"Item: {what}. {quoted(person.name)} is {IN_WORDS[binding.action]} it."


def materials(
    scenes: Sequence[Scene], references: Mapping[str, DescribedReference]
) -> tuple[dict[str, Material], dict[str, str]]:
    """Return the scenes with their references, and what is wrong with those that cannot be used any more.

    Such a scene has a reference that is gone, one identity twice, or two references of one name.

    Args:
        scenes: the scenes.
        references: all, by id.

    Returns:
        Scenes that can be used, and reasons for the others, by the scene's id.
    """
    found, problems = {}, {}
    for scene in scenes:
        if gone := [name for name in scene.references if name not in references]:
            problems[scene.id] = f"reference_gone: {', '.join(gone)}"
            continue
        own = {name: references[name] for name in scene.references}
        keys = [name_key(own[name].name) for name in scene.people]
        if len(set(keys)) < len(keys):
            problems[scene.id] = (
                f"one_identity_twice: {', '.join(sorted({key for key in keys if keys.count(key) > 1}))}"
            )
        elif len({name_key(one.name) for one in own.values()}) < len(own):
            problems[scene.id] = "one_name_twice: a person, an item and the place cannot be told apart by their names"
        else:
            found[scene.id] = Material(scene, own)
    return found, problems
