"""Judges against people: by hand, by independent libraries, from files by one command, and on GenEval's crowd."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import krippendorff
import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats import kendalltau, pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score

from bench.benchmarks import Score
from bench.statistics.ratings import Bootstrap
from bench.studies.human_agreement import human_agreement
from bench.studies.votes import RatedQuestion, Vote
from bench.workflow import generate, judge
from gnomon.cli import main
from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Question, Reference, Text

FEW = Bootstrap(num_resamples=100)
NONE = Bootstrap(num_resamples=0)
LETTERS: dict[str, Vote] = {"y": "yes", "n": "no", "u": "unsure"}


def question(name: str = "following-1", *, expected: bool = True) -> Question:
    return Question(id=name, text=Text(en=name), dimension=name.partition("-")[0], expected=expected)


def rated(model: str, case_id: str, votes: str, asked: Question | None = None) -> RatedQuestion:
    """A question with one letter for each rater's vote; a dash is none."""
    given = {f"rater {place}": LETTERS[letter] for place, letter in enumerate(votes) if letter != "-"}
    return RatedQuestion(model, (case_id, 0), asked or question(), given)


def by_table(answers: Sequence[float | Score | None], questions: Sequence[RatedQuestion]) -> Any:
    """A judge that gives the answers in the order of the questions."""
    table = {id(one): answer for one, answer in zip(questions, answers, strict=True)}

    def answer(one: RatedQuestion) -> Score | None:
        found = table[id(one)]
        return Score(found) if isinstance(found, float) else found

    return answer


def values(found: Mapping[str, Any]) -> dict[str, float | None]:
    return {name: one.value for name, one in found.items()}


def test_majorities_leave_out_who_is_unsure_and_ties_count_by_the_rule() -> None:
    questions = [
        rated("a", "1", "yyn"),
        rated("a", "2", "nuu"),
        rated("a", "3", "ynu"),
        rated("a", "4", "uu-"),
        rated("b", "1", "n--"),
    ]
    judges = {"mine": by_table([1.0, 1.0, 1.0, 1.0, 0.0], questions)}
    found = human_agreement(questions, judges, NONE)
    people = found.people
    assert (people.n_raters, people.n_questions, people.n_decided, people.n_tied, people.n_undecided) == (3, 5, 3, 1, 1)
    assert (people.n_votes, people.n_unsure) == (7, 5)
    assert people.share_of_yes == pytest.approx(1 / 3)
    decision = found.judges["mine"].levels["decision"]
    assert decision["agreement"].value == pytest.approx(2 / 3)
    assert decision["agreement"].n_items == 3
    as_yes = human_agreement(questions, judges, NONE, on_tie="yes").judges["mine"].levels["decision"]["agreement"]
    as_no = human_agreement(questions, judges, NONE, on_tie="no").judges["mine"].levels["decision"]["agreement"]
    assert [as_yes.value, as_no.value] == pytest.approx([3 / 4, 2 / 4])
    assert as_yes.n_items == 4


def test_a_person_against_the_majority_of_the_others_by_hand() -> None:
    """In y y n each y meets a tie of the others, n meets yes; in y y y three agree; in n u n two do."""
    found = human_agreement([rated("a", "1", "yyn"), rated("a", "2", "yyy"), rated("a", "3", "nun")], {}, NONE)
    pairs = [(0, 1), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0)]
    loo = found.people.leave_one_out
    assert loo["agreement"].value == pytest.approx(5 / 6)
    assert loo["agreement"].n_items == 6
    assert loo["cohen_kappa"].value == pytest.approx(cohen_kappa_score(*zip(*pairs, strict=True)))


def simulated(seed: int, models: int = 3, cases: int = 12, per_case: int = 4) -> tuple[list[RatedQuestion], np.ndarray]:
    generator = np.random.default_rng(seed)
    asked = [question(f"{('following', 'minimality')[k % 2]}-{k}", expected=k != 1) for k in range(per_case)]
    questions = [
        rated(f"model {model}", f"case {case}", "".join(generator.choice(list("yn"), 3)), one)
        for model in range(models)
        for case in range(cases)
        for one in asked
    ]
    seen = np.array([float(one.majority(None).value == "yes") for one in questions])
    judge = np.where(generator.random(len(seen)) < 0.8, seen, 1 - seen)
    return questions, judge


