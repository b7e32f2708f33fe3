"""Lists of English words: from a package or a file, cleaned, and searched by their beginnings.

The package's list has the headwords of two of Webster's dictionaries, some 262,000, hence few plurals and other
inflected forms; another list comes as a text file with one word a line.
"""

from __future__ import annotations

import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

from gnomon.errors import UserError
from gnomon.optional import require

SHORTEST = 3
"""Letters of a word, at least."""
PACKAGE = "english-words"
SOURCES = ["web2", "gcide"]
"""Of the package: Webster's Second International, and the Collaborative International Dictionary of English."""


@dataclass(frozen=True)
class WordList:
    """Words in capital letters A to Z, sorted, each once.

    Attributes:
        source: the file's path, or the package's name.
        words: the words.
        num_read: entries of the source, before those with other characters, short ones and repeats were left out.
    """

    source: str
    words: tuple[str, ...]
    num_read: int

    @cached_property
    def fingerprint(self) -> str:
        """Return the sha256 (hex) of the words, one a line."""
        return hashlib.sha256("\n".join(self.words).encode()).hexdigest()

    @cached_property
    def by_length(self) -> dict[int, list[str]]:
        """Return the words by their number of letters."""
        lengths: dict[int, list[str]] = {}
        for word in self.words:
            lengths.setdefault(len(word), []).append(word)
        return lengths

    def first_from(self, beginning: str, at: int = 0) -> int:
        """Return where the first word stands that begins so, or would stand, no earlier than `at`."""
        return bisect_left(self.words, beginning, at)

    def lengths_within(self, shortest: int, longest: int) -> list[int]:
        """Return the lengths in a range that there are words of.

        Raises:
            UserError: where there are none.
        """
        lengths = [length for length in range(shortest, longest + 1) if length in self.by_length]
        if not lengths:
            raise UserError(
                f"expected words of {shortest} to {longest} letters in {self.source}, got {len(self.words)} words of "
                f"{min(self.by_length)} to {max(self.by_length)} letters; add such words, or ask for other lengths"
            )
        return lengths


def load_words(path: str | None = None) -> WordList:
    """Read a list of words; one that has been read and has not changed since is not read again.

    Args:
        path: of a UTF-8 text file with one word a line; None for the package's list.

    Raises:
        UserError: for a file that cannot be read, one without a single word, and a package that is not installed.
    """
    if path is None:
        return _words_of_package()
    try:
        stamp = Path(path).stat()
        return _words_of_file(path, stamp.st_mtime_ns, stamp.st_size)
    except UnicodeDecodeError as error:
        raise UserError(f"expected UTF-8 text in {path}, got byte {error.start} wrong; save it as UTF-8") from error
    except OSError as error:
        raise UserError(f"expected a readable word list at {path}: {error.strerror or error}") from error


@lru_cache(maxsize=1)
def _words_of_package() -> WordList:
    feature = "a word puzzle without a word list of your own"
    package = require("english_words", feature=feature, extra="puzzles", distribution=PACKAGE)
    return _cleaned(f"the package {PACKAGE}", package.get_english_words_set(SOURCES, lower=True, alpha=True))


@lru_cache(maxsize=4)
def _words_of_file(path: str, modified: int, size: int) -> WordList:
    return _cleaned(path, Path(path).read_text(encoding="utf-8-sig").splitlines())


def _cleaned(source: str, entries: Iterable[str]) -> WordList:
    lines = [entry.strip() for entry in entries]
    # One search over the whole text: a quarter of a million calls take longer than all else.
    words = {word.upper() for word in re.findall(rf"^[a-zA-Z]{{{SHORTEST},}}$", "\n".join(lines), re.MULTILINE)}
    if not words:
        raise UserError(
            f"expected words of at least {SHORTEST} letters a to z in {source}, one a line, got "
            f"{len(lines)} lines and no such word"
        )
    return WordList(source, tuple(sorted(words)), len(lines))
