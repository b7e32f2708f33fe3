"""Pages of CogCanvas: axes by number of people, questions in two means, what was found in pictures, and no overall."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from bench.aggregation import metric_results
from bench.benchmarks import Score, known_benchmarks
from bench.checklists import question_results
from bench.cogcanvas.cases import NAME
from bench.folder import BenchRun
from bench.report.axes import (
    AxisRun,
    add_axes,
    add_prompts,
    axis_figures,
    axis_table,
    question_group_table,
    question_table,
)
from bench.report.blocks import Measured
from bench.report.controls import control_table
from bench.report.display import Display
from bench.report.document import Report
from bench.report.examples import JudgedRun
from bench.report.findings import candidate_findings
from bench.results import JudgeResult, Results
from bench.workflow import judge, summarize
from gnomon.jsonl import read_records
from gnomon.records import Case, Question, Reference, Text, Verdict
from gnomon.statistics import Estimate
from rm.protocols.controls import ConstantJudge

Runs = tuple[Path, Path]
ID_JUDGE = "id-sim (drawn faces + mean colour)"


@pytest.fixture(scope="module")
def results(scene_runs: Runs) -> list[Results]:
    return [summarize(run) for run in scene_runs]


def shown(scene_runs: Runs, results: list[Results]) -> tuple[list[AxisRun], Display]:
    display = Display(BenchRun.read(scene_runs[0]).cases.values())
    names = ("careful", "hasty")
    return [AxisRun(name, display.results(one).judges) for name, one in zip(names, results, strict=True)], display


def test_every_axis_stands_beside_the_others_by_number_of_people(scene_runs: Runs, results: list[Results]) -> None:
    runs, display = shown(scene_runs, results)
    assert display.benchmark is not None
    table = axis_table(runs, display.benchmark)
    assert table is not None
    assert table.columns == ["run", "number of people", "id_sim", "dino_sim", "bg_sim", "attr_vqa"]
    assert [row[:2] for row in table.rows[-4:]] == [
        ["careful", "5"],
        ["hasty", "5"],
        ["careful", "all"],
        ["hasty", "all"],
    ]
    last = table.rows[-1]
    identity, place = last[2], last[4]
    assert isinstance(identity, Measured)
    assert isinstance(place, Measured)
    value = results[1].judges[ID_JUDGE].metrics["id_sim"].value
    assert identity.estimate is not None
    assert value is not None
    assert identity.estimate.value == pytest.approx(100 * value)
    assert "1 failed" in identity.notes
    assert place.estimate is None, "blank where the method is given no background, and no zero"
    assert "7 not applicable" in place.notes
    figures = axis_figures(runs, display.benchmark)
    assert [figure.caption.split()[0] for figure in figures] == ["id_sim", "dino_sim", "bg_sim", "attr_vqa"]
    assert "hasty" not in figures[2].svg
    assert "hasty" in figures[0].svg


def test_what_is_known_of_a_drawing_is_what_the_judges_say(results: list[Results]) -> None:
    """The careful run draws everyone and everything; the hasty one lacks the second item and the last of 4 or 5."""
    careful, hasty = (one.judges[ID_JUDGE].metrics["id_sim"] for one in results)
    assert [cell.value for cell in careful.groups["num_people"].values()] == pytest.approx([1.0] * 4)
    assert [hasty.groups["num_people"][number].value for number in ("4", "5")] == pytest.approx([3 / 4, 4 / 5])
    items = results[1].judges["dino-sim (mean colour, drawn items)"].metrics["dino_sim"]
    assert {size: cell.value for size, cell in items.slices["size_category"].items()} == pytest.approx(
        {"small": 1.0, "large": 0.0}
    )
    assert items.slices["size_category"]["small"].failed == {"missing_output": 1}
    women = careful.slices["gender"]["woman"]
    assert (women.n_total, women.num_clusters) == (16, 8)


def test_questions_are_averaged_in_two_ways_with_counts(scene_runs: Runs, results: list[Results]) -> None:
    runs, display = shown(scene_runs, results)
    assert display.benchmark is not None
    table = question_table(runs, display.benchmark)
    assert table is not None
    whole = next(row for row in table.rows if row[:3] == ["hasty", "rules", "all"])
    prompts, questions = whole[3], whole[4]
    assert isinstance(prompts, Measured)
    assert isinstance(questions, Measured)
    right = results[1].judges["rules"].questions
    assert right is not None
    micro = right.right.groups["probe"]["positive"]
    assert micro.value is not None
    assert questions.estimate is not None
    assert questions.estimate.value == pytest.approx(100 * micro.value)
    assert prompts.notes[0] == "7 of 8 scored"
    groups = question_group_table(runs)
    assert groups is not None
    kinds = {str(row[2]).split(":")[0] for row in groups.rows}
    assert {"dimension", "probe", "gender", "object size", "number of people"} <= kinds


def test_controls_are_no_axis_and_stand_beside_attr_vqa(scene_runs: Runs) -> None:
    run = scene_runs[0]
    judge(run, ConstantJudge("yes"))
    judged = JudgedRun.read(BenchRun.read(run), "careful")
    display = Display(judged.run.cases.values())
    results = display.results(summarize(run))
    report = Report("page")
    add_axes(report, [(judged, results)], display.benchmark)
    html = report.render()
    assert "always-yes" not in html
    assert ">overall<" not in html
    beside = control_table("rules", [judged], [results.judges], display)
    assert beside is not None
    rows = {row[0]: row[1] for row in beside.rows}
    assert set(rows) == {"careful", "(always yes)", "(always no)", "(always-yes) careful"}
    shares = [rows[name] for name in ("(always yes)", "(always-yes) careful", "(always no)")]
    assert [one.value for one in shares if isinstance(one, Estimate)] == pytest.approx([100, 100, 0])
    (run / "judge_always-yes.json").unlink()


class Pictures(HTMLParser):
    """Collects the texts and the boxes of the drawings over pictures."""

    def __init__(self) -> None:
        super().__init__()
        self.boxes: list[dict[str, str | None]] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "rect" and any(name == "pointer-events" for name, _ in attrs):
            self.boxes.append(dict(attrs))


def test_what_was_found_is_drawn_where_it_is(scene_runs: Runs) -> None:
    judged = JudgedRun.read(BenchRun.read(scene_runs[0]), "careful")
    report = Report("page")
    add_prompts(report, [judged], known_benchmarks()[NAME], num_examples=1)
    html = report.render()
    parser = Pictures()
    parser.feed(html)
    places = {(box["x"], box["y"], box["width"], box["height"]) for box in parser.boxes}
    assert ("20.0", "60.0", "56.0", "56.0") in places  # Ann's face
    assert ("120.0", "150.0", "41.0", "41.0") in places  # the second item
    assert re.search(r">Bob &lt;b&gt; 100, \d/2</text>", html)
    assert "<title>right: Does Ann greet" in html or "<title>wrong: Does Ann greet" in html
    assert '<rect x="' in html[html.index("what is shaded is left out") :]


def test_a_missing_face_and_item_are_said_and_strangers_are_quiet(scene_runs: Runs) -> None:
    judged = JudgedRun.read(BenchRun.read(scene_runs[1]), "hasty")
    case = judged.run.cases["<scene> 3-0"]
    (candidate,) = judged.candidates[case.id]
    found = {one.title: one for one in candidate_findings(judged, case, candidate, {one.name for one in judged.judges})}
    faces = next(one for title, one in found.items() if "id-sim" in title)
    whole = faces.groups[0].pictures[0]
    assert whole.overlay is not None
    assert [mark.colour for mark in whole.overlay.marks] == [0, 1, 2]  # the matching gives Cem the stranger
    items = next(one for title, one in found.items() if "dino-sim" in title)
    assert "1 of 2 items; missing: blue bag" in items.groups[0].pictures[0].caption
    assert items.groups[2].pictures[1].image is None
    last = judged.run.cases["<scene> 5-0"]
    (candidate,) = judged.candidates[last.id]
    by_identity = candidate_findings(judged, last, candidate, {ID_JUDGE})
    assert len(by_identity) == 1
    assert "4 faces; without one: Eve" in by_identity[0].groups[0].pictures[0].caption
    assert by_identity[0].groups[5].pictures[1].caption == "no face"
    crop = by_identity[0].groups[1].pictures[1].image
    assert crop is not None
    assert not isinstance(crop, Path)
    assert crop.size == (56, 56)
    assert crop.getpixel((20, 20)) == (230, 120, 90)


def test_another_judges_words_draw_nothing(scene_runs: Runs) -> None:
    judged = JudgedRun.read(BenchRun.read(scene_runs[0]))
    case = judged.run.cases["<scene> 2-0"]
    (candidate,) = judged.candidates[case.id]
    item = candidate.case_id, candidate.seed
    (entry,) = (one for one in judged.judges if one.name == ID_JUDGE)
    for raw in (None, "", "not JSON", "[]", '{"size": [480, 320], "faces": [{"box": [1]}], "people": []}'):
        verdict = judged.verdicts[entry.fingerprint, "id_sim"][item].model_copy(update={"raw": raw})
        changed = JudgedRun(
            judged.run, "x", [entry], {(entry.fingerprint, "id_sim"): {item: verdict}}, judged.scores, judged.candidates
        )
        assert candidate_findings(changed, case, candidate, {ID_JUDGE}) == []


def test_verdicts_hold_what_is_drawn(scene_runs: Runs) -> None:
    """The run folder alone has boxes and matches: no picture is looked at again to find them."""
    verdicts = read_records(scene_runs[0] / "samples.jsonl", Verdict)
    assert all(verdict.raw for verdict in verdicts if verdict.metric in ("id_sim", "dino_sim", "bg_sim"))


def test_two_tasks_are_not_averaged_together() -> None:
    """Of a run with pictures from text, those stand in a row of their own, and in no number of people."""
    references = [Reference(path=f"{name}.png", role="identity", name=name) for name in ("Ann", "Bob")]
    question = Question(id="q", text=Text(en="?"), dimension="attribute", about=["Ann"])
    cases = {
        task: Case(
            id=task,
            benchmark=NAME,
            task=task,
            instruction=Text(en="x"),
            references=references,
            questions=[question],
        )
        for task in ("reference_generation", "text_to_image")
    }
    answers = {(name, 0): {"q": Score(float(name == "text_to_image"))} for name in cases}
    scores = {"attr_vqa": {item: found["q"] for item, found in answers.items()}}
    result = JudgeResult(
        fingerprint="f",
        metrics=metric_results(list(answers), scores, cases),
        questions=question_results(answers, cases),
    )
    runs, benchmark = [AxisRun("a", {"j": result})], known_benchmarks()[NAME]
    for table in (axis_table(runs, benchmark), question_table(runs, benchmark)):
        assert table is not None
        names = table.columns.index("number of people")
        shown = {str(row[names]): row[names + 1] for row in table.rows}
        values = {name: cell.estimate for name, cell in shown.items() if isinstance(cell, Measured)}
        assert {name: None if one is None else one.value for name, one in values.items()} == {
            "2": 0.0,
            "all of reference_generation": 0.0,
            "all of text_to_image": 1.0,
        }
