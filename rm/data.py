"""Comparison folders as batches of pairs, in an order that a resumed run continues exactly."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Sampler

from gnomon.datasets import read_comparisons, resolve
from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.images import load_image
from gnomon.records import Comparison
from rm.pairs import Pair, expand_pairs, swap_by_hash, unknown_dimensions
from rm.prompt import PromptEncoder

RowKey = tuple[str, tuple[Path, ...], Path]

EDITREWARD_COMPASS = "EditReward-Compass"
"""What an import of the benchmark writes as the source of its comparisons."""


@dataclass
class PairBatch:
    """Pairs over shared rows: a candidate that is in several pairs goes through the model once.

    Attributes:
        inputs: encoded rows, one per different (instruction, references, candidate); packed where prefixes are shared.
        first: row of each pair's first candidate [pairs].
        second: row of each pair's second candidate [pairs].
        labels: 1 first better, -1 second better, 0 tie, NaN not judged [pairs, dimensions].
        margins: how far apart they are, >= 0, NaN where nobody said [pairs, dimensions].
        targets: absolute scores, NaN where there are none [rows, dimensions].
        pair_ids: one per pair.
        group_ids: the cluster of each pair.
    """

    inputs: dict[str, Tensor]
    first: Tensor
    second: Tensor
    labels: Tensor
    margins: Tensor
    targets: Tensor
    pair_ids: list[str]
    group_ids: list[str]


@dataclass(frozen=True)
class Row:
    """One candidate as the model sees it, by paths; equal rows have equal scores."""

    instruction: str
    references: tuple[Path, ...]
    candidate: Path
    scores: tuple[tuple[str, float], ...]

    @property
    def key(self) -> RowKey:
        """What the score depends on."""
        return self.instruction, self.references, self.candidate


@dataclass(frozen=True)
class Item:
    """The pairs of one comparison and the rows that they point into."""

    rows: list[Row]
    pairs: list[Pair]
    pictures: dict[Path, Image.Image]


class LabelCounts(NamedTuple):
    """How much a dataset says in one dimension.

    Attributes:
        decided: pairs with a better side.
        ties: tied pairs.
        scores: candidates with an absolute score.
    """

    decided: int
    ties: int
    scores: int


class ComparisonDataset(Dataset[Item]):
    """One item per comparison, with all its judged pairs and their decoded pictures.

    Args:
        root: the dataset folder.
        comparisons: its records.
        dimensions: judgements in other dimensions are left out, and comparisons that have no other.
        language: "en" or "zh".
        swap_seed: seed of the side swap; None keeps the sides as they are.

    Raises:
        UserError: when nothing is left.
    """

    def __init__(
        self,
        root: Path,
        comparisons: Sequence[Comparison],
        dimensions: Sequence[str],
        *,
        language: str = "en",
        swap_seed: int | None = None,
    ) -> None:
        self.root = root
        self.dimensions = tuple(dimensions)
        self.language = language
        self.comparisons: list[Comparison] = []
        self.pairs: list[list[Pair]] = []
        expanded = [expand_pairs(comparison) for comparison in comparisons]
        _warn_about_unknown(root, [pair for pairs in expanded for pair in pairs], dimensions)
        for comparison, pairs in zip(comparisons, expanded, strict=True):
            known = [_restricted(pair, dimensions) for pair in pairs if set(pair.labels) & set(dimensions)]
            if known:
                self.comparisons.append(comparison)
                self.pairs.append(known if swap_seed is None else [swap_by_hash(pair, swap_seed) for pair in known])
        if not self.comparisons:
            raise UserError(f"expected judgements in {', '.join(dimensions)}, {root} has none")

    def __len__(self) -> int:
        return len(self.comparisons)

    def __getitem__(self, index: int) -> Item:
        comparison, pairs = self.comparisons[index], self.pairs[index]
        references = tuple(resolve(self.root, reference.path) for reference in comparison.references)
        # Candidates that no kept pair mentions are not worth a forward pass.
        used = _mentioned(pairs)
        rows = [
            Row(
                instruction=comparison.instruction.get(self.language),
                references=references,
                candidate=resolve(self.root, comparison.candidates[position].path),
                scores=tuple(comparison.candidates[position].scores.items()),
            )
            for position in used
        ]
        renumbered = [replace(pair, first=used.index(pair.first), second=used.index(pair.second)) for pair in pairs]
        pictures = {path: load_image(path) for path in {*references, *(row.candidate for row in rows)}}
        return Item(rows, renumbered, pictures)

    def counts(self) -> dict[str, LabelCounts]:
        """Return how much there is to learn in each dimension."""
        labels = Counter(
            (name, label != 0) for pairs in self.pairs for pair in pairs for name, label in pair.labels.items()
        )
        scores = Counter(
            name
            for comparison, pairs in zip(self.comparisons, self.pairs, strict=True)
            for position in _mentioned(pairs)
            for name in comparison.candidates[position].scores
        )
        return {name: LabelCounts(labels[name, True], labels[name, False], scores[name]) for name in self.dimensions}


def _mentioned(pairs: Sequence[Pair]) -> list[int]:
    """Return the positions of the candidates in `pairs`."""
    return sorted({side for pair in pairs for side in (pair.first, pair.second)})


def _restricted(pair: Pair, dimensions: Sequence[str]) -> Pair:
    return replace(pair, labels={name: label for name, label in pair.labels.items() if name in dimensions})


def _warn_about_unknown(root: Path, pairs: Sequence[Pair], dimensions: Sequence[str]) -> None:
    unknown = unknown_dimensions(pairs, dimensions)
    if unknown:
        counts = ", ".join(f"{name} ({count:,})" for name, count in sorted(unknown.items()))
        warnings.warn(
            f"{root}: judgements in dimensions that the model has no head for are left out: {counts}; "
            "add them to model.dimensions to learn from them",
            stacklevel=2,
        )


def collate(
    items: Sequence[Item], *, encoder: PromptEncoder, dimensions: Sequence[str], share_prefix: bool = False
) -> PairBatch:
    """Put items into one batch; equal rows of different items become one.

    Args:
        items: one or more.
        encoder: of the model.
        dimensions: of the model.
        share_prefix: let rows that differ in the candidate alone lie in one sequence.
    """
    pictures = {path: picture for item in items for path, picture in item.pictures.items()}
    rows: dict[RowKey, Row] = {}
    position: dict[RowKey, int] = {}
    first, second, pairs = [], [], []
    for item in items:
        for row in item.rows:
            position.setdefault(row.key, len(rows))
            rows.setdefault(row.key, row)
        for pair in item.pairs:
            first.append(position[item.rows[pair.first].key])
            second.append(position[item.rows[pair.second].key])
            pairs.append(pair)
    encode = encoder.encode_packed if share_prefix else encoder.encode
    inputs = encode(
        [row.instruction for row in rows.values()],
        [[pictures[path] for path in row.references] for row in rows.values()],
        [pictures[row.candidate] for row in rows.values()],
    )
    return PairBatch(
        inputs=inputs,
        first=torch.tensor(first),
        second=torch.tensor(second),
        labels=_table([pair.labels for pair in pairs], dimensions),
        margins=_table([pair.margins for pair in pairs], dimensions),
        targets=_table([dict(row.scores) for row in rows.values()], dimensions),
        pair_ids=[pair.id for pair in pairs],
        group_ids=[pair.group_id for pair in pairs],
    )


def _table(records: Sequence[Any], dimensions: Sequence[str]) -> Tensor:
    """Return values by name as a float32 table, NaN where missing or None."""
    values = [[math.nan if record.get(name) is None else record[name] for name in dimensions] for record in records]
    return torch.tensor(values, dtype=torch.float32)


class BatchStream(Sampler[list[int]]):
    """Batches of a training as one endless stream: batch number b depends on (seed, b) and the rank alone.

    Every pass over the data is a fresh permutation, cut into whole optimizer steps: batches that all ranks get equally
    many of, as many as gradients are accumulated over. What is left over of a pass is drawn again in the next one.

    Attributes:
        start: number of the batch at which the next iteration begins.
    """

    def __init__(
        self,
        num_items: int,
        batch_size: int,
        *,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        accumulation: int = 1,
    ) -> None:
        """Cut a pass.

        Args:
            num_items: comparisons of a pass.
            batch_size: comparisons per batch and rank.
            seed: of the order.
            rank: whose batches these are.
            world_size: number of ranks.
            accumulation: batches per optimizer step.

        Raises:
            UserError: when one pass has fewer items than one step over all ranks.
        """
        self.num_items, self.batch_size, self.seed = num_items, batch_size, seed
        self.rank, self.world_size = rank, world_size
        self.start = 0
        per_step = batch_size * world_size * accumulation
        # Lightning would end a pass with a step of fewer batches, and still divide their sum by all of them.
        self.batches_per_pass = num_items // per_step * accumulation
        if self.batches_per_pass == 0:
            raise UserError(
                f"expected at least {per_step} comparisons (data.batch_size {batch_size} on {world_size} ranks, "
                f"{accumulation} batches per step), got {num_items}; choose a smaller batch size"
            )

    def __len__(self) -> int:
        return self.batches_per_pass

    def batch(self, number: int) -> list[int]:
        """Return the items of batch `number` of the whole training, for this rank."""
        turn, position = divmod(number, self.batches_per_pass)
        order = np.random.default_rng(stable_seed("order", self.seed, turn)).permutation(self.num_items)
        begin = (position * self.world_size + self.rank) * self.batch_size
        return [int(index) for index in order[begin : begin + self.batch_size]]

    def __iter__(self) -> Iterator[list[int]]:
        return (self.batch(number) for number in range(self.start, self.start + len(self)))


class ResumableLoader(DataLoader[Item]):
    """A loader over a :class:`BatchStream` that Lightning saves in its checkpoints and continues where it was."""

    def __init__(self, dataset: ComparisonDataset, stream: BatchStream, **options: Any) -> None:
        """Start at the first batch; `options` go to the DataLoader."""
        super().__init__(dataset, batch_sampler=stream, **options)
        self.stream = stream
        self.position = 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self.stream.start = self.position
        for batch in super().__iter__():
            self.position += 1  # counted here and not in the sampler, which workers make run ahead
            yield batch

    def state_dict(self) -> dict[str, int]:
        """Return how many batches were handed out."""
        return {"position": self.position}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on after that many batches."""
        self.position = state["position"]


