"""A small resumable training loop for the models that ship: fixed steps, cosine rates, a curve in CSV.

The models that ship are trained once, so this loop stays apart from the Lightning modules that users train with:
it has one process, deterministic batches by step, and a checkpoint from which the next call goes on.
"""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from gnomon.files import atomic_write_text

CHECKPOINT_SECONDS = 120.0


def mixed_precision() -> torch.autocast:
    """Return a context that computes in bfloat16 where the processor has vectors of it (AVX-512), else as usual.

    Without them PyTorch goes number by number, which takes forty times as long as float32.
    """
    return torch.autocast("cpu", torch.bfloat16, enabled=torch.backends.cpu.get_cpu_capability().startswith("AVX512"))


class MatrixMuon(torch.optim.Muon):
    """Muon over weights of any rank, each seen as a matrix [out, everything else] of the same memory.

    Muon orthogonalises each matrix's momentum (Jordan et al., 2024), which needs several times fewer steps than AdamW
    on the small models here; torch's own takes matrices only, and convolutions profit as much.
    """

    def __init__(self, weights: list[nn.Parameter], rate: float) -> None:
        self.weights = weights
        views = [nn.Parameter(weight.data.flatten(1)) for weight in weights]
        super().__init__(views, lr=rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw")

    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights from their gradients."""
        for view, weight in zip(self.param_groups[0]["params"], self.weights, strict=True):
            view.grad = None if weight.grad is None else weight.grad.flatten(1)
        super().step(closure)  # type: ignore[no-untyped-call]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of views and weights."""
        super().zero_grad(set_to_none)
        for weight in self.weights:
            weight.grad = None


def muon_and_adam(
    module: nn.Module, *, muon_rate: float, adam_rate: float, adam_names: tuple[str, ...]
) -> list[torch.optim.Optimizer]:
    """Return AdamW for vectors and for weights whose name holds one of `adam_names`, and Muon for all other weights."""
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, parameter in module.named_parameters():
        is_matrix = parameter.ndim >= 2 and not any(part in name for part in adam_names)
        (matrices if is_matrix else others).append(parameter)
    adam = torch.optim.AdamW(others, lr=adam_rate, betas=(0.9, 0.99), weight_decay=0.0)
    return [adam, MatrixMuon(matrices, muon_rate)]


def cosine(step: int, num_steps: int, warmup: int = 100) -> float:
    """Return the factor of the learning rate: linear warm-up, then a cosine down to a fiftieth."""
    if step < warmup:
        return (step + 1) / warmup
    share = (step - warmup) / max(num_steps - warmup, 1)
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


def update_average(average: Mapping[str, Tensor], module: nn.Module, decay: float) -> None:
    """Move the exponential moving average of the weights one step towards the module's."""
    for name, value in module.state_dict().items():
        if value.dtype.is_floating_point:
            average[name].lerp_(value.detach(), 1 - decay)
        else:
            average[name].copy_(value)


def train(
    module: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    compute_loss: Callable[[int], dict[str, Tensor]],
    *,
    folder: Path,
    num_steps: int,
    average_decay: float = 0.999,
    evaluate: Callable[[], dict[str, float]] | None = None,
    evaluate_every: int = 1000,
    log_every: int = 50,
) -> None:
    """Train until `num_steps` and leave the averaged weights in `module`; a second call goes on where one was killed.

    Args:
        module: holds every trained weight.
        optimizers: stepped together; their rates follow one cosine.
        compute_loss: returns the terms of step's batch; "loss" is minimised, all are logged.
        folder: gets `checkpoint.pt` and `curve.csv`.
        num_steps: total number of optimizer steps.
        average_decay: of the moving average of the weights.
        evaluate: measured on the averaged weights every `evaluate_every` steps and at the end.
        evaluate_every: steps between evaluations.
        log_every: steps between lines of the curve.
    """
    folder.mkdir(parents=True, exist_ok=True)
    average = {name: value.detach().clone() for name, value in module.state_dict().items()}
    rates = [[group["lr"] for group in optimizer.param_groups] for optimizer in optimizers]
    start, seconds = _load(folder / "checkpoint.pt", module, optimizers, average)
    _cut_curve(folder / "curve.csv", start)
    began, saved = time.monotonic() - seconds, time.monotonic()
    for step in range(start, num_steps):
        for optimizer, group_rates in zip(optimizers, rates, strict=True):
            for group, rate in zip(optimizer.param_groups, group_rates, strict=True):
                group["lr"] = rate * cosine(step, num_steps)
        terms = compute_loss(step)
        terms["loss"].backward()
        norm = nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        update_average(average, module, min(average_decay, (step + 1) / (step + 10)))
        finished = step + 1 == num_steps
        if (step + 1) % log_every == 0 or finished:
            row = {name: float(value.detach()) for name, value in terms.items()} | {"gradient_norm": float(norm)}
            if evaluate is not None and ((step + 1) % evaluate_every < log_every or finished):
                row |= _evaluate_average(module, average, evaluate)
            _append_row(folder / "curve.csv", {"step": step + 1, "seconds": time.monotonic() - began} | row)
        if finished or time.monotonic() - saved > CHECKPOINT_SECONDS:
            _save(folder / "checkpoint.pt", module, optimizers, average, step + 1, time.monotonic() - began)
            saved = time.monotonic()
    module.load_state_dict(average)


def _evaluate_average(
    module: nn.Module, average: Mapping[str, Tensor], evaluate: Callable[[], dict[str, float]]
) -> dict[str, float]:
    """Run `evaluate` with the averaged weights in place and put the raw ones back."""
    raw = {name: value.detach().clone() for name, value in module.state_dict().items()}
    try:
        module.load_state_dict(average)
        with torch.no_grad():
            return evaluate()
    finally:
        module.load_state_dict(raw)


def _cut_curve(path: Path, last_step: int) -> None:
    """Drop the lines of steps after the checkpoint that training goes on from, since they come again."""
    if not path.exists():
        return
    head, *lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    kept = [line for line in lines if line.endswith("\n") and int(line.partition(",")[0]) <= last_step]
    atomic_write_text(path, "".join([head, *kept]))


def _append_row(path: Path, row: Mapping[str, float]) -> None:
    """Append a line `step, seconds, name, value` for each value: a long table that any tool can pivot."""
    is_new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(["step", "seconds", "name", "value"])
        for name, value in row.items():
            if name not in ("step", "seconds"):
                writer.writerow([int(row["step"]), round(row["seconds"], 1), name, f"{value:.6g}"])


def _save(
    path: Path,
    module: nn.Module,
    optimizers: list[torch.optim.Optimizer],
    average: Mapping[str, Tensor],
    step: int,
    seconds: float,
) -> None:
    state = {
        "module": module.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "average": dict(average),
        "step": step,
        "seconds": seconds,
    }
    temporary = path.with_suffix(".tmp")
    torch.save(state, temporary)
    temporary.replace(path)


def _load(
    path: Path, module: nn.Module, optimizers: list[torch.optim.Optimizer], average: dict[str, Tensor]
) -> tuple[int, float]:
    """Restore a checkpoint into everything given; return the next step and the seconds already spent."""
    if not path.exists():
        return 0, 0.0
    state = torch.load(path, weights_only=True)
    module.load_state_dict(state["module"])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    average.update(state["average"])
    return int(state["step"]), float(state["seconds"])
