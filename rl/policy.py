"""The policy: a generator whose transformer carries the adapter that is trained, and copies of it that are not.

One forward pass, three sets of weights: the trained adapter, a named copy (the policy that sampled, for algorithms that
part the two), or none, which is the model that training started from.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor
from torch.nn import Parameter

from gnomon.errors import UserError
from gnomon.sharding import gathered
from rl.conditioning import Conditioning
from rl.generator import DiffusersGenerator
from rl.lora import add_lora
from rl.settings import LoraSettings

TRAINED = "default"
"""PEFT's name of the adapter that is trained, validated and exported."""


class Policy:
    """A generator with its adapters.

    Attributes:
        generator: makes the pictures; outside of `using` with the trained adapter.
        trained: the trained weights by name, float32.
        copies: by the copy's name the frozen weights, under the names of the trained ones.
    """

    def __init__(
        self, generator: DiffusersGenerator, lora: LoraSettings, *, copies: Sequence[str] = (), seed: int = 0
    ) -> None:
        """Put a fresh adapter on the generator, and equal copies beside it.

        Raises:
            UserError: when the generator already carries an adapter, or LoRA targets match nothing.
        """
        self.generator = generator
        transformer: Any = generator.transformer
        if getattr(transformer, "peft_config", None):
            raise UserError(
                "expected a generator without an adapter (model.generator.init_args.lora) to train one on it; merge "
                "the LoRA into the model first"
            )
        names = add_lora(transformer, rank=lora.rank, alpha=lora.alpha, targets=lora.targets, init=lora.init, seed=seed)
        self.trained: dict[str, Parameter] = {name: transformer.get_parameter(name) for name in names}
        self.copies: dict[str, dict[str, Parameter]] = {name: self._add_copy(name) for name in copies}
        self._activate(TRAINED)
        _without_dropout(transformer)

    def recompute_activations(self) -> None:
        """Turn gradient checkpointing on: activations are computed again in the backward pass.

        Raises:
            UserError: when the model has no such thing.
        """
        transformer: Any = self.generator.transformer
        if not getattr(transformer, "_supports_gradient_checkpointing", False):
            raise UserError(
                f"{type(transformer).__name__} has no gradient checkpointing; turn "
                "model.optimizer.gradient_checkpointing off"
            )
        transformer.enable_gradient_checkpointing()

    def _add_copy(self, copy_name: str) -> dict[str, Parameter]:
        transformer: Any = self.generator.transformer
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():  # what PEFT draws is overwritten
            warnings.filterwarnings("ignore", "Already found a `peft_config`")  # several adapters are the point
            transformer.add_adapter(copy.deepcopy(transformer.peft_config[TRAINED]), adapter_name=copy_name)
        weights = {}
        for name, trained in self.trained.items():
            parameter = transformer.get_parameter(name.replace(f".{TRAINED}.", f".{copy_name}."))
            parameter.requires_grad_(False)
            parameter.data = trained.detach().clone()
            weights[name] = parameter
        return weights

    def _activate(self, name: str) -> None:
        for module in self.generator.transformer.modules():
            if isinstance(module, BaseTunerLayer):
                module.set_adapter(name, inference_mode=name != TRAINED)

    @contextmanager
    def using(self, adapter: str | None) -> Iterator[None]:
        """Let the generator work with another adapter, or with none; without gradients.

        Args:
            adapter: name of a copy, `TRAINED`, or None for the model beneath.
        """
        if adapter == TRAINED:
            yield
            return
        transformer: Any = self.generator.transformer
        if adapter is None:
            transformer.disable_adapters()
        else:
            self._activate(adapter)
        try:
            yield
        finally:
            if adapter is None:
                transformer.enable_adapters()
            self._activate(TRAINED)

    @torch.no_grad()
    def velocity_of(self, adapter: str | None, conditioning: Conditioning, latents: Tensor, step: int) -> Tensor:
        """Predict velocities as `DiffusersGenerator.velocity`, with a copy or the model beneath, without gradients."""
        with self.using(adapter):
            return self.generator.velocity(conditioning, latents, step)

    @torch.no_grad()
    def move_copy(self, name: str, kept: float) -> None:
        """Move a copy towards the trained weights: `copy <- kept copy + (1 - kept) trained`.

        Args:
            name: of the copy.
            kept: share of what it was, 0..1.
        """
        own = self.copies[name]
        with gathered([*own.values(), *self.trained.values()], write=True):
            for key, parameter in own.items():
                parameter.copy_(kept * parameter + (1 - kept) * self.trained[key])

    def copies_state(self) -> dict[str, dict[str, Tensor]]:
        """Return the weights of all copies, whole, for a checkpoint; a collective call."""
        state = {}
        for name, weights in self.copies.items():
            with gathered(weights.values()):
                state[name] = {key: value.detach().clone() for key, value in weights.items()}
        return state

    @torch.no_grad()
    def load_copies_state(self, state: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Take up what `copies_state` returned.

        Raises:
            UserError: when it is of other copies.
        """
        if _shapes(state) != _shapes(self.copies_state()):
            raise UserError(
                f"expected a checkpoint with these copies of the adapter: {', '.join(self.copies) or 'none'}, got "
                f"{', '.join(state) or 'none'}, or other weights in them; start in a new folder"
            )
        for name, weights in self.copies.items():
            with gathered(weights.values(), write=True):
                for key, parameter in weights.items():
                    parameter.copy_(state[name][key])


def _shapes(state: Mapping[str, Mapping[str, Tensor]]) -> dict[str, dict[str, tuple[int, ...]]]:
    return {name: {key: tuple(value.shape) for key, value in weights.items()} for name, weights in state.items()}


def _without_dropout(model: torch.nn.Module) -> None:
    # Rollout, replay and training must be one function of the weights.
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.train()
