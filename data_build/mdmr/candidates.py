"""The gallery and its tags as arrays, so that half a million pictures can be asked at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.mdmr.cases import ENTITIES
from data_build.mdmr.folder import ANNOTATE, GALLERY, BuildFolder
from data_build.mdmr.tables import read_table
from data_build.mdmr.tags import TAG_ATTRIBUTES
from data_build.stages import require_output

Codes = NDArray[np.int32]
Mask = NDArray[np.bool_]
NONE = -1
"""Code of a value that is missing."""


@dataclass(frozen=True)
class Words:
    """A column of words: for each row a position in `words`, or `NONE`."""

    codes: Codes
    words: list[str]

    def mask(self, any_of: Sequence[str], none_of: Sequence[str]) -> Mask:
        """Return which rows have one of some words and none of others; a missing one is none of any."""
        code_of = {word: code for code, word in enumerate(self.words)}
        mask: Mask = ~np.isin(self.codes, [code_of[word] for word in none_of if word in code_of])
        if any_of:
            mask &= np.isin(self.codes, [code_of[word] for word in any_of if word in code_of])
        return mask


@dataclass(frozen=True)
class Candidates:
    """Tagged pictures, n of them.

    Attributes:
        ids: of the pictures, as numbers.
        synthetic: whether they were generated.
        root: position of the real picture that a synthetic one was made from; of the others their own.
        side: the shorter one, in pixels.
        words: category, framing, facing, text_language, and attributes by name.
        numbers: num_entities, num_people and age; -1 where there is none.
        kinds: bit k is set where there is an entity of kind k.
        first_names: of the first entity of each kind, and last of the first one of any, shape (n, 8).
        entity_rows: the picture of each entity, in order.
        entity_names: likewise its name.
        names: of entities, in lower case.
    """

    ids: NDArray[np.uint64]
    synthetic: Mask
    root: NDArray[np.int64]
    side: NDArray[np.int32]
    words: dict[str, Words]
    numbers: dict[str, NDArray[np.int32]]
    kinds: NDArray[np.uint8]
    first_names: Codes
    entity_rows: NDArray[np.int32]
    entity_names: Codes
    names: list[str]

    def __len__(self) -> int:
        """Return n."""
        return len(self.ids)

    def image(self, row: int) -> str:
        """Return the id of a picture."""
        return f"{int(self.ids[row]):016x}"

    def name_codes(self, role: str) -> Codes:
        """Return the name of the entity that each picture would be there for."""
        return self.first_names[:, ENTITIES.index(role) if role in ENTITIES else len(ENTITIES)]

    def feature(self, feature: str, role: str) -> Codes:
        """Return codes by which relations compare, see :data:`data_build.mdmr.buckets.FEATURES`."""
        return self.name_codes(role) if feature == "name" else self.words[feature].codes

    def word(self, feature: str, row: int) -> str:
        """Return what a column says of a picture that it says something of."""
        column = self.words[feature]
        return column.words[int(column.codes[row])]


def read_candidates(folder: BuildFolder) -> Candidates:
    """Return the pictures that are in the gallery and have tags.

    Raises:
        UserError: when one of the two stages did not run.
    """
    gallery = read_table(require_output(folder.gallery, GALLERY), ["id", "width", "height", "origin", "made_from"])
    tags = read_table(require_output(folder.tags, ANNOTATE))
    in_gallery, tagged = _ids(gallery["id"]), _ids(tags["id"])
    order = np.argsort(in_gallery)
    found = np.minimum(np.searchsorted(in_gallery, tagged, sorter=order), len(order) - 1)
    rows = order[found]
    is_there = in_gallery[rows] == tagged
    if not is_there.all():
        tags = tags.filter(is_there)
    rows = rows[is_there]
    sides = np.minimum(gallery["width"].to_numpy(), gallery["height"].to_numpy())[rows]
    synthetic = (gallery["origin"].to_numpy() == "synthetic")[rows]
    root = _roots(tagged[is_there], gallery["made_from"].take(rows))
    return _candidates(tags, tagged[is_there], synthetic, root, sides)


def _ids(column: Any) -> NDArray[np.uint64]:
    return np.fromiter((int(image, 16) for image in column.to_pylist()), np.uint64, len(column))


def _roots(ids: NDArray[np.uint64], made_from: Any) -> NDArray[np.int64]:
    roots = np.arange(len(ids))
    place_of: dict[int, int] = {}
    if made_from.null_count < len(ids):
        place_of = {image: place for place, image in enumerate(ids.tolist())}
    for place in np.flatnonzero(made_from.is_valid().to_numpy()).tolist():
        roots[place] = place_of.get(int(made_from[place].as_py(), 16), place)
    return roots


def _candidates(
    tags: Any, ids: NDArray[np.uint64], synthetic: Mask, root: NDArray[np.int64], side: NDArray[np.int32]
) -> Candidates:
    words = {name: _words(tags[name]) for name in ("category", "framing", "facing", "text_language")}
    words |= {name: _words(tags[f"attribute_{name}"]) for name in TAG_ATTRIBUTES}
    kinds, names = (tags[name].combine_chunks() for name in ("entity_kinds", "entity_names"))
    counts = np.diff(kinds.offsets.to_numpy()).astype(np.int32)
    entity_rows = np.repeat(np.arange(len(ids), dtype=np.int32), counts)
    kind_words, name_words = _words(kinds.flatten()), _words(names.flatten())
    position = np.array([ENTITIES.index(kind) for kind in kind_words.words], np.int64)
    kind_codes = position[kind_words.codes] if len(kind_words.codes) else np.empty(0, np.int64)
    bits = np.zeros(len(ids), np.uint8)
    np.bitwise_or.at(bits, entity_rows, (1 << kind_codes).astype(np.uint8))
    first_names = np.full((len(ids), len(ENTITIES) + 1), NONE, np.int32)
    _, first = np.unique(entity_rows.astype(np.int64) * len(ENTITIES) + kind_codes, return_index=True)
    first_names[entity_rows[first], kind_codes[first]] = name_words.codes[first]
    _, first = np.unique(entity_rows, return_index=True)
    first_names[entity_rows[first], len(ENTITIES)] = name_words.codes[first]
    numbers = {name: tags[name].fill_null(NONE).to_numpy().astype(np.int32) for name in ("num_people", "age")}
    return Candidates(
        ids=ids,
        synthetic=synthetic,
        root=root,
        side=side.astype(np.int32),
        words=words,
        numbers={**numbers, "num_entities": counts},
        kinds=bits,
        first_names=first_names,
        entity_rows=entity_rows,
        entity_names=name_words.codes,
        names=name_words.words,
    )


def _words(column: Any) -> Words:
    """Return a column's words, those that differ in upper and lower case alone as one."""
    array = column.combine_chunks() if hasattr(column, "num_chunks") else column
    encoded = array.dictionary_encode()
    words: dict[str, int] = {}
    lower = np.array(
        [words.setdefault(word.casefold(), len(words)) for word in encoded.dictionary.to_pylist()], np.int32
    )
    codes = encoded.indices.fill_null(NONE).to_numpy(zero_copy_only=False)
    return Words(np.array([*lower, NONE], np.int32)[codes], list(words))  # the last one is for the code -1
