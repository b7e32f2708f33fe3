from __future__ import annotations

from collections import Counter
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from data_build.preferences.pairs import ProposedPair, propose_pairs
from gnomon.records import Candidate


def candidates(generators: str) -> dict[int, Candidate]:
    return {
        number: Candidate(case_id="c", generator=name, seed=number, path=f"{number}.png")
        for number, name in enumerate(generators)
    }


def propose(generators: str, limit: int | None, seed: int = 0) -> list[ProposedPair]:
    return propose_pairs("c", candidates(generators), ["visual_quality"], limit=limit, seed=seed)


def test_without_a_limit_every_pair_is_proposed_once() -> None:
    pairs = propose("aaaa", None)

    assert [pair.id for pair in pairs] == [f"c:{i}-{j}" for i, j in combinations(range(4), 2)]
    assert {frozenset((pair.first, pair.second)) for pair in pairs} == {
        frozenset((f"{i}.png", f"{j}.png")) for i, j in combinations(range(4), 2)
    }


@given(st.text("abc", min_size=2, max_size=9), st.integers(1, 40), st.integers(0, 9))
def test_pairs_spread_over_the_candidates(generators: str, limit: int, seed: int) -> None:
    pairs = propose(generators, limit, seed)

    count = len(generators)
    assert len(pairs) == min(limit, count * (count - 1) // 2)
    assert len({pair.id for pair in pairs}) == len(pairs)
    if limit <= count // 2:  # no candidate twice before most are used
        uses = Counter(path for pair in pairs for path in (pair.first, pair.second))
        assert set(uses.values()) == {1}
    assert pairs == propose(generators, limit, seed)


def test_pairs_spread_over_generators() -> None:
    name_of = {f"{number}.png": name for number, name in enumerate("aaabbb")}
    for seed in range(20):
        pairs = propose("aaabbb", 2, seed)
        # Unused candidates of both are left after any first pair, so that the second can be of another kind.
        kinds = {tuple(sorted((name_of[pair.first], name_of[pair.second]))) for pair in pairs}
        assert len(kinds) == 2


def test_no_side_belongs_to_a_generator() -> None:
    firsts = 0
    for case in range(400):
        (pair,) = propose_pairs(f"case {case}", candidates("ab"), ["visual_quality"], limit=1, seed=0)
        firsts += pair.first == "0.png"
    assert 160 < firsts < 240


def test_fewer_than_two_candidates_make_no_pair() -> None:
    assert propose("a", None) == []
