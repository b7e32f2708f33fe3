from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_build.pairs_from_edits import KINDS, build_pairs
from gnomon.datasets import read_comparisons, resolve, validate
from gnomon.errors import UserError
from gnomon.images import content_hash, load_image
from gnomon.records import Comparison
from rm.cli import evaluate


def picture(seed: int, size: tuple[int, int] = (40, 30)) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8))


def write_source(folder: Path, rows: object) -> Path:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for number in range(8):
        picture(number).save(folder / "data" / f"{number}.png")
    (folder / "edits.json").write_text(json.dumps(rows))
    return folder / "edits.json"


def row(before: int, after: int | None, **extra: object) -> dict[str, object]:
    output = {} if after is None else {"output": f"data/{after}.png"}
    return {"input": f"data/{before}.png", "instruction": f"turn {before} into {after}", **output, **extra}


ROWS = [
    row(0, 1, task="kubric"),
    row(2, 3),
    row(3, 2, id="its own id"),
    row(4, None),
    row(5, None, output=None),
    row(6, 6),
]


def test_identical_pictures_are_not_compared(tmp_path: Path) -> None:
    source = write_source(tmp_path, [*ROWS[:2], row(7, 8), row(7, 9)])
    Image.new("RGB", (40, 30), "white").save(tmp_path / "data" / "8.png")
    Image.new("RGB", (40, 30), "black").save(tmp_path / "data" / "9.png")

    summary = build_pairs(source, tmp_path / "out")

    ids = {comparison.id for comparison in read_comparisons(tmp_path / "out")}
    assert summary.num_identical == 3  # white and black are their own blurred copies, and black is black
    assert not ids & {"row-00002-blurred", "row-00003-blurred", "row-00003-black"}
    assert {"row-00002-black", "row-00002-unedited", "row-00003-unedited"} <= ids
    for comparison in read_comparisons(tmp_path / "out"):
        hashes = {content_hash(resolve(tmp_path / "out", candidate.path)) for candidate in comparison.candidates}
        assert len(hashes) == 2


def better(comparison: Comparison) -> str:
    (judgement,) = comparison.judgements
    assert (judgement.i, judgement.j, judgement.dimension) == (0, 1, "overall")
    return comparison.candidates[0 if judgement.label == "i" else 1].path


def worse(comparison: Comparison) -> str:
    (path,) = {candidate.path for candidate in comparison.candidates} - {better(comparison)}
    return path


def test_every_row_is_used_or_counted(tmp_path: Path) -> None:
    summary = build_pairs(write_source(tmp_path, ROWS), tmp_path / "out")

    assert summary.model_dump() == {
        "num_rows": 6,
        "num_triples": 3,
        "num_without_output": 2,
        "num_unchanged": 1,
        "num_without_foreign": 0,
        "num_identical": 0,
        "num_comparisons": 12,
    }
    assert json.loads((tmp_path / "out" / "summary.json").read_text()) == summary.model_dump()
    assert "2 rows without output, 1 whose output is the input" in (tmp_path / "out" / "README.md").read_text()
    assert validate(tmp_path / "out").ok


def test_the_true_edit_wins_against_each_kind(tmp_path: Path) -> None:
    build_pairs(write_source(tmp_path, ROWS), tmp_path / "out", licence="MIT")
    out = tmp_path / "out"
    comparisons = read_comparisons(out)
    originals = {f"row-{index:05d}": ROWS[index] for index in range(3)}

    assert Counter(comparison.meta["kind"] for comparison in comparisons) == dict.fromkeys(KINDS, 3)
    for comparison in comparisons:
        original = originals[comparison.group_id]
        edit, source = (load_image(tmp_path / str(original[key])) for key in ("output", "input"))
        assert content_hash(resolve(out, better(comparison))) == content_hash(edit)
        assert content_hash(resolve(out, comparison.references[0].path)) == content_hash(source)
        assert comparison.instruction.en == original["instruction"]
        assert (comparison.task, comparison.licence, comparison.source) == (original.get("task"), "MIT", "edits.json")
        other = load_image(resolve(out, worse(comparison)))
        match comparison.meta["kind"]:
            case "unedited":
                assert content_hash(other) == content_hash(source)
            case "black":
                assert other.getextrema() == ((0, 0),) * 3
                assert other.size == edit.size
            case "blurred":
                assert 0 < np.asarray(other, float).std() < np.asarray(edit, float).std()
            case "foreign":
                hashes = {content_hash(load_image(tmp_path / str(o["output"]))) for o in originals.values()}
                assert content_hash(other) in hashes - {content_hash(edit), content_hash(source)}


def test_no_side_is_the_better_bet(tmp_path: Path) -> None:
    rows = [row(before, after) for before in range(8) for after in range(8) if before != after]
    build_pairs(write_source(tmp_path, rows), tmp_path / "out")

    counts = Counter((c.meta["kind"], c.judgements[0].label) for c in read_comparisons(tmp_path / "out"))

    assert counts == {(kind, label): 28 for kind in KINDS for label in ("i", "j")}


def test_an_edit_without_a_foreign_one_is_counted(tmp_path: Path) -> None:
    summary = build_pairs(write_source(tmp_path, [row(0, 1)]), tmp_path / "out")

    assert (summary.num_without_foreign, summary.num_comparisons) == (1, 3)


def test_run_again_nothing_changes_and_another_seed_is_another_run(tmp_path: Path) -> None:
    source = write_source(tmp_path, ROWS)
    build_pairs(source, tmp_path / "out")
    before = (tmp_path / "out" / "comparisons.jsonl").read_bytes()

    build_pairs(source, tmp_path / "out")

    assert (tmp_path / "out" / "comparisons.jsonl").read_bytes() == before
    with pytest.raises(UserError, match="seed: 0 -> 1"):
        build_pairs(source, tmp_path / "out", seed=1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"input": "data/0.png"}, "expected a list of objects"),
        ([row(0, 1), {"input": "data/0.png"}], "row 1: expected a text under 'instruction', got None"),
        ([{**row(0, 1), "output": 3}], "row 0: expected a path under 'output', got 3"),
        ([row(0, 1), row(2, 77)], r"row 1: .*77\.png"),
        ([{**row(0, 1), "output": "../secret.png"}], "row 0: .*leaves the dataset folder"),
        ([row(0, None)], "at least one row with an output"),
        ([row(0, 0)], "at least one row with an output"),
    ],
)
def test_a_broken_source_is_named_with_its_row(rows: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        build_pairs(write_source(tmp_path, rows), tmp_path / "out")


def test_a_source_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "edits.json").write_text("[{")

    with pytest.raises(UserError, match="expected a JSON file"):
        build_pairs(tmp_path / "edits.json", tmp_path / "out")


def test_published_edits_become_pairs_that_control_judges_cannot_tell_apart(golden_data: Path, tmp_path: Path) -> None:
    source = golden_data / "AURORA-pairs" / "test_subset.json"

    summary = build_pairs(source, tmp_path / "out")

    assert (summary.num_rows, summary.num_triples, summary.num_without_output) == (16, 12, 4)
    assert summary.num_comparisons == 48
    strict = {}
    for judge in ("always-first", "random"):
        evaluate(judge=judge, data=str(tmp_path / "out"), out=str(tmp_path / judge))
        results = json.loads((tmp_path / judge / "results.json").read_text())
        strict[judge] = results["dimensions"]["overall"]["all"]
    assert (strict["always-first"]["n"], strict["always-first"]["strict"]) == (48, 0.5)
    assert strict["random"]["ci_low"] < 0.5 < strict["random"]["ci_high"]