def test_every_level_agrees_with_independent_libraries() -> None:
    questions, answers = simulated(0)
    found = human_agreement(questions, {"mine": by_table(list(map(float, answers)), questions)}, FEW).judges["mine"]
    people = np.array([float(one.majority(None).value == "yes") for one in questions])
    decision, output, model = (found.levels[name] for name in ("decision", "output", "model"))
    assert decision["agreement"].value == pytest.approx((people == answers).mean())
    assert decision["cohen_kappa"].value == pytest.approx(cohen_kappa_score(people, answers))
    alpha = krippendorff.alpha(reliability_data=[people, answers], level_of_measurement="nominal")
    assert decision["alpha"].value == pytest.approx(alpha)
    phi = pearsonr(people, answers).statistic
    assert [decision["pearson"].value, decision["spearman"].value] == pytest.approx([phi, phi])
    assert decision["agreement"].n_items == len(questions)
    expected = np.array([one.question.expected for one in questions], float)
    first, second = ((side == expected).reshape(3, 12, 4).mean(axis=2) for side in (people, answers))
    assert output["pearson"].value == pytest.approx(pearsonr(first.ravel(), second.ravel()).statistic)
    assert output["spearman"].value == pytest.approx(spearmanr(first.ravel(), second.ravel()).statistic)
    assert output["kendall_tau_b"].value == pytest.approx(kendalltau(first.ravel(), second.ravel()).statistic)
    assert output["agreement"].value == pytest.approx((first == second).mean())
    labels = [np.round(side.ravel() * 4).astype(int) for side in (first, second)]
    assert output["cohen_kappa"].value == pytest.approx(cohen_kappa_score(*labels))
    interval = krippendorff.alpha(reliability_data=[first.ravel(), second.ravel()], level_of_measurement="interval")
    assert output["alpha"].value == pytest.approx(interval)
    assert output["pearson"].n_items == 36
    assert model["pearson"].value == pytest.approx(pearsonr(first.mean(axis=1), second.mean(axis=1)).statistic)
    assert model["spearman"].n_items == 3
    assert model["cohen_kappa"].reason == "means of models are numbers, not labels that can be equal"
    for dimension, here in (("following", slice(0, None, 2)), ("minimality", slice(1, None, 2))):
        kappa = found.dimensions[dimension]["cohen_kappa"]
        assert kappa.value == pytest.approx(cohen_kappa_score(people[here], answers[here]))
        assert kappa.n_items == len(questions) // 2


def test_intervals_resample_whole_cases() -> None:
    """Eight questions of a case that stand and fall together are one observation, and so the interval is as wide."""
    alone = [rated("a", f"case {k}", "y" if k % 2 else "n") for k in range(20)]
    eightfold = [
        rated("a", f"case {k}", "y" if k % 2 else "n", question(f"q-{j}")) for k in range(20) for j in range(8)
    ]
    answers = [float(k % 3 == 0) for k in range(20)]
    ends = []
    for questions, given_answers in ((alone, answers), (eightfold, list(np.repeat(answers, 8)))):
        judges = {"mine": by_table(list(map(float, given_answers)), questions)}
        found = human_agreement(questions, judges, Bootstrap(num_resamples=500)).judges["mine"]
        one = found.levels["decision"]["agreement"]
        ends.append((one.value, one.ci_low, one.ci_high))
    assert ends[0] == pytest.approx(ends[1])


