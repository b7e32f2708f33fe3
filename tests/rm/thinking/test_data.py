"""Both sides of every pair with mirrored labels, rationales that agree with people, and orders that can be resumed."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gnomon.datasets import read_comparisons
from gnomon.errors import UserError
from rm.thinking.asking import Question
from rm.thinking.data import expand_examples, read_rationales, schedule

MIRRORED = {"A>B": "B>A", "B>A": "A>B", "A=B": "A=B"}


@pytest.mark.parametrize("metric", ["overall", "visual_quality"])
def test_a_pairwise_judge_sees_every_pair_in_both_orders_with_mirrored_labels(data: Path, metric: str) -> None:
    comparisons = read_comparisons(data)
    examples = expand_examples(comparisons, "pairwise", metric)
    assert len(examples) == 8 * 3 * 2
    for one, other in zip(examples[::2], examples[1::2], strict=True):
        assert one.pair == other.pair
        assert (one.side, other.side) == (0, 1)
        assert one.order == other.order[::-1]
        assert other.label == MIRRORED[one.label]
    labels = Counter(example.label for example in examples)
    assert labels == ({"A=B": 48} if metric == "visual_quality" else {"A>B": 24, "B>A": 24})


def test_the_labels_are_what_people_said(data: Path) -> None:
    """The brighter candidate is better in `overall`, and its score says how bright it is."""
    for example in expand_examples(read_comparisons(data), "pairwise", "overall"):
        first, second = (example.comparison.candidates[position].scores["overall"] for position in example.order)
        assert example.label == ("A>B" if first > second else "B>A")


def test_a_rubric_judge_sees_each_candidate_of_a_pair(data: Path) -> None:
    examples = expand_examples(read_comparisons(data), "rubric", "overall")
    pairwise = expand_examples(read_comparisons(data), "pairwise", "overall")
    assert [example.order for example in examples] == [example.order[:1] for example in pairwise]
    assert [example.label for example in examples] == [example.label for example in pairwise]


def test_a_metric_that_nobody_judged_is_refused(data: Path) -> None:
    with pytest.raises(UserError, match="expected judgements in 'beauty'"):
        expand_examples(read_comparisons(data), "pairwise", "beauty")


@given(st.integers(1, 7), st.integers(0, 40), st.integers(0, 3))
def test_a_schedule_is_whole_passes_in_pairs_and_its_beginning_does_not_depend_on_its_end(
    pairs: int, visits: int, seed: int
) -> None:
    order = schedule(2 * pairs, 2 * visits, seed=seed, stage="x", together=2)
    assert len(order) == 2 * visits
    assert all(first % 2 == 0 and second == first + 1 for first, second in zip(order[::2], order[1::2], strict=True))
    for start in range(0, visits // pairs * 2 * pairs, 2 * pairs):
        assert sorted(order[start : start + 2 * pairs]) == list(range(2 * pairs))
    assert schedule(2 * pairs, visits // 2 * 2, seed=seed, stage="x", together=2) == order[: visits // 2 * 2]


def test_passes_and_seeds_and_stages_have_orders_of_their_own() -> None:
    order = schedule(50, 100, seed=0, stage="x")
    others = [order[50:], schedule(50, 50, seed=1, stage="x"), schedule(50, 50, seed=0, stage="y")]
    assert all(other != order[:50] for other in others)


def _write(file: Path, *lines: dict[str, object]) -> Path:
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    return file


def test_rationales_are_kept_when_they_have_the_form_and_agree_with_people_and_are_counted_otherwise(
    data: Path, tmp_path: Path, pairwise_question: Question
) -> None:
    examples = expand_examples(read_comparisons(data), "pairwise", "overall")
    one, other = examples[:2]
    right, wrong = ("A", "B") if one.label == "A>B" else ("B", "A")
    file = _write(
        tmp_path / "rationales.jsonl",
        {"comparison": one.comparison.id, "text": f"<think>first</think>{right}"},  # the order is 0, 1
        {"comparison": one.comparison.id, "order": list(other.order), "text": f"<think>second</think>{wrong}"},
        {"comparison": one.comparison.id, "text": f"<think>x</think>{wrong}"},
        {"comparison": one.comparison.id, "text": right},
        {"comparison": one.comparison.id, "text": "<think>x</think>perhaps"},
    )
    targets, counts = read_rationales(file, examples, pairwise_question)
    assert [(target.example, target.text[7:12]) for target in targets] == [(one, "first"), (other, "secon")]
    assert counts == {"used": 2, "not_of_the_form": 2, "contradicts_the_label": 1}


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"comparison": "nobody", "text": "x"}, "record 1 is about comparison 'nobody'"),
        ({"comparison": "c0-0", "order": [0, 7], "text": "x"}, r"in order \[0, 7\]"),
        ({"comparison": "c0-0", "txt": "x"}, "rationales.jsonl:1: "),
        ({"comparison": "c0-0", "text": "A"}, "has none: 1 are not"),
    ],
)
def test_rationales_that_cannot_be_used_are_refused_with_the_place(
    line: dict[str, object], problem: str, data: Path, tmp_path: Path, pairwise_question: Question
) -> None:
    examples = expand_examples(read_comparisons(data), "pairwise", "overall")
    with pytest.raises(UserError, match=problem):
        read_rationales(_write(tmp_path / "rationales.jsonl", line), examples, pairwise_question)
