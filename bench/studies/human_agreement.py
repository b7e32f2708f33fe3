"""How far judges agree with people about questions of checklists: by decision, by picture and by model.

A decision is one question about one picture, yes or no as it is seen. A picture's score is its share of right answers,
over the questions that both people and judge answered; a model's is the mean over its cases. Intervals resample cases,
whole, with all pictures and questions of all models: they say how figures vary over other cases, and nothing about
other people or models.

Source: MDMR-Bench, its table of judges against people. It prints one number for each statistic and does not say at
which level; on decisions Pearson, Spearman and phi are one number, so its two are of different levels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.benchmarks import Score
from bench.questions import YES
from bench.report.controls import CONSTANT
from bench.statistics.correlations import kendall_tau_b, pearson, spearman
from bench.statistics.majority import Majority, leave_one_out_majorities, majority_vote
from bench.statistics.means import KINDS, correlation_of_means
from bench.statistics.ratings import Agreement, Bootstrap, Ratings
from bench.statistics.reliability import agreement_ratio, cohen_kappa, krippendorff_alpha
from bench.studies.votes import RatedQuestion, Vote
from bench.studies.yes_rates import YesRates, yes_rates

NO_LABELS = "means of models are numbers, not labels that can be equal"
Column = list[float | None]
Answers = Callable[[RatedQuestion], Score | None]


@dataclass(frozen=True)
class People:
    """What people said, and how far they agree with each other.

    Attributes:
        n_raters: people.
        n_questions: questions about pictures that at least one of them was asked.
        n_decided: those with a majority.
        n_tied: those with as many votes for yes as for no, whatever a rule makes of them.
        n_undecided: those that everyone was unsure of.
        n_votes: yes and no.
        n_unsure: votes that are neither.
        n_absent: votes that are missing to one of every person about every question.
        share_of_yes: of the majorities; None where there are none.
        alpha: Krippendorff's, nominal, of all votes for yes or no.
        leave_one_out: each person's votes against the majority of the others: agreement ratio and kappa over all such
            pairs together, which is what a judge may be held against.
        with_own_vote: the same against the majority of all, which each vote is part of, and so agrees with too often.
    """

    n_raters: int
    n_questions: int
    n_decided: int
    n_tied: int
    n_undecided: int
    n_votes: int
    n_unsure: int
    n_absent: int
    share_of_yes: float | None
    alpha: Agreement
    leave_one_out: dict[str, Agreement]
    with_own_vote: dict[str, Agreement]


@dataclass(frozen=True)
class JudgeAgreement:
    """One judge against the majorities of people.

    Attributes:
        failed: decided questions without an answer of the judge, by status; in no statistic.
        share_of_yes: of the judge's answers; None where there are none.
        yes_rates: shares of yes of both and their gap, over questions and over pictures; see
            :func:`bench.studies.yes_rates.yes_rates`.
        levels: by "decision", "output", "output_yes" and "model", the statistics by name. An output's label is its
            share of right answers, or for "output_yes" of yes; means of models have no labels.
        dimensions: agreement ratio and kappa of the decisions in each dimension.
    """

    failed: dict[str, int]
    share_of_yes: float | None
    yes_rates: dict[str, YesRates]
    levels: dict[str, dict[str, Agreement]]
    dimensions: dict[str, dict[str, Agreement]]


@dataclass(frozen=True)
class HumanAgreement:
    """What `gnomon bench study human-agreement` writes; judges by name, those that look at nothing in brackets."""

    on_tie: Vote | None
    people: People
    judges: dict[str, JudgeAgreement]


def human_agreement(
    rated: Sequence[RatedQuestion], judges: Mapping[str, Answers], bootstrap: Bootstrap, *, on_tie: Vote | None = None
) -> HumanAgreement:
    """Return how far people agree with each other, and judges with most of them.

    Args:
        rated: at least one question.
        judges: what each one answered to a question about a picture; None where it was not asked yet.
        bootstrap: how cases are resampled; `clusters` is not looked at.
        on_tie: what as many votes for yes as for no count as; None for no decision.
    """
    decided = [(one, vote == "yes") for one in rated if (vote := one.majority(on_tie).value) is not None]
    found = {name: _judge(decided, answers, bootstrap) for name, answers in judges.items()}
    for name, value in CONSTANT.items():
        found[name] = _judge(decided, _always(value), bootstrap)
    return HumanAgreement(on_tie, _people(rated, bootstrap), found)


def _always(value: float) -> Answers:
    return lambda _: Score(value)


def _people(rated: Sequence[RatedQuestion], bootstrap: Bootstrap) -> People:
    majorities = [one.majority(None) for one in rated]
    decided = [majority.value == "yes" for majority in majorities if majority.value is not None]
    votes = Counter(vote for one in rated for vote in one.votes.values())
    clusters = [one.item[0] for one in rated]
    triples = [
        (str(place), rater, None if vote == "unsure" else vote)
        for place, one in enumerate(rated)
        for rater, vote in [("", None), *one.votes.items()]  # a question that nobody is sure of is an item, too
    ]
    return People(
        n_raters=len({rater for one in rated for rater in one.votes}),
        n_questions=len(rated),
        n_decided=len(decided),
        n_tied=sum(majority.outcome == "tie" for majority in majorities),
        n_undecided=sum(majority.outcome == "no votes" for majority in majorities),
        n_votes=votes["yes"] + votes["no"],
        n_unsure=votes["unsure"],
        n_absent=len({rater for one in rated for rater in one.votes}) * len(rated) - votes.total(),
        share_of_yes=float(np.mean(decided)) if decided else None,
        alpha=krippendorff_alpha(Ratings.from_triples(triples, "nominal"), replace(bootstrap, clusters=clusters)),
        leave_one_out=_each_against_most(rated, bootstrap, leave_one_out_majorities),
        with_own_vote=_each_against_most(rated, bootstrap, _majority_of_all),
    )


def _majority_of_all(votes: Sequence[Vote], *, abstentions: Collection[Vote]) -> list[Majority[Vote]]:
    return [majority_vote(votes, abstentions=abstentions)] * len(votes)


def _each_against_most(
    rated: Sequence[RatedQuestion], bootstrap: Bootstrap, majorities: Callable[..., list[Majority[Vote]]]
) -> dict[str, Agreement]:
    """Return agreement ratio and kappa of the votes for yes or no with a majority for each, ties left out."""
    own: Column = []
    others: Column = []
    clusters: list[str] = []
    for one in rated:
        votes = list(one.votes.values())
        abstentions: tuple[Vote, ...] = ("unsure",)
        for vote, majority in zip(votes, majorities(votes, abstentions=abstentions), strict=True):
            if vote != "unsure" and majority.value is not None:
                own.append(float(vote == "yes"))
                others.append(float(majority.value == "yes"))
                clusters.append(one.item[0])
    return _labels(own, others, replace(bootstrap, clusters=clusters))


def _judge(decided: Sequence[tuple[RatedQuestion, bool]], answers: Answers, bootstrap: Bootstrap) -> JudgeAgreement:
    people: Column = [float(seen) for _, seen in decided]
    scores = [answers(one) for one, _ in decided]
    judge: Column = [None if score is None or score.value is None else float(score.value >= YES) for score in scores]
    failed = Counter("pending" if score is None else score.status for score in scores)
    del failed["ok"]
    questions = [one for one, _ in decided]
    by_case = replace(bootstrap, clusters=[one.item[0] for one in questions])
    known = [value for value in judge if value is not None]
    return JudgeAgreement(
        failed=dict(sorted(failed.items())),
        share_of_yes=float(np.mean(known)) if known else None,
        yes_rates=yes_rates(
            people, judge, [(one.model, *one.item) for one in questions], [one.item[0] for one in questions], bootstrap
        ),
        levels={
            "decision": {
                **_labels(people, judge, by_case),
                "alpha": _alpha(people, judge, "nominal", by_case),
                "pearson": pearson(people, judge, by_case),
                "spearman": spearman(people, judge, by_case),
            },
            **_by_picture_and_model(questions, people, judge, bootstrap),
        },
        dimensions={
            dimension: _of_dimension(dimension, questions, people, judge, bootstrap)
            for dimension in dict.fromkeys(one.question.dimension for one in questions)
        },
    )


def _of_dimension(
    dimension: str, questions: Sequence[RatedQuestion], people: Column, judge: Column, bootstrap: Bootstrap
) -> dict[str, Agreement]:
    here = [place for place, one in enumerate(questions) if one.question.dimension == dimension]
    clusters = [questions[place].item[0] for place in here]
    columns = [people[place] for place in here], [judge[place] for place in here]
    return _labels(*columns, replace(bootstrap, clusters=clusters))


def _by_picture_and_model(
    questions: Sequence[RatedQuestion], people: Column, judge: Column, bootstrap: Bootstrap
) -> dict[str, dict[str, Agreement]]:
    """Return the statistics of shares of right answers and of yes: of pictures; and of models' means over cases."""
    right: dict[tuple[str, str, int], list[tuple[bool, bool]]] = {}
    yes: dict[tuple[str, str, int], list[tuple[float, float]]] = {}
    for one, seen, answered in zip(questions, people, judge, strict=True):
        if answered is not None and seen is not None:
            pair = (seen == one.question.expected, answered == one.question.expected)
            right.setdefault((one.model, *one.item), []).append(pair)
            yes.setdefault((one.model, *one.item), []).append((seen, answered))
    shares = {key: np.mean(pairs, axis=0) for key, pairs in right.items()}
    shares_of_yes = {key: np.mean(pairs, axis=0) for key, pairs in yes.items()}
    return {
        "output": _of_pictures(shares, bootstrap),
        "output_yes": _of_pictures(shares_of_yes, bootstrap),
        "model": _of_models(shares, bootstrap),
    }


