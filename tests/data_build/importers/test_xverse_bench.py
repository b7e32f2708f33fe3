"""XVerseBench becomes cases whose questions depend on each other, and goes through Attr-VQA to the end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from PIL import Image

from bench.generators import FolderGenerator, file_stem
from bench.workflow import generate, judge, summarize
from gnomon.cli import main
from gnomon.datasets import read_cases
from gnomon.hashing import stable_seed
from gnomon.jsonl import read_records
from gnomon.records import Case, Verdict
from rm.protocols.checklist import ChecklistJudge
from rm.vlm.scripted import ScriptedVLM

FILES = ("single", "multi")


def run(source: Path, out: Path, *more: object) -> int:
    return main(["data", "import", "xverse-bench", "--from", str(source), "--out", str(out), *map(str, more)])


def prompt_row(prompt: str, *subjects: tuple[str, str]) -> dict[str, Any]:
    sources = [{"image_path": f"assets/{kind}/{word}.png", "caption": f"a {word}"} for kind, word in subjects]
    words = [[place, word, word] for place, (_, word) in enumerate(subjects)]
    return {"prompt": prompt, "modulation": [{"type": "adapter", "src_inputs": sources, "use_words": words}]}


def graph(prompt: str, *questions: tuple[str, str, list[int]]) -> dict[str, Any]:
    numbered = {str(number): one for number, one in enumerate(questions, start=1)}
    return {
        "prompt": prompt,
        "qid2tuple": {number: kind for number, (kind, _, _) in numbered.items()},
        "qid2dependency": {number: parents for number, (_, _, parents) in numbered.items()},
        "qid2question": {number: text for number, (_, text, _) in numbered.items()},
    }


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A release of two prompts, with pictures of four colours."""
    folder = tmp_path / "source"
    for kind, word in (("human", "man"), ("object", "kite"), ("animal", "polar bear")):
        (folder / "assets" / kind).mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (stable_seed(word) % 256, 9, 9)).save(folder / f"assets/{kind}/{word}.png")
    rows = [
        prompt_row("A man meets a man with a kite.", ("human", "man"), ("human", "man"), ("object", "kite")),
        prompt_row("A polar bear stands.", ("animal", "polar bear")),
    ]
    graphs = [
        graph(
            rows[0]["prompt"],
            ("entity - whole", "Is there a man?", [0]),
            ("entity - whole", "Is there a kite?", [0]),
            ("action -", "Does a man hold the kite?", [1, 2]),
            ("light", "Is it day?", [0]),
        ),
        graph(rows[1]["prompt"], ("attribute - state", "Is the Polar Bear standing?", [0])),
    ]
    (folder / "XVerseBench_multi.json").write_text(json.dumps(rows))
    (folder / "XVerseBench_multi_DSG.json").write_text(json.dumps(graphs))
    return folder


def test_a_release_is_imported_with_its_graph(source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert run(source, out) == 0
    printed = capsys.readouterr().out
    assert f"2 cases of 2 rows in {out}" in printed
    assert "never read: XVerseBench_multi_DSG.json; its questions go into" in printed
    first, second = read_cases(out)
    assert (first.benchmark, first.task, second.task) == ("xverse-bench", "multi_subject", "single_subject")
    assert [(one.role, one.name) for one in first.references] == [
        ("identity", "man"),
        ("identity", "man 2"),
        ("object", "kite"),
    ]
    assert [(one.dimension, one.depends_on, one.about) for one in first.questions] == [
        ("entity", [], []),  # which man is not said
        ("entity", [], ["kite"]),
        ("action", ["1", "2"], ["kite"]),
        ("other", [], []),
    ]
    assert second.questions[0].about == ["polar bear"]
    assert second.references[0].attributes == {"kind": "animal"}
    assert main(["bench", "validate", "--cases", str(out)]) == 0


def test_without_a_graph_there_are_no_questions(source: Path, tmp_path: Path) -> None:
    (source / "XVerseBench_multi_DSG.json").unlink()
    assert run(source, tmp_path / "out") == 0
    assert [case.questions for case in read_cases(tmp_path / "out")] == [[], []]


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        (
            lambda rows, graphs: graphs[0].update(prompt="x"),
            "bad_row",
            "expected questions of the same prompt in row 1",
        ),
        (lambda rows, graphs: graphs[0]["qid2dependency"].update({"3": [7]}), "bad_row", "are not there: 7"),
        (lambda rows, graphs: graphs[0]["qid2tuple"].pop("1"), "bad_row", "under the same numbers"),
        (lambda rows, graphs: graphs[0]["qid2question"].update({"1": ""}), "bad_row", "expected a text"),
        (lambda rows, graphs: graphs[0]["qid2question"].update({"1": 3}), "bad_row", "valid string"),
        (lambda rows, graphs: rows[0]["modulation"][0]["use_words"].pop(), "bad_row", "as many 'use_words'"),
        (lambda rows, graphs: rows[0].update(modulation=[]), "bad_row", "got 0 and 0"),
        (lambda rows, graphs: rows[0].update(prompt=" "), "bad_row", "expected a text under 'prompt'"),
        (
            lambda rows, graphs: rows[0]["modulation"][0]["src_inputs"][0].update(image_path="assets/human/gone.png"),
            "missing_picture",
            "there is no picture 'assets/human/gone.png'",
        ),
        (
            lambda rows, graphs: rows[0]["modulation"][0]["src_inputs"][0].update(image_path="../secret.png"),
            "bad_row",
            "below the source folder",
        ),
    ],
)
def test_a_row_that_cannot_be_used_is_named_and_the_others_go_on(
    change: Callable[[Any, Any], object], status: str, message: str, source: Path, tmp_path: Path
) -> None:
    files = [source / "XVerseBench_multi.json", source / "XVerseBench_multi_DSG.json"]
    contents = [json.loads(file.read_text()) for file in files]
    change(*contents)
    for file, content in zip(files, contents, strict=True):
        file.write_text(json.dumps(content))
    assert run(source, tmp_path / "out") == 0
    assert len(read_cases(tmp_path / "out")) == 1
    problem = json.loads((tmp_path / "out/problems.jsonl").read_text().splitlines()[0])
    assert (problem["row"], problem["status"]) == (1, status)
    assert message in problem["message"]


