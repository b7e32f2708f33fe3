"""CogCanvas's baseline: a scene without faces first, then one subject after the other painted into it.

Source: Nguyen et al. 2026 (arXiv 2606.15867), the sequential-inpainting pipeline: (1) the scene from background and
prompt with placeholders for names, (2) a mask for each face and object, (3) a masked pass for each subject with its
reference, and the picture is segmented anew after each. What does not succeed is tried once more with the next seed.
The paper says no more; docs/cogcanvas.md says what was decided.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import diffusers
import numpy as np
import torch
from PIL import Image
from scipy.ndimage import binary_dilation

from bench.cogcanvas.anonymous import anonymized, mentioned
from bench.cogcanvas.cases import BACKGROUND, FAILED_REFERENCES, IDENTITY, ITEMS
from bench.cogcanvas.places import followed_places, given_places, is_found
from bench.cogcanvas.subjects import SUBJECTS, PaintedSubject
from bench.generators import Failure, Made, check_language, instruction_in
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.hub import reason_of
from gnomon.records import Case, Reference
from rm.devices import check_device, own_device
from rm.storage import base_fingerprint
from rm.vlm.loading import DTYPES

if TYPE_CHECKING:
    from bench.evaluators.vision.segmentation import InstanceSegmenter, Mask

TRIES = 2
"""Of the layout, and of each subject: the seed, and the one after it."""

SMALLEST = 32
"""Pixels of a reference's shorter side, below which there is nothing to see for a model that works on patches of 16."""

PAINTED = (IDENTITY, *ITEMS)
"""The roles of references that are painted into the scene."""


@dataclass
class _Subject:
    """One reference on its way into the picture."""

    reference: Reference
    picture: Image.Image
    concept: str
    mask: Mask | None = None
    tries: int = 0
    seconds: float = 0.0
    problem: str | None = "it has no place in the layout"

    def as_json(self) -> dict[str, Any]:
        return PaintedSubject(
            reference=self.reference.path,
            name=self.reference.name,
            tries=self.tries,
            seconds=round(self.seconds, 3),
            problem=self.problem,
        ).model_dump()


@dataclass
class _Scene:
    """A picture and the subjects that belong into it."""

    prompt: str
    picture: Image.Image
    subjects: list[_Subject] = field(default_factory=list)
    tries: int = 1

    @property
    def num_placed(self) -> int:
        return sum(subject.mask is not None for subject in self.subjects)


