from __future__ import annotations

import io
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import ImageDraw
from pydantic import ValidationError

from data_build.puzzles.global_longest_word import GlobalLongestWord
from data_build.puzzles.global_word import GlobalWord
from data_build.puzzles.grid import YELLOW, Cell, Layout, draw_line
from data_build.puzzles.longest_word import LongestWord
from data_build.puzzles.paths import monotone_path
from data_build.puzzles.verify import verify_instance
from data_build.puzzles.word import Word
from data_build.puzzles.word_grids import RARE, WordGrid, cells_of, paths_of, spelt, words_in
from data_build.puzzles.words import WordList
from gnomon.errors import UserError

CLASSES: dict[str, type[LongestWord] | type[Word]] = {
    puzzle.task: puzzle for puzzle in (LongestWord, GlobalLongestWord, Word, GlobalWord)
}
TASKS = tuple(CLASSES)

grids = st.integers(1, 4).flatmap(
    lambda size: st.lists(st.text("ABC", min_size=size, max_size=size), min_size=size, max_size=size)
)
short_words = st.text("ABC", min_size=3, max_size=7)


def all_paths(size: int) -> list[list[Cell]]:
    """Return every path of steps down and right in a grid, by networkx."""
    graph = nx.DiGraph()
    graph.add_nodes_from((row, column) for row in range(size) for column in range(size))
    for row, column in list(graph):
        graph.add_edges_from(((row, column), end) for end in ((row + 1, column), (row, column + 1)) if end in graph)
    longer = [path for start in graph for path in nx.all_simple_paths(graph, start, set(graph) - {start})]
    return longer + [[cell] for cell in graph]


PATHS = {size: all_paths(size) for size in range(1, 5)}


def sampled(task: str, count: int, seed: int = 0) -> tuple[LongestWord | Word, list[WordGrid]]:
    puzzle, rng, instances = CLASSES[task](), random.Random(seed), list[WordGrid]()
    while len(instances) < count:
        if (instance := puzzle.sample(rng)) is not None:
            instances.append(instance)
    return puzzle, instances


@given(grids, st.sets(short_words, max_size=40))
@settings(deadline=None)
def test_the_search_finds_what_trying_all_paths_finds(letters: list[str], words: set[str]) -> None:
    ordered = WordList("", tuple(sorted(words)), len(words))
    spelt_by_any = Counter(spelt(letters, path) for path in PATHS[len(letters)])

    found = words_in(letters, cells_of(letters), ordered)

    assert found == {word: times for word, times in spelt_by_any.items() if word in words}


