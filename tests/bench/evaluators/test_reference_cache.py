"""What is computed of references is computed once, kept on disk, and shared by processes."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from bench.evaluators.reference_cache import Features, ReferenceCache
from gnomon.errors import UserError


def never() -> Features:
    raise AssertionError("this was computed before")


def test_an_array_is_computed_once_per_backend_and_picture() -> None:
    cache = ReferenceCache()
    for backend, picture in (("a", "p"), ("a", "q"), ("b", "p"), ("a", "p"), ("b", "p")):
        value = cache.get(backend, picture, lambda: np.arange(3))
        np.testing.assert_array_equal(value, [0, 1, 2])
    assert cache.num_computed == 3


@pytest.mark.parametrize(
    "array", [np.zeros((0, 512), np.float32), np.float64(0.5) * np.ones((2, 3, 4)), np.array([[True, False]])]
)
def test_another_cache_on_the_folder_finds_the_same_array(tmp_path: Path, array: Features) -> None:
    first, second = ReferenceCache(tmp_path), ReferenceCache(tmp_path)
    first.get("a", "p", lambda: array)
    found = second.get("a", "p", never)
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert (first.num_computed, second.num_computed) == (1, 0)


def npy(header: str) -> bytes:
    """A file of an array by its header, without any content."""
    padded = header.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode()


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"half of a", b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4,)"),  # a bracket lost
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4 4,), }"),
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (400000000000000,), }"),
        *(b"PK\x03\x04" + b"x" * 40, b"PK\x05\x06" + bytes(18)),  # archives, which numpy.load looks into
    ],
)
def test_a_broken_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    ReferenceCache(tmp_path).get("a", "p", lambda: np.ones(4))
    (file,) = tmp_path.rglob("*.npy")
    file.write_bytes(content)
    np.testing.assert_array_equal(ReferenceCache(tmp_path).get("a", "p", lambda: np.ones(4)), np.ones(4))
    np.testing.assert_array_equal(ReferenceCache(tmp_path).get("a", "p", never), np.ones(4))


def test_what_a_backend_raises_passes_and_nothing_is_kept(tmp_path: Path) -> None:
    def fail() -> Features:
        raise UserError("no such model")

    cache = ReferenceCache(tmp_path)
    with pytest.raises(UserError, match="no such model"):
        cache.get("a", "p", fail)
    np.testing.assert_array_equal(cache.get("a", "p", lambda: np.ones(1)), [1])


def test_memory_is_bounded_and_forgets_what_was_used_longest_ago() -> None:
    cache = ReferenceCache(max_bytes=80)  # two arrays of five numbers
    for picture in ("p", "q", "p", "r"):  # q goes
        cache.get("a", picture, lambda: np.zeros(5))
    cache.get("a", "p", never)
    cache.get("a", "q", lambda: np.zeros(5))
    assert cache.num_computed == 4


def test_an_array_larger_than_the_memory_is_returned_all_the_same() -> None:
    assert ReferenceCache(max_bytes=1).get("a", "p", lambda: np.zeros(9)).shape == (9,)


def test_arrays_are_not_to_be_written_to() -> None:
    value = ReferenceCache().get("a", "p", lambda: np.zeros(2))
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 1


def _fill(folder: Path) -> None:
    cache = ReferenceCache(folder)
    for number in range(40):
        value = cache.get("a", str(number), partial(np.full, (50, 50), number))
        assert (value == number).all()


def test_two_processes_fill_one_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_fill, args=(tmp_path,)) for _ in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    assert len(list(tmp_path.rglob("*.npy"))) == 40
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".npy"]