class SequentialInpaintingGenerator:
    """Paints the subjects of a case into a scene one by one, with any inpainting pipeline that takes a reference.

    People come from left to right in the order in which the prompt mentions them. A subject whose place is not found
    in the layout, or that is not found there after two passes, is given up: the picture stays as it was before, and
    `Candidate.sampling` names it under `failed_references`, which ID-Sim and DINO-Sim count as 0. What was done for
    each subject, and how long it took, is under `subjects`.

    Args:
        model: a folder in diffusers' format, or a name on the hub.
        segmenter: finds faces and things by their names.
        inpainting: class of diffusers that paints; takes `prompt`, `image`, `mask_image` and `generator`.
        layout: class of diffusers that makes the scene of the same parts; takes `prompt`, `height`, `width`.
        reference_input: the input of `inpainting` for a subject's reference.
        background_input: the input of `layout` for the pictures of the background; None where it takes none.
        height: of the pictures, in pixels.
        width: of the pictures, in pixels.
        pipeline_kwargs: further inputs of both, such as `num_inference_steps`.
        inpainting_kwargs: further inputs of `inpainting` alone, such as `strength`.
        face: what a person's face is called to the segmenter.
        face_prompt: what a pass for a person asks for.
        item_prompt: what a pass for an item asks for, with {name} for its name.
        min_overlap: intersection over union from which a mask after a pass is that from before, 0..1.
        margin: how far a mask is widened before it is painted over, as a share of the root of its area.
        language: of the instructions: "en", "zh" or "mixed".
        revision: commit, tag or branch on the hub.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".

    Raises:
        UserError: when there is no such model, class or device, and for settings out of range.
    """

    is_itemwise = True

    def __init__(
        self,
        model: str,
        segmenter: InstanceSegmenter,
        *,
        inpainting: str = "Flux2KleinInpaintPipeline",
        layout: str = "Flux2KleinPipeline",
        reference_input: str = "image_reference",
        background_input: str | None = "image",
        height: int = 1024,
        width: int = 1024,
        pipeline_kwargs: dict[str, Any] | None = None,
        inpainting_kwargs: dict[str, Any] | None = None,
        face: str = "face",
        face_prompt: str = "the face of the person in the reference picture, in the light of the scene",
        item_prompt: str = "the {name} of the reference picture, in the light of the scene",
        min_overlap: float = 0.3,
        margin: float = 0.1,
        language: str = "en",
        revision: str | None = None,
        dtype: str = "bfloat16",
        device: str = "cpu",
    ) -> None:
        if not 0 < min_overlap <= 1 or margin < 0:
            raise UserError(f"expected min_overlap in 0..1, above 0, and margin >= 0, got {min_overlap} and {margin}")
        if dtype not in DTYPES:
            raise UserError(f"expected dtype {', '.join(DTYPES)}, got {dtype!r}")
        self.model, self.revision, self.language = model, revision, check_language(language)
        self.segmenter, self.face = segmenter, face
        self.face_prompt, self.item_prompt = face_prompt, item_prompt
        self.min_overlap, self.margin = min_overlap, margin
        self.reference_input, self.background_input = reference_input, background_input
        self._size = {"height": height, "width": width}
        self._kwargs, self._inpainting_kwargs = dict(pipeline_kwargs or {}), dict(inpainting_kwargs or {})
        self._classes, self._dtype = (layout, inpainting), dtype
        self._inpainting = _loaded(inpainting, model, revision, dtype).to(own_device(check_device(device)))
        self._layout = _class_of(layout).from_pipe(self._inpainting, dtype=DTYPES[dtype])
        for pipeline in (self._inpainting, self._layout):
            pipeline.set_progress_bar_config(disable=True)

    @property
    def fingerprint(self) -> str:
        """Hash of all that the pictures depend on but case and seed."""
        settings = [self._size, self._kwargs, self._inpainting_kwargs, self._classes, self._dtype, self.language]
        inputs = [self.reference_input, self.background_input, self.face, self.face_prompt, self.item_prompt]
        parts = [_model_fingerprint(self.model, self.revision), self.segmenter.fingerprint]
        return stable_hash(["sequential inpainting", 1, parts, settings, inputs, self.min_overlap, self.margin])

    def generate(
        self, cases: Sequence[Case], references: Sequence[list[Image.Image]], seeds: Sequence[int]
    ) -> list[Made | Failure]:
        """Return a picture for every case, with what came of its subjects."""
        return [self._one(*item) for item in zip(cases, references, seeds, strict=True)]

    def _one(self, case: Case, references: Sequence[Image.Image], seed: int) -> Made | Failure:
        start = time.perf_counter()
        try:
            scene = self._laid_out(case, references, seed)
        except ValueError as error:  # a background of an impossible shape
            return Failure("unreadable_image", str(error))
        seconds = time.perf_counter() - start
        for subject in scene.subjects:
            self._paint(scene, subject, seed)
        failed = [subject.reference.path for subject in scene.subjects if subject.problem is not None]
        told = [subject.as_json() for subject in scene.subjects]
        layout = {"tries": scene.tries, "seconds": round(seconds, 3)}
        return Made(scene.picture, {FAILED_REFERENCES: failed, "layout": layout, SUBJECTS: told})

    def _laid_out(self, case: Case, references: Sequence[Image.Image], seed: int) -> _Scene:
        """Return the scene with most places of two at most, the second of which is only made for want of some."""
        given = list(zip(case.references, references, strict=True))
        names = [one.name for one in case.references if one.role == IDENTITY and one.name]
        text = instruction_in(case, self.language)
        prompt = anonymized(text, names, "zh" if text == case.instruction.zh else "en")
        inputs: dict[str, Any] = {}
        backgrounds = [picture for reference, picture in given if reference.role == BACKGROUND]
        if backgrounds and self.background_input is not None:
            inputs[self.background_input] = backgrounds
        best: _Scene | None = None
        for step in range(TRIES):
            picture = self._run(self._layout, seed + step, prompt=prompt, **self._size, **inputs, **self._kwargs)
            scene = _Scene(prompt, picture, self._subjects(given, mentioned(text, names)))
            self._place(scene)
            if best is None or scene.num_placed > best.num_placed:
                best = scene
            best.tries = step + 1
            if best.num_placed == len(best.subjects):
                break
        assert best is not None  # there is one try at least
        return best

    def _subjects(self, given: Sequence[tuple[Reference, Image.Image]], order: Sequence[str]) -> list[_Subject]:
        """Return what is to be painted: people in the order of the prompt, then items in the order of the case."""
        subjects = [
            _Subject(reference, picture, self.face if reference.role == IDENTITY else reference.name or reference.role)
            for reference, picture in given
            if reference.role in PAINTED
        ]
        places = {name: place for place, name in enumerate(order)}
        people = [subject for subject in subjects if subject.reference.role == IDENTITY]
        people.sort(key=lambda subject: places.get(subject.reference.name or "", len(places)))
        return people + [subject for subject in subjects if subject.reference.role != IDENTITY]

    def _place(self, scene: _Scene) -> None:
        """Give each subject its place in a picture without any of them."""
        found = self._found(scene.picture, scene.subjects)
        for concept, subjects in _by_concept(scene.subjects).items():
            for subject, mask in zip(subjects, given_places(found[concept], len(subjects)), strict=True):
                subject.mask = mask

    def _paint(self, scene: _Scene, subject: _Subject, seed: int) -> None:
        """Paint a subject into its place, and follow where the others are then; nothing changes where that fails."""
        start = time.perf_counter()
        for step in range(TRIES):
            if subject.mask is None:
                break
            subject.tries += 1
            try:
                picture = self._pass(scene.picture, subject, subject.mask, seed + step)
                found = self._found(picture, scene.subjects)
            except ValueError as error:  # a reference of an impossible shape
                subject.problem = str(error)
                break
            if is_found(subject.mask, found[subject.concept], self.min_overlap):
                scene.picture, subject.problem = picture, None
                self._follow(scene.subjects, found)
                break
            subject.problem = "it is not found where it was painted"
        subject.seconds = time.perf_counter() - start

    def _pass(self, picture: Image.Image, subject: _Subject, mask: Mask, seed: int) -> Image.Image:
        if min(subject.picture.size) < SMALLEST:
            raise ValueError(f"the reference has {subject.picture.width} x {subject.picture.height} pixels")
        is_face = subject.reference.role == IDENTITY
        prompt = self.face_prompt if is_face else self.item_prompt.replace("{name}", subject.concept)
        inputs = {
            "prompt": prompt,
            "image": picture,
            "mask_image": _widened(mask, picture.size, self.margin),
            self.reference_input: subject.picture,
        }
        return self._run(self._inpainting, seed, **inputs, **self._size, **self._kwargs, **self._inpainting_kwargs)

    def _follow(self, subjects: Sequence[_Subject], found: Mapping[str, Sequence[Mask]]) -> None:
        for concept, some in _by_concept(subjects).items():
            masks = followed_places([subject.mask for subject in some], found[concept], self.min_overlap)
            for subject, mask in zip(some, masks, strict=True):
                subject.mask = mask

    def _found(self, picture: Image.Image, subjects: Sequence[_Subject]) -> dict[str, list[Mask]]:
        concepts = list(dict.fromkeys(subject.concept for subject in subjects))
        if not concepts:
            return {}
        return dict(zip(concepts, self.segmenter.instances(picture, concepts), strict=True))

    def _run(self, pipeline: Any, seed: int, **inputs: Any) -> Image.Image:
        picture: Image.Image = pipeline(**inputs, generator=torch.Generator("cpu").manual_seed(seed)).images[0]
        return picture.convert("RGB")


