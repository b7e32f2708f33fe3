from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.generators import FolderGenerator, file_stem
from bench.generators_api import ImagesApiGenerator
from data_build.editcompass.sources import RefinedPrompt, Source, refine_scenarios
from data_build.editcompass.tasks import metrics_of
from gnomon.datasets import read_cases, validate
from gnomon.images import content_hash, load_image, save_png
from gnomon.jsonl import read_records, write_records
from rl.generator import DiffusersGenerator
from tests.bench.images_server import ImagesServer, colour_of
from tests.data_build.editcompass.test_scenarios import SCENARIOS
from tests.data_build.editcompass.writers import Writer, noise
from tests.rm.vlm.server import Answer, error

PICTURES = ("vase", "shop/1_1", "shop/1_2", "dog")


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """The pictures that somebody's generator made for the scenarios."""
    for seed, name in enumerate(PICTURES):
        save_png(noise(seed), tmp_path / "pictures" / f"{file_stem(name)}.png")
    return tmp_path / "pictures"


def test_scenarios_become_cases_with_generated_sources(scenarios: Path, pictures: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = refine_scenarios(scenarios, out, Writer(), FolderGenerator(pictures))
    cases = {case.id: case for case in read_cases(out)}
    prompts = {line.picture: line.prompt for line in read_records(out / "prompts.jsonl", RefinedPrompt)}

    assert (summary.num_scenarios, summary.num_cases) == (3, 3)
    assert summary.prompts == summary.sources == {"ok": 4}
    assert validate(out).ok
    assert list(cases) == ["vase", "shop/1", "dog"]
    assert cases["vase"].hints == {"outcome": "It lies in pieces."}
    assert [reference.role for reference in cases["shop/1"].references] == ["reference", "reference"]
    assert [reference.role for reference in cases["dog"].references] == ["source"]
    for name, case in cases.items():
        assert (case.benchmark, case.split, case.metrics) == ("edit-compass", "test", metrics_of(case.task))
        names = [picture for picture in PICTURES if picture.startswith(name)]
        assert case.meta["prompts"] == [prompts[picture] for picture in names]
        assert [content_hash(out / reference.path) for reference in case.references] == [
            content_hash(noise(PICTURES.index(picture))) for picture in names
        ]


def test_a_diffusers_pipeline_makes_sources_from_the_prompt_alone(
    scenarios: Path, random_editor: Path, tmp_path: Path
) -> None:
    generator = DiffusersGenerator(str(random_editor), height=32, width=48)

    summary = refine_scenarios(scenarios, tmp_path / "out", Writer(), generator)

    made = read_records(tmp_path / "out" / "sources.jsonl", Source)
    assert summary.sources == {"ok": 4}
    assert len({line.content_hash for line in made}) == len({line.seed for line in made}) == 4
    assert [content_hash(tmp_path / "out" / str(line.path)) for line in made] == [line.content_hash for line in made]


def test_a_server_is_asked_for_the_refined_prompt_and_what_it_withholds_is_counted(
    scenarios: Path, tmp_path: Path
) -> None:
    def script(count: int, request: dict[str, Any]) -> Answer:
        return error(400, "no", code="content_policy_violation") if count == 0 else Answer()

    server = ImagesServer(script)
    try:
        generator = ImagesApiGenerator("model", server.url, max_concurrency=1)
        summary = refine_scenarios(scenarios, tmp_path / "out", Writer(), generator)
    finally:
        server.close()

    assert summary.sources == {"ok": 3, "refused": 1}
    assert [case.id for case in read_cases(tmp_path / "out")] == ["shop/1", "dog"]
    for line in read_records(tmp_path / "out" / "sources.jsonl", Source):
        if line.path is not None:
            assert load_image(tmp_path / "out" / line.path).getpixel((0, 0)) == colour_of(line.prompt)


def test_a_prompt_that_failed_leaves_its_scenario_out_until_it_is_written(
    scenarios: Path, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    summary = refine_scenarios(scenarios, out, Writer(broken="a red coat"), FolderGenerator(pictures))

    assert summary.prompts == {"ok": 3, "parse_error": 1}
    assert summary.sources == {"ok": 3}
    assert [case.id for case in read_cases(out)] == ["vase", "dog"]

    again = Writer()
    summary = refine_scenarios(scenarios, out, again, FolderGenerator(pictures))
    assert (again.num_asked, summary.num_cases) == (1, 3)


def test_pictures_that_are_missing_are_statuses_and_come_in_later(
    scenarios: Path, pictures: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    shutil.move(pictures / "dog.png", tmp_path / "dog.png")
    (pictures / "vase.png").write_bytes(b"no picture")

    summary = refine_scenarios(scenarios, out, Writer(), FolderGenerator(pictures))
    assert summary.sources == {"missing_output": 1, "ok": 2, "unreadable_image": 1}

    shutil.move(tmp_path / "dog.png", pictures / "dog.png")
    save_png(noise(0), pictures / "vase.png")
    idle = Writer()
    summary = refine_scenarios(scenarios, out, idle, FolderGenerator(pictures))
    assert (idle.num_asked, summary.sources, summary.num_cases) == (0, {"ok": 4}, 3)

    (out / "images" / "dog.png").unlink()
    before = (out / "sources.jsonl").read_bytes()
    refine_scenarios(scenarios, out, idle, FolderGenerator(pictures))
    assert validate(out).ok
    assert (out / "sources.jsonl").read_bytes() == before


def test_a_scenario_that_was_mended_is_asked_again_and_the_others_are_not(
    scenarios: Path, pictures: Path, tmp_path: Path
) -> None:
    refine_scenarios(scenarios, tmp_path / "out", Writer(), FolderGenerator(pictures))
    write_records(scenarios, [SCENARIOS[0] | {"description": "a vase of glass"}, *SCENARIOS[1:]])

    again = Writer()
    refine_scenarios(scenarios, tmp_path / "out", again, FolderGenerator(pictures))

    assert again.num_asked == 1
    case = read_cases(tmp_path / "out")[0]
    assert case.meta["description"] == "a vase of glass"
    last = read_records(tmp_path / "out" / "prompts.jsonl", RefinedPrompt)[-1]
    assert case.meta["prompts"] == [last.prompt]


def test_killed_and_run_again_it_ends_with_the_same_bytes(
    scenarios: Path,
    pictures: Path,
    tmp_path: Path,
    contents: Callable[[Path], dict[str, bytes]],
    kill_when: Callable[[str, Callable[[], bool]], None],
) -> None:
    out, whole = tmp_path / "out", tmp_path / "whole"
    program = (
        "import time\n"
        "from bench.generators import FolderGenerator\n"
        "from data_build.editcompass.sources import refine_scenarios\n"
        "from tests.data_build.editcompass.writers import Writer\n"
        "class Slow(FolderGenerator):\n"
        "    def generate(self, cases, references, seeds):\n"
        "        time.sleep(0.1)\n"
        "        return super().generate(cases, references, seeds)\n"
        "Slow.__module__, Slow.__qualname__ = 'bench.generators', 'FolderGenerator'\n"
        f"refine_scenarios({str(scenarios)!r}, {str(out)!r}, Writer(delay=0.1), Slow({str(pictures)!r}), batch_size=1)"
    )
    for name, count in (("prompts.jsonl", 2), ("sources.jsonl", 2)):
        file = out / name

        def seen(file: Path = file, count: int = count) -> bool:
            return file.exists() and file.read_bytes().count(b"\n") >= count

        kill_when(program, seen)
        assert file.read_bytes().count(b"\n") < 4
        assert not (out / "cases.jsonl").exists()

    refine_scenarios(scenarios, out, Writer(), FolderGenerator(pictures), batch_size=1)
    refine_scenarios(scenarios, whole, Writer(), FolderGenerator(pictures), batch_size=1)

    assert contents(out) == contents(whole)
