"""The folder of pictures as a generator, and case ids as file names."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import bench.generators
from bench.folder import BenchRun
from bench.generators import Failure, FolderGenerator, check_language, file_stem, instruction_in, language_of
from bench.generators_api import ImagesApiGenerator
from bench.workflow import generate
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.files import last_change
from gnomon.images import content_hash, load_image, save_png
from gnomon.records import Candidate, Case, Text


def case(case_id: str) -> Case:
    return Case(id=case_id, benchmark="b", task="t", instruction=Text(en="do"))


def test_pictures_come_by_case_id_in_the_order_asked_for(tmp_path: Path) -> None:
    for case_id, colour in (("x/1", "red"), ("圆", "blue")):
        save_png(Image.new("RGB", (2, 2), colour), tmp_path / f"{file_stem(case_id)}.png")
    first, second = FolderGenerator(tmp_path).generate([case("圆"), case("x/1")], [[], []], [0, 0])
    assert isinstance(first, Image.Image)
    assert isinstance(second, Image.Image)
    assert (first.getpixel((0, 0)), second.getpixel((0, 0))) == ((0, 0, 255), (255, 0, 0))


def test_what_is_missing_or_broken_is_a_failure_in_its_place(tmp_path: Path) -> None:
    (tmp_path / "b.png").write_text("no picture")
    first, second = FolderGenerator(tmp_path).generate([case("a"), case("b")], [[], []], [0, 0])
    assert first == Failure("missing_output", "no file a.png")
    assert isinstance(second, Failure)
    assert second.status == "unreadable_image"


def test_a_second_repeat_of_one_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one picture a case; use --repeats 1"):
        FolderGenerator(tmp_path).inspect([case("a")], [0, 1])


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="check the path"):
        FolderGenerator(tmp_path / "nowhere")


def test_a_picture_that_was_overwritten_is_refused_and_one_that_is_gone_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs, run = tmp_path / "outputs", tmp_path / "run"
    red = Image.new("RGB", (2, 2), "red")
    taken = []
    for case_id in "abc":
        save_png(red, outputs / f"{case_id}.png")
        sampling = {"content_hash": content_hash(red)}
        taken.append(Candidate(case_id=case_id, generator="g", seed=0, path=f"{case_id}.png", sampling=sampling))
    failed = Candidate(case_id="d", generator="g", seed=0, path=None, status="missing_output")
    (outputs / "b.png").unlink()
    for case_id in "ab":
        save_png(red, run / f"{case_id}.png")  # the copies, of which that of c is lost
    while last_change(outputs / "a.png") >= last_change(run / "a.png"):  # the same tick of the file system's clock
        os.utime(run / "a.png")
    red.save(outputs / "c.png", compress_level=0)  # other bytes, the same picture
    generator, cases = FolderGenerator(outputs), {case_id: case(case_id) for case_id in "abcd"}
    opened: list[str] = []

    def watched(path: str) -> Image.Image:
        opened.append(Path(path).name)
        return load_image(path)

    monkeypatch.setattr(bench.generators, "load_image", watched)
    generator.refuse_changed([*taken, failed], cases, run)
    assert opened == ["c.png"]
    save_png(Image.new("RGB", (2, 2), "blue"), outputs / "d.png")
    generator.refuse_changed([*taken, failed], cases, run)
    for position, overwritten in (("c", b"no picture"), ("a", (outputs / "d.png").read_bytes())):
        (outputs / f"{position}.png").write_bytes(overwritten)
        with pytest.raises(UserError, match=rf"{position}\.png changed since .*use another --out"):
            generator.refuse_changed([*taken, failed], cases, run)


@pytest.mark.parametrize("case_id", ["x" * 300, "红" * 100, "/" * 90, "%" * 200])
def test_a_long_case_id_has_a_name_that_file_systems_take(tmp_path: Path, case_id: str) -> None:
    stem = file_stem(case_id)
    assert len(stem.encode()) <= 200
    (missing,) = FolderGenerator(tmp_path).generate([case(case_id)], [[]], [0])
    assert missing == Failure("missing_output", f"no file {stem}.png")
    save_png(Image.new("RGB", (2, 2)), tmp_path / f"{stem}.png")
    assert isinstance(FolderGenerator(tmp_path).generate([case(case_id)], [[]], [0])[0], Image.Image)


def test_long_case_ids_that_begin_or_look_alike_have_different_names() -> None:
    ids = ["x" * 300, "x" * 301, "x" * 200, "x" * 199 + "/", file_stem("x" * 300), file_stem(file_stem("x" * 300))]
    assert len({file_stem(case_id) for case_id in ids}) == len(ids)
    assert file_stem("x" * 200) == "x" * 200


@given(st.text(min_size=1), st.text(min_size=1))
def test_different_case_ids_have_different_file_names_in_one_folder(first: str, second: str) -> None:
    stems = file_stem(first), file_stem(second)
    assert (stems[0] == stems[1]) == (first == second)
    assert not any("/" in stem or "\0" in stem for stem in stems)


def picture(colour: str = "red") -> Image.Image:
    return Image.new("RGB", (2, 2), colour)


def colours(made: list[Image.Image | Failure]) -> list[object]:
    return [output.status if isinstance(output, Failure) else output.getpixel((0, 0)) for output in made]


@pytest.mark.parametrize(("ending", "kind"), [("jpg", "JPEG"), ("jpeg", "JPEG"), ("webp", "WEBP")])
def test_pictures_of_other_kinds_are_taken(tmp_path: Path, ending: str, kind: str) -> None:
    picture("white").save(tmp_path / f"a.{ending}", kind)
    assert colours(FolderGenerator(tmp_path).generate([case("a")], [[]], [0])) == [(255, 255, 255)]


def test_two_pictures_of_one_case_are_an_error_that_names_both(tmp_path: Path) -> None:
    for ending in ("png", "jpg"):
        picture().save(tmp_path / f"a.{ending}")
    generator = FolderGenerator(tmp_path)
    with pytest.raises(UserError, match=r"one picture of case 'a' .*a\.png and .*a\.jpg; remove one"):
        generator.generate([case("a")], [[]], [0])
    with pytest.raises(UserError, match="remove one"):
        generator.inspect([case("b"), case("a")], [0])


def test_repeats_come_by_the_seed_in_a_pattern_or_a_mapping(tmp_path: Path) -> None:
    save_png(picture("red"), tmp_path / "a/seed-0.png")
    save_png(picture("blue"), tmp_path / "a/seed-1.png")
    (tmp_path / "m.csv").write_text("case_id,path,seed\na,a/seed-0.png,0\na,a/seed-1.png,1\n")
    for generator in (
        FolderGenerator(tmp_path, pattern="{case_id}/seed-{seed}"),
        FolderGenerator(tmp_path, mapping=tmp_path / "m.csv"),
    ):
        made = generator.generate([case("a")] * 3, [[]] * 3, [1, 0, 2])
        assert colours(made) == [(0, 0, 255), (255, 0, 0), "missing_output"]
    with pytest.raises(UserError, match=r"by \{seed\} in a pattern"):
        FolderGenerator(tmp_path, pattern="{case_id}/seed-0").inspect([case("a")], [0, 1])


def test_a_picture_that_a_mapping_names_and_that_is_not_there_is_missing_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("case_id,path\na,x/1.png\n")
    made = FolderGenerator(tmp_path, mapping=tmp_path / "m.csv").generate([case("a"), case("b")], [[], []], [0, 0])
    assert made == [
        Failure("missing_output", "no file x/1.png"),
        Failure("missing_output", "no file for case 'b' in m.csv"),
    ]


def test_the_ways_to_find_pictures_have_different_fingerprints(tmp_path: Path) -> None:
    for name in ("m.csv", "n.csv"):
        (tmp_path / name).write_text("case_id,path\n")
    generators = [
        FolderGenerator(tmp_path),
        FolderGenerator(tmp_path, pattern="{case_id}"),
        FolderGenerator(tmp_path, pattern="edit-compass"),
        FolderGenerator(tmp_path, mapping=tmp_path / "m.csv"),
        FolderGenerator(tmp_path, mapping=tmp_path / "n.csv"),
    ]
    assert len({generator.fingerprint for generator in generators}) == 5
    assert generators[0].fingerprint == f"folder {tmp_path.resolve()}"  # as it was before there were others
    with pytest.raises(UserError, match="got both"):
        FolderGenerator(tmp_path, pattern="{case_id}", mapping=tmp_path / "m.csv")


@pytest.mark.parametrize("folder", [".", "sub/..", "sub"])
def test_pictures_of_cases_are_known_however_the_folder_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    for place in (tmp_path, tmp_path / "sub"):
        save_png(picture(), place / "a.png")
        save_png(picture(), place / "below/b.png")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        FolderGenerator(Path(folder)).inspect([case("a")], [0])
    said_of = " ".join(str(warning.message) for warning in said)
    assert "b.png" in said_of
    assert "a.png" not in said_of.replace("sub/a.png", "a.png" if folder == "sub" else "")


def test_pictures_that_belong_to_no_case_are_said_with_the_case_that_lacks_one(tmp_path: Path) -> None:
    save_png(picture(), tmp_path / "case-1.png")
    FolderGenerator(tmp_path).inspect([case("case-1"), case("case-2")], [0])  # a missing one alone is no misnamed one
    save_png(picture(), tmp_path / "case_2.png")
    save_png(picture(), tmp_path / ".hidden.png")
    (tmp_path / "notes.txt").write_text("")
    with pytest.warns(
        UserWarning,
        match=r"^1 picture in .* belongs to no case: case_2\.png \(nearest .*: 'case-2'\), and 1 .* missing; check",
    ):
        FolderGenerator(tmp_path).inspect([case("case-1"), case("case-2")], [0])
    with pytest.warns(UserWarning, match=r"^2 pictures"):
        FolderGenerator(tmp_path, pattern="{case_id}_{seed}").inspect([case("case-1"), case("case-2")], [0, 1])


def test_a_mapping_for_other_cases_is_refused_before_anything_is_taken(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text("case_id,path\ncase_1,x/1.png\n")
    with pytest.raises(UserError, match="did you mean 'case-1'"):
        FolderGenerator(tmp_path, mapping=tmp_path / "m.csv").inspect([case("case-1")], [0])


def test_instructions_come_in_one_language_or_in_both() -> None:
    cases = [Case(id=str(n), benchmark="b", task="t", instruction=Text(en="do", zh="做")) for n in range(40)]
    assert {instruction_in(made, "en") for made in cases} == {"do"}
    assert {instruction_in(made, "zh") for made in cases} == {"做"}
    mixed = [instruction_in(made, "mixed") for made in cases]
    assert set(mixed) == {"do", "做"}
    assert mixed == [instruction_in(made, "mixed") for made in cases]
    assert instruction_in(case("a"), "zh") == "do"
    with pytest.raises(UserError, match="'fr'"):
        check_language("fr")


def test_a_generator_that_knows_its_language_says_so_and_a_run_keeps_it(
    make_dataset: Callable[..., Path], tmp_path: Path
) -> None:
    root = make_dataset(1)
    plain, chinese = FolderGenerator(root / "images"), FolderGenerator(root / "images", language="zh")
    assert [language_of(plain), language_of(chinese)] == [None, "zh"]
    assert chinese.fingerprint == f"{plain.fingerprint} language zh"
    assert language_of(ImagesApiGenerator(model="m", base_url="http://localhost/v1", language="mixed")) == "mixed"
    (root / "images/0.png").rename(root / "images/case-0.png")
    write_records(root / "cases.jsonl", [Case(id="case-0", benchmark="b", task="t", instruction=Text(zh="做"))])
    run = generate(root, tmp_path / "run", chinese, name="g")
    assert BenchRun.read(run.path).config.language == "zh"
    assert "language" not in run.config.identity()
    with pytest.raises(UserError, match="'en', 'zh' or 'mixed', got 'fr'"):
        FolderGenerator(root / "images", language="fr")
