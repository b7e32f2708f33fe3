"""A running average of the adapter's weights, which is often the better policy and always the calmer one.

The arithmetic is that of diffusers' `EMAModel`. What is around it here: it moves once per optimizer step (not per
micro-batch), it can be put in the policy's place and taken out again to the bit, and it knows about sharded weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from diffusers.training_utils import EMAModel
from torch import Tensor

from gnomon.errors import UserError
from gnomon.sharding import gathered


class AdapterAverage:
    """The exponential moving average of some weights.

    The first update copies the weights; update n has the decay `min(decay, n / (9 + n))`, so that the average
    does not drag the untrained adapter along.

    Attributes:
        steps: optimizer steps seen so far.
    """

    def __init__(self, parameters: Mapping[str, torch.nn.Parameter], *, decay: float, every: int = 1) -> None:
        """Start from the weights as they are now; make it before a strategy cuts them up.

        Args:
            parameters: the weights by name; they are kept, not copied.
            decay: share of the old average at each update, 0 <= decay < 1.
            every: optimizer steps per update.

        Raises:
            UserError: when a number is out of its range.
        """
        if not 0 <= decay < 1 or every < 1:
            raise UserError(f"expected 0 <= model.ema.decay < 1 and model.ema.every >= 1, got {decay} and {every}")
        self._parameters = dict(parameters)
        self._every = every
        self._model = EMAModel(self._parameters.values(), decay=decay)
        self.steps = 0

    def to(self, device: torch.device) -> None:
        """Move the average to where the weights are."""
        self._model.to(device)

    def update(self, steps: int) -> None:
        """Take in the weights, if an update is due.

        Called as often as one likes: what counts is the number of optimizer steps, so micro-batches of one step
        move the average once at most.

        Args:
            steps: optimizer steps taken since the start of the training.

        Raises:
            ValueError: when a step was missed or taken back, since the average of a run must not depend on who asked.
        """
        if steps == self.steps:
            return
        if steps != self.steps + 1:
            raise ValueError(f"expected to be called after each optimizer step, {self.steps + 1} is next, got {steps}")
        self.steps = steps
        if steps % self._every == 0:
            with gathered(self._parameters.values()):
                self._model.step(self._parameters.values())

    @property
    def weights(self) -> dict[str, Tensor]:
        """The averaged weights by name, whole on each rank; not copies."""
        return dict(zip(self._parameters, self._model.shadow_params, strict=True))

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Put the average in place of the weights, and put them back, equal to the bit, whatever happens inside.

        No optimizer step may be taken inside.
        """
        with self._writing():
            kept = [parameter.detach().clone() for parameter in self._parameters.values()]
            self._model.copy_to(self._parameters.values())
        try:
            yield
        finally:
            with self._writing():
                for parameter, value in zip(self._parameters.values(), kept, strict=True):
                    parameter.copy_(value)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        with torch.no_grad(), gathered(self._parameters.values(), write=True):
            yield

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs: the averaged weights by name and how often they were updated."""
        return {
            "steps": self.steps,
            "updates": self._model.optimization_step,
            "weights": {name: value.detach().clone() for name, value in self.weights.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`; decay and interval stay those of this object.

        Raises:
            UserError: when it is the average of other weights.
        """
        found = {name: tuple(value.shape) for name, value in state["weights"].items()}
        own = {name: tuple(value.shape) for name, value in self.weights.items()}
        if found != own:
            raise UserError(
                f"expected a checkpoint with an average of this adapter ({len(own)} tensors), got {len(found)} tensors "
                "with other names or shapes; start in a new folder"
            )
        self.steps, self._model.optimization_step = int(state["steps"]), int(state["updates"])
        for name, value in self.weights.items():
            value.copy_(state["weights"][name])