@given(grids, short_words)
@settings(deadline=None)
def test_all_paths_of_a_word_are_found(letters: list[str], word: str) -> None:
    start = (0, len(letters) // 2)
    right = [path for path in PATHS[len(letters)] if spelt(letters, path) == word]

    assert sorted(paths_of(letters, word, cells_of(letters))) == sorted(right)
    assert sorted(paths_of(letters, word, [start])) == sorted(path for path in right if path[0] == start)


@given(st.integers(3, 14), st.integers(1, 9), st.integers(1, 5), st.integers(0, 2**32))
@settings(deadline=None)
def test_a_word_has_one_path_in_a_grid_of_its_size(length: int, least: int, added: int, seed: int) -> None:
    puzzle = Word(lengths=(length, length), least_size=max(2, least), added_size=added, blocking=1)
    instance = puzzle.embed(random.Random(seed))
    if instance is None:
        return

    path = monotone_path(puzzle.solve(instance))
    last_row, last_column = path[-1]

    assert len(instance.letters) == max(2, least, length // 2 + added)
    assert all(row.isascii() and row.isalpha() and row.isupper() for row in instance.letters)
    assert spelt(instance.letters, path) == instance.word
    assert (path[0], len(path)) == (instance.start, length)
    after = [(last_row + 1, last_column), (last_row, last_column + 1)]
    assert all(
        instance.letters[row][column] in RARE for row, column in after if max(row, column) < len(instance.letters)
    )


def test_starts_paths_and_letters_after_the_end_vary() -> None:
    puzzle, rng = Word(lengths=(5, 5), blocking=0), random.Random(0)
    instances = [instance for _ in range(300) if (instance := puzzle.embed(rng)) is not None]

    # In a grid of 6 x 6, five cells fit from all but the ten cells that are fewer than four steps from the corner.
    assert {instance.start for instance in instances} == {
        (row, column) for row in range(6) for column in range(6) if row + column <= 6
    }
    straight = sum(len({row for row, _ in puzzle.solve(instance)}) in (1, 5) for instance in instances)
    assert 0.05 < straight / len(instances) < 0.5
    assert len({instance.word for instance in instances}) > 280
    assert len({row for instance in instances for row in instance.letters}) > 1500


@pytest.mark.parametrize("task", TASKS)
def test_lengths_and_sizes_are_in_range_and_all_lengths_come(task: str) -> None:
    puzzle, instances = sampled(task, 80)
    low, high = puzzle.lengths

    assert {len(instance.word) for instance in instances} == set(range(low, high + 1))
    assert all(len(instance.letters) == max(6, len(instance.word) // 2 + 4) for instance in instances)


@pytest.mark.parametrize("task", TASKS)
def test_the_same_seed_gives_the_same_bytes(task: str) -> None:
    first, second = (sampled(task, 3, seed=7) for _ in range(2))

    assert first[1] == second[1] != sampled(task, 3, seed=8)[1]
    pictures = []
    for puzzle, instances in (first, second):
        files = [io.BytesIO() for _ in instances]
        for file, instance in zip(files, instances, strict=True):
            puzzle.render(instance, 256, puzzle.solve(instance)).save(file, "PNG")
        pictures.append([file.getvalue() for file in files])
    assert pictures[0] == pictures[1]


@pytest.mark.parametrize("task", TASKS)
def test_a_record_survives_a_file(task: str) -> None:
    _, (instance,) = sampled(task, 1)

    assert WordGrid.model_validate_json(instance.model_dump_json()) == instance


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("how", ["thin line", "thick line", "rings", "paint", "pale", "dark", "without start"])
def test_an_answer_drawn_by_hand_is_read(task: str, how: str) -> None:
    puzzle, instances = sampled(task, 4, seed=3)
    for instance in instances:
        source, layout = puzzle.render(instance, 512), Layout(len(instance.letters), 512)
        edited, path = source.copy(), monotone_path(puzzle.solve(instance))
        if how == "without start":
            edited = puzzle.render(instance, 512, frozenset(path[1:]))
        elif how in ("pale", "dark"):
            edited = puzzle.render(
                instance, 512, frozenset(path), colour=(250, 240, 110) if how == "pale" else (235, 195, 20)
            )
        elif how.endswith("line"):
            draw_line(edited, layout, path, YELLOW, width=0.15 if how == "thin line" else 0.4)
        else:
            pen = ImageDraw.Draw(edited)
            for cell in path:
                if how == "rings":
                    pen.ellipse(layout.box(cell, inset=0.2), outline=YELLOW, width=4)
                else:
                    pen.rectangle(layout.box(cell), YELLOW)

        expected = "invalid" if how == "without start" and not puzzle.start_given else "correct"
        assert verify_instance(puzzle, instance, source, edited).value == expected


@pytest.mark.parametrize("task", TASKS)
def test_no_spoilt_answer_is_correct_and_some_are_paths(task: str) -> None:
    puzzle, instances = sampled(task, 20, seed=5)
    kinds: Counter[str] = Counter()
    for number, instance in enumerate(instances):
        for kind, answer in puzzle.spoil(instance, random.Random(number)).items():
            assert puzzle.check(instance, answer).value != "correct", kind
            kinds[kind] += 1
    assert {"one_letter_short", "one_letter_long", "other_path", "other_start"} <= set(kinds)
    assert ("shorter_word" in kinds) == task.endswith("longest_word")


@pytest.mark.parametrize("task", TASKS)
def test_the_texts_name_what_is_needed(task: str) -> None:
    puzzle, (instance,) = sampled(task, 1)
    text = puzzle.instruct(instance)

    for language in ("en", "zh"):
        words = text.get(language)
        assert (instance.word in words) == (not task.endswith("longest_word"))
        assert ("green" in words or "绿色" in words) == puzzle.start_given
    assert instance.word in puzzle.describe(instance)


def test_another_letter_is_another_change() -> None:
    puzzle, (instance, *_) = sampled("word", 1)
    rows = list(instance.letters)
    cell = next(cell for cell in cells_of(rows) if cell not in puzzle.solve(instance) and rows[cell[0]][cell[1]] != "W")
    rows[cell[0]] = rows[cell[0]][: cell[1]] + "W" + rows[cell[0]][cell[1] + 1 :]
    other = instance.model_copy(update={"letters": rows})

    outcome = verify_instance(
        puzzle, instance, puzzle.render(instance, 512), puzzle.render(other, 512, puzzle.solve(instance))
    )

    assert outcome.value == "invalid"
    assert f"row {cell[0] + 1}, column {cell[1] + 1} was changed in another way" in outcome.reason


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"lengths": (2, 5)}, "lengths"),
        ({"lengths": (6, 5)}, "lengths"),
        ({"least_size": 1}, "least_size"),
        ({"added_size": 0}, "added_size"),
        ({"blocking": 1.5}, "blocking"),
        ({"blocking": float("nan")}, "blocking"),
    ],
)
@pytest.mark.parametrize("task", TASKS)
def test_settings_that_no_grid_has_are_refused(task: str, changes: dict[str, Any], setting: str) -> None:
    with pytest.raises(UserError, match=setting):
        replace(CLASSES[task](), **changes)


@pytest.mark.parametrize("task", TASKS)
def test_a_list_without_words_of_these_lengths_is_refused(task: str, tmp_path: Path) -> None:
    (tmp_path / "few.txt").write_text("cat\n")
    puzzle = CLASSES[task](words=str(tmp_path / "few.txt"))

    with pytest.raises(UserError, match=r"few\.txt, got 1 words of 3 to 3 letters"):
        puzzle.sample(random.Random(0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"letters": ["CAT", "XX", "XXX"]}, "as many letters a row as rows, 3"),
        ({"start": (0, 3)}, "on a path from its start"),
        ({"start": (1, 1)}, "on a path from its start"),
        ({"word": "CAR"}, "'CAR' on a path"),
        ({"word": ""}, "at least 3"),
    ],
)
def test_a_grid_without_its_word_is_refused(changes: dict[str, object], message: str) -> None:
    fields = {"letters": ["CAT", "XXX", "XXX"], "word": "CAT", "start": (0, 0)}

    WordGrid.model_validate(fields)
    with pytest.raises(ValidationError, match=message):
        WordGrid.model_validate(fields | changes)


def test_a_start_is_green_only_where_it_is_given() -> None:
    instance = WordGrid(letters=["CAT", "XXX", "XXX"], word="CAT", start=(0, 0))
    corner = Layout(3, 300).box((0, 0), inset=0.1)[:2]

    assert Word().render(instance, 300).getpixel(corner) == (185, 235, 190)
    assert GlobalWord().render(instance, 300).getpixel(corner) == (255, 255, 255)
