"""Published agreement of people, and of a judge with people, comes out again from the published ratings."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.questions import with_dependencies
from bench.statistics.correlations import kendall_tau_b, spearman
from bench.statistics.majority import Majority, leave_one_out_majorities, majority_vote
from bench.statistics.ratings import Bootstrap, Ratings
from bench.statistics.reliability import fleiss_kappa, krippendorff_alpha
from gnomon.cli import main

AXES: dict[str, Callable[[float, float], float]] = {
    "SC": lambda semantic, quality: semantic,
    "PR": lambda semantic, quality: quality,
    "HumanEval": lambda semantic, quality: math.sqrt(semantic * quality),
}
NO_INTERVAL = Bootstrap(num_resamples=0)

Votes = dict[str, dict[str, list[tuple[float, float]]]]


def csv_rows(path: Path, delimiter: str = ",") -> list[dict[str, str]]:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(io.StringIO(data.decode("utf-8"), newline=""), delimiter=delimiter))


@pytest.fixture(scope="module")
def imagenhub(golden_data: Path) -> dict[str, Votes]:
    """Pairs of ratings by task, model and uid, one per rater."""
    votes: dict[str, Votes] = {}
    for folder in sorted((golden_data / "ImagenHub" / "human_ratings").iterdir()):
        task: Votes = defaultdict(lambda: defaultdict(list))
        for path in sorted(folder.glob("*.tsv")):
            for row in csv_rows(path, "\t"):
                for model, cell in row.items():
                    if model != "uid":
                        semantic, quality = json.loads(cell)
                        task[model][row["uid"]].append((semantic, quality))
        votes[folder.name] = task
    return votes


@pytest.fixture(scope="module")
def imagenhub_figures(golden_data: Path, imagenhub: dict[str, Votes]) -> list[dict[str, Any]]:
    text = (golden_data / "ImagenHub" / "golden_agreement.json").read_text(encoding="utf-8")
    figures = [figure for figure in json.loads(text) if figure["task"] in imagenhub]
    assert len(figures) > 80
    return figures


def table(votes: dict[str, dict[str, list[tuple[float, float]]]], model: str, axis: str) -> list[list[float]]:
    return [[AXES[axis](*pair) for pair in pairs] for pairs in votes[model].values()]


def test_imagenhubs_alphas_and_kappas_come_out_again(
    imagenhub: dict[str, Votes], imagenhub_figures: list[dict[str, Any]]
) -> None:
    undefined = []
    for figure in imagenhub_figures:
        ratings = Ratings.from_table(table(imagenhub[figure["task"]], figure["model"], figure["attr"]), "ordinal")
        statistic = fleiss_kappa if figure["stat"] == "fleiss_kappa" else krippendorff_alpha
        ours = statistic(ratings, NO_INTERVAL)
        if math.isnan(figure["value"]):
            assert ours.value is None
            assert ours.reason == "all ratings are equal, so that chance alone would agree as often"
            undefined.append((figure["task"], figure["model"], figure["attr"]))
        else:
            assert ours.value is not None, figure
            assert round(ours.value, 2) == pytest.approx(figure["value"]), figure
            assert ours.n_items == len(ratings.items)
            assert ours.n_raters == 3
    assert set(undefined) == {("Text-Guided_IE", "Imagic", "SC"), ("Text-Guided_IE", "Imagic", "HumanEval")}


def test_the_command_gives_imagenhubs_figures_for_every_model_at_once(
    imagenhub: dict[str, Votes], imagenhub_figures: list[dict[str, Any]], tmp_path: Path
) -> None:
    path, out = tmp_path / "ratings.csv", tmp_path / "agreement.json"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["group", "item", "rater", "value"])
        for model in imagenhub["Text-Guided_IE"]:
            for uid, pairs in imagenhub["Text-Guided_IE"][model].items():
                writer.writerows([model, uid, rater, pair[0]] for rater, pair in enumerate(pairs))
    arguments = ["--ratings", str(path), "--level", "ordinal", "--out", str(out), "--num-resamples", "50"]
    assert main(["bench", "agreement", *arguments]) == 0
    groups = json.loads(out.read_text(encoding="utf-8"))
    assert set(groups) == set(imagenhub["Text-Guided_IE"])
    figures = [figure for figure in imagenhub_figures if (figure["task"], figure["attr"]) == ("Text-Guided_IE", "SC")]
    keys = {"fleiss_kappa": "kappa", "krippendorff_alpha_ordinal": "alpha"}
    for figure in figures:
        ours = groups[figure["model"]][keys[figure["stat"]]]
        assert (ours is None) == math.isnan(figure["value"])
        assert ours is None or round(ours, 2) == figure["value"]
    imagic = groups["Imagic"]
    assert (imagic["agreement"], imagic["kappa"], imagic["alpha"]) == (1.0, None, None)
    assert set(imagic["reasons"]) == {"kappa", "alpha", "cohen_kappa", "fleiss_kappa"}


@pytest.mark.parametrize(
    ("dependent", "expected_spearman", "expected_kendall"), [(True, 0.463, 0.380), (False, 0.464, 0.378)]
)
def test_dsgs_correlations_with_people_come_out_again(
    golden_data: Path, dependent: bool, expected_spearman: float, expected_kendall: float
) -> None:
    folder = golden_data / "DSG"
    likert: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in csv_rows(folder / "tifa160-likert-anns.csv"):
        likert[row["t2i_model"], row["item_id"]].append(float(row["answer"]))
    answers: dict[tuple[str, str], dict[str, float | None]] = defaultdict(dict)
    parents: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(dict)
    for row in csv_rows(folder / "vqa_answers" / "mplug_dsg.tifa160.csv"):
        key = row["t2i_model"], row["item_id"]
        answers[key][row["question_id"]] = float(row["answer"] == "yes")
        # 0 stands for no parent, and one cell says "1, outside".
        named = [part.strip() for part in row["dependency_id"].split(",")]
        parents[key][row["question_id"]] = [name for name in named if name.isdecimal() and name != "0"]
    judged, human = [], []
    for key, stars in likert.items():
        scores = with_dependencies(answers[key], parents[key]) if dependent else answers[key]
        known = [score for score in scores.values() if score is not None]
        judged.append(sum(known) / len(known) if known else 0.0)  # one item has no questions and counts as 0
        human.append(sum(stars) / len(stars))
    assert len(judged) == 800
    ours = spearman(judged, human, NO_INTERVAL), kendall_tau_b(judged, human, NO_INTERVAL)
    assert ours[0].value == pytest.approx(expected_spearman, abs=5e-4)
    assert ours[1].value == pytest.approx(expected_kendall, abs=5e-4)


def test_dsgs_likert_ratings_have_an_alpha_despite_missing_raters(golden_data: Path) -> None:
    rows = csv_rows(golden_data / "DSG" / "tifa160-likert-anns.csv")
    triples = [(f"{row['t2i_model']}/{row['item_id']}", row["worker_id"], float(row["answer"])) for row in rows]
    alphas = {
        level: krippendorff_alpha(Ratings.from_triples(triples, level), Bootstrap(num_resamples=100))
        for level in ("nominal", "ordinal", "interval")
    }
    for alpha in alphas.values():
        assert alpha.n_items == 800
        assert alpha.value is not None
        assert alpha.ci_low is not None
        assert alpha.ci_high is not None
        assert alpha.ci_low < alpha.value < alpha.ci_high
    assert fleiss_kappa(Ratings.from_triples(triples, "nominal")).value is None  # 3 to 5 ratings an item


@pytest.fixture(scope="module")
def crowd(golden_data: Path) -> list[dict[str, str]]:
    return csv_rows(golden_data / "GenEval" / "annotations_clip.csv.gz")


def test_every_column_of_genevals_crowd_answers_has_majorities_and_an_alpha(crowd: list[dict[str, str]]) -> None:
    columns = [name for name in crowd[0] if name.startswith("Answer.task-")]
    assert len(columns) == 10
    for column in columns:
        votes: dict[str, list[str | None]] = defaultdict(list)
        for row in crowd:
            votes[row["Input.index"]].append(row[column] or None)
        assert {len(given) for given in votes.values()} == {5}
        triples = [(item, str(rater), vote) for item, given in votes.items() for rater, vote in enumerate(given)]
        alpha = krippendorff_alpha(Ratings.from_triples(triples, "nominal"), Bootstrap(num_resamples=20))
        assert alpha.value is not None
        assert -1 <= alpha.value <= 1
        for given in votes.values():
            majority = majority_vote(given)
            counts = Counter(vote for vote in given if vote is not None).most_common()
            assert majority.n_votes + majority.n_abstained == 5
            assert (majority.outcome == "no votes") == (not counts)
            assert (majority.outcome == "tie") == (len(counts) > 1 and counts[0][1] == counts[1][1])
            if majority.outcome == "majority":
                assert (majority.value, majority.n_for_value) == counts[0]
            assert len(leave_one_out_majorities(given)) == 5


def test_genevals_answers_of_one_picture_by_hand(crowd: list[dict[str, str]]) -> None:
    answers = {
        name: [row[f"Answer.{name}"] or None for row in crowd if row["Input.index"] == "220_2"]
        for name in ("task-count-0", "task-objects", "task-color-0", "task-position-x")
    }
    assert answers["task-count-0"] == ["5"] * 5
    assert majority_vote(answers["task-count-0"]) == Majority("5", 5, 0, 5, "majority")
    # doughnuts, five times "donut" in one cell, and three times:
    assert majority_vote(answers["task-objects"]) == Majority("donuts", 5, 0, 3, "majority")
    # Two of five lists of colours are the same; without either of their authors no two are.
    assert majority_vote(answers["task-color-0"]) == Majority("red|yellow|blue|black|white", 5, 0, 2, "majority")
    outcomes = [majority.outcome for majority in leave_one_out_majorities(answers["task-color-0"])]
    assert outcomes == ["tie", "majority", "majority", "majority", "tie"]
    assert majority_vote(answers["task-position-x"]) == Majority(None, 0, 5, 0, "no votes")