@settings(deadline=None, max_examples=8)
@given(seed=st.integers(0, 10**6))
def test_the_order_of_the_file_changes_no_value(seed: int) -> None:
    questions, answers = simulated(seed, models=2, cases=5, per_case=3)
    order = np.random.default_rng(seed).permutation(len(questions))
    judges = {"mine": by_table(list(map(float, answers)), questions)}
    straight = human_agreement(questions, judges, NONE)
    shuffled = human_agreement([questions[place] for place in order], judges, NONE)
    for name, one in straight.judges.items():
        for level, statistics in one.levels.items():
            assert values(shuffled.judges[name].levels[level]) == pytest.approx(values(statistics))
    assert shuffled.people.alpha.value == pytest.approx(straight.people.alpha.value)


def test_what_a_judge_did_not_answer_is_counted_and_in_no_statistic() -> None:
    questions = [rated("a", str(k), "yyy" if k % 2 else "nnn") for k in range(6)]
    answers: list[float | Score | None] = [0.0, 1.0, Score(None, "refused"), Score(None, "refused"), None, 0.2]
    found = human_agreement(questions, {"mine": by_table(answers, questions)}, NONE).judges["mine"]
    assert found.failed == {"pending": 1, "refused": 2}
    agreement = found.levels["decision"]["agreement"]
    assert agreement.value == pytest.approx(2 / 3)
    assert agreement.n_items == 3
    assert found.levels["output"]["agreement"].n_items == 3


def test_judges_that_look_at_nothing_stand_beside_every_table() -> None:
    questions, _ = simulated(3)
    found = human_agreement(questions, {}, NONE)
    always_yes, always_no = (found.judges[name] for name in ("(always yes)", "(always no)"))
    share = found.people.share_of_yes
    assert share is not None
    assert always_yes.levels["decision"]["agreement"].value == pytest.approx(share)
    assert always_no.levels["decision"]["agreement"].value == pytest.approx(1 - share)
    assert always_yes.levels["decision"]["cohen_kappa"].value == pytest.approx(0)
    assert always_yes.levels["decision"]["pearson"].value is None
    assert always_yes.levels["decision"]["pearson"].reason == "all numbers of the second rater are equal"


@pytest.mark.parametrize("votes", ["yyy", "uuu"])
def test_people_who_never_differ_or_never_decide_leave_values_open_with_reasons(votes: str) -> None:
    questions = [rated("a", str(k), votes) for k in range(3)]
    found = human_agreement(questions, {"mine": by_table([1.0, 1.0, 0.0], questions)}, FEW)
    kappa = found.judges["mine"].levels["decision"]["cohen_kappa"]
    assert found.people.alpha.value is None
    assert found.people.alpha.reason
    if votes == "uuu":
        assert (found.people.n_undecided, kappa.value) == (3, None)
        assert kappa.reason
        assert found.judges["mine"].levels["model"]["pearson"].reason


