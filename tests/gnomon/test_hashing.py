"""Seeds and hashes: fixed answers, the same in every process, injective on what they should tell apart."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash, stable_seed, to_plain
from gnomon.records import Text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
seed_parts = st.lists(st.text() | st.integers(), max_size=4)


class Colour(Enum):
    RED = "red"


@dataclass
class Settings:
    folder: Path
    colour: Colour


@given(json_values)
def test_a_hash_survives_writing_and_reading_as_json(value: object) -> None:
    assert stable_hash(json.loads(json.dumps(value))) == stable_hash(value)


@given(st.dictionaries(st.text(), json_values, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, object]) -> None:
    assert stable_hash(dict(reversed(value.items()))) == stable_hash(value)


def test_a_hash_is_the_sha256_of_canonical_json() -> None:
    assert stable_hash({"b": [1, 2.5], "a": "é"}) == hashlib.sha256(b'{"a":"\\u00e9","b":[1,2.5]}').hexdigest()


@given(seed_parts)
def test_a_seed_fits_in_63_bits(parts: list[str | int]) -> None:
    assert 0 <= stable_seed(*parts) < 2**63


@given(seed_parts, seed_parts)
def test_different_parts_give_different_seeds(left: list[str | int], right: list[str | int]) -> None:
    assert (stable_seed(*left) == stable_seed(*right)) == (left == right)


def test_a_seed_is_the_head_of_a_sha256() -> None:
    digest = hashlib.sha256(b'[0, "case-1", 7]').hexdigest()
    assert stable_seed(0, "case-1", 7) == int(digest[:16], 16) // 2
    assert stable_seed(np.int64(0), "case-1", 7) == stable_seed(0, "case-1", 7)


def test_a_fraction_is_no_part_of_a_seed() -> None:
    with pytest.raises(TypeError):
        stable_seed(0.5)  # type: ignore[arg-type]


def test_another_process_with_another_hash_salt_gets_the_same() -> None:
    program = "from gnomon.hashing import *; print(stable_seed('a', 1), stable_hash({'b': {'a': 1, 'c': None}}))"
    found = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": salt},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for salt in ("1", "2")
    }
    assert found == {f"{stable_seed('a', 1)} {stable_hash({'b': {'a': 1, 'c': None}})}\n"}


def test_records_dataclasses_paths_enums_and_tuples_become_plain() -> None:
    value = {"text": Text(en="red"), "settings": Settings(Path("a") / "b", Colour.RED), "size": (1, 2)}
    plain = {"text": {"en": "red", "zh": None}, "settings": {"folder": "a/b", "colour": "red"}, "size": [1, 2]}
    assert to_plain(value) == plain
    assert stable_hash(value) == stable_hash(plain)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"model": {"rate": float("nan")}}, r"finite number at 'model\.rate'"),
        ({"scores": [1.0, float("inf")]}, r"finite number at 'scores\.1'"),
        ({"a": {1: "x"}}, r"only strings as keys of the mapping at 'a', got 1"),
        ({"a": object()}, r"at 'a', got builtins\.object"),
        ({"a": {1, 2}}, r"got builtins\.set"),
        ({"a": np.float32(1)}, r"got numpy\.float32"),
    ],
)
def test_what_json_has_no_word_for_is_refused_with_its_key(value: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        stable_hash(value)


def test_a_file_hash_is_the_sha256_of_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert file_hash(tmp_path / "file") == hashlib.sha256(b"abc").hexdigest()
    with pytest.raises(UserError, match=r"expected a readable file at .*missing"):
        file_hash(tmp_path / "missing")
