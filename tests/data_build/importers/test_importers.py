"""Every preference set from tiny real files of its own form to records, its traps included."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from PIL import Image

from data_build.importers.shell import PROBLEMS, import_dataset
from data_build.importers.table import IMPORTERS
from gnomon.datasets import read_comparisons, validate
from gnomon.images import load_image
from gnomon.records import Comparison

Rows = list[dict[str, Any]]


def pixels(seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8))


def png(seed: int, form: str = "PNG") -> bytes:
    buffer = io.BytesIO()
    pixels(seed).save(buffer, format=form)
    return buffer.getvalue()


class Source:
    """A downloaded preference set and the folder that it is imported into."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder / "source", folder / "out"
        self.folder.mkdir()

    def picture(self, path: str, seed: int) -> str:
        (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
        pixels(seed).save(self.folder / path)
        return path

    def pictures(self, *paths: str) -> None:
        for seed, path in enumerate(paths):
            self.picture(path, seed)

    def json(self, name: str, rows: object) -> None:
        (self.folder / name).write_text(json.dumps(rows))

    def lines(self, name: str, rows: Rows) -> None:
        (self.folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def parquet(self, name: str, rows: Rows) -> None:
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows), self.folder / name, row_group_size=2)

    def load(self, name: str, **settings: Any) -> list[Comparison]:
        import_dataset(name, IMPORTERS[name], self.folder, self.out, **settings)
        problems = [problem for problem in validate(self.out).problems if "conflicting" not in problem.message]
        assert problems == []
        return read_comparisons(self.out)

    def problems(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in (self.out / PROBLEMS).read_text().splitlines()]

    def seed_of(self, path: str) -> int:
        """Say which picture lies at a path."""
        found = np.asarray(load_image(self.out / path))
        return next(seed for seed in range(30) if np.array_equal(found, np.asarray(pixels(seed))))


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


def outcome(comparison: Comparison, dimension: str = "overall") -> str:
    """Return the generator or the path of the better one, or the kind of tie."""
    (judgement,) = [item for item in comparison.judgements if item.dimension == dimension]
    place = {"i": judgement.i, "j": judgement.j}.get(judgement.label)
    if place is None:
        return judgement.label
    candidate = comparison.candidates[place]
    return candidate.generator or candidate.path


def editreward_row(number: int, **changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "prompt": f"edit {number}",
        "choice_dist": None,
        "confidence": None,
        "path_src": "g/source.png",
        "path1": "g/one.png",
        "path2": "g/two.png",
        "model1": "better",
        "model2": "worse",
        "tie_case": False,
    }
    scores = {"dim1_score": (4, 2), "dim2_score": (1, 3), "overall_score": (5, 4)}
    for name, pair in scores.items():
        row |= {f"model{side}_{name}": value for side, value in zip((1, 2), pair, strict=True)}
    return row | changes


def test_editreward_data_says_which_is_better_and_not_that_the_first_is(source: Source) -> None:
    source.pictures("g/source.png", "g/one.png", "g/two.png")
    source.json("train.json", [editreward_row(number) for number in range(40)])
    source.json("valid_dataset_1.json", [editreward_row(0)])

    found = source.load("editreward-data")

    assert len(found) == 40  # the set's own validation rows are GenAI-Bench's, a test set
    assert {outcome(item) for item in found} == {"better"}
    assert {outcome(item, "instruction_following") for item in found} == {"better"}
    assert {outcome(item, "visual_quality") for item in found} == {"worse"}
    assert {item.candidates[0].generator for item in found} == {"better", "worse"}
    assert {item.split for item in found} == {"train"}
    assert len({item.group_id for item in found}) == 40
    first = found[0]
    one = next(candidate for candidate in first.candidates if candidate.generator == "better")
    assert one.scores == {"instruction_following": 4.0, "visual_quality": 1.0, "overall": 5.0}
    assert source.seed_of(one.path) == 1
    assert source.seed_of(first.references[0].path) == 0
    assert {item.dimension: item.margin for item in first.judgements} == {
        "instruction_following": 2.0,
        "visual_quality": 2.0,
        "overall": 1.0,
    }


