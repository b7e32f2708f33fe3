from __future__ import annotations

import csv
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from data_build.tabletop.training import MatrixMuon, cosine, mixed_precision, muon_and_adam, train


def _fit(folder: Path, num_steps: int) -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1))

    def compute_loss(step: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(16, 4, generator=generator)
        return {"loss": ((model(x) - x.sum(1, keepdim=True)) ** 2).mean()}

    optimizers = muon_and_adam(model, muon_rate=1e-2, adam_rate=1e-2, adam_names=("2.",))
    train(model, optimizers, compute_loss, folder=folder, num_steps=num_steps, log_every=1)
    return model


def test_the_loss_falls_and_the_curve_has_every_step(tmp_path: Path) -> None:
    _fit(tmp_path, 300)
    with (tmp_path / "curve.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["name"] == "loss"]
    assert [int(row["step"]) for row in rows] == list(range(1, 301))
    losses = [float(row["value"]) for row in rows]
    assert sum(losses[-20:]) < 0.3 * sum(losses[:20])


def test_a_second_call_goes_on_where_the_first_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import data_build.tabletop.training as training

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", -1.0)  # a checkpoint at every step
    straight = _fit(tmp_path / "straight", 12).state_dict()
    kept = tmp_path / "kept.pt"
    save = training._save

    def save_and_keep(path: Path, *rest: object) -> None:
        save(path, *rest)  # type: ignore[arg-type]
        if torch.load(path, weights_only=True)["step"] == 5:
            shutil.copy(path, kept)

    monkeypatch.setattr(training, "_save", save_and_keep)
    _fit(tmp_path / "cut", 12)
    (tmp_path / "resumed").mkdir()
    shutil.copy(kept, tmp_path / "resumed" / "checkpoint.pt")
    # The killed run had logged steps after its checkpoint, and half a line.
    lines = (tmp_path / "straight" / "curve.csv").read_text().splitlines(keepends=True)
    (tmp_path / "resumed" / "curve.csv").write_text("".join([line for line in lines if line[0] in "s1234567"]) + "8,0.")
    resumed = _fit(tmp_path / "resumed", 12).state_dict()
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)
    with (tmp_path / "resumed" / "curve.csv").open() as file:
        steps = [int(row["step"]) for row in csv.DictReader(file) if row["name"] == "loss"]
    assert steps == list(range(1, 13))


def test_muon_changes_a_convolution_as_it_changes_its_matrix() -> None:
    torch.manual_seed(1)
    convolution = nn.Parameter(torch.randn(6, 2, 3, 3))
    matrix = nn.Parameter(convolution.detach().flatten(1).clone())
    gradient = torch.randn(6, 2, 3, 3)
    convolution.grad, matrix.grad = gradient.clone(), gradient.flatten(1).clone()
    MatrixMuon([convolution], 0.1).step()
    torch.optim.Muon([matrix], lr=0.1, weight_decay=0.01, adjust_lr_fn="match_rms_adamw").step()
    assert torch.equal(convolution.detach().flatten(1), matrix.detach())


def test_the_rate_rises_to_one_and_falls_to_a_fiftieth() -> None:
    factors = [cosine(step, 1000) for step in range(1000)]
    assert max(factors) == pytest.approx(1.0)
    assert factors.index(max(factors)) in (99, 100)
    assert cosine(1000, 1000) == pytest.approx(0.02)


@pytest.mark.parametrize(("capability", "is_mixed"), [("DEFAULT", False), ("AVX2", False), ("AVX512", True)])
def test_bfloat16_is_left_to_processors_that_have_vectors_of_it(
    capability: str, is_mixed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    layer = torch.nn.Linear(2, 2)
    with mixed_precision():
        computed = layer(torch.ones(1, 2))
    assert computed.dtype == (torch.bfloat16 if is_mixed else torch.float32)
