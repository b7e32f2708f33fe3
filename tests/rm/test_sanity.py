"""Judges that look react to what is spoilt, and those that do not are refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.images import load_image, save_png
from gnomon.records import ComparedImage, Comparison, Judgement, Reference, Text, Verdict
from rm.cli import evaluate
from rm.judge import JudgeRequest
from rm.reward_model import RewardModel
from rm.sanity import KINDS, blind_spots, react, spoil
from rm.scorers import read_judged

Draw = Callable[..., Image.Image]
INSTRUCTIONS = ("add", "make the circle red", "remove a square", "move the triangle to the left")


class Brightness:
    """Scores brightness, or less of the world."""

    name, fingerprint = "brightness", "brightness"
    metrics: tuple[str, ...] = ("overall",)

    def __init__(self, sees: Sequence[str] = ("picture", "instruction")) -> None:
        self.sees = sees

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        return [self._one(request) for request in requests]

    def _one(self, request: JudgeRequest) -> Verdict:
        assert request.image is not None
        pixels = np.asarray(load_image(request.image), dtype=np.float64)
        # Steepness sees blurring and blocks, which leave the mean nearly as it is.
        value = float(pixels.mean() + np.abs(np.diff(pixels, axis=0)).mean()) if "picture" in self.sees else 1.0
        if "instruction" in self.sees:
            value += len(request.case.instruction.get("en"))
        return Verdict(
            case_id=request.case.id, generator="x", metric=request.metric, value=value, judge=self.fingerprint
        )


@pytest.fixture
def data(make_picture: Draw, tmp_path: Path) -> Path:
    """Write four comparisons whose first candidate is better, with four instructions of different lengths."""
    root = tmp_path / "data"
    records = []
    for number in range(4):
        names = [f"{number}_{part}.png" for part in ("source", "good", "bad")]
        for position, name in enumerate(names):
            save_png(make_picture(10 * number + position, (40, 32)), root / name)
        records.append(
            Comparison(
                id=f"c{number}",
                instruction=Text(en=INSTRUCTIONS[number]),
                references=[Reference(path=names[0])],
                candidates=[ComparedImage(path=names[1]), ComparedImage(path=names[2])],
                judgements=[Judgement(i=1, j=0, dimension="overall", label="j" if number else "tie")],
                group_id=f"g{number}",
            )
        )
    write_records(root / "comparisons.jsonl", records)
    return root


def test_every_kind_is_made_of_the_better_candidate(data: Path, tmp_path: Path) -> None:
    spoilt = spoil(read_judged(data), data, tmp_path / "sanity", limit=2)
    assert [entry.comparison.id for entry in spoilt] == ["c1"] * 6 + ["c2"] * 6  # c0 is a tie
    assert {entry.kind for entry in spoilt} == set(KINDS)
    by_kind = {entry.kind: entry for entry in spoilt[:6]}
    assert {entry.original.name for entry in spoilt[:6]} == {"1_good.png"}
    assert by_kind["source"].spoilt.name == "1_source.png"
    assert by_kind["foreign_edit"].spoilt.name == "2_good.png"
    assert by_kind["foreign_edit"].instruction.en == INSTRUCTIONS[1]
    assert by_kind["foreign_instruction"].spoilt.name == "1_good.png"
    assert by_kind["foreign_instruction"].instruction.en == INSTRUCTIONS[2]
    assert not np.asarray(load_image(by_kind["black"].spoilt)).any()
    original = np.asarray(load_image(by_kind["blur"].original), dtype=np.float64)
    for kind in ("blur", "jpeg"):
        changed = np.asarray(load_image(by_kind[kind].spoilt), dtype=np.float64)
        assert changed.shape == original.shape
        assert np.abs(changed - original).mean() > 1
        assert changed.std() < original.std()


def test_a_judge_that_looks_reacts_to_everything(data: Path, tmp_path: Path) -> None:
    spoilt = spoil(read_judged(data), data, tmp_path / "sanity", limit=9)
    figures = react(Brightness(), spoilt, data, metrics=["overall"])
    assert set(figures["overall"]) == set(KINDS)
    assert all(row["n"] == 3 and row["reacts"] == 1 for row in figures["overall"].values())
    assert figures["overall"]["black"]["lower"] == 1
    assert figures["overall"]["black"]["change"] < -100
    assert blind_spots(figures) == []


@pytest.mark.parametrize(
    ("sees", "blind"),
    [
        (("picture",), ["foreign_instruction"]),
        (("instruction",), ["source", "foreign_edit", "black", "blur", "jpeg"]),
        ((), ["source", "foreign_edit", "foreign_instruction", "black", "blur", "jpeg"]),
    ],
)
def test_what_a_judge_does_not_see_is_found(
    data: Path, tmp_path: Path, sees: tuple[str, ...], blind: list[str]
) -> None:
    spoilt = spoil(read_judged(data), data, tmp_path / "sanity", limit=9)
    assert blind_spots(react(Brightness(sees), spoilt, data, metrics=["overall"])) == blind


def test_a_reward_model_reacts_and_a_deaf_one_is_an_error(
    base_folder: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = RewardModel.from_base(base_folder, dimensions=["overall"])
    model.save_pretrained(tmp_path / "model")
    evaluate(judge=str(tmp_path / "model"), data=str(data), out=str(tmp_path / "run"), sanity=3)
    assert "share of spoilt edits that score lower" in capsys.readouterr().out
    deaf = RewardModel.from_base(base_folder, dimensions=["overall"])
    deaf.head.weight.data.zero_()
    deaf.save_pretrained(tmp_path / "deaf")
    with pytest.raises(UserError, match="source, foreign_edit, foreign_instruction, black, blur, jpeg"):
        evaluate(judge=str(tmp_path / "deaf"), data=str(data), out=str(tmp_path / "deaf-run"), sanity=3)
    results: dict[str, Any] = json.loads((tmp_path / "deaf-run" / "results.json").read_text())
    assert results["sanity"]["overall"]["black"]["reacts"] == 0  # the figures are there all the same


def test_ties_alone_make_no_sanity_set(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="all of them are ties"):
        spoil(read_judged(data)[:1], data, tmp_path / "sanity", limit=3)


def test_a_judge_of_pairs_is_refused_before_it_is_asked_anything(data: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="random answers pairs; leave --sanity out"):
        evaluate(judge="random", data=str(data), out=str(tmp_path / "run"), sanity=3)
    assert not (tmp_path / "run").exists()