def test_editreward_data_writes_a_tie_as_two_rows_that_contradict_each_other(source: Source) -> None:
    source.pictures("g/source.png", "g/one.png", "g/two.png")
    equal = {"model1_overall_score": 5, "model2_overall_score": 5}
    rows = [
        editreward_row(0, tie_case=True, **equal),
        editreward_row(0, tie_case=True, path1="g/two.png", path2="g/one.png", **equal),
        editreward_row(1, **equal),
        editreward_row(2, choice_dist=[3, 1], confidence=0.75),
        editreward_row(3, tie_case=True, model1_overall_score=None, model2_overall_score=None),
    ]
    source.json("train.json", rows)

    found = source.load("editreward-data")

    assert [outcome(item) for item in found] == ["tie", "tie", "tie", "better", "tie"]
    (judgement,) = [item for item in found[3].judgements if item.dimension == "overall"]
    assert judgement.votes is not None
    assert judgement.votes[judgement.label] == 3
    assert found[3].meta == {"confidence": 0.75}


def tiger_row(kind: str, ranking: str, comparison_type: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": f"7_{comparison_type}",
        "dataset": kind,
        "instruction": "edit",
        "source_image": {"bytes": png(0), "path": None},
        "candidate_1": {"bytes": png(1), "path": "a.png"},
        "candidate_2": {"bytes": png(2, "BMP"), "path": None},
        "ranking": ranking,
        "comparison_type": comparison_type,
        "model_1": "m1",
        "model_2": "m2",
        "overall_score_1": 3.0,
        "overall_score_2": 5.0,
        "instruction_following_1": 2.0,
        "instruction_following_2": 2.0,
        **changes,
    }


def test_tiger_editreward_bench_keeps_groups_and_both_kinds_of_ties(source: Source) -> None:
    rows = [
        tiger_row("2pair", "A>B", "AvsB"),
        tiger_row("2pair", "A=B=Good", "AvsB"),
        tiger_row("2pair", "A=B=Bad", "AvsB"),
        tiger_row("3pair", "C>A", "AvsC"),
        tiger_row("3pair", "C>A>B", "BvsC"),
        tiger_row("3pair", "C>A>B", "AvsB"),
    ]
    source.parquet("data/train-00000-of-00001.parquet", rows)

    found = source.load("tiger-editreward-bench")

    assert [outcome(item) for item in found] == ["m1", "tie_good", "tie_bad", "m2", "m2", "m1"]
    assert {item.split for item in found} == {"test"}  # whatever the file is called
    assert [item.meta["group"] for item in found] == ["7"] * 6
    assert [item.task for item in found] == ["2pair"] * 3 + ["3pair"] * 3
    assert outcome(found[0], "instruction_following") == "tie"
    assert [candidate.scores["overall"] for candidate in found[0].candidates] == [3.0, 5.0]
    assert [source.seed_of(candidate.path) for candidate in found[0].candidates] == [1, 2]
    assert len({path.name for path in (source.out / "images").iterdir()}) == 3  # equal bytes are one file


def test_editscore_editreward_bench_is_another_set(source: Source) -> None:
    rows = [
        {
            "key": ["a", "b"],
            "instruction": f"edit {number}",
            "input_image": {"bytes": png(0), "path": None},
            "output_images": [{"bytes": png(1), "path": None}, {"bytes": png(2), "path": None}],
            "task_type": "add",
            "dimension": ("prompt_following", "consistency", "overall")[number % 3],
        }
        for number in range(30)
    ]
    source.parquet("test.parquet", rows)

    found = source.load("editscore-editreward-bench")

    dimensions = [item.judgements[0].dimension for item in found]
    assert dimensions[:3] == ["prompt_following", "consistency", "overall"]
    assert {source.seed_of(outcome(item, item.judgements[0].dimension)) for item in found} == {1}
    assert {item.judgements[0].label for item in found} == {"i", "j"}
    assert found[0].task == "add"
    with pytest.raises(Exception, match="none of 30 can be used"):
        import_dataset("t", IMPORTERS["tiger-editreward-bench"], source.folder, source.out.with_name("other"))


def editscore_row(image: str, scores: object, instruction: str = "add a hat", **changes: Any) -> dict[str, Any]:
    reply = json.dumps({"reasoning": "three objects, 20 of them", "score": scores})
    asked = f"<image><image>\nRate from 0 to 25.\nEditing instruction: {instruction}"
    turns = [{"from": "human", "value": asked}, {"from": "gpt", "value": reply}]
    return {"conversations": turns, "images": ["s.png", image], **changes}


