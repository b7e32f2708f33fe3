"""The baseline over a tiny random FLUX.2-klein and a random OWLv2, whose boxes are where they are by chance."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bench.cogcanvas.cases import FAILED_REFERENCES
from bench.cogcanvas.inpainting import SequentialInpaintingGenerator
from bench.evaluators.vision.detection import OpenVocabularyDetector
from bench.evaluators.vision.segmentation import BoxSegmenter, Mask, Sam3Segmenter
from bench.generators import Failure, Made
from bench.workflow import generate
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text
from tests import flux2_klein
from tests.bench.evaluators import checkpoints

NAMES = ("Ann", "Bo", "Cy", "Di", "Ed")
SMALL: dict[str, Any] = {"height": 64, "width": 64, "dtype": "float32"}
KWARGS: dict[str, Any] = {**flux2_klein.PIPELINE_KWARGS, "num_inference_steps": 1, "guidance_scale": 1.0}


class Halves:
    """Finds one face in each of `count` equal columns, and one thing in the lower half; nothing once `gone` is set.

    Attributes:
        pictures: how many were looked at.
        blind_from: the look from which nothing is found any more.
        seen: the pixels of each picture.
    """

    name = fingerprint = "halves"

    def __init__(self, count: int, blind_from: int = 10**9) -> None:
        self.count, self.blind_from, self.pictures = count, blind_from, 0
        self.seen: list[bytes] = []

    def instances(self, image: Image.Image, concepts: Sequence[str]) -> list[list[Mask]]:
        self.pictures += 1
        self.seen.append(image.tobytes())
        if self.pictures > self.blind_from:
            return [[] for _ in concepts]
        return [self._faces() if concept == "face" else [self._thing()] for concept in concepts]

    def _faces(self) -> list[Mask]:
        columns = np.arange(60) * self.count // 60
        return [np.tile((columns == place) & True, (30, 1)) & _upper() for place in range(self.count)]

    def _thing(self) -> Mask:
        return ~_upper()


def _upper() -> Mask:
    rows: Mask = np.tile((np.arange(30) < 15)[:, None], (1, 60))
    return rows


class Drifting(Halves):
    """Finds two faces that are six columns further to the right with each look."""

    def _faces(self) -> list[Mask]:
        drift, columns = 6 * (self.pictures - 1), np.arange(120)
        return [np.tile((columns >= left + drift) & (columns < left + drift + 15), (30, 1)) for left in (0, 70)]


@pytest.fixture(scope="module")
def klein(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(flux2_klein.build(tmp_path_factory.mktemp("klein")))


@pytest.fixture(scope="module")
def generator(klein: str) -> SequentialInpaintingGenerator:
    return SequentialInpaintingGenerator(
        klein, Halves(5), pipeline_kwargs=KWARGS, inpainting_kwargs={"strength": 1.0}, **SMALL
    )


def scene(size: int) -> tuple[Case, list[Image.Image]]:
    """Return a case of `size` people, named in the opposite order by the prompt, with an umbrella before a place."""
    references = [Reference(path=f"{name}.png", role="identity", name=name) for name in NAMES[:size]]
    references += [Reference(path="hat.png", role="object", name="hat"), Reference(path="p.png", role="background")]
    text = Text(en=" and ".join(reversed(NAMES[:size])) + " with a hat")
    case = Case(
        id=f"n{size}", benchmark="cogcanvas", task="reference_generation", instruction=text, references=references
    )
    colours = np.random.default_rng(0).integers(0, 256, (len(references), 3)).tolist()
    return case, [Image.new("RGB", (80, 72), tuple(colour)) for colour in colours]


def made(output: Made | Failure) -> Made:
    assert isinstance(output, Made)
    return output


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_each_subject_is_painted_once_where_all_goes_well(size: int, generator: SequentialInpaintingGenerator) -> None:
    generator.segmenter = segmenter = Halves(size)
    case, pictures = scene(size)
    output = made(generator.generate([case], [pictures], [3])[0])
    subjects = output.sampling["subjects"]
    assert [subject["reference"] for subject in subjects] == [
        *(f"{name}.png" for name in reversed(NAMES[:size])),
        "hat.png",
    ]
    assert {(subject["tries"], subject["problem"]) for subject in subjects} == {(1, None)}
    assert all(subject["seconds"] > 0 for subject in subjects)
    assert output.sampling[FAILED_REFERENCES] == []
    assert segmenter.pictures == 1 + size + 1  # the layout, and after each pass
    assert output.picture.size == (64, 64)
    json.dumps(output.sampling)  # JSON's types alone


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_what_is_not_found_in_the_layout_is_given_up(size: int, generator: SequentialInpaintingGenerator) -> None:
    generator.segmenter = segmenter = Halves(2)
    case, pictures = scene(size)
    output = made(generator.generate([case], [pictures], [3])[0])
    assert len(output.sampling[FAILED_REFERENCES]) == size - 2
    assert output.sampling["layout"]["tries"] == (1 if size == 2 else 2)
    last = output.sampling["subjects"][:-1][2:]
    assert {(one["tries"], one["problem"]) for one in last} <= {(0, "it has no place in the layout")}
    assert segmenter.pictures == (1 if size == 2 else 2) + 3  # the layouts, and after each of three passes


def test_a_subject_that_is_not_found_after_two_passes_leaves_the_picture_as_it_was(
    generator: SequentialInpaintingGenerator,
) -> None:
    case, pictures = scene(2)
    generator.segmenter = Halves(2, blind_from=1)
    nothing = made(generator.generate([case], [pictures], [3])[0])
    assert [subject["tries"] for subject in nothing.sampling["subjects"]] == [2, 2, 2]
    assert nothing.sampling[FAILED_REFERENCES] == ["Bo.png", "Ann.png", "hat.png"]
    generator.segmenter = Halves(2)
    empty = case.model_copy(update={"references": case.references[-1:]})  # so nothing is painted; Ann and Bo are known
    renamed = empty.model_copy(update={"instruction": Text(en="person A and person B with a hat")})
    layout = made(generator.generate([renamed], [pictures[-1:]], [3])[0])
    assert nothing.picture.tobytes() == layout.picture.tobytes()


def test_a_second_try_is_made_with_the_next_seed(generator: SequentialInpaintingGenerator) -> None:
    case, pictures = scene(2)
    people = case.model_copy(update={"references": case.references[:2]})
    looks = []
    for seed in (3, 4):
        generator.segmenter = segmenter = Halves(1, blind_from=2)  # a place is missing, and what is painted is not seen
        generator.generate([people], [pictures[:2]], [seed])
        looks.append(segmenter.seen)
    layout, next_layout, painted, painted_again = looks[0]
    assert layout != next_layout == looks[1][0]
    assert len({layout, painted, painted_again}) == 3


def test_the_layout_is_made_over_the_given_place_and_nobody_is_in_it(generator: SequentialInpaintingGenerator) -> None:
    case, pictures = scene(2)
    first: list[bytes] = []
    for place in (0, 2, 3):  # Ann, the hat and the place by another picture
        generator.segmenter = segmenter = Halves(2)
        others = [*pictures[:place], Image.new("RGB", (80, 72), "white"), *pictures[place + 1 :]]
        generator.generate([case], [others], [3])
        first.append(segmenter.seen[0])
    assert first[0] == first[1] != first[2]


def test_where_the_others_are_is_seen_anew_after_each_pass(generator: SequentialInpaintingGenerator) -> None:
    """Each face overlaps where it was one look ago by .43, and where it was two looks ago by .11."""
    generator.segmenter = Drifting(2)
    case, pictures = scene(2)
    people = case.model_copy(update={"references": case.references[:2]})
    assert made(generator.generate([people], [pictures[:2]], [3])[0]).sampling[FAILED_REFERENCES] == []


def test_only_the_mask_is_painted_and_the_reference_is_seen(klein: str) -> None:
    generator = SequentialInpaintingGenerator(klein, Halves(1), pipeline_kwargs=KWARGS, margin=0.0, **SMALL)
    case, _ = scene(2)
    one = case.model_copy(update={"references": [case.references[0]]})
    red, blue = (
        np.asarray(made(generator.generate([one], [[Image.new("RGB", (80, 72), colour)]], [3])[0]).picture, int)
        for colour in ("red", "blue")
    )
    difference = np.abs(red - blue).max(-1)
    assert difference[:24].max() > 0  # the upper half is the mask; the decoder smears its border
    assert difference[:24].mean() > 5 * difference[44:].mean()


def test_the_same_seed_makes_the_same_picture_and_another_one_another(generator: SequentialInpaintingGenerator) -> None:
    generator.segmenter = Halves(2)
    case, pictures = scene(2)
    outputs = generator.generate([case] * 3, [pictures] * 3, [3, 3, 4])
    first, again, other = (made(output).picture.tobytes() for output in outputs)
    assert first == again != other
    assert generator.is_itemwise


def test_real_segmenters_fit_in(klein: str, tmp_path: Path) -> None:
    """A random OWLv2 finds boxes; a SAM 3 that is never sure finds nothing, and all subjects are counted as failed."""
    boxes = BoxSegmenter(OpenVocabularyDetector(checkpoints.build_owlv2(tmp_path / "owlv2"), threshold=0.01))
    sam = Sam3Segmenter(checkpoints.build_sam3(tmp_path / "sam3"), threshold=1.0)
    case, pictures = scene(3)
    failed = []
    for segmenter in (boxes, sam):
        generator = SequentialInpaintingGenerator(klein, segmenter, pipeline_kwargs=KWARGS, **SMALL)
        failed.append(len(made(generator.generate([case], [pictures], [3])[0]).sampling[FAILED_REFERENCES]))
    assert failed[0] < 4 == failed[1]


def test_the_command_records_what_was_given_up(generator: SequentialInpaintingGenerator, tmp_path: Path) -> None:
    case, pictures = scene(3)
    for reference, picture in zip(case.references, pictures, strict=True):
        save_png(picture, tmp_path / "cases" / reference.path)
    write_records(tmp_path / "cases/cases.jsonl", [case])
    generator.segmenter = Halves(2)
    run = generate(tmp_path / "cases", tmp_path / "run", generator, name="baseline")
    (candidate,) = run.candidates()
    assert candidate.status == "ok"
    assert candidate.sampling[FAILED_REFERENCES] == ["Ann.png"]
    assert len(candidate.sampling["subjects"]) == 4
    assert {"noise_seed", "content_hash"} <= candidate.sampling.keys()


def test_a_reference_of_an_impossible_shape_fails_alone(generator: SequentialInpaintingGenerator) -> None:
    generator.segmenter = Halves(2)
    case, pictures = scene(2)
    output = made(generator.generate([case], [[Image.new("RGB", (3, 3)), *pictures[1:]]], [3])[0])
    assert output.sampling[FAILED_REFERENCES] == ["Ann.png"]
    assert output.sampling["subjects"][1]["problem"] == "the reference has 3 x 3 pixels"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"inpainting": "UNet2DModel"}, "such as Flux2KleinPipeline, got 'UNet2DModel'"),
        ({"layout": "Nothing"}, "got 'Nothing'"),
        ({"dtype": "int8"}, "expected dtype"),
        ({"min_overlap": 0.0}, "expected min_overlap in 0..1, above 0"),
        ({"language": "fr"}, "expected language"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, Any], message: str, klein: str) -> None:
    with pytest.raises(UserError, match=message):
        SequentialInpaintingGenerator(klein, Halves(1), **{**SMALL, **settings})


def test_a_model_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="that Flux2KleinInpaintPipeline loads at"):
        SequentialInpaintingGenerator(str(tmp_path), Halves(1), **SMALL)


def test_settings_are_part_of_the_fingerprint(klein: str, generator: SequentialInpaintingGenerator) -> None:
    generator.segmenter = Halves(2)
    other = SequentialInpaintingGenerator(klein, Halves(2), pipeline_kwargs=KWARGS, **SMALL)
    assert other.fingerprint != generator.fingerprint  # strength
