"""What judges found where in a picture: faces and who they are taken for, items, background, with the crops beside.

Judges note it as JSON in the `raw` of their verdicts (:mod:`bench.evaluators`). What another judge writes there under
the same metric is not drawn; its value and its reason are shown as they always are.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from pydantic import BaseModel, Field, ValidationError

from bench.cogcanvas.cases import BACKGROUND, IDENTITY, ITEMS
from bench.cogcanvas.scoring import subjects
from bench.questions import right_answers
from bench.report.blocks import Findings, Link, Mark, Overlay, Picture, PictureGroup
from bench.report.plots import shortened
from gnomon.datasets import resolve
from gnomon.images import UnreadableImageError, load_image
from gnomon.records import Candidate, Case, Question, Reference, Verdict

if TYPE_CHECKING:
    from bench.report.examples import JudgedRun

Box = tuple[float, float, float, float]
LONGEST_NAME = 14  # characters in a picture
TIMES = 100  # similarities are shown as the benchmark's tables show them


class _Face(BaseModel):
    box: Box
    score: float


class _Match(BaseModel):
    person: str
    face: int | None
    similarity: float


class _Faces(BaseModel):
    """`raw` of ID-Sim."""

    size: tuple[int, int]
    faces: list[_Face]
    people: list[_Match]


class _Slot(BaseModel):
    name: str
    box: Box | None
    similarity: float


class _Slots(BaseModel):
    """`raw` of DINO-Sim."""

    size: tuple[int, int]
    slots: list[_Slot]


class _Cells(BaseModel):
    candidate: list[str] = Field(min_length=1)
    reference: list[str] = Field(min_length=1)


class _Background(BaseModel):
    """`raw` of BG-Sim."""

    background: _Cells


class _Person(BaseModel):
    box: Box
    score: float


class _People(BaseModel):
    """`raw` of the person count."""

    size: tuple[int, int]
    expected: int
    people: list[_Person]


class _Scene:
    """A candidate's picture, its case's references, and what was answered about them."""

    def __init__(self, judged: JudgedRun, case: Case, candidate: Candidate) -> None:
        assert candidate.path is not None, "callers leave out what was not made"
        self.case, self.item = case, (candidate.case_id, candidate.seed)
        self.path = resolve(judged.run.path, candidate.path)
        self.root = judged.run.root
        self.answers = _answers(judged, case, self.item)
        self._image: Image.Image | None = None

    def crop(self, box: Box, size: tuple[int, int]) -> Image.Image | None:
        """Return what is in a box; None where the picture cannot be read, or is another one than was judged."""
        try:
            self._image = self._image or load_image(self.path)
        except UnreadableImageError:
            return None
        if self._image.size != size:
            return None
        left, top, right, bottom = (round(side) for side in box)
        width, height = size
        left, top = min(max(left, 0), width - 1), min(max(top, 0), height - 1)
        return self._image.crop((left, top, max(min(right, width), left + 1), max(min(bottom, height), top + 1)))

    def reference(self, reference: Reference) -> Path:
        """Return a reference's file."""
        return resolve(self.root, reference.path)

    def with_roles(self, *roles: str) -> list[Reference]:
        """Return the references of these roles."""
        return [reference for reference in self.case.references if reference.role in roles]


def _answers(judged: JudgedRun, case: Case, item: tuple[str, int]) -> dict[str, bool | None]:
    """Return which questions the first judge that looks got the right answer to; empty where none was asked."""
    for judge in judged.judges:
        if judge.asks_questions and judge.looks and case.questions:
            found = {question.id: judged.answer(judge, item, question.id) for question in case.questions}
            given = {name: verdict.value for name, verdict in found.items() if verdict is not None}
            right = right_answers(case.questions, given)
            return {name: None if value is None else value == 1 for name, value in right.items() if name in given}
    return {}


def candidate_findings(judged: JudgedRun, case: Case, candidate: Candidate, judges: Collection[str]) -> list[Findings]:
    """Return what each judge found in a candidate's picture; nothing where no judge says.

    Args:
        judged: the candidate's run.
        case: the candidate's.
        candidate: one of the run's.
        judges: names of those whose findings are drawn.
    """
    if candidate.path is None:
        return []
    scene = _Scene(judged, case, candidate)
    found = []
    for judge in judged.judges:
        for metric in judge.metrics if judge.name in judges else ():
            verdict = judged.verdicts.get((judge.fingerprint, metric), {}).get(scene.item)
            if verdict is not None and metric in _DRAWN and (groups := _drawn(metric, verdict, scene)):
                found.append(Findings(f"Found by {judge.name}, {judged.label}, seed {candidate.seed}", groups))
    return found


def _drawn(metric: str, verdict: Verdict, scene: _Scene) -> list[PictureGroup]:
    try:
        return _DRAWN[metric](verdict.raw or "", scene)
    except ValidationError:  # another judge's own words
        return []


