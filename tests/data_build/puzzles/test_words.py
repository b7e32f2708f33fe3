from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_build.puzzles.words import WordList, _words_of_package, load_words
from gnomon.errors import UserError


def saved(folder: Path, text: str) -> str:
    path = folder / "words.txt"
    path.write_bytes(text.encode())
    return str(path)


def test_the_package_has_several_hundred_thousand_clean_words() -> None:
    words = load_words()

    assert len(words.words) > 250_000
    assert list(words.words) == sorted(set(words.words))
    assert all(word.isascii() and word.isalpha() and word.isupper() and len(word) >= 3 for word in words.words)
    assert {"HOUSE", "UNHAPPINESS", "EXUBERATION"} <= set(words.words)
    assert words.num_read > len(words.words)


def test_a_file_is_cleaned_and_sorted(tmp_path: Path) -> None:
    words = load_words(
        saved(tmp_path, "\ufeffzebra\r\n  House \r\n\r\nhouse\r\nit's\r\nnaïve\r\nto\r\nx1y2\r\nstraße\r\nARC")
    )

    assert words.words == ("ARC", "HOUSE", "ZEBRA")
    assert (words.num_read, words.source) == (10, str(tmp_path / "words.txt"))
    assert words.by_length == {3: ["ARC"], 5: ["HOUSE", "ZEBRA"]}


def test_the_fingerprint_is_that_of_the_clean_words(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    words = load_words(saved(tmp_path, "zebra\nHouse\nto"))

    assert words.fingerprint == hashlib.sha256(b"HOUSE\nZEBRA").hexdigest()
    assert load_words(saved(tmp_path / "other", "house\nzebra\n")).fingerprint == words.fingerprint


def test_a_list_is_read_once_until_it_changes(tmp_path: Path) -> None:
    path = saved(tmp_path, "zebra")
    words = load_words(path)

    assert load_words(path) is words
    saved(tmp_path, "zebra\nhouse")
    assert load_words(path).words == ("HOUSE", "ZEBRA")
    assert load_words() is load_words()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "0 lines and no such word"),
        (b"to\n42\nit's\n", "words of at least 3 letters a to z .* 3 lines and no such word"),
        (b"caf\xe9\n", "UTF-8 text in .* byte 3"),
        (None, "readable word list at .*No such file"),
    ],
)
def test_a_list_that_is_none_is_named(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "words.txt"
    if content is not None:
        path.write_bytes(content)

    with pytest.raises(UserError, match=message) as caught:
        load_words(str(path))

    assert str(path) in str(caught.value)


def test_a_folder_is_no_list(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="readable word list"):
        load_words(str(tmp_path))


def test_missing_lengths_are_named_with_what_there_is(tmp_path: Path) -> None:
    words = load_words(saved(tmp_path, "zebra\nhouse\narc"))

    assert words.lengths_within(3, 9) == [3, 5]
    with pytest.raises(UserError, match=r"7 to 12 letters in .*words\.txt, got 3 words of 3 to 5 letters"):
        words.lengths_within(7, 12)


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "english_words", None)

    with pytest.raises(UserError, match=r"needs the package english-words.*gnomon\[puzzles\]"):
        _words_of_package.__wrapped__()


@given(st.sets(st.text("ABC", min_size=1, max_size=4), min_size=1), st.text("ABC", min_size=1, max_size=4))
def test_a_beginning_is_found_where_it_stands(words: set[str], beginning: str) -> None:
    ordered = sorted(words)
    at = WordList("", tuple(ordered), len(words)).first_from(beginning)

    assert ordered[at : at + 1] == [word for word in ordered if word >= beginning][:1]
