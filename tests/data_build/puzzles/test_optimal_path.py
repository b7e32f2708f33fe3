from __future__ import annotations

import random

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageDraw

from data_build.puzzles.grid import Cell, Layout, draw_line
from data_build.puzzles.optimal_path import COSTS, OptimalPath, Terrain
from tests.data_build.puzzles.examples import RESOLUTION, instances, outcome_of, outcome_of_answer

PUZZLE = OptimalPath()
_LETTERS = {"r": "road", "g": "grass", "w": "water", "#": "wall"}
MAP = Terrain(
    kinds=[[_LETTERS[letter] for letter in row] for row in ("rrrr", "r#wr", "gggr", "rrrr")],
    start=(0, 0),
    end=(3, 3),
)
BEST: tuple[Cell, ...] = ((0, 0), (0, 1), (0, 2), (0, 3), (1, 3), (2, 3), (3, 3))
DEARER: tuple[Cell, ...] = ((0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (3, 2), (3, 3))


def test_the_cheapest_way_is_the_one_by_hand() -> None:
    assert PUZZLE.solve(MAP) == BEST
    assert PUZZLE.describe(MAP).endswith("it costs 6.")


@given(st.integers(0, 10_000))
def test_draws_keep_the_paper_s_ranges_and_equal_networkx(seed: int) -> None:
    (instance,) = instances(PUZZLE, 1, seed)
    size, kinds = len(instance.kinds), instance.kinds
    graph = networkx.DiGraph()
    for row in range(size):
        for column in range(size):
            for cell in ((row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)):
                if 0 <= cell[0] < size and 0 <= cell[1] < size and kinds[cell[0]][cell[1]] != "wall":
                    graph.add_edge((row, column), cell, cost=COSTS[kinds[cell[0]][cell[1]]])

    assert 6 <= size <= 10
    assert {kind for row in kinds for kind in row} <= {*COSTS, "wall"}
    assert abs(instance.end[0] - instance.start[0]) + abs(instance.end[1] - instance.start[1]) >= size
    ways = list(networkx.all_shortest_paths(graph, instance.start, instance.end, weight="cost"))
    assert [tuple(way) for way in ways] == [PUZZLE.solve(instance)]


@pytest.mark.parametrize(
    ("answer", "value", "words"),
    [
        (BEST, "correct", "least cost, 6"),
        (DEARER, "suboptimal", "the line costs 8, the cheapest one 6"),
        (BEST[:-1], "invalid", "does not go from S to E"),
        (BEST[1:], "invalid", "does not go from S to E"),
        ((), "invalid", "does not go from S to E"),
        ((*BEST[:2], *BEST[3:]), "invalid", "no step leads from row 1, column 2 to row 1, column 4"),
        (((0, 0), (0, 1), (1, 1), (2, 1), (3, 1), (3, 2), (3, 3)), "invalid", "the wall at row 2, column 2"),
    ],
)
def test_answers_are_checked_by_the_rules(answer: tuple[Cell, ...], value: str, words: str) -> None:
    outcome = PUZZLE.check(MAP, answer)

    assert outcome.value == value
    assert words in outcome.reason


@pytest.mark.parametrize("answer", [BEST, DEARER, ((0, 0), (0, 1), (1, 1), (2, 1), (3, 1), (3, 2), (3, 3))])
def test_a_picture_is_worth_what_its_answer_is(answer: tuple[Cell, ...]) -> None:
    assert outcome_of_answer(PUZZLE, MAP, answer) == PUZZLE.check(MAP, answer)


@pytest.mark.parametrize("width", [0.08, 0.15, 0.35])
@pytest.mark.parametrize("colour", [(220, 30, 40), (160, 0, 20), (255, 60, 60)])
def test_a_line_of_any_width_and_shade_is_read(width: float, colour: tuple[int, int, int]) -> None:
    image = PUZZLE.render(MAP, RESOLUTION)
    draw_line(image, Layout(4, RESOLUTION), BEST, colour, width=width)

    assert outcome_of(PUZZLE, MAP, image).value == "correct"


def test_a_gap_a_branch_and_a_stray_mark_are_invalid() -> None:
    layout = Layout(4, RESOLUTION)
    gap, branch, stray = (PUZZLE.render(MAP, RESOLUTION, BEST) for _ in range(3))
    source = PUZZLE.render(MAP, RESOLUTION)
    hole = layout.box((0, 2))
    gap.paste(source.crop(hole), hole)
    draw_line(branch, layout, [(0, 3), (0, 2), (1, 2)], (220, 30, 40))
    ImageDraw.Draw(stray).ellipse(layout.box((3, 0), inset=0.25), (220, 30, 40))

    assert "ends at row 1, column 2" in outcome_of(PUZZLE, MAP, gap).reason
    assert "branches at row 1, column 3" in outcome_of(PUZZLE, MAP, branch).reason
    assert "marks beside the line, at row 4, column 1" in outcome_of(PUZZLE, MAP, stray).reason


def test_an_edit_without_a_line_says_so() -> None:
    assert "no red line" in outcome_of(PUZZLE, MAP, PUZZLE.render(MAP, RESOLUTION)).reason


def test_any_cheapest_way_is_correct_where_a_file_has_several() -> None:
    """Draws have one; a case of somebody else's may have more, and none of them is wrong."""
    open_ground = MAP.model_copy(update={"kinds": [["road"] * 4] * 4})
    first = tuple((0, column) for column in range(4)) + tuple((row, 3) for row in range(1, 4))
    second = tuple((row, 0) for row in range(4)) + tuple((3, column) for column in range(1, 4))

    assert [PUZZLE.check(open_ground, answer).value for answer in (first, second)] == ["correct", "correct"]


def test_a_spoilt_way_is_never_the_best() -> None:
    for instance in instances(PUZZLE, 10):
        for kind, answer in PUZZLE.spoil(instance, random.Random(0)).items():
            assert answer != PUZZLE.solve(instance), kind
