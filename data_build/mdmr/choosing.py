"""Which pictures of a gallery are used, and which synthetic one was made from which real one: arrays in, arrays out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from data_build.mdmr.near_duplicates import near_duplicates

Outcome = Literal["ok", "unreadable_image", "unreadable_file", "too_small", "duplicate", "near_duplicate"]
OUTCOMES: tuple[str, ...] = get_args(Outcome)
_CODE = {name: code for code, name in enumerate(OUTCOMES)}
OK = _CODE["ok"]


@dataclass(frozen=True)
class Seen:
    """What was seen of n pictures, in the order of their sources; what could not be read is zero in `sides` and hashes.

    Attributes:
        outcomes: codes of `OUTCOMES`: read, or not; shape (n,).
        ids: of the pixels.
        sides: width and height in pixels, shape (n, 2).
        hashes: perceptual ones.
        synthetic: whether the source is.
    """

    outcomes: NDArray[np.int8]
    ids: NDArray[np.uint64]
    sides: NDArray[np.int32]
    hashes: NDArray[np.uint64]
    synthetic: NDArray[np.bool_]

    @classmethod
    def empty(cls, num: int) -> Seen:
        """Return arrays to be filled."""
        return cls(
            np.zeros(num, np.int8),
            np.zeros(num, np.uint64),
            np.zeros((num, 2), np.int32),
            np.zeros(num, np.uint64),
            np.zeros(num, np.bool_),
        )


def choose(seen: Seen, *, min_side: int, max_distance: int) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
    """Say what becomes of each picture.

    Of equal pixels the first is kept, of near duplicates of one origin the one with most pixels.

    Args:
        seen: the pictures.
        min_side: shortest side in pixels.
        max_distance: bits in which perceptual hashes of near duplicates differ at most.

    Returns:
        Codes of `OUTCOMES`, and for duplicates the position of the picture that is kept instead (otherwise -1).
    """
    outcomes = seen.outcomes.copy()
    outcomes[(outcomes == OK) & (seen.sides.min(axis=1) < min_side)] = _CODE["too_small"]
    instead = np.full(len(outcomes), -1, np.int64)

    left = np.flatnonzero(outcomes == OK)
    _, first, group = np.unique(seen.ids[left], return_index=True, return_inverse=True)
    repeated = left[first[group]] != left
    outcomes[left[repeated]] = _CODE["duplicate"]
    instead[left[repeated]] = left[first[group]][repeated]

    for origin in (False, True):
        left = np.flatnonzero((outcomes == OK) & (seen.synthetic == origin))
        pixels = seen.sides[left].astype(np.int64).prod(axis=1)
        priority = np.empty(len(left), np.int64)
        priority[np.lexsort((left, -pixels))] = np.arange(len(left))
        repeats = near_duplicates(seen.hashes[left], priority, max_distance)
        near = repeats >= 0
        outcomes[left[near]] = _CODE["near_duplicate"]
        instead[left[near]] = left[repeats[near]]
    return outcomes, _last(instead)


def _last(instead: NDArray[np.int64]) -> NDArray[np.int64]:
    """Follow an exact copy of what is itself a near duplicate to the picture that is kept."""
    inner = np.where(instead >= 0, instead[instead], -1)
    return np.where(inner >= 0, inner, instead)


def names_of(source: str, member: str, image: str) -> tuple[str, ...]:
    """Return the names by which a synthetic picture may call the real one that it was made from."""
    inner = PurePosixPath(member.rpartition("#")[2] or member)
    return (image, f"{source}/{member}", member, inner.name, inner.stem)


def resolve_names(
    wanted: Iterable[str], named: Callable[[], Iterable[tuple[int, tuple[str, ...]]]]
) -> dict[str, int | None]:
    """Return which picture each name means; None for a name that is nobody's, or that of several.

    Args:
        wanted: names that were used.
        named: returns the pictures' positions with all their names, the surest first.
    """
    best: dict[str, tuple[int, int | None]] = dict.fromkeys(wanted, (99, None))
    if best:
        for place, names in named():
            for sureness, name in enumerate(names):
                known = best.get(name)
                if known is None or known[0] < sureness or known[1] == place:
                    continue
                best[name] = (sureness, place if known[0] > sureness else None)
    return {name: place for name, (_, place) in best.items()}


def counted(outcomes: NDArray[np.int8]) -> dict[str, int]:
    """Return counts by outcome, of those that occur."""
    counts = np.bincount(outcomes, minlength=len(OUTCOMES))
    return {name: int(count) for name, count in zip(OUTCOMES, counts, strict=True) if count}


def by_source(outcomes: NDArray[np.int8], ranges: Mapping[str, tuple[int, int]]) -> dict[str, dict[str, int]]:
    """Return counts by outcome for each source, whose pictures are those in a range of positions."""
    return {name: counted(outcomes[start:end]) for name, (start, end) in ranges.items()}
