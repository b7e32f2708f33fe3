"""CogCanvas's judges from the command line over a whole run: recipes with tiny models in place of the large ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from bench.folder import BenchRun
from bench.workflow import summarize
from gnomon.cli import main
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text

CONFIGS = Path(__file__).parents[3] / "configs/bench"
ROLES = {"identity": "Ada", "object": "red hat", "fashion": "bag", "background": "the bay"}


@pytest.fixture
def cases(tmp_path: Path, noise: Image.Image) -> Path:
    """Return a folder of three cases, one of them to be drawn from its text, with a picture of each to be judged."""
    root = tmp_path / "cases"
    for place, role in enumerate(ROLES):
        save_png(noise.rotate(90 * place, expand=True), root / f"{role}.png")
    references = [Reference(path=f"{role}.png", role=role, name=name) for role, name in ROLES.items()]
    listed = [
        Case(
            id=f"scene-{place}",
            benchmark="cogcanvas-like",
            task=("reference_generation", "text_to_image")[place == 2],
            instruction=Text(en="Ada with a red hat and a bag at the bay"),
            references=references,
        )
        for place in range(3)
    ]
    write_records(root / "cases.jsonl", listed)
    for case in listed:
        save_png(noise, tmp_path / "pictures" / f"{case.id}.png")
    return root


def generate(cases: Path, run: Path, *more: str) -> None:
    pictures = cases.parent / "pictures"
    generator = ["--generator.class_path", "bench.generators.FolderGenerator", "--generator.folder", str(pictures)]
    assert main(["bench", "generate", "--cases", str(cases), "--out", str(run), "--name", "a", *generator, *more]) == 0


def judge(recipe: str, run: Path, **settings: object) -> None:
    overrides = [f"--judge.init_args.{name.replace('__', '.init_args.')}={value}" for name, value in settings.items()]
    config = ["--config", str(CONFIGS / f"{recipe}.yaml"), "--run", str(run)]
    assert main(["bench", "judge", *config, *overrides]) == 0


def test_all_three_judges_fill_a_run(
    cases: Path, owlv2: Path, dinov2: Path, sam3: Path, dinov3: Path, yolos: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    generate(cases, run)
    kept = {"cache": tmp_path / "references"}
    tiny = {"localizer__detector__model": owlv2, "localizer__detector__device": "cpu"}
    for _ in range(2):  # again: nothing is asked twice
        judge("cogcanvas_subject", run, **tiny, embedder__model=dinov2, embedder__device="cpu", **kept)
        lines = len((run / "samples.jsonl").read_text().splitlines())
    assert lines == 3
    tiny = {"segmenter__model": sam3, "segmenter__device": "cpu", "segmenter__threshold": 0.2}
    more = {"embedder__model": dinov3, "embedder__device": "cpu", "max_foreground": 0.9}
    judge("cogcanvas_background", run, **tiny, **more, **kept)
    judge("cogcanvas_person_count", run, detector__model=yolos, detector__device="cpu")
    cells = {name: cell for entry in summarize(run).judges.values() for name, cell in entry.metrics.items()}
    assert {name: (cell.n_scored, cell.n_failed, cell.n_na) for name, cell in cells.items()} == {
        "dino_sim": (2, 0, 1),
        "bg_sim": (2, 0, 1),
        "person_count": (1, 0, 2),
    }
    assert len(list((tmp_path / "references").rglob("*.npy"))) == 2 + 2


def test_a_method_without_a_background_input_has_no_background_score(
    cases: Path, sam3: Path, dinov3: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    generate(cases, run, "--reference-roles", "identity,object,fashion")
    judge(
        "cogcanvas_background",
        run,
        segmenter__model=sam3,
        segmenter__device="cpu",
        embedder__model=dinov3,
        embedder__device="cpu",
        cache=tmp_path / "references",
    )
    (cell,) = next(iter(summarize(run).judges.values())).metrics.values()
    assert (cell.value, cell.n_scored, cell.n_na) == (None, 0, 3)
    assert BenchRun.read(run).config.reference_roles == ("fashion", "identity", "object")


def test_a_text_alone_is_asked_for_by_none(cases: Path, tmp_path: Path) -> None:
    generate(cases, tmp_path / "run", "--reference-roles", "none", "--max-references", "0", "--tasks", "text_to_image")
    run = BenchRun.read(tmp_path / "run")
    assert run.config.reference_roles == ()
    assert [candidate.status for candidate in run.candidates()] == ["ok"]
