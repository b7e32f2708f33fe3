"""Pages about checklists: numbers times 100, what does not look, questions most often failed, answers with reasons."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest

from bench.folder import BenchRun
from bench.report.blocks import Noted
from bench.report.checklists import checklist_table
from bench.report.controls import constant_results
from bench.report.display import Display
from bench.report.examples import JudgedRun
from bench.report.failed_questions import failed_question_tables
from bench.report.leaderboard import write_leaderboard_page
from bench.report.pages import run_page
from bench.workflow import summarize
from gnomon.records import Case, Question, Status, Text, Verdict
from gnomon.statistics import Estimate

Runs = tuple[Path, Path]


def question(name: str, *, expected: bool = True, depends_on: list[str] | None = None) -> Question:
    return Question(id=name, text=Text(en=name), dimension="following", expected=expected, depends_on=depends_on or [])


def case_of(*questions: Question, benchmark: str = "mdmr-bench", name: str = "c") -> Case:
    return Case(
        id=name,
        benchmark=benchmark,
        task="entity_fusion",
        subtask="people",
        instruction=Text(en="x"),
        questions=list(questions),
    )


def answers(given: Mapping[str, float | Status]) -> dict[str, Verdict]:
    return {
        name: Verdict(
            case_id="c",
            generator="g",
            metric=name,
            value=value if isinstance(value, float) else None,
            status="ok" if isinstance(value, float) else value,
            rationale=f"why {name}",
            judge="j",
        )
        for name, value in given.items()
    }


def test_a_checklist_shows_answers_failures_and_what_is_still_to_be_asked() -> None:
    case = case_of(
        question("hat"),
        question("scar", expected=False),
        question("dog"),
        question("tail", depends_on=["dog"]),
        question("cat"),
        question("sun"),
    )
    given: dict[str, float | Status] = {"hat": 0.7, "scar": 1.0, "dog": 0.0, "tail": 1.0, "cat": "refused"}
    table = checklist_table(case, answers(given), "by j")
    assert table.caption == "by j: 1 of 4 right, 2 without an answer"
    shown = {str(row[0]): row[1] for row in table.rows}
    denied = "counts as wrong, since a question that it depends on was denied"
    assert shown == {
        "hat": Noted("yes: right", ["why hat"]),
        "scar": Noted("yes: wrong", ["why scar"]),
        "dog": Noted("no: wrong", ["why dog"]),
        "tail": Noted("yes: wrong", ["why tail", denied]),
        "cat": Noted("refused", ["why cat"]),
        "sun": Noted("not asked yet"),
    }


def test_only_metrics_of_a_benchmark_with_a_scale_are_multiplied() -> None:
    mdmr = Display([case_of()])
    assert (mdmr.factor("overall"), mdmr.factor("brightness"), mdmr.times) == (100, 1, 100)
    assert "times 100" in mdmr.note
    for other in (Display([case_of(benchmark="grey")]), Display([case_of(), case_of(benchmark="grey")]), Display([])):
        assert (other.factor("overall"), other.note) == (1, "")


def test_a_judge_that_says_the_same_of_everything_by_hand() -> None:
    """Two of three questions expect yes: 2/3 by always yes, 1/3 by always no."""
    cases = {"c": case_of(question("a"), question("b"), question("d", expected=False))}
    assert constant_results(cases, 1.0)["overall"].value == pytest.approx(2 / 3)
    assert constant_results(cases, 0.0)["overall"].value == pytest.approx(1 / 3)
    assert constant_results(cases, 1.0)["minimality"].value is None


def rows_of(html: str, caption: str) -> dict[str, list[str]]:
    """Return the cells of the table of that caption, by the first of each row."""
    table = html[html.index(f"<figcaption>{caption}") :]
    body = table[table.index("<tbody>") : table.index("</tbody>")]
    rows = [
        re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL)
        for row in re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    ]
    texts = [[re.sub(r"<[^>]*>", "", cell) for cell in row] for row in rows]
    return {row[0]: row[1:] for row in texts}


def test_a_runs_page_shows_its_final_numbers_times_100(checklist_runs: Runs) -> None:
    run, results = BenchRun.read(checklist_runs[1]), summarize(checklist_runs[1])
    html = run_page(run, results, num_examples=1).render()
    metrics = results.judges["rules"].metrics
    assert "Scores and shares are shown times 100." in html
    final = metrics["overall"].final
    assert final is not None
    assert final.value is not None
    assert f'<dd class="value">{100 * final.value:.2f}</dd>' in html
    family = final.groups["entity_fusion"].value
    assert family is not None
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", html)
    assert f"{100 * family:.1f}" in drawn
    beside = rows_of(html, "rules beside judges that do not look")
    assert list(beside) == ["bright", "(always yes)", "(always no)"]
    # The seven or eight questions of a case expect yes but for that on minimality.
    assert beside["(always yes)"][:4] == ["100.00 100.00 to 100.00"] * 3 + ["0.000 no interval"]
    stored = json.loads((checklist_runs[1] / "results.json").read_text())
    assert stored["judges"]["rules"]["metrics"]["overall"]["final"]["value"] == final.value


def test_the_leaderboard_is_ordered_by_the_final_number_and_lists_families(
    checklist_runs: Runs, tmp_path: Path
) -> None:
    html = write_leaderboard_page(checklist_runs, tmp_path / "out", num_examples=0).read_text()
    board = rows_of(html, "Final scores: the mean over every family of its subtask means, judged by rules")
    assert list(board) == ["plain &lt;b&gt;copy&lt;/b&gt;", "bright"]
    results = [summarize(run).judges["rules"].metrics["overall"] for run in checklist_runs]
    for cells, one in zip(board.values(), results, strict=True):
        assert one.headline.value is not None
        assert cells[0].startswith(f"{100 * one.headline.value:.2f} ")
    families = rows_of(html, "overall by family, the mean of its subtask means")
    assert len(families["bright"]) == 6
    assert html.count("every family by dimension") == 2, "a heat map of each run"


def test_questions_most_often_failed_are_those_that_the_samples_say(checklist_runs: Runs) -> None:
    judged = [JudgedRun.read(BenchRun.read(run)) for run in checklist_runs]
    kinds, single = failed_question_tables(judged, judged[0].judges[0])
    counts: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for run in checklist_runs:
        cases = BenchRun.read(run).cases
        verdicts = [json.loads(line) for line in (run / "samples.jsonl").read_text().splitlines()]
        seen = {(one["case_id"], one["seed"], one["metric"]): one["value"] for one in verdicts}
        for (case_id, seed, name), value in seen.items():
            (asked,) = (one for one in cases[case_id].questions if one.id == name)
            denied = any(seen[case_id, seed, parent] == 0 for parent in asked.depends_on)
            if value is not None or denied:
                counts[case_id, name].append(denied or (value == 1) != asked.expected)
    expected = sorted((sum(wrong) / len(wrong), len(wrong)) for wrong in counts.values() if len(wrong) > 1)[::-1]
    shown = [(int(str(row[3])) / int(str(row[4])), row[4]) for row in single.rows]
    assert shown == expected[: len(shown)]
    assert len(shown) == 20
    assert {str(row[0]) for row in kinds.rows} <= {"color", "references", "the whole"}
    shares = [row[3].value for row in kinds.rows if isinstance(row[3], Estimate)]
    assert shares == sorted(shares, reverse=True)
    assert all(isinstance(row[4], int) and row[4] >= 5 for row in kinds.rows)
