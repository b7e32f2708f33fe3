"""DSG's real questions and answers through the checklist engine give its published correlations with people."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import pytest

from bench.benchmarks import Score
from bench.checklists import question_results
from bench.folder import JudgeFile
from bench.mdmr.cases import NAME
from bench.results import Item
from bench.scores import all_scores, answers
from bench.statistics.correlations import kendall_tau_b, spearman
from bench.statistics.ratings import Bootstrap
from gnomon.records import Case, Question, Text, Verdict

JUDGE = JudgeFile(name="mplug", judge_class="mplug", fingerprint="mplug", metrics=[], asks_questions=True)
NO_INTERVAL = Bootstrap(num_resamples=0)
Picture = tuple[str, str]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def answered(golden_data: Path) -> dict[Picture, list[dict[str, str]]]:
    """The answers to each picture's questions, by model and item."""
    found: dict[Picture, list[dict[str, str]]] = defaultdict(list)
    for row in rows(golden_data / "DSG" / "vqa_answers" / "mplug_dsg.tifa160.csv"):
        found[row["t2i_model"], row["item_id"]].append(row)
    return found


@pytest.fixture(scope="module")
def human(golden_data: Path) -> dict[Picture, float]:
    """People's mean rating of each picture, 1 to 5."""
    stars: dict[Picture, list[float]] = defaultdict(list)
    for row in rows(golden_data / "DSG" / "tifa160-likert-anns.csv"):
        stars[row["t2i_model"], row["item_id"]].append(float(row["answer"]))
    return {picture: sum(given) / len(given) for picture, given in stars.items()}


def case_of(item_id: str, found: list[dict[str, str]], *, dependent: bool) -> Case:
    questions = []
    for row in found:
        # 0 stands for no parent, and one cell says "1, outside".
        named = [part.strip() for part in row["dependency_id"].split(",")]
        parents = [name for name in named if name.isdecimal() and name != "0"]
        text = Text(en=row["question"])
        questions.append(
            Question(
                id=row["question_id"],
                text=text,
                dimension="following",
                about=["instruction"],
                depends_on=parents if dependent else [],
            )
        )
    return Case(id=item_id, benchmark=NAME, task="entity_fusion", instruction=Text(en=item_id), questions=questions)


@pytest.mark.parametrize(
    ("dependent", "expected_spearman", "expected_kendall"), [(True, 0.463, 0.380), (False, 0.464, 0.378)]
)
def test_dsgs_correlations_come_out_of_the_checklist_engine(
    answered: dict[Picture, list[dict[str, str]]],
    human: dict[Picture, float],
    dependent: bool,
    expected_spearman: float,
    expected_kendall: float,
) -> None:
    scores: dict[Picture, Score] = {}
    for model in sorted({model for model, _ in human}):
        here = {item: answered.get((model, item), []) for one, item in human if one == model}
        cases = {item: case_of(item, found, dependent=dependent) for item, found in here.items()}
        verdicts: dict[tuple[str, str], dict[Item, Verdict]] = defaultdict(dict)
        for item, found in here.items():
            for row in found:
                verdicts["mplug", row["question_id"]][item, 0] = Verdict(
                    case_id=item,
                    generator=model,
                    metric=row["question_id"],
                    question_id=row["question_id"],
                    value=float(row["answer"] == "yes"),
                    judge="mplug",
                )
        items = [(item, 0) for item in cases]
        of_model = all_scores(items, verdicts, cases, JUDGE)["following"]
        scores |= {(model, item): score for (item, _), score in of_model.items()}
        counted = question_results(answers(items, verdicts, JUDGE), cases)
        assert counted.yes.n_scored == counted.yes.n_total == sum(map(len, here.values()))
        assert counted.yes.value == pytest.approx(
            sum(row["answer"] == "yes" for found in here.values() for row in found) / counted.yes.n_total
        )
    assert len(scores) == len(human) == 800
    # DSG counts the item without questions as 0; here it does not apply.
    assert {item for (_, item), score in scores.items() if score.status == "not_applicable"} == {"tifa160_134"}
    judged = [0.0 if (value := scores[picture].value) is None else value for picture in human]
    given = list(human.values())
    assert spearman(judged, given, NO_INTERVAL).value == pytest.approx(expected_spearman, abs=5e-4)
    assert kendall_tau_b(judged, given, NO_INTERVAL).value == pytest.approx(expected_kendall, abs=5e-4)