def _of_pictures(shares: Mapping[tuple[str, str, int], np.ndarray], bootstrap: Bootstrap) -> dict[str, Agreement]:
    first: Column = [float(share[0]) for share in shares.values()]
    second: Column = [float(share[1]) for share in shares.values()]
    by_case = replace(bootstrap, clusters=[case_id for _, case_id, _ in shares])
    correlations = {"pearson": pearson, "spearman": spearman, "kendall_tau_b": kendall_tau_b}
    return {
        **_labels(first, second, by_case),
        "alpha": _alpha(first, second, "interval", by_case),
        **{name: correlation(first, second, by_case) for name, correlation in correlations.items()},
    }


def _of_models(shares: Mapping[tuple[str, str, int], np.ndarray], bootstrap: Bootstrap) -> dict[str, Agreement]:
    models = {model: place for place, model in enumerate(dict.fromkeys(model for model, _, _ in shares))}
    cases = {case_id: place for place, case_id in enumerate(dict.fromkeys(case_id for _, case_id, _ in shares))}
    sums, counts = np.zeros((2, len(models), len(cases))), np.zeros((len(models), len(cases)))
    for (model, case_id, _), share in shares.items():
        place = models[model], cases[case_id]
        sums[:, *place] += share
        counts[place] += 1
    tables = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    none = Agreement(None, None, None, len(models), 2, NO_LABELS)
    found: dict[str, Agreement] = {"agreement": none, "cohen_kappa": none}
    return found | {kind: correlation_of_means(tables[0], tables[1], kind, bootstrap) for kind in KINDS}


def _labels(first: Column, second: Column, bootstrap: Bootstrap) -> dict[str, Agreement]:
    """Return agreement ratio and Cohen's kappa of two columns of labels."""
    ratings = _two_raters(first, second, "nominal")
    kappa = cohen_kappa(ratings, bootstrap).agreement
    return {"agreement": agreement_ratio(ratings, bootstrap).agreement, "cohen_kappa": kappa}


def _alpha(first: Column, second: Column, level: str, bootstrap: Bootstrap) -> Agreement:
    return krippendorff_alpha(_two_raters(first, second, level), bootstrap)


def _two_raters(first: Column, second: Column, level: str) -> Ratings:
    return Ratings.from_table(list(zip(first, second, strict=True)), "interval" if level == "interval" else "nominal")
