"""Cases to train and to validate on, and which of them an iteration uses."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from PIL.Image import Image
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader, Dataset

from gnomon.datasets import read_cases, resolve
from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.images import load_image
from gnomon.ranks import items_of_rank, rank_and_world_size
from gnomon.records import Case

if TYPE_CHECKING:
    from rl.buffer import RolloutBuffer
    from rl.settings import RolloutSettings


def prompt_indices(num_cases: int, num_prompts: int, seed: int, iteration: int) -> list[int]:
    """Choose the cases of one iteration: each at most once per pass, in an order of its own in every pass.

    A pure function of its arguments, so that a resumed run meets the same cases. A pass drops the
    `num_cases % num_prompts` cases at the end of its order: no iteration holds a case twice.

    Returns:
        `num_prompts` different indices below `num_cases`.

    Raises:
        ValueError: when there are fewer cases than prompts.
    """
    per_pass = num_cases // num_prompts if num_prompts > 0 else 0
    if per_pass == 0:
        raise ValueError(
            f"expected 1 to {num_cases} prompts per iteration, as many as there are cases, got {num_prompts}"
        )
    number, place = divmod(iteration, per_pass)
    order = np.random.default_rng(stable_seed(seed, "pass", number)).permutation(num_cases)
    chosen: list[int] = order[place * num_prompts : (place + 1) * num_prompts].tolist()
    return chosen


def load_references(root: str | Path, case: Case) -> list[Image]:
    """Load the pictures that a case refers to, RGB, in their order.

    Raises:
        UserError: for a missing or unreadable picture, and a path that leaves `root`.
    """
    return [load_image(resolve(root, reference.path)) for reference in case.references]


class CaseData(LightningDataModule):
    """Two folders of cases: one to train on, one held out.

    Attributes:
        train_cases: in the order of their file.
        validation_cases: the held-out ones that are used, chosen by a hash of their ids.
    """

    def __init__(
        self,
        train: str,
        validation: str | None = None,
        *,
        limit_validation: int | None = None,
        validation_batch_size: int = 64,
    ) -> None:
        """Read the folders.

        Args:
            train: folder with `cases.jsonl` and pictures.
            validation: another one; without it nothing is measured on held-out cases.
            limit_validation: how many held-out cases to use, the same ones in every run.
            validation_batch_size: cases per validation step.

        Raises:
            UserError: for a broken folder, no cases, a case that is in both, or a number out of its range.
        """
        super().__init__()
        if validation_batch_size < 1 or (limit_validation is not None and limit_validation < 1):
            raise UserError(
                "expected data.validation_batch_size >= 1 and data.limit_validation >= 1 or none (leave out "
                f"data.validation to validate nothing), got {validation_batch_size} and {limit_validation}"
            )
        self.train_root = Path(train)
        self.validation_root = None if validation is None else Path(validation)
        self.validation_batch_size = validation_batch_size
        self.train_cases = read_cases(train)
        held_out = [] if validation is None else read_cases(validation)
        if not self.train_cases or (validation is not None and not held_out):
            raise UserError(f"expected at least one case in {validation if self.train_cases else train}, got none")
        shared = {case.id for case in self.train_cases} & {case.id for case in held_out}
        if shared:
            raise UserError(
                f"expected held-out cases, but {len(shared)} of {validation} are in {train} too ('{min(shared)}', ...)"
            )
        # By hash and not from the start: a file is often sorted by kind of edit.
        by_hash = sorted(held_out, key=lambda case: stable_seed("validation", case.id))
        self.validation_cases = by_hash[:limit_validation]

    def references(self, cases: Sequence[Case]) -> list[list[Image]]:
        """Load the pictures of training cases."""
        return [load_references(self.train_root, case) for case in cases]

    def validation_references(self, cases: Sequence[Case]) -> list[list[Image]]:
        """Load the pictures of held-out cases."""
        assert self.validation_root is not None
        return [load_references(self.validation_root, case) for case in cases]

    def train_dataloader(self) -> DataLoader[int]:
        """Serve the places of the current iteration's micro-batches in the module's buffer, in their order.

        Places and not the batches: Lightning's DeepSpeed strategy casts what a loader serves to the precision of the
        training, and latents have to stay in float32. It also asks for the size of batches, so there is one.
        """
        places = cast("Dataset[int]", range(len(self._buffer)))
        return DataLoader(places, batch_size=1, shuffle=False, collate_fn=_only_one)

    @property
    def _buffer(self) -> RolloutBuffer:
        assert self.trainer is not None
        buffer: RolloutBuffer = getattr(self.trainer.lightning_module, "buffer")  # noqa: B009
        return buffer

    def val_dataloader(self) -> DataLoader[list[Case]]:
        """Serve this rank's share of the held-out cases; none without a validation folder."""
        rank, world_size = rank_and_world_size()
        chosen = items_of_rank(len(self.validation_cases), rank, world_size) if self.validation_cases else []
        cases = cast("Dataset[list[Case]]", [self.validation_cases[item] for item in chosen])
        return DataLoader(cases, batch_size=self.validation_batch_size, collate_fn=list)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Fetch the micro-batch at a place of the buffer; it is on the device already. Cases hold no tensors."""
        return self._buffer[batch] if isinstance(batch, int) else batch


def _only_one(items: list[int]) -> int:
    (item,) = items
    return item


def check_number_of_cases(data: CaseData, rollout: RolloutSettings) -> None:
    """Refuse fewer cases to train on than an iteration takes.

    Raises:
        UserError: says how many there are and how many are wanted.
    """
    if len(data.train_cases) < rollout.num_prompts:
        raise UserError(
            f"expected at least model.rollout.num_prompts = {rollout.num_prompts} cases in data.train "
            f"({data.train_root}), got {len(data.train_cases)}; give more cases, or lower num_prompts"
        )
