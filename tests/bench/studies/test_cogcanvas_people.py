"""People and Attr-VQA: shares of yes and their gap, votes with and without one's own, and the figures of the paper."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score

from bench.benchmarks import Score
from bench.statistics.ratings import Bootstrap
from bench.studies.human_agreement import JudgeAgreement, human_agreement
from bench.studies.text import human_agreement_text
from bench.studies.votes import RatedQuestion
from bench.studies.yes_rates import yes_rates
from gnomon.statistics import cluster_bootstrap
from tests.bench.studies.test_human_agreement import by_table, question, rated

NONE, FEW = Bootstrap(num_resamples=0), Bootstrap(num_resamples=200)

# What the paper prints, and what follows of its own figures; its section on people and Attr-VQA.
PAIRS, RATERS, VALID_VOTES = 515, 7, 2869
AGREEMENT, KAPPA, JUDGE_YES, PEOPLE_YES = 0.765, 0.531, 0.5764, 0.5100


def test_kappa_follows_from_the_printed_agreement_and_yes_rates() -> None:
    """Kappa of the printed figures is .529, and it is printed as .531.

    No table of 515 pairs has both printed rates and 394 that agree, since the pairs that differ would be an odd number
    with an even difference; the two nearest tables, with 393 and 395, have the printed kappa between theirs.
    """
    chance = JUDGE_YES * PEOPLE_YES + (1 - JUDGE_YES) * (1 - PEOPLE_YES)
    assert (AGREEMENT - chance) / (1 - chance) == pytest.approx(0.529, abs=5e-4)
    agreeing, judge_yes, people_yes = (round(share * PAIRS) for share in (AGREEMENT, JUDGE_YES, PEOPLE_YES))
    kappas = []
    for agreed in (agreeing - 1, agreeing + 1):
        both_yes, rest = divmod(agreed + judge_yes + people_yes - PAIRS, 2)
        assert rest == 0
        found = _judge_of_table(both_yes, judge_yes - both_yes, people_yes - both_yes)
        decision = found.levels["decision"]
        assert decision["agreement"].value == pytest.approx(agreed / PAIRS)
        assert found.yes_rates["question"].gap.value == pytest.approx(JUDGE_YES - PEOPLE_YES, abs=1 / PAIRS)
        kappas.append(decision["cohen_kappa"].value or 0.0)
    assert kappas[0] < 0.529 < KAPPA < kappas[1]
    assert kappas[1] - kappas[0] < 0.01


def _judge_of_table(both_yes: int, judge_alone: int, people_alone: int) -> JudgeAgreement:
    """The study of so many pairs by who says yes."""
    both_no = PAIRS - both_yes - judge_alone - people_alone
    counts = {("y", 1.0): both_yes, ("n", 1.0): judge_alone, ("y", 0.0): people_alone, ("n", 0.0): both_no}
    questions: list[RatedQuestion] = []
    answers: list[float] = []
    for (vote, answer), count in counts.items():
        questions += [rated("a", f"{vote} {answer} {k}", vote) for k in range(count)]
        answers += [answer] * count
    return human_agreement(questions, {"mine": by_table(answers, questions)}, NONE).judges["mine"]


def test_a_fifth_of_the_printed_votes_is_missing_or_unsure() -> None:
    """7 people and 515 pairs would be 3,605 votes. Here 2,869 are, some of the others unsure, the rest not given."""
    letters = np.array(["-"] * (PAIRS * RATERS))
    letters[:VALID_VOTES] = "y"
    letters[VALID_VOTES : VALID_VOTES + 400] = "u"
    np.random.default_rng(0).shuffle(letters)
    votes = letters.reshape(PAIRS, RATERS)
    people = human_agreement([rated("a", str(k), "".join(row)) for k, row in enumerate(votes)], {}, NONE).people
    assert (people.n_votes, people.n_unsure, people.n_absent) == (VALID_VOTES, 400, 3605 - VALID_VOTES - 400)
    assert (people.n_unsure + people.n_absent) / 3605 == pytest.approx(0.204, abs=5e-4)


def test_ones_own_vote_makes_agreement_with_most_better() -> None:
    """Of y y n each person meets yes: two of three agree; without their own vote the yeses meet a tie."""
    questions = [rated("a", str(k), letters) for k, letters in enumerate(["yyn", "nny", "yyy", "nnu"])]
    people = human_agreement(questions, {}, NONE).people
    with_own = [(1, 1), (1, 1), (0, 1), (0, 0), (0, 0), (1, 0), (1, 1), (1, 1), (1, 1), (0, 0), (0, 0)]
    assert people.with_own_vote["agreement"].value == pytest.approx(9 / 11)
    assert people.with_own_vote["cohen_kappa"].value == pytest.approx(cohen_kappa_score(*zip(*with_own, strict=True)))
    assert people.leave_one_out["agreement"].value == pytest.approx(5 / 7)


def test_people_who_vote_at_random_agree_with_a_majority_that_holds_their_vote() -> None:
    drawn = np.random.default_rng(1).choice(list("yn"), (400, 3))
    people = human_agreement([rated("a", str(k), "".join(row)) for k, row in enumerate(drawn)], {}, NONE).people
    assert people.with_own_vote["agreement"].value == pytest.approx(3 / 4, abs=0.03)
    assert people.leave_one_out["agreement"].value == pytest.approx(1 / 2, abs=0.06)


@pytest.fixture(scope="module")
def simulated() -> tuple[list[RatedQuestion], list[float]]:
    """46 pictures of two models with 2 to 20 questions that expect yes but for one; a judge that says it more often."""
    draw = np.random.default_rng(2)
    questions: list[RatedQuestion] = []
    for model, case in product(("a", "b"), range(23)):
        easy = draw.random()
        for number in range(int(draw.integers(2, 21))):
            asked = question(f"attribute-{number}", expected=number != 1)
            votes = draw.choice(list("ynu"), 7, p=[0.8 * easy, 0.8 * (1 - easy), 0.2])
            questions.append(rated(model, f"case {case}", "".join(votes), asked))
    seen = [one.majority(None).value for one in questions]
    answers = [float(draw.random() < {"yes": 0.85, "no": 0.3}.get(str(vote), 0.5)) for vote in seen]
    return questions, answers


def test_shares_of_yes_of_pictures_correlate_as_other_libraries_say(
    simulated: tuple[list[RatedQuestion], list[float]],
) -> None:
    questions, answers = simulated
    found = human_agreement(questions, {"mine": by_table(answers, questions)}, NONE).judges["mine"]
    shares: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one, answer in zip(questions, answers, strict=True):
        if (vote := one.majority(None).value) is not None:
            shares.setdefault((one.model, one.item[0]), []).append((float(vote == "yes"), answer))
    first, second = np.array([np.mean(pairs, axis=0) for pairs in shares.values()]).T
    yes = found.levels["output_yes"]
    assert yes["pearson"].value == pytest.approx(pearsonr(first, second).statistic)
    assert yes["spearman"].value == pytest.approx(spearmanr(first, second).statistic)
    assert yes["kendall_tau_b"].value == pytest.approx(kendalltau(first, second).statistic)
    assert yes["pearson"].n_items == 46
    assert yes["pearson"].value != found.levels["output"]["pearson"].value, "one question of most expects no"
    rates = found.yes_rates
    flat = np.array([pair for pairs in shares.values() for pair in pairs])
    assert (rates["question"].people.value, rates["question"].judge.value) == pytest.approx(tuple(flat.mean(axis=0)))
    assert rates["picture"].gap.value == pytest.approx((second - first).mean())


def test_where_every_question_expects_yes_shares_of_yes_and_of_right_answers_are_one() -> None:
    questions = [rated("a", str(k // 3), "yyn" if k % 2 else "nnu") for k in range(12)]
    answers = [float(k % 3 == 0) for k in range(12)]
    levels = human_agreement(questions, {"mine": by_table(answers, questions)}, NONE).judges["mine"].levels
    assert levels["output"] == levels["output_yes"]


def test_the_gap_has_the_interval_of_a_paired_difference_over_cases() -> None:
    people, judge = [1.0, 0.0, 0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 1.0, None, 0.0]
    pictures, cases = [("p", k // 2) for k in range(6)], ["x", "x", "y", "y", "z", "z"]
    found = yes_rates(people, judge, pictures, cases, FEW)
    gap = found["question"].gap
    independent = cluster_bootstrap([0, 1, 0, 0, -1], ["x", "x", "y", "y", "z"], num_resamples=200)
    assert gap == independent
    assert (found["question"].judge.value, found["question"].people.value) == (3 / 5, 3 / 5)
    assert found["picture"].gap.value == pytest.approx((0.5 + 0 - 1) / 3)
    assert yes_rates([1.0], [None], ["p"], ["x"], FEW) == {}


def test_controls_have_the_gap_that_they_must(simulated: tuple[list[RatedQuestion], list[float]]) -> None:
    questions, _ = simulated
    found = human_agreement(questions, {}, NONE)
    share = found.people.share_of_yes
    assert share is not None
    gaps = {name: one.yes_rates["question"].gap.value for name, one in found.judges.items()}
    assert gaps == pytest.approx({"(always yes)": 1 - share, "(always no)": -share})


def test_all_of_it_is_printed() -> None:
    questions = [rated("a", str(k), "yyn" if k % 2 else "nu-") for k in range(6)]
    text = human_agreement_text(human_agreement(questions, {"mine": by_table([1.0] * 6, questions)}, FEW))
    assert "3 people, 12 votes and 3 unsure about 6 questions, 3 votes missing" in text
    assert "each against all, their own vote included" in text
    assert "yes by picture" in text
    lines = [line.split() for line in text.splitlines()]
    (gap,) = [line for line in lines if line[:5] == ["mine", "yes", "by", "question", "gap"]]
    assert gap[5] == "0.500"


def test_a_score_is_an_answer_of_a_judge() -> None:
    questions = [rated("a", "1", "yyy"), rated("a", "2", "nnn")]
    found = human_agreement(questions, {"mine": by_table([Score(None, "refused"), 1.0], questions)}, NONE)
    rates = found.judges["mine"].yes_rates["question"]
    assert (rates.judge.n, rates.gap.value) == (1, 1.0)
