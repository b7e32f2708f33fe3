from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import krippendorff
import pytest
from statsmodels.stats.inter_rater import aggregate_raters, fleiss_kappa

from data_build.preferences.decisions import Decision, MergeSettings
from data_build.preferences.merging import merge_annotations
from data_build.preferences.pairs import ProposedPair
from gnomon.cli import main
from gnomon.datasets import read_comparisons, validate
from gnomon.errors import UserError
from gnomon.images import content_hash
from gnomon.jsonl import read_records
from rm.data import ComparisonDataset
from tests.data_build.preferences.conftest import DIMENSIONS, write_pairs

ANNOTATORS, VERIFIERS = ("ann", "bob", "cy"), ("dan", "eve", "fay", "gil", "hal")
YES: dict[str, Any] = {"valid_task": True, "agrees": True}


class Sheet:
    """Annotations as a hand writes them down, and on which line each is."""

    def __init__(self, lines: Sequence[dict[str, Any]] = ()) -> None:
        self.lines = list(lines)

    def add(self, pair: str, dimension: str, **said: Any) -> None:
        self.lines.append({"pair": pair, "dimension": dimension, **said})

    def propose(self, pair: str, dimension: str, *labels: str) -> None:
        for annotator, label in zip(ANNOTATORS, labels, strict=False):
            self.add(pair, dimension, annotator=annotator, label=label)

    def verify(self, pair: str, dimension: str, count: int = 5) -> None:
        for verifier in VERIFIERS[:count]:
            self.add(pair, dimension, annotator=verifier, **YES)

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in self.lines))
        return path


def twelve(pairs: list[ProposedPair]) -> tuple[Sheet, dict[tuple[str, str], tuple[str, str | None]]]:
    """Four pairs in three dimensions, each of which ends in another way; with the outcomes, decided by hand."""
    instruction, consistency, quality = DIMENSIONS
    a, b, c, d = (pair.id for pair in pairs)
    sheet = Sheet()
    sheet.propose(a, instruction, "first", "first", "first")
    sheet.verify(a, instruction)
    sheet.propose(a, consistency, "tie", "tie", "tie")
    sheet.verify(a, consistency)
    sheet.propose(a, quality, "second", "tie", "second")
    sheet.add(a, quality, by=["ann", "bob"], label="second")
    sheet.verify(a, quality)
    sheet.propose(b, instruction, "first", "second", "first")
    sheet.add(b, instruction, by=["ann"], remove=True)
    sheet.propose(b, consistency, "first", "second", "first")
    sheet.propose(b, quality, "unclear", "unclear", "unclear")
    sheet.propose(c, instruction, "first", "first", "first")
    sheet.add(c, instruction, annotator="cy", label="second")
    sheet.verify(c, instruction)
    sheet.propose(c, consistency, "first", "first")
    sheet.propose(c, quality, "first", "first", "first")
    sheet.verify(c, quality, 4)
    sheet.add(c, quality, annotator="hal", valid_task=True, agrees=False)
    sheet.propose(d, instruction, "second", "second", "second")
    sheet.verify(d, instruction, 4)
    sheet.add(d, instruction, annotator="hal", valid_task=False, agrees=True)
    sheet.propose(d, consistency, "second", "second", "second")
    sheet.verify(d, consistency, 4)
    return sheet, {
        (a, instruction): ("kept", "first"),
        (a, consistency): ("kept", "tie"),
        (a, quality): ("kept", "second"),
        (b, instruction): ("removed", None),
        (b, consistency): ("undecided", None),
        (b, quality): ("undecided", None),
        (c, instruction): ("contradictory", None),
        (c, consistency): ("too_few_annotators", None),
        (c, quality): ("rejected", "first"),
        (d, instruction): ("rejected", "second"),
        (d, consistency): ("too_few_verifiers", "second"),
        (d, quality): ("not_annotated", None),
    }


