"""Precision@k and Recall@k are torchmetrics', ties are by lot, and slots are what cases say."""

from __future__ import annotations

from itertools import permutations
from statistics import fmean

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from torchmetrics.retrieval import RetrievalPrecision, RetrievalRecall

from bench.cogcanvas.retrieval import CUTOFFS, Ranked, RetrievalSlot, rank, slots_of, summarized
from gnomon.records import Case, Reference, Text
from gnomon.statistics import cluster_bootstrap


def slot(n_pool: int, relevant: list[int], name: str = "s", case_id: str = "c") -> RetrievalSlot:
    pool = [f"{place}.png" for place in range(n_pool)]
    return RetrievalSlot(
        id=name,
        case_id=case_id,
        person="Ann",
        text="with a hat",
        pool=pool,
        relevant=[pool[place] for place in relevant],
    )


scores = st.lists(st.integers(-1000, 1000), min_size=2, max_size=9, unique=True)
queries = scores.flatmap(
    lambda values: st.tuples(
        st.just(values), st.lists(st.sampled_from(range(len(values))), min_size=1, max_size=4, unique=True)
    )
)


@given(st.lists(queries, min_size=1, max_size=6))
def test_figures_are_those_of_torchmetrics(some: list[tuple[list[int], list[int]]]) -> None:
    ranked = [
        rank(slot(len(values), relevant, str(place), str(place)), np.array(values) / 1000)
        for place, (values, relevant) in enumerate(some)
    ]
    found = summarized(ranked, embedder="e", fingerprint="f", query="text")
    # Above 0, since torchmetrics takes a picture with a score of 0 or less for one that was not retrieved.
    predictions = torch.cat([2 + torch.tensor(values) / 1000 for values, _ in some])
    targets = torch.cat([torch.isin(torch.arange(len(values)), torch.tensor(relevant)) for values, relevant in some])
    indexes = torch.cat([torch.full((len(values),), place) for place, (values, _) in enumerate(some)])
    for k in CUTOFFS:
        precision = RetrievalPrecision(top_k=k)(predictions, targets, indexes=indexes)
        recall = RetrievalRecall(top_k=k)(predictions, targets, indexes=indexes)
        assert found.precision[str(k)].value == pytest.approx(float(precision), abs=1e-6)
        assert found.recall[str(k)].value == pytest.approx(float(recall), abs=1e-6)


@given(values=st.lists(st.integers(0, 2), min_size=2, max_size=5), k=st.sampled_from(CUTOFFS), data=st.data())
def test_ties_count_as_they_would_on_average_over_all_orders(values: list[int], k: int, data: st.DataObject) -> None:
    relevant = data.draw(st.lists(st.sampled_from(range(len(values))), min_size=1, max_size=2, unique=True))
    orders = [sorted(order, key=lambda place: -values[place]) for order in permutations(range(len(values)))]
    expected = fmean(len(set(order[:k]) & set(relevant)) for order in orders)
    assert rank(slot(len(values), relevant), np.array(values)).hits(k) == pytest.approx(expected)


def test_a_picture_that_cannot_be_compared_comes_last() -> None:
    found = rank(slot(3, [1]), np.array([-1.0, np.nan, 0.5]))
    assert (found.above, found.level) == ([2], [1])
    nothing = rank(slot(4, [0]), np.full(4, np.nan))
    assert nothing.hits(1) == pytest.approx(1 / 4)


def test_intervals_resample_prompts_and_chance_stands_beside() -> None:
    values = [np.array([0.9, 0.1, 0.2]), np.array([0.1, 0.9, 0.2]), np.array([0.9, 0.3, 0.2])]
    ranked = [
        rank(slot(3, [0], str(place), case_id), each)
        for place, (each, case_id) in enumerate(zip(values, ["c", "c", "d"], strict=True))
    ]
    failed = Ranked("x", "d", 3, status="unreadable_image", reason="no such file")
    found = summarized([*ranked, failed], embedder="e", fingerprint="f", query="text", n_alone=2)
    assert (found.n_slots, found.n_scored, found.failed, found.n_alone) == (4, 3, {"unreadable_image": 1}, 2)
    assert found.recall["1"] == cluster_bootstrap([1.0, 0.0, 1.0], ["c", "c", "d"])
    assert found.recall["1"].num_clusters == 2
    assert found.precision["3"].value == pytest.approx(1 / 3)
    assert found.chance_recall == {"1": pytest.approx(1 / 3), "3": 1, "5": 1}
    assert found.chance_precision == {"1": pytest.approx(1 / 3), "3": pytest.approx(1 / 3), "5": pytest.approx(1 / 5)}


def test_without_a_scored_slot_there_are_no_figures() -> None:
    found = summarized([Ranked("x", "c", 3, status="unreadable_image")], embedder="e", fingerprint="f", query="text")
    assert (found.n_scored, found.precision, found.chance_recall) == (0, {}, {})


@pytest.mark.parametrize(
    "change",
    [{"pool": ["a.png"]}, {"pool": ["a.png", "a.png"]}, {"relevant": ["z.png"]}, {"relevant": []}, {"image": "a.png"}],
)
def test_a_slot_that_makes_no_sense_is_refused(change: dict[str, object]) -> None:
    good = {"id": "s", "case_id": "c", "person": "Ann", "text": "t", "pool": ["a.png", "b.png"], "relevant": ["a.png"]}
    RetrievalSlot.model_validate(good)
    with pytest.raises(ValidationError):
        RetrievalSlot.model_validate(good | change)


def test_slots_are_made_of_the_pictures_that_cases_have_of_an_identity() -> None:
    def case(name: str, *people: tuple[str, str, str | None]) -> Case:
        references = [
            Reference(path=path, role="identity", name=person, attributes={"description": text} if text else {})
            for person, path, text in people
        ]
        cup = Reference(path="cup.png", role="object", name="cup")
        return Case(
            id=name, benchmark="cogcanvas", task="reference_generation", instruction=Text(en=f"scene {name}"),
            references=[cup, *references],
        )  # fmt: skip

    cases = [
        case("1", ("Ann", "ann-hat.png", "with a hat"), ("Bob", "bob.png", None)),
        case("2", ("Ann", "ann-scarf.png", None)),
        case("3", ("Ann", "ann-hat.png", "with a hat"), ("Bob", "bob.png", None)),
    ]
    slots, alone = slots_of(cases)
    assert alone == 2  # Bob's
    assert [(one.id, one.case_id, one.text, one.relevant) for one in slots] == [
        ("1/1", "1", "with a hat", ["ann-hat.png"]),
        ("2/1", "2", "scene 2", ["ann-scarf.png"]),
        ("3/1", "3", "with a hat", ["ann-hat.png"]),
    ]
    assert {tuple(one.pool) for one in slots} == {("ann-hat.png", "ann-scarf.png")}