def validation_folder(validation: str | None, editreward_compass: str | None) -> Path:
    """Return the folder that chooses the checkpoint: the one of the two that is given.

    Raises:
        UserError: for both, or neither of them.
    """
    folder = editreward_compass if validation is None else validation
    if folder is None:
        raise UserError(
            "expected a folder to choose the checkpoint by, got none; give data.validation, or data.editreward_compass "
            "with the imported benchmark"
        )
    if validation is not None and editreward_compass is not None:
        raise UserError(
            "expected one folder to choose the checkpoint by, got data.validation and data.editreward_compass; set one "
            "of them to null, and measure the judge on the other with `gnomon rm eval`"
        )
    return Path(folder)


def _check_source(folder: Path, comparisons: Sequence[Comparison], source: str) -> None:
    """Refuse a folder that holds something else than the imported `source`."""
    others = [comparison for comparison in comparisons if comparison.source != source]
    if others:
        raise UserError(
            f"expected nothing but {source} in data.editreward_compass, {len(others)} comparisons of {folder} have "
            f"another source ({others[0].id!r}: {others[0].source}); make the folder with `gnomon data import "
            "editreward-compass`, or give it as data.validation"
        )


class ComparisonsDataModule(LightningDataModule):
    """Training and validation folders with `comparisons.jsonl`; pictures may differ per side, references are shared.

    Args:
        train: folder with the comparisons to learn from.
        validation: folder with those that choose the checkpoint; left out with editreward_compass.
        editreward_compass: folder of the imported EditReward-Compass, which then chooses the checkpoint.
        encoder: makes the model's inputs; the command line takes it from the model.
        dimensions: the model's dimensions; the command line takes them from the model.
        share_prefix: whether the model reads a comparison's references and instruction once; the command line takes
            it from the model.
        batch_size: comparisons per batch and rank, each with all its pairs; an optimizer step takes
            trainer.accumulate_grad_batches batches.
        validation_batch_size: the same for validation.
        num_workers: processes that decode and encode pictures; 0 does it in the training process.
        language: of the instructions, "en" or "zh"; the other one is used where it is missing.
        seed: of the order and of the side swap.
    """

    def __init__(
        self,
        train: str,
        encoder: PromptEncoder,
        dimensions: Sequence[str],
        validation: str | None = None,
        editreward_compass: str | None = None,
        share_prefix: bool = False,
        batch_size: int = 8,
        validation_batch_size: int = 16,
        num_workers: int = 0,
        language: str = "en",
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.folders = {"train": Path(train), "validation": validation_folder(validation, editreward_compass)}
        self.benchmark = EDITREWARD_COMPASS if editreward_compass is not None else None
        self.encoder, self.dimensions, self.share_prefix = encoder, tuple(dimensions), share_prefix
        self.batch_sizes = {"train": batch_size, "validation": validation_batch_size}
        self.num_workers, self.language, self.seed = num_workers, language, seed
        self.datasets: dict[str, ComparisonDataset] = {}

    def setup(self, stage: str | None = None) -> None:
        """Read both folders, so that whatever is wrong with them ends the run before its first step.

        Raises:
            UserError: for a missing folder or picture, a broken line, a folder without usable judgements, a comparison
                that is in both folders, or another set than EditReward-Compass where that is expected.
        """
        for name, folder in self.folders.items():
            if name not in self.datasets:
                comparisons = read_comparisons(folder)
                if name == "validation" and self.benchmark is not None:
                    _check_source(folder, comparisons, self.benchmark)
                self.datasets[name] = ComparisonDataset(
                    folder,
                    comparisons,
                    self.dimensions,
                    language=self.language,
                    swap_seed=self.seed if name == "train" else None,
                )
        train, validation = ({item.id for item in self.datasets[name].comparisons} for name in self.folders)
        if shared := train & validation:
            raise UserError(
                f"expected validation comparisons that nothing is learnt from, but {len(shared)} of "
                f"{self.folders['validation']} are in {self.folders['train']} too ({min(shared)!r}, ...); "
                "set data.validation to a folder of others"
            )

    def train_dataloader(self) -> ResumableLoader:
        """Return the endless stream of training batches."""
        rank, world_size = self._ranks()
        stream = BatchStream(
            len(self.datasets["train"]),
            self.batch_sizes["train"],
            seed=self.seed,
            rank=rank,
            world_size=world_size,
            accumulation=self.trainer.accumulate_grad_batches if self.trainer else 1,
        )
        return ResumableLoader(self.datasets["train"], stream, **self._options())

    def val_dataloader(self) -> DataLoader[Item]:
        """Return this rank's share of the validation comparisons, in the file's order."""
        dataset = self.datasets["validation"]
        rank, world_size = self._ranks()
        # Ranks must take equally many steps; the metric counts what the wrap-around repeats only once.
        total = math.ceil(len(dataset) / world_size) * world_size
        share = [index % len(dataset) for index in range(rank, total, world_size)]
        size = self.batch_sizes["validation"]
        batches = [share[start : start + size] for start in range(0, len(share), size)]
        return DataLoader(dataset, batch_sampler=batches, **self._options())

    def _ranks(self) -> tuple[int, int]:
        return (self.trainer.global_rank, self.trainer.world_size) if self.trainer else (0, 1)

    def _options(self) -> dict[str, Any]:
        return {
            "collate_fn": partial(
                collate, encoder=self.encoder, dimensions=self.dimensions, share_prefix=self.share_prefix
            ),
            "num_workers": self.num_workers,
            # A loader without a generator of its own draws a seed from torch's, and shifts everything after it.
            "generator": torch.Generator().manual_seed(self.seed),
        }
