"""Every setting of the objective reaches the loss that it names, and contradictions are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from gnomon.errors import UserError
from rm.data import LabelCounts, PairBatch
from rm.gaussian import gaussian_preference
from rm.heads import Scores
from rm.losses import bradley_terry, listwise, rao_kupper, regression
from rm.objective import Objective

NAN = float("nan")


def _batch() -> PairBatch:
    """Return three candidates of one comparison and two of another, in two dimensions."""
    return PairBatch(
        inputs={},
        first=torch.tensor([0, 1, 3]),
        second=torch.tensor([1, 2, 4]),
        labels=torch.tensor([[1.0, 0.0], [-1.0, NAN], [0.0, 1.0]]),
        margins=torch.tensor([[0.5, NAN], [NAN, NAN], [0.0, 0.3]]),
        targets=torch.tensor([[0.1, NAN], [0.9, 1.0], [NAN, NAN], [0.0, 0.4], [0.2, 0.2]]),
        pair_ids=["a", "b", "c"],
        group_ids=["x", "x", "y"],
    )


def _scores() -> Scores:
    mean, log_sigma = torch.randn(2, 5, 2, generator=torch.Generator().manual_seed(3))
    return Scores(mean, log_sigma)


def _expected(options: dict[str, Any], scores: Scores, batch: PairBatch) -> Tensor:
    first, second = scores.mean[batch.first], scores.mean[batch.second]
    assert scores.log_sigma is not None
    doubt = scores.log_sigma[batch.first], scores.log_sigma[batch.second]
    match options.get("loss"):
        case "rao_kupper":
            k = options.get("tie_k", 5.0)
            return rao_kupper(first, second, batch.labels, k=5.0 if k == "fit" else k).loss
        case "listwise":
            return listwise(scores.mean, batch.first, batch.second, batch.labels).loss
        case "regression":
            return torch.zeros(())
        case "hpsv3":
            return gaussian_preference(first, second, *doubt, batch.labels, form="hpsv3").loss
        case _ if options.get("uncertainty"):
            return gaussian_preference(first, second, *doubt, batch.labels, k=options.get("tie_k")).loss
    margins = 2 * batch.margins if options.get("use_margins") else None
    return bradley_terry(first, second, batch.labels, margins=margins, centring=options.get("centring", 0.0)).loss


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"use_margins": True, "margin_scale": 2.0, "centring": 0.01},
        {"loss": "rao_kupper"},
        {"loss": "rao_kupper", "tie_k": 3.0},
        {"loss": "rao_kupper", "tie_k": "fit"},
        {"uncertainty": True},
        {"uncertainty": True, "tie_k": 3.0},
        {"loss": "hpsv3", "uncertainty": True},
        {"loss": "listwise"},
        {"loss": "regression"},
        {"regression_weight": 0.5},
        {"loss": "listwise", "regression_weight": 0.25},
    ],
)
def test_the_loss_is_what_the_options_say(options: dict[str, Any]) -> None:
    batch, scores = _batch(), _scores()
    objective = Objective(options.get("loss"), dimensions=2, **{k: v for k, v in options.items() if k != "loss"})
    weight = options.get("regression_weight", 1.0 if options.get("loss") == "regression" else 0.0)
    expected = _expected(options, scores, batch) + weight * regression(scores.mean, batch.targets).loss
    torch.testing.assert_close(objective(scores, batch).loss, expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"loss": "gaussian"}, "model.uncertainty true"),
        ({"loss": "hpsv3"}, "model.uncertainty true"),
        ({"loss": "bradley_terry", "uncertainty": True}, "gaussian or hpsv3"),
        ({"loss": "listwise", "tie_k": 3.0}, "model.tie_k has no meaning for model.loss listwise"),
        ({"loss": None, "tie_k": "fit"}, "model.tie_k has no meaning for model.loss bradley_terry"),
        ({"loss": "rao_kupper", "tie_k": 1.0}, "above 1"),
        ({"loss": "rao_kupper", "centring": 0.1}, "no meaning for model.loss rao_kupper"),
        ({"loss": "listwise", "use_margins": True}, "no meaning for model.loss listwise"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Objective(options.pop("loss"), dimensions=2, **options)


@pytest.mark.parametrize(
    ("counts", "options", "learns"),
    [
        (LabelCounts(decided=1, ties=0, scores=0), {}, True),
        (LabelCounts(decided=0, ties=1, scores=1), {}, False),
        (LabelCounts(decided=0, ties=1, scores=0), {"loss": "rao_kupper"}, True),
        (LabelCounts(decided=0, ties=1, scores=0), {"regression_weight": 0.5}, False),
        (LabelCounts(decided=0, ties=0, scores=1), {"regression_weight": 0.5}, True),
        (LabelCounts(decided=0, ties=0, scores=1), {"loss": "rao_kupper"}, False),
        (LabelCounts(decided=0, ties=1, scores=0), {"uncertainty": True}, False),
        (LabelCounts(decided=0, ties=1, scores=0), {"uncertainty": True, "tie_k": 3.0}, True),
        (LabelCounts(decided=0, ties=1, scores=0), {"loss": "listwise"}, False),
        (LabelCounts(decided=1, ties=0, scores=0), {"loss": "listwise"}, True),
        (LabelCounts(decided=1, ties=1, scores=0), {"loss": "regression"}, False),
        (LabelCounts(decided=0, ties=0, scores=1), {"loss": "regression"}, True),
    ],
)
def test_what_moves_a_head_depends_on_the_loss(counts: LabelCounts, options: dict[str, Any], learns: bool) -> None:
    assert Objective(options.pop("loss", None), dimensions=1, **options).learns_from(counts) == learns
