"""Drawn scenes of CogCanvas: faces and items of flat colours before a sky, and backends that find them by colour.

The judges are the real ones; what they need of weights is done by rules on colours, so that what they find is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.ndimage import find_objects, label

from bench.cogcanvas.cases import NAME
from bench.evaluators.background import BackgroundJudge
from bench.evaluators.cosine import cosines
from bench.evaluators.faces.alignment import ARCFACE
from bench.evaluators.faces.face import Face
from bench.evaluators.identity import IdentityJudge
from bench.evaluators.slots import Regions
from bench.evaluators.subject import SubjectJudge
from gnomon.datasets import write_records
from gnomon.hashing import stable_seed
from gnomon.images import save_png
from gnomon.records import Case, Question, Reference, Status, Text
from rm.judge import JudgeRequest
from tests.bench.evaluators.faces.drawn import face_at
from tests.bench.report.conftest import ATTACK

Colour = tuple[int, int, int]
FACES: dict[str, Colour] = {
    "Ann": (230, 120, 90),
    "Bob <b>": (120, 70, 40),
    "Cem": (245, 205, 160),
    "Dua": (170, 90, 120),
    "Eve": (200, 160, 60),
}
ITEMS: dict[str, Colour] = {"red hat": (210, 20, 30), "blue bag": (20, 60, 210)}
STRANGER: Colour = (60, 200, 120)
GENDERS = dict(zip(FACES, ("woman", "man", "man", "woman", "woman"), strict=True))
SIZE = (480, 320)


def sky(shift: int = 0) -> Image.Image:
    """Return a place: grey that gets lighter from the left, which no face and no item is like."""
    level = np.linspace(90 + shift, 200 + shift, SIZE[0])
    return Image.fromarray(np.broadcast_to(level[None, :, None], (SIZE[1], SIZE[0], 3)).astype(np.uint8).copy())


def scene(faces: Sequence[Colour], items: Sequence[Colour], shift: int = 0) -> Image.Image:
    """Return people side by side before a place, each with an item below as far as there are any."""
    image = sky(shift)
    draw = ImageDraw.Draw(image)
    for place, face in enumerate(faces):
        left = 20 + place * 92
        draw.rectangle((left, 60, left + 55, 115), fill=face)
        draw.rectangle((left - 8, 122, left + 63, 319), fill=(50, 50, 50))
        if place < len(items):
            draw.ellipse((left + 8, 150, left + 48, 190), fill=items[place])
    return image


class ColourFaces:
    """Takes every connected area of a known colour for a face."""

    name = "drawn faces"
    fingerprint = "drawn-faces"

    def detect(self, image: Image.Image) -> list[Face]:
        """Find faces, from left to right."""
        pixels = np.asarray(image).astype(int)
        found = []
        for colour in (*FACES.values(), STRANGER):
            areas, _ = label(np.abs(pixels - colour).max(axis=2) < 6)
            found += [face_at(rows, columns, 0.98) for rows, columns in find_objects(areas)]
        return sorted(found, key=lambda face: face.box)


class ColourVectors:
    """The mean colour of the middle of a picture, from grey: faces, items and cells alike."""

    name = "mean colour"
    fingerprint = "drawn-mean-colour"
    template = ARCFACE.scaled(16)

    def embed(self, images: Sequence[Image.Image]) -> NDArray[Any]:
        """Return a vector for each picture."""
        small = [np.asarray(image.resize((9, 9)), np.float32)[3:6, 3:6].mean(axis=(0, 1)) - 127.5 for image in images]
        return np.array(small, np.float32).reshape(len(images), 3)

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        """Return cosines."""
        return cosines(first, second)

    def cells(self, image: Image.Image) -> NDArray[Any]:
        """Return the colours of a grid of 12 x 18 cells."""
        return np.asarray(image.resize((18, 12)), np.float32) - 20


class ColourItems:
    """Finds items by the colour of their name."""

    name = "drawn items"
    fingerprint = "drawn-items"

    def locate(self, image: Image.Image, names: Sequence[str], references: NDArray[Any]) -> Regions:
        """Find the largest area of each name's colour."""
        pixels = np.asarray(image).astype(int)
        boxes, scores = [], []
        for slot, name in enumerate(names):
            areas, _ = label(np.abs(pixels - ITEMS[name]).max(axis=2) < 6)
            for rows, columns in find_objects(areas)[:1]:
                boxes.append((columns.start, rows.start, columns.stop, rows.stop))
                scores.append([0.9 if slot == other else 0.0 for other in range(len(names))])
        return Regions(np.array(boxes, float).reshape(-1, 4), np.array(scores, float).reshape(-1, len(names)).T)