PRINTED = yaml.safe_load((Path(__file__).parent / "printed.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", PRINTED["human_agreement"])
def test_printed_kappas_follow_from_printed_ratios_on_the_printed_number_of_decisions(name: str) -> None:
    """Equal marginals with the printed ratio and kappa: so often yes, and then our kappa and Pearson are the printed.

    Chance agrees in e = (ratio - kappa) / (1 - kappa) = p^2 + (1 - p)^2 of them. The printed Spearman is another
    number, so it cannot be one of decisions.
    """
    ratio, printed_pearson, printed_spearman, kappa = PRINTED["human_agreement"][name]
    total = PRINTED["decisions"]["number"]
    chance = (ratio - kappa) / (1 - kappa)
    yes = round(total * (1 + np.sqrt(2 * chance - 1)) / 2)
    either = round(total * (1 - ratio) / 2)
    assert yes / total == pytest.approx(0.73, abs=0.03)
    counts = {("y", 1.0): yes - either, ("y", 0.0): either, ("n", 1.0): either, ("n", 0.0): total - yes - either}
    questions: list[RatedQuestion] = []
    answers: list[float] = []
    for (vote, answer), count in counts.items():
        questions += [rated("a", f"{vote} {answer} {k}", vote) for k in range(count)]
        answers += [answer] * count
    found = human_agreement(questions, {"mine": by_table(answers, questions)}, NONE).judges["mine"]
    decision = values(found.levels["decision"])
    assert decision["agreement"] == pytest.approx(ratio, abs=5e-4)
    assert decision["cohen_kappa"] == pytest.approx(kappa, abs=1e-3)
    assert decision["pearson"] == pytest.approx(printed_pearson, abs=5e-3)
    assert decision["spearman"] == pytest.approx(decision["pearson"])
    assert printed_spearman - (decision["spearman"] or 0) > 0.1


def test_the_printed_decisions_are_those_of_cases_and_not_of_outputs() -> None:
    """5,924 are as many as the checklists of 200 cases hold; four outputs of each would have four times as many."""
    audit, decisions = PRINTED["audit"], PRINTED["decisions"]
    per_case = audit["items"] / audit["cases"]
    assert decisions["number"] / decisions["cases"] == per_case
    assert decisions["number"] / decisions["outputs"] == per_case / 4
    assert audit["valid"] + audit["invalid"] == audit["items"]
    assert round(100 * audit["valid"] / audit["items"], 2) == audit["validity"]


# --------------------------------------------------------------------------------------------------------- the command


MakeRuns = Callable[..., list[Path]]


@pytest.fixture
def checklists(importable: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    from importlib import import_module

    monkeypatch.syspath_prepend(str(importable))
    return import_module("checklists")


def write_csv(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


@pytest.fixture
def make_runs(tmp_path: Path, brightness: ModuleType, checklists: ModuleType) -> MakeRuns:
    """Return a function that makes judged runs of three cases with two questions each; a table judge answers."""

    def make(*models: str, repeats: int = 1, table: Mapping[Any, Any] | None = None) -> list[Path]:
        root = tmp_path / "cases"
        save_png(Image.new("RGB", (8, 8), (90, 90, 90)), root / "grey.png")
        cases = [
            Case(
                id=f"case-{k}",
                benchmark="grey",
                task="fusion",
                instruction=Text(en="lighter"),
                references=[Reference(path="grey.png")],
                questions=[question("following-1"), question("minimality-1", expected=False)],
            )
            for k in range(3)
        ]
        write_records(root / "cases.jsonl", cases)
        judged = checklists.RuleJudge(
            "table",
            lambda asked: (table or {}).get(
                (asked.candidate.generator, asked.case.id, asked.candidate.seed, asked.metric), True
            ),
        )
        runs = []
        for place, model in enumerate(models):
            run = generate(root, tmp_path / model, brightness.NoisyCopy(20 * place), name=model, repeats=repeats)
            judge(run.path, judged)
            runs.append(run.path)
        return runs

    return make


def command(runs: Sequence[Path], ratings: Path, out: Path, *flags: str) -> list[str]:
    paths = ["--runs", *map(str, runs), "--ratings", str(ratings), "--out", str(out)]
    return ["bench", "study", "human-agreement", *paths, "--num-resamples", "50", *flags]


def test_ratings_of_two_models_with_repeats_from_files(
    make_runs: MakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = {("one", "case-0", 0, "following-1"): False, ("two", "case-2", 1, "minimality-1"): "refused"}
    runs = make_runs("one", "two", repeats=2, table=table)
    rows = [
        {"case": f"case-{case}", "generator": model, "seed": seed, "question": name, "rater": rater, "value": value}
        for model in ("one", "two")
        for case in range(3)
        for seed in range(2)
        for name, value in (("following-1", "Yes"), ("minimality-1", "no" if case else "yes"))
        for rater in ("ann", "ben")
    ]
    ratings, out = write_csv(tmp_path / "people.csv", rows), tmp_path / "study.json"
    assert main(command(runs, ratings, out)) == 0
    found = json.loads(out.read_text())
    assert (found["study"], list(found["judges"]), list(found["runs"])) == (
        "human-agreement",
        ["table"],
        ["one", "two"],
    )
    people, mine = found["result"]["people"], found["result"]["judges"]["table"]
    assert (people["n_questions"], people["n_decided"], people["alpha"]["value"]) == (24, 24, 1.0)
    # The judge says yes but for one no and one refusal; people say yes to 12 + 4 of 24.
    assert mine["failed"] == {"refused": 1}
    assert mine["levels"]["decision"]["agreement"]["value"] == pytest.approx(15 / 23)
    assert mine["levels"]["decision"]["agreement"]["n_items"] == 23
    assert mine["levels"]["output"]["pearson"]["n_items"] == 12
    assert mine["levels"]["model"]["pearson"]["n_items"] == 2
    printed = capsys.readouterr().out
    assert "2 people, 48 votes and 0 unsure about 24 questions, 0 votes missing: 24 decided, 0 tied" in printed
    assert "table: without an answer 1 refused" in printed
    (line,) = [line for line in printed.splitlines() if line.split()[:3] == ["table", "decision", "agreement"]]
    assert (line.split()[3], line.split()[-1]) == ("0.652", "23")


ROW = {"case": "case-0", "generator": "one", "seed": "", "question": "following-1", "rater": "ann", "value": "yes"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            [ROW | {"value": "maybe"}],
            "people.csv:2: expected yes, no, unsure or an empty cell in the column value",
        ),
        ([ROW | {"generator": "them"}], "people.csv:2: expected one of one in the column generator, got 'them'"),
        ([ROW | {"case": "case-9"}], "in the column case, got 'case-9'"),
        ([ROW | {"seed": "7"}], "expected a seed from 0 to 0 in the column seed, got '7'"),
        (
            [ROW | {"question": "other"}],
            "expected a question of case 'case-0' (following-1, minimality-1) in",
        ),
        ([ROW | {"rater": ""}], "people.csv:2: expected a name in the column rater, got an empty cell"),
        ([ROW, ROW], "people.csv:3: expected one row per question and rater, got a second one of 'ann'"),
        (
            [ROW | {"mood": "good"}],
            "expected the header case,question,rater,value and at most the columns gen",
        ),
    ],
)
def test_what_the_user_can_mend_is_said_and_nothing_is_written(
    rows: list[dict[str, str]], message: str, make_runs: MakeRuns, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = make_runs("one")
    assert main(command([run], write_csv(tmp_path / "people.csv", rows), tmp_path / "out.json")) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.json").exists()


def test_judges_and_runs_that_cannot_be_studied_are_refused(
    make_runs: MakeRuns, brightness: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (run,) = make_runs("one")
    ratings = write_csv(tmp_path / "people.csv", [ROW])
    assert main(command([run], ratings, tmp_path / "out.json", "--judges", "nobody")) == 1
    assert "expected judges that judged every run (table), got nobody" in capsys.readouterr().err
    judge(run, brightness.BrightnessJudge())
    assert main(command([run], ratings, tmp_path / "out.json", "--judges", "brightness")) == 1
    assert "expected a judge of questions among those of every run" in capsys.readouterr().err
    assert main(command([run], ratings, ratings)) == 1
    assert "another file than --ratings" in capsys.readouterr().err


# ---------------------------------------------------------------------------------------------------- GenEval's crowd

COUNTS = {"following-1": "Answer.task-count-0", "following-2": "Answer.task-count-1"}
"""How many of the first and of the second thing an annotator sees."""

Crowd = dict[tuple[str, int, str], list[Vote | None]]


@pytest.fixture(scope="module")
def crowd(golden_data: Path) -> Crowd:
    """Five annotators' answers to whether as many things are seen as the prompt says, by prompt, image and question."""
    folder = golden_data / "GenEval"
    wanted = {}
    for line in (folder / "evaluation_metadata.jsonl").read_text(encoding="utf-8").splitlines():
        prompt = json.loads(line)
        wanted[prompt["prompt"]] = [thing["count"] for thing in prompt["include"]]
    data = gzip.decompress((folder / "annotations_clip.csv.gz").read_bytes()).decode("utf-8")
    found: Crowd = {}
    for row in csv.DictReader(io.StringIO(data, newline="")):
        for (name, column), count in zip(COUNTS.items(), wanted[row["Input.caption"]], strict=False):
            seen: Vote | None = None if not row[column] else "yes" if float(row[column]) == count else "no"
            key = row["Input.prompt_id"], int(row["Input.image_id"]), name
            found.setdefault(key, []).append(seen)
    return found


def test_genevals_crowd_goes_through_the_study_with_the_figures_of_other_libraries(
    crowd: Crowd, brightness: ModuleType, checklists: ModuleType, tmp_path: Path
) -> None:
    """400 pictures, five annotators: four are the people, the fifth is the judge. Ties of the four count as no."""
    root = tmp_path / "cases"
    save_png(Image.new("RGB", (8, 8), (90, 90, 90)), root / "grey.png")
    asked = {prompt: [name for name in COUNTS if (prompt, 0, name) in crowd] for prompt, _, _ in crowd}
    cases = [
        Case(
            id=prompt,
            benchmark="geneval",
            task="counts",
            instruction=Text(en="a photo"),
            references=[Reference(path="grey.png")],
            questions=[question(name) for name in names],
        )
        for prompt, names in asked.items()
    ]
    write_records(root / "cases.jsonl", cases)
    run = generate(root, tmp_path / "clip", brightness.NoisyCopy(), name="clip", repeats=4, batch_size=100)
    fifth = {("clip", *key): "refused" if votes[4] is None else votes[4] == "yes" for key, votes in crowd.items()}
    judge(run.path, checklists.RuleJudge.of_table("the fifth", fifth), batch_size=100)
    rows = [
        {"case": prompt, "seed": image, "question": name, "rater": f"annotator {place}", "value": vote or ""}
        for (prompt, image, name), votes in crowd.items()
        for place, vote in enumerate(votes[:4])
    ]
    ratings, out = write_csv(tmp_path / "people.csv", rows), tmp_path / "study.json"
    assert main(command([run.path], ratings, out, "--on-tie", "no")) == 0
    result = json.loads(out.read_text())["result"]

    numbers = {None: np.nan, "no": 0.0, "yes": 1.0}
    votes = np.array([[numbers[vote] for vote in given] for given in crowd.values()])
    yes, total = np.nansum(votes[:, :4], axis=1), np.isfinite(votes[:, :4]).sum(axis=1)
    assert len(crowd) == len(rows) / 4 > 600
    assert result["people"]["n_tied"] == int(((2 * yes == total) & (total > 0)).sum()) > 20
    assert result["people"]["n_undecided"] == int((total == 0).sum())
    alpha = krippendorff.alpha(reliability_data=votes[:, :4].T, level_of_measurement="nominal")
    assert result["people"]["alpha"]["value"] == pytest.approx(alpha)
    assert result["people"]["alpha"]["ci_low"] < alpha < result["people"]["alpha"]["ci_high"]

    both = (total > 0) & np.isfinite(votes[:, 4])
    people, fifths = (2 * yes > total)[both], votes[both, 4]
    levels = result["judges"]["the fifth"]["levels"]
    assert levels["decision"]["agreement"]["value"] == pytest.approx((people == fifths).mean())
    assert levels["decision"]["cohen_kappa"]["value"] == pytest.approx(cohen_kappa_score(people, fifths))
    assert levels["decision"]["pearson"]["value"] == pytest.approx(pearsonr(people, fifths).statistic)
    assert levels["decision"]["agreement"]["n_items"] == both.sum()
    pictures: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for key, pair in zip(np.array(list(crowd), object)[both], zip(people, fifths, strict=True), strict=True):
        pictures.setdefault((key[0], key[1]), []).append(pair)
    shares = np.array([np.mean(pairs, axis=0) for pairs in pictures.values()])
    assert levels["output"]["spearman"]["value"] == pytest.approx(spearmanr(*shares.T).statistic)
    assert levels["output"]["spearman"]["n_items"] == len(shares)
    assert levels["model"]["spearman"]["reason"] == "a correlation needs two systems that both have means of"
