"""Bradley-Terry strengths against the maximum of the likelihood, closed forms, and outcomes that fix none."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from bench.statistics.ranking import Outcome, bradley_terry
from bench.statistics.ratings import Bootstrap
from gnomon.hashing import to_plain

NO_INTERVAL = Bootstrap(num_resamples=0)


def outcomes(first: str, second: str, wins: int, ties: int, losses: int) -> list[Outcome]:
    return (
        [Outcome(first, second, "first")] * wins
        + [Outcome(first, second, "tie")] * ties
        + [Outcome(second, first, "first")] * losses
    )


def random_outcomes(number: int) -> list[Outcome]:
    generator = np.random.default_rng(4)
    strengths = dict(zip("ABCD", (0.8, 0.2, -0.3, -0.7), strict=True))
    found = []
    for _ in range(number):
        first, second = generator.choice(list("ABCD"), 2, replace=False)
        chance = 1 / (1 + math.exp(strengths[second] - strengths[first]))
        won = generator.random() < chance
        found.append(
            Outcome(str(first), str(second), "tie" if generator.random() < 0.2 else ("first" if won else "second"))
        )
    return found


def strengths(found: list[Outcome]) -> dict[str, float]:
    return {
        system.name: system.strength
        for system in bradley_terry(found, NO_INTERVAL).systems
        if system.strength is not None
    }


def test_two_systems_have_the_log_odds_of_their_wins() -> None:
    # 6 wins and 4 ties are 8 of 12 points, so the odds are 2 to 1.
    assert strengths(outcomes("a", "b", wins=6, ties=4, losses=2)) == pytest.approx(
        {"a": math.log(2) / 2, "b": -math.log(2) / 2}, abs=1e-6
    )


def test_strengths_are_the_maximum_of_the_likelihood() -> None:
    found = random_outcomes(400)

    def loss(values: np.ndarray) -> float:
        by_name = dict(zip("ABCD", values, strict=True))
        total = 0.0
        for outcome in found:
            gap = by_name[outcome.first] - by_name[outcome.second]
            share = {"first": 1.0, "tie": 0.5, "second": 0.0}[outcome.winner]
            total += share * math.log1p(math.exp(-gap)) + (1 - share) * math.log1p(math.exp(gap))
        return total

    best = minimize(loss, np.zeros(4)).x
    assert strengths(found) == pytest.approx(dict(zip("ABCD", best - best.mean(), strict=True)), abs=1e-4)


def test_systems_come_sorted_with_records_and_intervals() -> None:
    found = random_outcomes(300)
    ranking = bradley_terry(found, Bootstrap(num_resamples=200))
    values = [system.strength or 0.0 for system in ranking.systems]
    assert values == sorted(values, reverse=True)
    assert sum(values) == pytest.approx(0, abs=1e-9)
    assert (ranking.n_outcomes, ranking.n_undefined, ranking.reason) == (300, 0, None)
    for system in ranking.systems:
        assert system.strength is not None
        assert system.ci_low is not None
        assert system.ci_high is not None
        assert system.ci_low < system.strength < system.ci_high
        own = [outcome for outcome in found if system.name in (outcome.first, outcome.second)]
        assert system.wins + system.ties + system.losses == len(own)
        assert system.ties == sum(outcome.winner == "tie" for outcome in own)
    assert sum(system.wins for system in ranking.systems) == sum(system.losses for system in ranking.systems)
    assert json.loads(json.dumps(to_plain(ranking)))["n_outcomes"] == 300


def test_the_interval_of_two_systems_is_that_of_a_share() -> None:
    # strength_a - strength_b = log(p / (1 - p)) with a standard error of 1 / sqrt(n p (1 - p)) and half of it each.
    ranking = bradley_terry(outcomes("a", "b", wins=240, ties=0, losses=160), Bootstrap(num_resamples=1000))
    top = ranking.systems[0]
    assert top.ci_low is not None
    assert top.ci_high is not None
    assert (top.ci_high - top.ci_low) / 2 == pytest.approx(1.96 / math.sqrt(400 * 0.6 * 0.4) / 2, rel=0.12)


def test_repeating_every_outcome_inside_its_cluster_narrows_nothing() -> None:
    found = random_outcomes(60)
    once = bradley_terry(found, Bootstrap(num_resamples=200, clusters=[str(k) for k in range(60)]))
    thrice = bradley_terry(found * 3, Bootstrap(num_resamples=200, clusters=[str(k) for k in range(60)] * 3))
    for before, after in zip(once.systems, thrice.systems, strict=True):
        assert (after.ci_low, after.ci_high) == pytest.approx((before.ci_low, before.ci_high), abs=1e-6)


def test_who_is_named_first_does_not_matter() -> None:
    found = random_outcomes(100)
    turned = [
        Outcome(o.second, o.first, {"first": "second", "second": "first", "tie": "tie"}[o.winner])  # type: ignore[arg-type]
        for o in reversed(found)
    ]
    assert strengths(turned) == pytest.approx(strengths(found), abs=1e-6)


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ([], "there are fewer than two systems"),
        (outcomes("a", "b", wins=3, ties=0, losses=0), "no chain of wins and ties leads both ways between"),
        (outcomes("a", "b", 1, 0, 1) + outcomes("c", "d", 1, 0, 1), "between a+b, c+d"),
        (outcomes("a", "b", 1, 1, 1) + outcomes("b", "c", 5, 0, 0), "a+b"),
    ],
)
def test_outcomes_that_fix_no_strengths_say_why(found: list[Outcome], reason: str) -> None:
    ranking = bradley_terry(found)
    assert ranking.reason is not None
    assert reason in ranking.reason
    assert all(system.strength is system.ci_low is system.ci_high is None for system in ranking.systems)
    assert [system.name for system in ranking.systems] == sorted({o.first for o in found} | {o.second for o in found})


def test_resamples_that_fix_no_strengths_are_counted() -> None:
    ranking = bradley_terry(outcomes("a", "b", wins=9, ties=0, losses=1), Bootstrap(num_resamples=500))
    # The one loss is missed by .9^10 = 35 % of the resamples.
    assert ranking.n_undefined / 500 == pytest.approx(0.35, abs=0.08)
    assert ranking.systems[0].ci_low is not None
    alone = bradley_terry(outcomes("a", "b", wins=9, ties=0, losses=1), Bootstrap(clusters=["one"] * 10))
    assert alone.systems[0].strength is not None
    assert alone.systems[0].ci_low is None
    assert alone.reason is not None


def test_a_system_is_not_compared_with_itself() -> None:
    with pytest.raises(ValueError, match="two different systems"):
        bradley_terry([Outcome("a", "a", "tie")])
