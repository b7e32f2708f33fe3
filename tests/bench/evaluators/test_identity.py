"""ID-Sim on drawings and photographs: people found, missing, swapped, in excess; what cannot be judged is a status."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from bench.cogcanvas.cases import FAILED_REFERENCES
from bench.evaluators.faces.matching import Matching
from bench.evaluators.identity import IdentityJudge
from bench.generators import FolderGenerator
from bench.workflow import generate, judge
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.jsonl import read_records
from gnomon.records import Candidate, Case, Reference, Text, Verdict
from rm.judge import JudgeRequest
from tests.bench.evaluators.faces.drawn import (
    BLUE,
    GREEN,
    RED,
    YELLOW,
    Colour,
    ColourDetector,
    ColourRecognizer,
    draw,
)
from tests.bench.evaluators.faces.photographs import detector, photograph, recognizer, skimage_photograph
from tests.distributed.launcher import Zygote, strategy_flags

THIRD = 1 / 3  # the cosine of red and yellow; that of red and green is -1/3
NAMES = ("Ann", "Bob", "Cem", "Dan", "Eve")


def id_sim(**options: Any) -> IdentityJudge:
    return IdentityJudge(ColourDetector(), ColourRecognizer(), **options)


def reference(root: Path, name: str, image: Image.Image, *, role: str = "identity") -> Reference:
    save_png(image, root / f"references/{name}.png")
    return Reference(path=f"references/{name}.png", role=role, name=name)


def request(
    root: Path, references: Sequence[Reference], image: Image.Image | None, *, metric: str = "id_sim"
) -> JudgeRequest:
    case = Case(
        id="case", benchmark="cogcanvas", task="reference_generation", instruction=Text(en="all in a row"),
        references=list(references),
    )  # fmt: skip
    candidate = Candidate(case_id="case", generator="drawn", seed=3, path=None if image is None else "made.png")
    if image is not None:
        save_png(image, root / "made.png")
    file = None if image is None else root / "made.png"
    return JudgeRequest(case=case, root=root, candidate=candidate, image=file, metric=metric)


def judged(root: Path, people: Sequence[Colour], faces: Sequence[Colour], **options: Any) -> Verdict:
    references = [reference(root, name, draw(colour)) for name, colour in zip(NAMES, people, strict=False)]
    (verdict,) = id_sim(**options).judge([request(root, references, draw(*faces))])
    return verdict


def people_of(verdict: Verdict) -> list[tuple[str, int | None, float]]:
    raw = json.loads(verdict.raw or "")
    return [(one["person"], one["face"], round(one["similarity"], 5)) for one in raw["people"]]


@pytest.mark.parametrize(
    ("people", "faces", "value"),
    [
        ([RED, GREEN], [RED, GREEN], 1),
        ([RED, GREEN], [GREEN, RED], 1),  # places do not matter
        ([RED, GREEN], [], 0),
        ([RED, GREEN], [GREEN], 1 / 2),  # who is missing counts 0
        ([RED, GREEN], [RED, RED], (1 - THIRD) / 2),  # one person twice is no other person
        ([RED, GREEN], [RED, BLUE, YELLOW, GREEN], 1),  # further faces do not count
        ([RED, GREEN, BLUE, YELLOW, RED[::-1]][:4], [RED, GREEN, BLUE, YELLOW], 1),
        ([RED], [YELLOW], THIRD),
        ([RED], [GREEN], -THIRD),  # a cosine as it is: a stranger is not cut off at 0
    ],
)
def test_the_value_is_the_mean_over_people(
    tmp_path: Path, people: list[Colour], faces: list[Colour], value: float
) -> None:
    verdict = judged(tmp_path, people, faces)
    assert verdict.status == "ok"
    assert verdict.value == pytest.approx(value, abs=1e-5)


def test_hungarian_sees_that_a_face_stands_for_two_people_and_best_match_hides_it(tmp_path: Path) -> None:
    orange, brick = (255, 100, 0), (255, 60, 0)  # two people who look alike; one was drawn in place of both
    shown = judged(tmp_path, [orange, brick], [orange, BLUE])
    hidden = judged(tmp_path, [orange, brick], [orange, BLUE], matching="best")
    assert [face for _, face, _ in people_of(shown)] == [0, 1]
    assert [face for _, face, _ in people_of(hidden)] == [0, 0]
    assert shown.value is not None
    assert hidden.value is not None
    assert hidden.value > 0.9
    assert shown.value < 0.5


@given(
    people=st.lists(st.sampled_from([RED, GREEN, BLUE, YELLOW]), min_size=1, max_size=4, unique=True),
    faces=st.lists(st.sampled_from([RED, GREEN, BLUE, YELLOW]), max_size=5),
    matching=st.sampled_from(["hungarian", "best"]),
    data=st.data(),
)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_order_of_people_and_faces_does_not_matter(
    tmp_path: Path, people: list[Colour], faces: list[Colour], matching: Matching, data: st.DataObject
) -> None:
    one = judged(tmp_path, people, faces, matching=matching)
    other = judged(tmp_path, data.draw(st.permutations(people)), data.draw(st.permutations(faces)), matching=matching)
    assert other.value == pytest.approx(one.value, abs=1e-6)


@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_any_number_of_faces_is_told_with_boxes_and_matches(tmp_path: Path, count: int) -> None:
    faces = [RED, GREEN, BLUE, YELLOW, *[(0, 255, 255)] * 8][:count]
    verdict = judged(tmp_path, [RED, GREEN, BLUE, YELLOW], faces)
    raw = json.loads(verdict.raw or "")
    assert raw["size"] == [400, 60]
    assert [face["box"][0] for face in raw["faces"]] == [4 + 30 * place for place in range(count)]
    assert all(len(face["landmarks"]) == 5 and len(face["similarities"]) == 4 for face in raw["faces"])
    found = min(count, 4)
    assert people_of(verdict) == [
        (name, place if place < found else None, 1.0 if place < found else 0.0) for place, name in enumerate(NAMES[:4])
    ]
    assert verdict.value == pytest.approx(found / 4, abs=1e-5)
    assert verdict.rationale is not None
    assert verdict.rationale.startswith(f"{count} faces; Ann {'1.000' if count else 'has no face'}")


def test_a_verdict_names_judge_pictures_and_time(tmp_path: Path) -> None:
    verdict = judged(tmp_path, [RED], [RED])
    assert verdict.judge == id_sim().fingerprint
    assert (verdict.case_id, verdict.generator, verdict.seed, verdict.metric) == ("case", "drawn", 3, "id_sim")
    assert len(verdict.image_hashes) == 2
    assert verdict.seconds is not None
    assert verdict.prompt_hash is None


def test_names_and_fingerprints_say_backends_and_matching() -> None:
    assert id_sim().name == "id-sim (colours + mean colour)"
    assert id_sim(matching="best").name == "id-sim (colours + mean colour, best match)"
    assert id_sim().fingerprint != id_sim(matching="best").fingerprint
    assert id_sim(cache="elsewhere", batch_size=1).fingerprint == id_sim().fingerprint


def _no_identities(root: Path, good: list[Reference]) -> JudgeRequest:
    return request(root, [reference(root, "cup", draw(RED), role="object")], draw(RED))


def _name_twice(root: Path, good: list[Reference]) -> JudgeRequest:
    return request(root, [*good, Reference(path="references/Bob.png", role="identity", name="Ann")], draw(RED))


def _picture_twice(root: Path, good: list[Reference]) -> JudgeRequest:
    return request(root, [*good, reference(root, "Ann's double", draw(RED))], draw(RED))


def _other_metric(root: Path, good: list[Reference]) -> JudgeRequest:
    return request(root, good, draw(RED), metric="dino_sim")


def _reference_gone(root: Path, good: list[Reference]) -> JudgeRequest:
    return request(root, [*good, Reference(path="references/gone.png", role="identity", name="gone")], draw(RED))


def _reference_without_face(root: Path, good: list[Reference]) -> JudgeRequest:
    return request(root, [*good, reference(root, "ghost", draw())], draw(RED))


def _no_output(root: Path, good: list[Reference]) -> JudgeRequest:
    return request(root, good, None)


def _broken_output(root: Path, good: list[Reference]) -> JudgeRequest:
    made = request(root, good, draw(RED))
    (root / "made.png").write_bytes((root / "made.png").read_bytes()[:60])
    return made


@pytest.mark.parametrize(
    ("make", "status", "reason"),
    [
        (_no_identities, "not_applicable", "no identities"),
        (_name_twice, "not_applicable", "one identity twice: Ann"),
        (_picture_twice, "not_applicable", "with the same picture: Ann, Ann's double"),
        (_other_metric, "not_applicable", "metric is id_sim"),
        (_reference_gone, "unreadable_image", "gone.png"),
        (_reference_without_face, "unreadable_image", "no face was found in the reference of ghost"),
        (_no_output, "missing_output", "made no picture"),
        (_broken_output, "unreadable_image", "made.png"),
    ],
)
def test_what_cannot_be_judged_is_a_status_and_the_others_go_on(
    tmp_path: Path, make: Callable[[Path, list[Reference]], JudgeRequest], status: str, reason: str
) -> None:
    good = [reference(tmp_path, "Ann", draw(RED)), reference(tmp_path, "Bob", draw(GREEN))]
    (tmp_path / "whole").mkdir()
    whole = [reference(tmp_path / "whole", "Ann", draw(RED))]
    requests = [make(tmp_path, good), request(tmp_path / "whole", whole, draw(RED))]
    bad, fine = id_sim().judge(requests)
    assert (bad.status, bad.value) == (status, None)
    assert reason in (bad.rationale or "")
    assert fine.value == pytest.approx(1, abs=1e-5)


class Flat(ColourDetector):
    """A detector whose landmarks are all one point."""

    def detect(self, image: Image.Image) -> list[Any]:
        return [type(face)(face.box, ((5.0, 5.0),) * 5, 1.0) for face in super().detect(image)]


class NoNumber(ColourRecognizer):
    """A recogniser that compares to nothing."""

    def similarity(self, first: NDArray[Any], second: NDArray[Any]) -> NDArray[Any]:
        return np.full((len(first), len(second)), np.nan)


def test_what_a_backend_cannot_do_is_a_status(tmp_path: Path) -> None:
    asked = [request(tmp_path, [reference(tmp_path, "Ann", draw(RED))], draw(RED))]
    (flat,) = IdentityJudge(Flat(), ColourRecognizer()).judge(asked)
    assert (flat.status, "landmarks" in (flat.rationale or "")) == ("unreadable_image", True)
    (nothing,) = IdentityJudge(ColourDetector(), NoNumber()).judge(asked)
    assert nothing.status == "out_of_range"


def test_references_are_embedded_once_for_all_cases_and_runs(tmp_path: Path) -> None:
    people = [reference(tmp_path, name, draw(colour)) for name, colour in zip(NAMES, (RED, GREEN), strict=False)]
    asked = [request(tmp_path, people, draw(RED, GREEN)), request(tmp_path, people[:1], draw(RED, GREEN))]
    first, second = id_sim(cache=tmp_path / "cache"), id_sim(cache=tmp_path / "cache", matching="best")
    assert [verdict.value for verdict in first.judge(asked)] == [verdict.value for verdict in second.judge(asked)]
    assert (first.references.num_computed, second.references.num_computed) == (2, 0)


def test_a_run_is_judged_and_goes_on(tmp_path: Path) -> None:
    root, outputs = tmp_path / "cases", tmp_path / "outputs"
    people = {
        name: reference(root, name, draw(colour)) for name, colour in zip(NAMES, (RED, GREEN, BLUE), strict=False)
    }
    groups = {"two": ["Ann", "Bob"], "three": ["Ann", "Bob", "Cem"]}
    cases = [
        Case(
            id=name, benchmark="cogcanvas", task="reference_generation", instruction=Text(en="in a row"),
            references=[people[person] for person in group],
        )
        for name, group in groups.items()
    ]  # fmt: skip
    write_records(root / "cases.jsonl", cases)
    for name in groups:
        save_png(draw(RED, GREEN), outputs / f"{name}.png")
    generate(root, tmp_path / "run", FolderGenerator(outputs), name="drawn")
    judge(tmp_path / "run", id_sim())
    found = {verdict.case_id: verdict.value for verdict in read_records(tmp_path / "run/samples.jsonl", Verdict)}
    assert found == {"two": pytest.approx(1, abs=1e-5), "three": pytest.approx(2 / 3, abs=1e-5)}
    again = id_sim()
    judge(tmp_path / "run", again)
    assert again.references.num_computed == 0
    assert len(read_records(tmp_path / "run/samples.jsonl", Verdict)) == 2


def test_two_ranks_share_the_references_and_write_what_one_does(zygote: Zygote, tmp_path: Path) -> None:
    root, outputs = tmp_path / "cases", tmp_path / "outputs"
    people = [reference(root, name, draw(colour)) for name, colour in zip(NAMES, (RED, GREEN, BLUE), strict=False)]
    cases = [
        Case(
            id=str(number), benchmark="cogcanvas", task="reference_generation", instruction=Text(en="in a row"),
            references=people,
        )
        for number in range(5)
    ]  # fmt: skip
    write_records(root / "cases.jsonl", cases)
    for number in range(5):
        save_png(draw(*[RED, GREEN, BLUE, YELLOW, RED][:number]), outputs / f"{number}.png")
    generate(root, tmp_path / "one", FolderGenerator(outputs), name="drawn")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    here = "tests.bench.evaluators.faces.drawn"
    command = ["bench", "judge", "--batch-size", "1", "--judge", "bench.evaluators.identity.IdentityJudge"]
    command += ["--judge.detector", f"{here}.ColourDetector", "--judge.recognizer", f"{here}.ColourRecognizer"]
    command += ["--judge.cache", str(tmp_path / "cache")]
    for ranks, run in ((2, "two"), (1, "one")):
        flags = strategy_flags("ddp") if ranks == 2 else []
        codes, log = zygote.run([*command, "--run", str(tmp_path / run), *flags], ranks=ranks)
        assert codes == [0] * ranks, log
    two, one = (
        [
            verdict.model_copy(update={"seconds": None})
            for verdict in read_records(tmp_path / run / "samples.jsonl", Verdict)
        ]
        for run in ("two", "one")
    )
    assert two == one
    assert [verdict.value for verdict in one] == pytest.approx([0, 1 / 3, 2 / 3, 1, 1], abs=1e-5)
    assert len(list((tmp_path / "cache").rglob("*.npy"))) == 3


def side_by_side(*images: Image.Image) -> Image.Image:
    height = 400
    shown = [image.resize((round(image.width * height / image.height), height)) for image in images]
    canvas = Image.new("RGB", (sum(image.width for image in shown), height))
    left = 0
    for image in shown:
        canvas.paste(image, (left, 0))
        left += image.width
    return canvas


def test_on_photographs_the_right_people_are_above_the_wrong_ones(tmp_path: Path) -> None:
    def person(name: str) -> Image.Image:
        return photograph(f"tests/test_images/{name}.jpg")

    ref = [reference(tmp_path, "first", person("obama")), reference(tmp_path, "second", person("biden"))]
    found = IdentityJudge(detector(), recognizer())
    pictures = {
        "both": side_by_side(person("biden"), person("obama2")),
        "one twice": side_by_side(person("obama2"), person("obama_partial_face2")),
        "one": side_by_side(person("obama2")),
        "nobody": skimage_photograph("coffee.png"),
        "with a stranger": side_by_side(person("biden"), skimage_photograph("astronaut.png"), person("obama2")),
    }
    verdicts = {name: found.judge([request(tmp_path, ref, image)])[0] for name, image in pictures.items()}
    assert all(verdict.status == "ok" for verdict in verdicts.values())
    value = {name: verdict.value or 0.0 for name, verdict in verdicts.items()}
    assert value["both"] > 0.7
    assert value["with a stranger"] == pytest.approx(value["both"], abs=0.05)
    assert value["both"] - value["one twice"] > 0.25
    assert value["one"] == pytest.approx(people_of(verdicts["one"])[0][2] / 2, abs=1e-4)
    assert value["nobody"] == 0
    assert people_of(verdicts["both"])[0][1] == 1  # the first person stands on the right
    best = IdentityJudge(detector(), recognizer(), matching="best")
    (shared,) = best.judge([request(tmp_path, ref, pictures["one twice"])])
    assert (shared.value or 0) >= value["one twice"]
    assert math.isclose(value["both"], fmean(one[2] for one in people_of(verdicts["both"])), abs_tol=1e-4)


@pytest.mark.parametrize("matching", ["hungarian", "best"])
def test_who_was_given_up_is_0_whoever_is_there(tmp_path: Path, matching: Matching) -> None:
    references = [reference(tmp_path, name, draw(colour)) for name, colour in zip(NAMES, (RED, GREEN), strict=False)]
    asked = request(tmp_path, references, draw(RED, GREEN))
    lost = asked.candidate.model_copy(update={"sampling": {FAILED_REFERENCES: [references[0].path]}})
    (verdict,) = id_sim(matching=matching).judge([replace(asked, candidate=lost)])
    assert verdict.value == pytest.approx(1 / 2)
    assert people_of(verdict) == [("Ann", None, 0.0), ("Bob", 1, 1.0)]