class NotGrey:
    """Takes what is coloured or dark for foreground."""

    name = "drawn foreground"
    fingerprint = "drawn-foreground"
    takes_words = False

    def foreground(self, image: Image.Image, concepts: Sequence[str]) -> NDArray[np.bool_]:
        """Return the mask."""
        pixels = np.asarray(image).astype(int)
        mask: NDArray[np.bool_] = (pixels.max(axis=2) - pixels.min(axis=2) > 12) | (pixels.max(axis=2) < 70)
        return mask


def judges() -> list[Any]:
    """Return the judges of three axes."""
    vectors = ColourVectors()
    return [
        IdentityJudge(ColourFaces(), vectors),
        SubjectJudge(ColourItems(), vectors),
        BackgroundJudge(NotGrey(), vectors),
    ]


def answer(request: JudgeRequest) -> bool | Status:
    """Answer by chance, better where fewer people are; some questions are refused."""
    draw = stable_seed(request.candidate.generator, request.case.id, request.metric) % 100
    (question,) = (one for one in request.case.questions if one.id == request.metric)
    if draw < 4:
        return "refused"
    return question.expected == (draw < 110 - 14 * sum(one.role == "identity" for one in request.case.references))


def _questions(names: Sequence[str]) -> list[Question]:
    def ask(name: str, dimension: str, text: str, about: list[str], expected: bool = True) -> Question:
        return Question(id=name, text=Text(en=text), dimension=dimension, about=about, expected=expected)

    asked = [
        ask(f"attribute-{k}", "attribute", f"Does {name} look up?", [name]) for k, name in enumerate(names, start=1)
    ]
    asked.append(ask("binding-1", "binding", f"Is the red hat with {names[0]}?", [names[0], "red hat"]))
    pairs = list(pairwise(names))
    asked.append(ask("interaction-1", "interaction", f"Does {names[0]} greet {names[1]}? {ATTACK}", list(pairs[0])))
    asked += [
        ask(f"position-{k}", "position", f"Is {one} left of {other}?", [one, other])
        for k, (one, other) in enumerate(pairs, start=1)
    ]
    return [*asked, ask("not-binding-1", "binding", f"Is the red hat with {names[1]}?", [names[1], "red hat"], False)]


def _person(name: str) -> Reference:
    attributes = {"gender": GENDERS[name]}
    return Reference(path=f"people/{name[:3]}.png", role="identity", name=name, attributes=attributes)


def write_scenes(root: Path) -> list[Case]:
    """Write two cases for each number of people with their references, and return them."""
    for name, colour in FACES.items():
        image = Image.new("RGB", (120, 120), (110, 110, 110))
        ImageDraw.Draw(image).rectangle((30, 30, 90, 90), fill=colour)
        save_png(image, root / f"people/{name[:3]}.png")
    for name, colour in ITEMS.items():
        save_png(Image.new("RGB", (160, 160), colour), root / f"items/{name}.png")
    save_png(sky(), root / "sky.png")
    cases = []
    for number in (2, 3, 4, 5):
        for repeat in range(2):
            names = list(FACES)[:number] if repeat == 0 else list(FACES)[::-1][:number]
            people = [
                Reference(
                    path=f"people/{name[:3]}.png", role="identity", name=name, attributes={"gender": GENDERS[name]}
                )
                for name in names
            ]
            items = [
                Reference(path=f"items/{name}.png", role="object", name=name, attributes={"size_category": size})
                for name, size in zip(ITEMS, ("small", "large"), strict=True)
            ]
            cases.append(
                Case(
                    id=f"<scene> {number}-{repeat}",
                    benchmark=NAME,
                    task="reference_generation",
                    instruction=Text(en=f"{', '.join(names)} under the sky {ATTACK}"),
                    references=[*people, *items, Reference(path="sky.png", role="background", name="sky")],
                    questions=_questions(names),
                    meta={"object_size": ("small", "large")[repeat], "interaction_strength": "loose"},
                )
            )
    write_records(root / "cases.jsonl", cases)
    return cases


def pictures(cases: Sequence[Case], careful: bool) -> dict[str, Image.Image]:
    """Return a picture for each case; who is hasty forgets the second item, swaps in a stranger, and draws one less."""
    made = {}
    for case in cases:
        colours = [FACES[one.name or ""] for one in case.references if one.role == "identity"]
        items = list(ITEMS.values())
        if not careful:
            items = items[:1]
            colours = [*colours[:-1], STRANGER] if len(colours) < 4 else colours[:-1]
        made[case.id] = scene(colours, items, 0 if careful else 30)
    return made
