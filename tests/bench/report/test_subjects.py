"""The table of painted subjects on a page."""

from __future__ import annotations

from bench.cogcanvas.subjects import subject_results
from bench.report.document import Report
from bench.report.subjects import add_subjects
from bench.results import Results, SubjectResults
from bench.text import results_text
from gnomon.records import Candidate, Case, Reference, Text


def results(subjects: dict[str, SubjectResults]) -> Results:
    return Results(
        generator="g", benchmarks=["cogcanvas"], dataset="d", seed=0, repeats=1, num_cases=1, candidates={}, judges={},
        subjects=subjects,
    )  # fmt: skip


def found() -> dict[str, SubjectResults]:
    case = Case(
        id="c",
        benchmark="cogcanvas",
        task="reference_generation",
        instruction=Text(en="Ann"),
        references=[Reference(path="a.png", role="identity", name="Ann")],
    )
    told = [
        {"reference": "a.png", "name": "Ann", "tries": 2, "seconds": 1.5, "problem": "<gone>"},
        {"reference": "b.png", "name": "cup", "tries": 1, "seconds": 0.5, "problem": None},
    ]
    made = Candidate(case_id="c", generator="g", seed=0, path="p.png", sampling={"subjects": told})
    return subject_results([made], {"c": case})


def test_each_run_has_a_row_for_each_number_of_people() -> None:
    report = Report("a page")
    add_subjects(report, [("first", results(found())), ("silent", results({}))])
    page = report.render()
    assert page.count("Subjects by number of people") >= 1
    assert "&lt;gone&gt; (1)" in page
    assert "silent" not in page


def test_a_page_without_subjects_says_nothing_of_them() -> None:
    report = Report("a page")
    add_subjects(report, [("first", results({}))])
    assert "Subjects" not in report.render()


def test_the_text_has_counts_and_seconds() -> None:
    text = results_text(results(found()))
    assert "subjects of 1 people: given up 0.500 of 2, tried again 0.500, seconds a subject 1.000 (n = 2)" in text
    assert "subjects of all:" in text
    assert "subjects of" not in results_text(results({}))
