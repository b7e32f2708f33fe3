"""Near duplicates among hundreds of thousands of perceptual hashes, without comparing every pair.

Two 64-bit hashes that differ in at most `d` bits agree on at least one of any `d + 1` bands that the bits are cut into
(the pigeonhole principle). So only hashes that agree on a whole band are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

BITS = 64
MAX_DISTANCE = 6
"""With more, bands have so few bits that half a million hashes take minutes."""


def near_duplicates(hashes: NDArray[np.uint64], priority: NDArray[np.integer], max_distance: int) -> NDArray[np.int64]:
    """Return, for each hash, which other one it repeats; -1 for those that are kept.

    Gone through by priority, one that is near an earlier kept one repeats it (the nearest, of equally near ones the
    earliest), and all others are kept. Of equal hashes, all but the first repeat it, or what it repeats. So no two kept
    ones are near each other, and chains of small steps do not make one group of everything.

    Args:
        hashes: shape (n,).
        priority: shape (n,), all different; lower is kept first.
        max_distance: bits in which near hashes may differ, 0..6.

    Returns:
        Positions, shape (n,).

    Raises:
        ValueError: for a distance out of range, and shapes that differ.
    """
    if not 0 <= max_distance <= MAX_DISTANCE:
        raise ValueError(f"expected a distance of 0..{MAX_DISTANCE} bits, got {max_distance}")
    if hashes.shape != priority.shape:
        raise ValueError(f"expected one priority for each hash, got {hashes.shape} and {priority.shape}")
    repeats = np.full(len(hashes), -1, dtype=np.int64)
    # Equal hashes first: pictures of one colour would otherwise fill every band.
    order = np.lexsort((priority, hashes))
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = hashes[order[1:]] != hashes[order[:-1]]
    leaders = order[is_first]
    leader_of = np.empty(len(hashes), dtype=np.int64)
    leader_of[order] = leaders[np.cumsum(is_first) - 1] if len(order) else 0

    for later, earlier in _edges(hashes, priority, leaders, max_distance):
        if repeats[later] == -1 and repeats[earlier] == -1:
            repeats[later] = earlier
    followers = leader_of != np.arange(len(hashes))
    leaders_kept = repeats[leader_of] == -1
    repeats[followers] = np.where(leaders_kept, leader_of, repeats[leader_of])[followers]
    return repeats


def _edges(
    hashes: NDArray[np.uint64], priority: NDArray[np.integer], leaders: NDArray[np.int64], max_distance: int
) -> Iterator[tuple[int, int]]:
    """Yield near pairs as (later, earlier), by the priority of the later one; its nearest come first."""
    pairs = [(leaders[left], leaders[right]) for left, right in _near_pairs(hashes[leaders], max_distance)]
    if not pairs:
        return
    ends = np.stack([np.concatenate(side) for side in zip(*pairs, strict=True)])
    later = np.where(priority[ends[0]] > priority[ends[1]], ends[0], ends[1])
    earlier = ends[0] + ends[1] - later
    order = np.lexsort((priority[earlier], np.bitwise_count(hashes[later] ^ hashes[earlier]), priority[later]))
    yield from zip(later[order].tolist(), earlier[order].tolist(), strict=True)


def _near_pairs(hashes: NDArray[np.uint64], max_distance: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Yield the positions of different hashes within the distance; a pair may come more than once."""
    edges = np.linspace(0, BITS, max_distance + 2).astype(int)
    for start, end in pairwise(edges.tolist()):
        bands = (hashes >> np.uint64(start)) & np.uint64((1 << end - start) - 1)
        order = np.argsort(bands, kind="stable")
        bands, ordered = bands[order], hashes[order]
        # Neighbours in the sorted order, then those two apart, ... as long as any still share their band.
        places, step = np.arange(len(order)), 1
        while True:
            places = places[places + step < len(order)]
            places = places[bands[places] == bands[places + step]]
            if not len(places):
                break
            is_near = np.bitwise_count(ordered[places] ^ ordered[places + step]) <= max_distance
            yield order[places[is_near]], order[places[is_near] + step]
            step += 1