# ------------------------------------------------------------------------------------------------------ the real rows


@pytest.fixture(scope="module")
def release(golden_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real prompts and graphs, with drawn pictures in place of the portraits and photographs."""
    folder = tmp_path_factory.mktemp("xverse")
    for kind in FILES:
        for suffix in ("", "_DSG"):
            name = f"XVerseBench_{kind}{suffix}.json"
            (folder / name).write_bytes((golden_data / "XVerseBench" / name).read_bytes())
        for row in json.loads((folder / f"XVerseBench_{kind}.json").read_text()):
            for source in row["modulation"][0]["src_inputs"]:
                path = folder / source["image_path"]
                if not path.exists():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    Image.new("RGB", (4, 4), tuple((stable_seed(path.name) >> (8 * k)) % 256 for k in range(3))).save(
                        path
                    )
    return folder


@pytest.fixture(scope="module")
def imported(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("imported") / "cases"
    assert run(release, out) == 0
    return out


def test_every_real_prompt_becomes_a_case(imported: Path) -> None:
    cases = read_cases(imported)
    assert len(cases) == 210 + 90
    assert sum(len(case.questions) for case in cases) == 1517 + 399
    assert [sum(len(case.references) == number for case in cases) for number in (1, 2, 3)] == [90, 120, 90]
    assert all(len({one.name for one in case.references}) == len(case.references) for case in cases)
    first = next(case for case in cases if case.id.startswith("XVerseBench_multi"))
    assert first.instruction.en == "A man is riding a motorcycle."
    assert [(one.text.en, one.depends_on) for one in first.questions] == [
        ("Is there a man?", []),
        ("Is there a motorcycle?", []),
        ("Is the man riding the motorcycle?", ["1", "2"]),
    ]
    assert first.questions[2].about == ["man", "motorcycle"]


def test_real_prompts_go_through_attr_vqa_with_denied_parents(imported: Path, tmp_path: Path) -> None:
    """A scripted judge answers by lot; the share of right answers is counted again here, straight from the files."""
    cases = read_cases(imported)
    chosen = [case.id for case in cases[::10]]
    for case in chosen:
        picture = tmp_path / "pictures" / f"{file_stem(case)}.png"
        picture.parent.mkdir(exist_ok=True)
        Image.new("RGB", (6, 6), (stable_seed(case) % 256, 40, 90)).save(picture)
    made = generate(imported, tmp_path / "run", FolderGenerator(tmp_path / "pictures"), name="drawn", sample_ids=chosen)
    judge(made.path, ChecklistJudge(ScriptedVLM("random", answers=["Yes.", "No", "Yes"]), form="yes_no", name="dice"))
    result = summarize(made.path).judges["dice"]
    said = {
        (one.case_id, one.question_id): one.value == 1 for one in read_records(made.path / "samples.jsonl", Verdict)
    }
    shares = [_share(case, said) for case in cases if case.id in chosen]
    assert result.metrics["attr_vqa"].value == pytest.approx(fmean(shares))
    assert result.metrics["attr_vqa"].n_scored == len(chosen) == 30
    assert {"1", "2", "3"} == set(result.metrics["attr_vqa"].groups["num_subjects"])
    assert result.questions is not None
    assert result.questions.yes.value == pytest.approx(fmean(said.values()))
    assert result.questions.right.value is not None
    assert result.questions.yes.value is not None
    assert result.questions.right.value < result.questions.yes.value, "what depends on a denied question is denied"
    assert result.metrics["relation"].n_na + result.metrics["relation"].n_scored == 30


def _share(case: Case, said: dict[tuple[str, str | None], bool]) -> float:
    right = []
    for question in case.questions:
        parents = [said[case.id, parent] for parent in question.depends_on]
        right.append(said[case.id, question.id] and all(parents))
    return fmean(map(float, right))