def test_twelve_items_merged_by_hand(pairs: list[ProposedPair], tmp_path: Path) -> None:
    sheet, expected = twelve(pairs)
    file = sheet.write(tmp_path / "annotations" / "all.jsonl")
    out = tmp_path / "out"

    summary = merge_annotations(tmp_path / "pairs", tmp_path / "annotations", out)

    decisions = read_records(out / "decisions.jsonl", Decision)
    assert {(one.pair, one.dimension): (one.outcome, one.label) for one in decisions} == expected
    for one in decisions:
        lines = [
            number
            for number, line in enumerate(sheet.lines, 1)
            if (line["pair"], line["dimension"]) == (one.pair, one.dimension)
        ]
        if one.outcome != "contradictory":
            assert one.records == [f"{file}:{line}" for line in lines], one
    contradictory = next(one for one in decisions if one.outcome == "contradictory")
    places = [
        f"{file}:{number}"
        for number, line in enumerate(sheet.lines, 1)
        if line.get("annotator") == "cy" and line["pair"] == pairs[2].id and line["dimension"] == DIMENSIONS[0]
    ]
    assert len(places) == 2
    assert all(place in contradictory.reason and place in contradictory.records for place in places)

    (comparison,) = read_comparisons(out)
    first, second = pairs[0].first, pairs[0].second
    assert comparison.id == pairs[0].case_id
    assert {image.path for image in comparison.candidates} == {first, second}
    names = {image.path: name for image, name in zip(comparison.candidates, "ij", strict=True)}
    judged = {one.dimension: (one.label, one.votes, one.margin) for one in comparison.judgements}
    assert judged == {
        DIMENSIONS[0]: (names[first], {names[first]: 3}, 1.0),
        DIMENSIONS[1]: ("tie", {"tie": 3}, 0.0),
        DIMENSIONS[2]: (names[second], {names[second]: 2, "tie": 1}, pytest.approx(2 / 3)),
    }
    assert content_hash(out / first) == content_hash(tmp_path / "pairs" / first)
    assert (summary.num_pairs, summary.num_items, summary.num_comparisons) == (4, 12, 1)
    assert sum(sum(outcomes.values()) for outcomes in summary.outcomes.values()) == 12
    assert summary.problems == {"contradictory": 1, "nothing_to_verify": 5}


def test_the_result_is_what_reward_models_take(pairs: list[ProposedPair], tmp_path: Path) -> None:
    sheet, _ = twelve(pairs)
    half, rest = Sheet(sheet.lines[:20]), Sheet(sheet.lines[20:])
    half.write(tmp_path / "annotations" / "half.jsonl")
    files = f"[{tmp_path / 'annotations'},{rest.write(tmp_path / 'rest.jsonl')}]"
    argv = ["--pairs", str(tmp_path / "pairs"), "--annotations", files]

    assert main(["data", "merge-annotations", *argv, "--out", str(tmp_path / "out")]) == 0

    assert main(["data", "validate", str(tmp_path / "out")]) == 0
    dataset = ComparisonDataset(tmp_path / "out", read_comparisons(tmp_path / "out"), DIMENSIONS)
    assert sum(count.decided + count.ties for count in dataset.counts().values()) == 3


def test_other_numbers_of_people(pairs: list[ProposedPair], tmp_path: Path) -> None:
    sheet = Sheet()
    sheet.propose(pairs[0].id, DIMENSIONS[0], "first")
    sheet.add(pairs[0].id, DIMENSIONS[0], annotator="dan", **YES)
    file = sheet.write(tmp_path / "annotations.jsonl")

    summary = merge_annotations(tmp_path / "pairs", [file], tmp_path / "out", MergeSettings(1, 1))

    assert summary.outcomes[DIMENSIONS[0]]["kept"] == 1
    with pytest.raises(UserError, match="num_verifiers >= 1"):
        MergeSettings(3, 0)


def test_a_discussion_that_overrules_all_is_a_contradiction(pairs: list[ProposedPair], tmp_path: Path) -> None:
    sheet = Sheet()
    for pair, label in zip(pairs[:2], ("first", "tie"), strict=True):
        sheet.propose(pair.id, DIMENSIONS[0], "first", "first", "first")
        sheet.add(pair.id, DIMENSIONS[0], by=["ann"], label=label)
        sheet.verify(pair.id, DIMENSIONS[0])
    file = sheet.write(tmp_path / "annotations.jsonl")

    merge_annotations(tmp_path / "pairs", [file], tmp_path / "out")

    outcomes = {
        one.pair: one.outcome
        for one in read_records(tmp_path / "out" / "decisions.jsonl", Decision)
        if one.dimension == DIMENSIONS[0]
    }
    assert (outcomes[pairs[0].id], outcomes[pairs[1].id]) == ("kept", "contradictory")