def _faces(raw: str, scene: _Scene) -> list[PictureGroup]:
    """Return the picture with its faces, lines for what is asked of two people, and each person beside their face."""
    found = _Faces.model_validate_json(raw)
    identities = scene.with_roles(IDENTITY)
    taken = {match.face: place for place, match in enumerate(found.people) if match.face is not None}
    marks = []
    for place, face in enumerate(found.faces):
        colour = taken.get(place)
        match = None if colour is None else found.people[colour]
        label = "" if match is None else f"{shortened(match.person, LONGEST_NAME)} {TIMES * match.similarity:.0f}"
        note = f"nobody of the case, score {face.score:.2f}"
        if match is not None:
            tally, note = _asked_about(match.person, scene)
            label = f"{label}{tally}"
        marks.append(Mark(face.box, label, colour, note))
    missing = [match.person for match in found.people if match.face is None]
    caption = f"{len(found.faces)} faces" + (f"; without one: {', '.join(missing)}" if missing else "")
    links = _links(found.people, scene)
    if scene.answers:
        caption += ". By each: similarity, and questions about this person alone that are answered right"
    if links:
        caption += "; a line is a question about two, dashed where the answer is wrong"
    whole = Picture(scene.path, caption, overlay=Overlay(found.size, marks, links))
    pairs = [
        PictureGroup(
            match.person,
            [
                *([Picture(scene.reference(identities[place]), "reference")] if place < len(identities) else []),
                Picture(
                    None if match.face is None else scene.crop(found.faces[match.face].box, found.size),
                    "no face" if match.face is None else "face",
                    {"similarity": TIMES * match.similarity},
                ),
            ],
        )
        for place, match in enumerate(found.people)
    ]
    return [PictureGroup("faces", [whole]), *pairs]


def _questions_about(scene: _Scene) -> list[tuple[Question, list[str]]]:
    """Return the questions that were asked, with the names of the people that each is about."""
    asked = [question for question in scene.case.questions if question.id in scene.answers]
    return [
        (question, [one.name for one in subjects(scene.case, question) if one.role == IDENTITY and one.name])
        for question in asked
    ]


def _asked_about(person: str, scene: _Scene) -> tuple[str, str]:
    """Return how many questions about a person alone were answered right, and these questions as lines."""
    asked = [question for question, names in _questions_about(scene) if names == [person]]
    if not asked:
        return "", person
    right = [scene.answers[question.id] for question in asked]
    lines = [f"{_WORDS[scene.answers[question.id]]}: {question.text.get('en')}" for question in asked]
    return f", {sum(one is True for one in right)}/{len(asked)}", "\n".join([person, *lines])


_WORDS = {True: "right", False: "wrong", None: "no answer"}


def _links(people: Sequence[_Match], scene: _Scene) -> list[Link]:
    face = {match.person: match.face for match in people}
    links = []
    for question, names in _questions_about(scene):
        if len(names) == 2:
            first, second = (face.get(name) for name in names)
            if first is not None and second is not None and first != second:
                right = scene.answers[question.id]
                links.append(Link(first, second, right, f"{_WORDS[right]}: {question.text.get('en')}"))
    return links


def _slots(raw: str, scene: _Scene) -> list[PictureGroup]:
    found = _Slots.model_validate_json(raw)
    references = scene.with_roles(*ITEMS)
    marks = [
        Mark(slot.box, f"{shortened(slot.name, LONGEST_NAME)} {TIMES * slot.similarity:.0f}", place, slot.name)
        for place, slot in enumerate(found.slots)
        if slot.box is not None
    ]
    missing = [slot.name for slot in found.slots if slot.box is None]
    caption = f"{len(marks)} of {len(found.slots)} items" + (f"; missing: {', '.join(missing)}" if missing else "")
    whole = PictureGroup("items", [Picture(scene.path, caption, overlay=Overlay(found.size, marks))])
    pairs = [
        PictureGroup(
            slot.name,
            [
                *([Picture(scene.reference(references[place]), "reference")] if place < len(references) else []),
                Picture(
                    None if slot.box is None else scene.crop(slot.box, found.size),
                    "not found" if slot.box is None else "found",
                    {"similarity": TIMES * slot.similarity},
                ),
            ],
        )
        for place, slot in enumerate(found.slots)
    ]
    return [whole, *pairs]


def _background(raw: str, scene: _Scene) -> list[PictureGroup]:
    found = _Background.model_validate_json(raw).background
    pictures = [_shaded(scene.path, found.candidate, "the picture")]
    pictures += [
        _shaded(scene.reference(place), found.reference, "the reference") for place in scene.with_roles(BACKGROUND)[:1]
    ]
    return [PictureGroup("background: what is shaded is left out", pictures)]


def _shaded(path: Path, rows: Sequence[str], caption: str) -> Picture:
    """Return a picture with a grid over it, whatever its size: the grid spans it."""
    try:
        size = load_image(path).size
    except UnreadableImageError:
        return Picture(path, caption)
    return Picture(path, caption, overlay=Overlay(size, shade=rows))


def _people(raw: str, scene: _Scene) -> list[PictureGroup]:
    found = _People.model_validate_json(raw)
    marks = [Mark(one.box, str(place), place, f"score {one.score:.2f}") for place, one in enumerate(found.people, 1)]
    caption = f"{len(marks)} people, {found.expected} asked for"
    return [PictureGroup("people", [Picture(scene.path, caption, overlay=Overlay(found.size, marks))])]


_DRAWN: Mapping[str, Callable[[str, _Scene], list[PictureGroup]]] = {
    "id_sim": _faces,
    "dino_sim": _slots,
    "bg_sim": _background,
    "person_count": _people,
}
