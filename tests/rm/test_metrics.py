"""Pair accuracy equals scikit-learn's and counting by hand, and counts every pair once on any number of ranks."""

from __future__ import annotations

import math
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score
from torch import Tensor

from gnomon.statistics import cluster_bootstrap
from rm.metrics import PairAccuracy, PairFigures, pair_figures

NAN = math.nan


def figures(differences: list[float], labels: list[float], groups: list[str] | None = None) -> PairFigures:
    names = groups or [f"g{position}" for position in range(len(labels))]
    return pair_figures(np.array(differences), np.array(labels), np.array(names))


def test_accuracy_is_that_of_scikit_learn() -> None:
    generator = np.random.default_rng(0)
    differences, labels = generator.normal(size=200), generator.choice([-1.0, 1.0], size=200)
    groups = np.array([f"g{k % 40}" for k in range(200)])
    result = pair_figures(differences, labels, groups, seed=5)
    assert result.strict == pytest.approx(accuracy_score(labels, np.sign(differences)))
    estimate = cluster_bootstrap((np.sign(differences) == labels).astype(float), groups, seed=5)
    assert (result.ci_low, result.ci_high) == (estimate.ci_low, estimate.ci_high)
    assert (result.n, result.num_groups, result.tie_rate) == (200, 40, 0.0)


def test_ties_failures_and_missing_labels_by_hand() -> None:
    result = figures(
        #   right, wrong, tied, tied, right tie, wrong tie, failed, failed, not labelled
        [1.0, 1.0, 0.0, -9e-6, 5e-6, 0.3, NAN, math.inf, 1.0],
        [1.0, -1.0, 1.0, -1.0, 0.0, 0.0, 1.0, 0.0, NAN],
    )
    assert (result.n, result.n_ties, result.failures) == (4, 2, 2)
    assert result.strict == 1 / 4
    assert result.half_credit == (1 + 0.5 + 0.5) / 4
    assert result.tie_rule == (1 + 1) / 6
    assert result.tie_rate == 3 / 6


def test_a_perfect_judge_has_one_and_a_constant_one_has_half_of_half_credit() -> None:
    labels = [1.0, -1.0, 1.0, -1.0]
    assert figures(labels, labels).strict == 1
    constant = figures([0.0] * 4, labels)
    assert (constant.strict, constant.half_credit, constant.tie_rate) == (0, 0.5, 1)


def test_only_ties_and_nothing_at_all_have_no_accuracy() -> None:
    ties = figures([0.0, 0.5], [0.0, 0.0])
    assert (ties.n, ties.strict, ties.tie_rule, ties.tie_rate) == (0, None, 0.5, 0.5)
    nothing = figures([], [])
    assert nothing == PairFigures(0, 0, 0, None, None, None, None, None, None, 0)
    assert figures([NAN], [1.0]).failures == 1


def test_one_group_says_nothing_about_the_spread() -> None:
    result = figures([1.0, 1.0], [1.0, -1.0], ["g", "g"])
    assert (result.strict, result.ci_low, result.ci_high, result.num_groups) == (0.5, None, None, 1)


def _batch(start: int, stop: int) -> tuple[list[str], list[str], Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    differences = torch.randn(20, 2, generator=generator)
    labels = torch.randint(-1, 2, (20, 2), generator=generator).float()
    ids = [f"p{k}" for k in range(start, stop)]
    return ids, [f"g{k // 3}" for k in range(start, stop)], differences[start:stop], labels[start:stop]


def test_batches_order_and_repeats_do_not_matter() -> None:
    whole, parts = PairAccuracy(["a", "b"]), PairAccuracy(["a", "b"])
    whole.update(*_batch(0, 20))
    for start, stop in ((12, 20), (0, 5), (5, 12), (0, 5)):
        parts.update(*_batch(start, stop))
    assert whole.compute() == parts.compute()
    assert whole.compute()["a"].n + whole.compute()["a"].n_ties == 20
    whole.reset()
    whole.update(*_batch(3, 3))
    assert whole.compute()["b"].n == 0


def _on_rank(rank: int, rendezvous: str, results: str) -> None:
    torch.distributed.init_process_group("gloo", f"file://{rendezvous}", rank=rank, world_size=2)
    metric = PairAccuracy(["a", "b"])
    # Rank 1 repeats the first pair, as a sampler does that makes the ranks even; the shares differ in size.
    for start, stop in ((0, 7), (7, 13)) if rank == 0 else ((13, 20), (0, 1)):
        metric.update(*_batch(start, stop))
    torch.save([tuple(value) for value in metric.compute().values()], f"{results}/{rank}.pt")
    torch.distributed.destroy_process_group()


def test_two_ranks_count_every_pair_once(tmp_path: Path) -> None:
    ranks = [
        multiprocessing.get_context("fork").Process(target=_on_rank, args=(rank, f"{tmp_path}/meet", str(tmp_path)))
        for rank in (0, 1)
    ]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
    assert [process.exitcode for process in ranks] == [0, 0]
    alone = PairAccuracy(["a", "b"])
    alone.update(*_batch(0, 20))
    expected = [tuple(value) for value in alone.compute().values()]
    for rank in (0, 1):
        assert torch.load(tmp_path / f"{rank}.pt", weights_only=True) == expected


def test_shapes_that_do_not_fit_are_refused() -> None:
    ids, groups, differences, labels = _batch(0, 4)
    with pytest.raises(ValueError, match=r"\(4, 3\)"):
        PairAccuracy(["a", "b", "c"]).update(ids, groups, differences, labels)
    with pytest.raises(ValueError, match="3 groups"):
        PairAccuracy(["a", "b"]).update(ids, groups[:3], differences, labels)
