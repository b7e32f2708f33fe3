"""Which pairs of a case's candidates are put before annotators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations

from pydantic import Field

from gnomon.hashing import stable_seed
from gnomon.records import Candidate, Record

PAIRS = "pairs.jsonl"


class ProposedPair(Record):
    """Two candidates of one case that nobody has compared yet; a line of `pairs.jsonl`.

    `first` and `second` are paths of pictures, in the order in which annotators see them.
    """

    id: str = Field(min_length=1)
    case_id: str = Field(min_length=1)
    first: str
    second: str
    dimensions: list[str] = Field(min_length=1)


def propose_pairs(
    case_id: str, candidates: Mapping[int, Candidate], dimensions: Sequence[str], *, limit: int | None, seed: int
) -> list[ProposedPair]:
    """Choose pairs that spread over candidates and generators.

    One after the other, the pair is taken whose candidates, and then whose two generators, were taken least often so
    far; a hash decides among equals, and which candidate comes first.

    Args:
        case_id: the case.
        candidates: by their number in the case; those with pictures.
        dimensions: in which they are to be compared.
        limit: at most so many; None for all.
        seed: of the choice.

    Returns:
        The pairs in order of their candidates' numbers; a function of the arguments alone.
    """
    waiting = list(combinations(sorted(candidates), 2))
    order = {pair: stable_seed(seed, "pair", case_id, *pair) for pair in waiting}
    of_candidate: Counter[int] = Counter()
    of_generators: Counter[tuple[str, ...]] = Counter()
    chosen: list[tuple[int, int]] = []
    while waiting and (limit is None or len(chosen) < limit):

        def rank(pair: tuple[int, int]) -> tuple[int, int, int, int]:
            uses = [of_candidate[member] for member in pair]
            return max(uses), sum(uses), of_generators[_generators(pair, candidates)], order[pair]

        pair = min(waiting, key=rank)
        waiting.remove(pair)
        of_candidate.update(pair)
        of_generators[_generators(pair, candidates)] += 1
        chosen.append(pair)
    return [_pair(case_id, pair, candidates, dimensions, seed) for pair in sorted(chosen)]


def _generators(pair: tuple[int, int], candidates: Mapping[int, Candidate]) -> tuple[str, ...]:
    return tuple(sorted(candidates[member].generator for member in pair))


def _pair(
    case_id: str, pair: tuple[int, int], candidates: Mapping[int, Candidate], dimensions: Sequence[str], seed: int
) -> ProposedPair:
    identity = f"{case_id}:{pair[0]}-{pair[1]}"
    # Candidates of one generator have neighbouring numbers: unshuffled, a better generator would always come first.
    sides = pair[::-1] if stable_seed(seed, "side", identity) & 1 else pair
    first, second = (str(candidates[member].path) for member in sides)
    return ProposedPair(id=identity, case_id=case_id, first=first, second=second, dimensions=list(dimensions))