def test_editscore_reward_data_becomes_comparisons_of_one_source(source: Source) -> None:
    source.pictures("s.png", "a.png", "b.png", "c.png")
    broken = '{"reasoning": "it says "hat" here", "score": [25, 5]}'
    rows = [
        editscore_row("a.png", [20, 10]),
        editscore_row("b.png", [10, 10]),
        editscore_row("c.png", [1, 1], instruction="remove the hat"),
        editscore_row("c.png", [26, 1]),
        editscore_row("c.png", "many"),
        editscore_row("c.png", [1, 1]) | {"images": ["c.png"]},
        {
            "messages": [
                {"role": "user", "content": "Editing instruction: add a hat"},
                {"role": "assistant", "content": broken},
            ],
            "images": ["s.png", "c.png"],
        },
    ]
    source.json("data.json", rows)

    (found,) = source.load("editscore-reward-data")

    assert found.instruction.en == "add a hat"
    assert [candidate.path for candidate in found.candidates] == ["images/a.png", "images/b.png", "images/c.png"]
    labels = {(item.i, item.j, item.dimension): item.label for item in found.judgements}
    assert labels == {
        (0, 1, "prompt_following"): "i",
        (0, 1, "consistency"): "tie",
        (0, 2, "prompt_following"): "j",
        (0, 2, "consistency"): "i",
        (1, 2, "prompt_following"): "j",
        (1, 2, "consistency"): "i",
    }
    assert [(item["row"], item["status"]) for item in source.problems()] == [
        (4, "bad_row"),
        (5, "bad_row"),
        (6, "not_comparable"),
    ]


def test_hpdv3_has_votes_and_no_source(source: Source) -> None:
    source.pictures("one.png", "two.png")
    row = {"path1": "one.png", "path2": "two.png", "model1": "better", "model2": "worse", "confidence": 0.9}
    rows = [row | {"prompt": f"p{number}", "choice_dist": [9, 2]} for number in range(20)]
    source.json("test.json", [*rows, row | {"prompt": "p", "choice_dist": "9:2"}])

    found = source.load("hpdv3")

    assert {outcome(item) for item in found} == {"better"}
    assert {item.judgements[0].label for item in found} == {"i", "j"}
    for item in found:
        (judgement,) = item.judgements
        assert judgement.votes is not None
        assert judgement.votes[judgement.label] == 9
        assert item.references == []
    assert {item.split for item in found} == {"test"}
    assert [item["row"] for item in source.problems()] == [21]


def test_imagereward_compares_all_pairs_and_keeps_equal_ranks(source: Source) -> None:
    source.pictures("a.png", "b.png", "c.png", "d.png")
    row = {"id": "000-1", "prompt": "a cat", "generations": ["a.png", "b.png", "c.png", "d.png"]}
    source.json("validation.json", [row | {"ranking": [1, 2, 2, 4]}, row | {"ranking": [1, 2]}])

    (found,) = source.load("imagereward")

    assert len(found.candidates) == 4
    assert [item.label for item in found.judgements] == ["i", "i", "i", "tie", "i", "i"]
    assert found.split == "validation"
    assert source.problems()[0]["row"] == 2


def mmrb2_row(**changes: Any) -> dict[str, Any]:
    return {
        "id": "p1",
        "prompt_content": [["text", "put"], ["image", "s.png"], ["text", "beside"], ["image", "t.png"]],
        "response_a": {"model_name": "ma", "response_content": [["image", "a.png"]]},
        "response_b": {"model_name": "mb", "response_content": [["image", "b.png"]]},
        "chosen": "B",
        "human_annotations": [{"score": 4}, {"score": 5}, {"score": 6}],
        "prompt_source": "dreambench",
        "prompt_metadata": {"x": 1},
        **changes,
    }


