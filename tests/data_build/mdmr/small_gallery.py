"""A small gallery that fills every bucket, with tags by hand: of drawn shapes, or of pictures out of ordinary packages.

Real pictures are Debian's tuxpaint-stamps-default (animals, objects, clothes), openclipart-png (people) and
mate-backgrounds (landscapes), installed or unpacked below one folder, with the portrait and the photographs of
matplotlib and scikit-learn. What buckets ask for beyond that is made of these: designs with writing, collections of
things, and the same thing at another time, in another state, place, arrangement or style.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageEnhance, ImageFilter, ImageFont, ImageOps

from data_build.mdmr.tags import Tags
from gnomon.images import save_png
from gnomon.jsonl import write_records

SIDE = 256
DATA = Path(matplotlib.get_data_path())
PALETTE = {
    "red": "#c8402f",
    "green": "#4c9a54",
    "blue": "#3f6fb5",
    "yellow": "#e3b93c",
    "violet": "#7c5aa6",
    "grey": "#8b8f94",
}


@dataclass(frozen=True)
class Thing:
    """Something on a transparent ground: its kind and name, and for a person what its tags say besides."""

    kind: str
    name: str
    picture: Image.Image
    tags: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Material:
    """What a gallery is made of: at least four people and animals, six objects, two of each of the others."""

    people: list[Thing]
    animals: list[Thing]
    objects: list[Thing]
    outfits: list[Thing]
    decorations: list[Thing]
    scenes: list[Thing]
    font: Path = DATA / "fonts" / "ttf" / "DejaVuSans.ttf"


def write_gallery(folder: Path, material: Material, side: int = SIDE) -> Path:
    """Write the pictures of a gallery, `side` pixels wide and high, and return the file of tags beside the folder."""
    lines = []
    for number, (picture, tags) in enumerate(_pictures(material)):
        name = f"{number:03d}.png"
        save_png(picture if side == SIDE else picture.resize((side, side)), folder / name)
        lines.append({"image": name, "tags": Tags.model_validate(tags)})
    file = folder.parent / "tags.jsonl"
    write_records(file, lines)
    return file


def _pictures(material: Material) -> Iterator[tuple[Image.Image, dict[str, Any]]]:
    for person in material.people:
        yield _on(person.picture, "#f4f2ee"), _tags(person, "people", num_people=1, **person.tags)
    colours = cycle(PALETTE.items())
    for animal in material.animals:
        yield _on(animal.picture, "#eef2ee"), _tags(animal, "animals")
    for thing in material.objects:
        yield _on(thing.picture, "#f2f2f2"), _tags(thing, "objects")
    for thing in (*material.outfits, *material.decorations):
        yield _on(thing.picture, "#fbf7f0"), _tags(thing, "objects")
    for scene in material.scenes:
        yield ImageOps.fit(scene.picture, (SIDE, SIDE)), _tags(scene, "scenes")
    for thing, (name, code) in zip(material.objects[:6], colours, strict=False):
        coloured = ImageOps.colorize(ImageOps.grayscale(_on(thing.picture, "white", 1)), code, "white")
        yield coloured, _tags(thing, "objects", attributes={"color": name})
    yield from _textures()
    yield from _changed(material)
    yield from _designs(material)
    yield from _collections(material)


def _textures() -> Iterator[tuple[Image.Image, dict[str, Any]]]:
    for seed, name in enumerate(("rough stone", "woven straw", "brushed steel", "knitted wool", "cracked clay")):
        noise = np.random.default_rng(seed).integers(0, 256, (64, 64), dtype=np.uint8)
        grain = Image.fromarray(noise).resize((SIDE, SIDE // (seed + 1))).resize((SIDE, SIDE))
        dark, light = ("#3a3129", "#c9b79c") if seed % 2 else ("#2e3338", "#b7c0c7")
        yield (
            ImageOps.colorize(grain, dark, light),
            {
                "category": "objects",
                "entities": [{"kind": "object", "name": f"surface of {name}"}],
                "attributes": {"texture": name},
                "caption": f"A surface of {name}.",
            },
        )


def _changed(material: Material) -> Iterator[tuple[Image.Image, dict[str, Any]]]:
    """Yield things as they are and as they become, of the same name."""
    styles: dict[str, Callable[[Image.Image], Image.Image]] = {
        "pencil drawing": lambda image: ImageOps.invert(ImageOps.grayscale(image).filter(ImageFilter.FIND_EDGES)),
        "poster print": lambda image: ImageOps.posterize(ImageOps.autocontrast(image), 2),
    }
    for thing in material.objects[:3]:
        for variant, (style, change) in enumerate(styles.items(), start=2):
            picture = change(_on(thing.picture, "#f2f2f2", variant)).convert("RGB")
            yield picture, _tags(thing, "artworks", attributes={"artistic_style": style})
    for thing in material.animals[:3]:
        sepia = ImageOps.colorize(ImageOps.grayscale(_on(thing.picture, "#eeeeee", 1)), "#2a1a0c", "#f3e2c0")
        yield sepia, _tags(thing, "animals", attributes={"era": "1890s photograph", "filter": "sepia"})
        cold = ImageOps.colorize(ImageOps.grayscale(_on(thing.picture, "#eeeeee", 2)), "#0b1836", "#dcecff")
        yield cold, _tags(thing, "animals", attributes={"filter": "cold blue"})
    for scene in material.scenes:
        width, height = scene.picture.size
        day = ImageOps.fit(scene.picture.crop((0, 0, width * 3 // 4, height * 3 // 4)), (SIDE, SIDE))
        evening = ImageOps.mirror(
            ImageOps.fit(scene.picture.crop((width // 4, height // 4, width, height)), (SIDE, SIDE))
        )
        night = ImageOps.colorize(
            ImageOps.grayscale(ImageEnhance.Brightness(evening).enhance(0.55)), "#05070f", "#7f93c9"
        )
        yield ImageEnhance.Brightness(day).enhance(1.15), _tags(scene, "scenes", attributes={"time": "noon"})
        yield night, _tags(scene, "scenes", attributes={"time": "night"})
    for thing in material.objects[3:6]:
        whole = _on(thing.picture, "#f0ece4", 4)
        yield whole, _tags(thing, "objects", attributes={"state": "standing upright"})
        yield whole.rotate(100, fillcolor="#f0ece4"), _tags(thing, "objects", attributes={"state": "fallen over"})
        for name, place in (("bottom left", (8, 140)), ("top right", (140, 8))):
            picture = _scattered([(thing.picture, place)], 100)
            yield picture, _tags(thing, "objects", attributes={"position": name})
        for name, places in (
            ("in a row", [(6, 20), (88, 20), (170, 20)]),
            ("in a column", [(170, 6), (170, 88), (170, 170)]),
        ):
            picture = _scattered([(thing.picture, place) for place in places], 78)
            yield picture, _tags(thing, "artworks", attributes={"layout": name})


WORDS = {"en": ("OPEN TODAY", "FRESH", "SUMMER FAIR"), "zh": ("今日开放", "新鲜", "夏日集市")}


def _designs(material: Material) -> Iterator[tuple[Image.Image, dict[str, Any]]]:
    grounds = cycle(PALETTE.values())
    for language, words in WORDS.items():
        for word, thing in zip(words, material.objects, strict=False):
            poster = Image.new("RGB", (SIDE, SIDE), next(grounds))
            small = _fitted(thing.picture, 150)
            poster.paste(small, ((SIDE - small.width) // 2, 90), small)
            _write(poster, word, 20, 44, "white", material.font)
            yield poster, _design(word, "posters", language, thing)
            lettering = Image.new("RGB", (SIDE, SIDE), "white")
            _write(lettering, word, 90, 52, next(grounds), material.font)
            yield lettering, _design(word, "lettering", language, None)


def _design(word: str, category: str, language: str, thing: Thing | None) -> dict[str, Any]:
    entities = [{"kind": "text", "name": f"lettering {word}"}]
    if thing is not None:
        entities.append({"kind": "object", "name": thing.name})
    return {"category": category, "entities": entities, "text_language": language, "caption": f"It says {word}."}


def _collections(material: Material) -> Iterator[tuple[Image.Image, dict[str, Any]]]:
    places = [(8, 8), (136, 8), (8, 136), (136, 136)]
    for start in range(5):
        things = [*material.objects[start : start + 2], material.animals[start], material.decorations[start % 2]]
        yield (
            _scattered([(thing.picture, place) for thing, place in zip(things, places, strict=True)], 112),
            _many("artworks", things),
        )
        people = [material.people[start % len(material.people)], *material.objects[start : start + 3]]
        yield (
            _scattered([(thing.picture, place) for thing, place in zip(people, places, strict=True)], 112),
            _many("artworks", people, num_people=1),
        )
        ground = ImageOps.mirror(ImageOps.fit(material.scenes[start % len(material.scenes)].picture, (SIDE, SIDE)))
        yield (
            _scattered(
                [(thing.picture, place) for thing, place in zip(things[:3], places[1:], strict=True)], 112, ground
            ),
            _many("scenes", things[:3]),
        )


def _many(category: str, things: list[Thing], **tags: Any) -> dict[str, Any]:
    entities = [{"kind": thing.kind, "name": thing.name} for thing in things]
    return {"category": category, "entities": entities, "caption": "Several things.", **tags}


def _tags(thing: Thing, category: str, **tags: Any) -> dict[str, Any]:
    entity = {"kind": thing.kind, "name": thing.name}
    return {"category": category, "entities": [entity], "caption": f"A picture of: {thing.name}.", **tags}


def _on(picture: Image.Image, ground: str, variant: int = 0) -> Image.Image:
    """Return a picture on a plain ground; variants differ in size, place and side, so that none is a near duplicate."""
    side, left, top = ((232, 12, 12), (170, 4, 78), (170, 80, 4), (140, 110, 108), (140, 6, 8))[variant]
    if variant % 2:
        picture = ImageOps.mirror(picture)
    return _scattered([(picture, (left, top))], side, Image.new("RGB", (SIDE, SIDE), ground))


def _scattered(
    placed: list[tuple[Image.Image, tuple[int, int]]], side: int, ground: Image.Image | None = None
) -> Image.Image:
    canvas = Image.new("RGB", (SIDE, SIDE), "#f6f4ef") if ground is None else ground.convert("RGB")
    for picture, (left, top) in placed:
        small = _fitted(picture, side)
        canvas.paste(small, (left + (side - small.width) // 2, top + (side - small.height) // 2), small)
    return canvas


def _fitted(picture: Image.Image, side: int) -> Image.Image:
    return ImageOps.contain(picture.convert("RGBA"), (side, side))


def _write(picture: Image.Image, text: str, top: int, size: int, colour: str, font: Path) -> None:
    drawn = ImageDraw.Draw(picture)
    letters = ImageFont.truetype(str(font), size)
    while drawn.textlength(text, font=letters) > SIDE - 16:
        letters = ImageFont.truetype(str(font), size := size - 2)
    drawn.text(((SIDE - drawn.textlength(text, font=letters)) / 2, top), text, fill=colour, font=letters)


PERSON = {
    "hair": "brown bob",
    "expression": "smiling",
    "makeup": "red lips",
    "pose": "arms raised",
    "outfit": "blue coat",
}
"""Attributes of a person, of which drawn ones have all and no two the same."""


def drawn_material() -> Material:
    """Return material of coloured shapes, which is drawn in no time; Chinese writing lacks its letters."""

    def shape(kind: str, number: int, **tags: Any) -> Thing:
        generator = np.random.default_rng([*kind.encode(), number])
        picture = Image.new("RGBA", (96, 96), (0, 0, 0, 0))
        drawn = ImageDraw.Draw(picture)
        for _ in range(4):
            corners = [tuple(map(int, corner)) for corner in generator.integers(0, 96, (4, 2))]
            drawn.polygon(corners, fill=(*map(int, generator.integers(0, 256, 3)), 255))
        return Thing(kind, f"{kind} {number}", picture, tags)

    def person(number: int) -> Thing:
        attributes = {name: f"{words}, number {number}" for name, words in PERSON.items()}
        return shape("person", number, attributes=attributes, framing="upper_body", facing="front", age=20 + number)

    def some(kind: str, number: int) -> list[Thing]:
        return [shape(kind, place) for place in range(number)]

    return Material(
        people=[person(number) for number in range(6)],
        animals=some("animal", 6),
        objects=some("object", 8),
        outfits=some("outfit", 3),
        decorations=some("decoration", 3),
        scenes=[Thing("scene", one.name, one.picture.convert("RGB")) for one in some("scene", 3)],
    )