def _by_concept(subjects: Sequence[_Subject]) -> dict[str, list[_Subject]]:
    return {
        concept: [subject for subject in subjects if subject.concept == concept]
        for concept in dict.fromkeys(subject.concept for subject in subjects)
    }


def _widened(mask: Mask, size: tuple[int, int], margin: float) -> Image.Image:
    """Return a mask as a picture of `size`, white where it is to be painted."""
    steps = round(margin * float(np.sqrt(mask.sum())))
    wide = binary_dilation(mask, iterations=steps) if steps else mask
    return Image.fromarray((wide * 255).astype(np.uint8)).resize(size, Image.Resampling.NEAREST)


def _class_of(name: str) -> Any:
    found = getattr(diffusers, name, None)
    if not (isinstance(found, type) and issubclass(found, diffusers.DiffusionPipeline)):
        raise UserError(
            f"expected a pipeline of diffusers {diffusers.__version__}, such as Flux2KleinPipeline, got {name!r}"
        )
    return found


def _loaded(name: str, model: str, revision: str | None, dtype: str) -> Any:
    options = {} if revision is None else {"revision": revision}
    try:
        return _class_of(name).from_pretrained(model, dtype=DTYPES[dtype], **options)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UserError(f"expected a model that {name} loads at {model}: {reason_of(error)}") from error


def _model_fingerprint(model: str, revision: str | None) -> str:
    folder = Path(model)
    if not folder.is_dir():
        return stable_hash([model, revision])
    parts = sorted(path.parent for path in folder.glob("*/config.json"))
    settings = sorted(path for path in folder.rglob("*.json"))
    return stable_hash(
        [
            [base_fingerprint(str(part)) for part in parts],
            [[path.relative_to(folder).as_posix(), file_hash(path)] for path in settings],
        ]
    )