def test_mmrb2_reads_both_spellings_and_several_references(source: Source) -> None:
    source.pictures("s.png", "t.png", "a.png", "b.png")
    other = mmrb2_row(chosen="A", response_a={"model": "ma", "response_content": [["image", "a.png"]]})
    other["pair_id"] = other.pop("id")
    turns = {"model_name": "ma", "response_content": [["text", "first"], ["image", "a.png"]]}
    rows = [mmrb2_row(), other, mmrb2_row(response_a=turns), mmrb2_row(chosen="C")]
    source.json("edit.json", {"pairs": rows})

    found = source.load("mmrb2")

    assert [outcome(item) for item in found] == ["mb", "ma"]
    assert [item.meta["original_id"] for item in found] == ["p1", "p1"]
    assert [reference.role for reference in found[0].references] == ["reference", "reference"]
    assert found[0].instruction.en == "put\nbeside"
    assert (found[0].task, found[0].split) == ("dreambench", "test")
    assert "not for training" in (found[0].licence or "")
    assert [(item["row"], item["status"]) for item in source.problems()] == [(3, "not_comparable"), (4, "bad_row")]


def test_genai_bench_tells_good_ties_from_bad_ones(source: Source) -> None:
    edit = {
        "instruct_prompt": "edit",
        "source_image": {"bytes": png(0), "path": None},
        "left_output_image": {"bytes": png(1), "path": None},
        "right_output_image": {"bytes": png(2), "path": None},
        "left_model": "l",
        "right_model": "r",
    }
    votes = ["leftvote", "rightvote", "tievote", "bothbad_vote", "novote"]
    source.parquet("image_edition/test.parquet", [edit | {"vote_type": vote} for vote in votes])
    made = {"prompt": "a cat", "left_model": "l", "right_model": "r", "vote_type": "rightvote"}
    images = {"left_image": {"bytes": png(3), "path": None}, "right_image": {"bytes": png(4), "path": None}}
    source.parquet("image_generation/test.parquet", [made | images])
    source.parquet("video_generation/test.parquet", [made | {"left_video": "a.mp4", "right_video": "b.mp4"}])

    found = source.load("genai-bench")

    assert [outcome(item) for item in found] == ["l", "r", "tie_good", "tie_bad", "r"]
    assert [item.task for item in found] == ["edit"] * 4 + ["generation"]
    assert [(item["row"], item["status"]) for item in source.problems()] == [(5, "bad_row"), (1, "not_comparable")]


def test_editreward_compass_has_dimensions_and_ties(source: Source) -> None:
    source.pictures("s.png", "w.png", "l.png", "t.png")
    row: dict[str, Any] = {"source_image": "s.png", "winner": "w.png", "loser": "l.png"}
    rows = [row | {"prompt": f"p{number}", "dimension": "IA", "label": "preference"} for number in range(20)]
    rows += [
        row | {"prompt": "p", "dimension": "VC", "label": "tie"},
        row | {"prompt": "p", "dimension": "VQ", "label": "preference", "source_image": ["s.png", "t.png"]},
        row | {"prompt": "p", "dimension": "XX", "label": "tie"},
    ]
    source.lines("test.jsonl", rows)

    found = source.load("editreward-compass")

    assert {outcome(item, "instruction_awareness") for item in found[:20]} == {"images/w.png"}
    assert {item.judgements[0].label for item in found[:20]} == {"i", "j"}
    assert outcome(found[20], "visual_consistency") == "tie"
    assert len(found[21].references) == 2
    assert [item["row"] for item in source.problems()] == [23]


def test_editreward_compass_has_the_task_that_its_source_s_path_names(source: Source) -> None:
    named = {
        "Part1/ADD/images/s.png": "add",
        "./Part3/Casual/s.png": "causal",
        "data/Part6/Complex_Paint_cn/CN/s.png": "complex_paint_cn",
        "Part2/ADD/s.png": None,
        "Math/s.png": None,
        "Part1/ADD.png": None,
        "s.png": None,
    }
    source.pictures("w.png", "l.png", *named)
    pair = {"winner": "w.png", "loser": "l.png", "dimension": "IA", "label": "preference"}
    several: list[tuple[list[str], str | None]] = [
        (["Part1/ADD/images/s.png", "s.png"], "add"),
        (["Part1/ADD/images/s.png", "./Part3/Casual/s.png"], None),
    ]
    sources: list[tuple[Any, str | None]] = [*named.items(), *several]
    sources.append(({"bytes": None, "path": "Part1/ADD/images/s.png"}, "add"))
    rows = [pair | {"prompt": f"p{number}", "source_image": given} for number, (given, _) in enumerate(sources)]
    source.json("test.json", rows)

    assert [item.task for item in source.load("editreward-compass")] == [task for _, task in sources]