def test_agreement_is_that_of_other_libraries(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs", num_cases=3)
    table = [
        ("first", "first", "tie"),
        ("second", "second", "second"),
        ("tie", "first", "second"),
        ("tie",) * 3,
        ("first", "first", "unclear"),
        ("second", "second", "tie"),
    ]
    sheet = Sheet()
    for pair, labels in zip(pairs, table, strict=True):
        sheet.propose(pair.id, DIMENSIONS[0], *labels)
        if len(set(labels)) == 1:
            sheet.verify(pair.id, DIMENSIONS[0])

    file = sheet.write(tmp_path / "annotations.jsonl")
    summary = merge_annotations(tmp_path / "pairs", [file], tmp_path / "out")

    found = summary.agreement["annotators"][DIMENSIONS[0]]
    codes = [[("first", "second", "tie", "unclear").index(label) for label in labels] for labels in table]
    assert found["fleiss_kappa"]["value"] == pytest.approx(fleiss_kappa(aggregate_raters(codes)[0]))
    alpha = krippendorff.alpha([list(rater) for rater in zip(*codes, strict=True)], level_of_measurement="nominal")
    assert found["krippendorff_alpha"]["value"] == pytest.approx(alpha)
    assert found["fleiss_kappa"]["n_items"] == 6
    assert summary.agreement["verifiers"][DIMENSIONS[0]]["fleiss_kappa"]["value"] is None


def test_nothing_kept_is_an_error_that_points_to_the_reasons(
    pairs: list[ProposedPair], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = Sheet()
    sheet.propose(pairs[0].id, DIMENSIONS[0], "first", "tie", "second")
    file = sheet.write(tmp_path / "annotations.jsonl")
    argv = ["--pairs", str(tmp_path / "pairs"), "--annotations", str(file), "--out", str(tmp_path / "out")]

    assert main(["data", "merge-annotations", *argv]) == 1

    assert "none of 12" in capsys.readouterr().err
    counts = Counter(one.outcome for one in read_records(tmp_path / "out" / "decisions.jsonl", Decision))
    assert counts == {"undecided": 1, "not_annotated": 11}
    assert not (tmp_path / "out" / "comparisons.jsonl").exists()


def test_a_folder_without_pairs_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    with pytest.raises(UserError, match=r"it has no pairs\.jsonl"):
        merge_annotations(tmp_path, [tmp_path / "a.jsonl"], tmp_path / "out")


def test_a_kill_at_any_moment_loses_nothing(tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs", num_cases=150)
    sheet = Sheet()
    for pair in pairs:
        sheet.propose(pair.id, DIMENSIONS[0], "first", "first", "first")
        sheet.verify(pair.id, DIMENSIONS[0])
    file = sheet.write(tmp_path / "annotations.jsonl")
    command = [sys.executable, "-c", "import sys; from gnomon.cli import main; sys.exit(main())"]
    command += ["data", "merge-annotations", "--pairs", str(tmp_path / "pairs"), "--annotations", str(file), "--out"]
    for number, (name, least) in enumerate([("images", 5), ("references", 100), ("decisions.jsonl", 0)]):
        out = tmp_path / f"killed-{number}"
        with subprocess.Popen([*command, str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            while not _is_there(out / name, least):
                assert process.poll() is None
                time.sleep(0.0005)
            os.kill(process.pid, signal.SIGKILL)
        merge_annotations(tmp_path / "pairs", [file], out)
    merge_annotations(tmp_path / "pairs", [file], tmp_path / "whole")

    whole = _files(tmp_path / "whole")
    assert len(whole) > 600
    for number in range(3):
        assert _files(tmp_path / f"killed-{number}") == whole
    assert validate(tmp_path / "whole").ok


def _is_there(path: Path, least: int) -> bool:
    return path.exists() and (path.is_file() or len(list(path.glob("*.png"))) >= least)


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in ("manifest.json", ".lock")
    }
