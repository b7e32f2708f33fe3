"""Batches hold every pair with its own pictures and labels, in an order that depends on the seed alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from gnomon.datasets import read_comparisons, write_records
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.records import ComparedImage
from rm.data import (
    BatchStream,
    ComparisonDataset,
    ComparisonsDataModule,
    LabelCounts,
    PairBatch,
    ResumableLoader,
    collate,
)
from rm.reward_model import RewardModel

Write = Callable[..., Path]
DIMENSIONS = ("instruction_awareness", "visual_quality", "overall", "visual_consistency")


def _module(model: RewardModel, train: Path, validation: Path, **options: object) -> ComparisonsDataModule:
    return ComparisonsDataModule(
        str(train),
        model.encoder,
        model.dimensions,
        validation=str(validation),
        **options,  # type: ignore[arg-type]
    )


def _scored(model: RewardModel, batch: PairBatch) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        scores = model(batch.inputs).mean
    return dict(zip(batch.pair_ids, scores[batch.first] - scores[batch.second], strict=True))


def test_a_batch_holds_all_pairs_over_shared_rows(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path, 2)
    dataset = ComparisonDataset(root, read_comparisons(root), DIMENSIONS)
    batch = collate([dataset[0], dataset[1]], encoder=reward_model.encoder, dimensions=DIMENSIONS)
    assert batch.pair_ids == [f"c0-{k}:{sides}" for k in (0, 1) for sides in ("0-1", "0-2", "1-2")]
    assert batch.group_ids == ["g0-0"] * 6
    assert batch.first.tolist() == [0, 0, 1, 3, 3, 4]
    assert batch.second.tolist() == [1, 2, 2, 4, 5, 5]
    assert batch.inputs["input_ids"].shape[0] == 6
    assert (batch.labels[:, 1] == 0).all()
    brightness = batch.targets[:, 2]
    expected = torch.sign(brightness[batch.first] - brightness[batch.second])
    assert torch.equal(batch.labels[:, 0], expected)
    assert torch.equal(batch.labels[:, 2], expected)
    assert batch.targets[:, :2].isnan().all()
    torch.testing.assert_close(batch.margins[:, 0], (brightness[batch.first] - brightness[batch.second]).abs())
    assert batch.margins[:, 1].isnan().all()


def test_each_side_keeps_its_own_pictures(reward_model: RewardModel, write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path, 3, references=2)
    comparisons = read_comparisons(root)
    dataset = ComparisonDataset(root, comparisons, DIMENSIONS)
    batch = collate([dataset[k] for k in range(3)], encoder=reward_model.encoder, dimensions=DIMENSIONS)
    found = _scored(reward_model, batch)
    for comparison in comparisons:
        values = reward_model.score(
            instruction="make the circle red",
            references=[load_image(root / reference.path) for reference in comparison.references],
            candidates=[load_image(root / candidate.path) for candidate in comparison.candidates],
        ).values
        for i, j in ((0, 1), (0, 2), (1, 2)):
            torch.testing.assert_close(found[f"{comparison.id}:{i}-{j}"], values[i] - values[j], atol=1e-5, rtol=0)


def test_swapping_sides_flips_labels_and_differences_exactly(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path, 4)
    comparisons = read_comparisons(root)
    batches = []
    for seed in (None, 0):
        dataset = ComparisonDataset(root, comparisons, DIMENSIONS, swap_seed=seed)
        items = [dataset[k] for k in range(4)]
        batches.append(collate(items, encoder=reward_model.encoder, dimensions=DIMENSIONS))
    kept, swapped = batches
    flips = torch.where(kept.first == swapped.first, 1.0, -1.0)
    assert set(flips.tolist()) == {1.0, -1.0}
    assert torch.equal(swapped.labels, kept.labels * flips[:, None])
    assert torch.equal(swapped.margins.nan_to_num(-1), kept.margins.nan_to_num(-1))
    before, after = _scored(reward_model, kept), _scored(reward_model, swapped)
    for name, flip in zip(kept.pair_ids, flips, strict=True):
        assert torch.equal(after[name], before[name] * flip)


def test_equal_rows_of_different_comparisons_go_through_the_model_once(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path, 1)
    only = read_comparisons(root)[0]
    pairs = [only.model_copy(update={"id": f"{k}", "judgements": [only.judgements[4 * k]]}) for k in range(3)]
    dataset = ComparisonDataset(root, pairs, ["instruction_awareness"])
    batch = collate([dataset[k] for k in range(3)], encoder=reward_model.encoder, dimensions=["instruction_awareness"])
    assert batch.inputs["input_ids"].shape[0] == 3
    assert (batch.first.tolist(), batch.second.tolist()) == ([0, 0, 1], [1, 2, 2])


def test_chinese_instructions_are_read_when_asked_for(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path, 1)
    dataset = ComparisonDataset(root, read_comparisons(root), DIMENSIONS, language="zh")
    assert {row.instruction for row in dataset[0].rows} == {"把圆变红"}


def test_unknown_dimensions_are_said_to_be_left_out(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path, 2)
    with pytest.warns(UserWarning, match=r"visual_consistency \(6\)"):
        ComparisonDataset(root, read_comparisons(root), DIMENSIONS[:3])
    with pytest.warns(UserWarning, match="left out"), pytest.raises(UserError, match="expected judgements in taste"):
        ComparisonDataset(root, read_comparisons(root), ["taste"])


def test_what_is_said_is_counted_per_dimension(write_comparisons: Write, tmp_path: Path) -> None:
    root = write_comparisons(tmp_path, 2)
    first, second = read_comparisons(root)
    # Of the second, one pair remains: its third candidate is in no pair, and so its score teaches nothing.
    second = second.model_copy(
        update={"judgements": [said for said in second.judgements if (said.i, said.j) == (0, 1)]}
    )
    assert ComparisonDataset(root, [first, second], DIMENSIONS).counts() == {
        "instruction_awareness": LabelCounts(decided=4, ties=0, scores=0),
        "visual_quality": LabelCounts(decided=0, ties=4, scores=0),
        "overall": LabelCounts(decided=4, ties=0, scores=5),
        "visual_consistency": LabelCounts(decided=4, ties=0, scores=0),
    }
    dataset = ComparisonDataset(root, [first], [*DIMENSIONS, "taste"])
    assert dataset.counts()["taste"] == LabelCounts(0, 0, 0)


def test_a_comparison_to_learn_from_is_none_to_choose_by(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    train, validation = write_comparisons(tmp_path / "train", 3), write_comparisons(tmp_path / "validation", 2, seed=1)
    _module(reward_model, train, validation).setup()
    with pytest.raises(UserError, match=r"3 of .* are in .* too \('c0-0', \.\.\.\); set data\.validation"):
        _module(reward_model, train, train).setup()
    first, second = read_comparisons(validation)
    write_records(validation / "comparisons.jsonl", [first, second.model_copy(update={"id": "c0-2"})])
    with pytest.raises(UserError, match=r"1 of .*validation are in .*train too \('c0-2'"):
        _module(reward_model, train, validation).setup()


def test_a_missing_picture_ends_the_run_before_it_starts(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path / "data", 3)
    (root / "images/1_2.png").unlink()
    module = _module(reward_model, root, root)
    with pytest.raises(UserError, match=r"comparisons\.jsonl:2: missing picture 'images/1_2\.png'"):
        module.setup()


def test_a_missing_or_empty_folder_is_the_users_problem(reward_model: RewardModel, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"comparisons\.jsonl"):
        _module(reward_model, tmp_path / "no", tmp_path / "no").setup()
    write_records(tmp_path / "comparisons.jsonl", [])
    with pytest.raises(UserError, match="has none"):
        _module(reward_model, tmp_path, tmp_path).setup()


def test_the_stream_is_a_permutation_per_pass_and_the_same_for_any_number_of_ranks() -> None:
    alone = BatchStream(11, 2, seed=3)
    passes = [[alone.batch(turn * 5 + k) for k in range(5)] for turn in range(2)]
    for batches in passes:
        seen = [item for batch in batches for item in batch]
        assert len(set(seen)) == len(seen) == 10
    assert passes[0] != passes[1]
    assert [alone.batch(k) for k in range(5)] == [BatchStream(11, 2, seed=3).batch(k) for k in range(5)]
    assert [BatchStream(11, 2, seed=4).batch(k) for k in range(5)] != passes[0]
    ranks = [BatchStream(11, 2, seed=3, rank=rank, world_size=2) for rank in (0, 1)]
    for number in range(4):
        together = [item for rank in ranks for item in rank.batch(number)]
        assert len(set(together)) == 4
    assert [ranks[number % 2].batch(number // 2) for number in range(4)] == passes[0][:4]
    with pytest.raises(UserError, match="at least 12 comparisons"):
        BatchStream(11, 6, seed=0, world_size=2)


def test_a_pass_is_whole_optimizer_steps() -> None:
    stream = BatchStream(17, 2, seed=3, accumulation=3)
    assert len(stream) == stream.batches_per_pass == 6
    for turn in range(2):
        seen = [item for number in range(6 * turn, 6 * turn + 6) for item in stream.batch(number)]
        assert len(set(seen)) == len(seen) == 12
    with pytest.raises(UserError, match=r"at least 18 comparisons .* 3 batches per step"):
        BatchStream(17, 3, seed=0, world_size=2, accumulation=3)


def test_a_loader_goes_on_where_its_state_was_taken(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    train, validation = write_comparisons(tmp_path / "train", 6), write_comparisons(tmp_path / "validation", 1, seed=1)
    module = _module(reward_model, train, validation, batch_size=2, seed=1)
    module.setup()

    def ids(loader: ResumableLoader, count: int) -> list[list[str]]:
        batches: list[list[str]] = []
        while len(batches) < count:
            for batch in loader:
                batches.append(batch.pair_ids)
                if len(batches) == count:
                    break
        return batches

    whole = ids(module.train_dataloader(), 7)
    interrupted = module.train_dataloader()
    first = ids(interrupted, 4)
    resumed = module.train_dataloader()
    resumed.load_state_dict(interrupted.state_dict())
    assert first + ids(resumed, 3) == whole


def test_validation_keeps_the_files_order_and_sides(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    train, validation = write_comparisons(tmp_path / "train", 1, seed=1), write_comparisons(tmp_path / "validation", 5)
    module = _module(reward_model, train, validation, validation_batch_size=2)
    module.setup()
    ids = [name for batch in module.val_dataloader() for name in batch.pair_ids]
    assert ids == [f"c0-{k}:{sides}" for k in range(5) for sides in ("0-1", "0-2", "1-2")]


def test_targets_come_from_the_candidates_own_scores(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path, 1)
    record = read_comparisons(root)[0]
    scores = [{"overall": 0.25, "visual_quality": 1.0}, {}, {"instruction_awareness": -2.0}]
    candidates = [
        ComparedImage(path=c.path, scores=values) for c, values in zip(record.candidates, scores, strict=True)
    ]
    dataset = ComparisonDataset(root, [record.model_copy(update={"candidates": candidates})], DIMENSIONS)
    batch = collate([dataset[0]], encoder=reward_model.encoder, dimensions=DIMENSIONS)
    nan = np.nan
    expected = [[nan, 1.0, 0.25, nan], [nan] * 4, [-2.0, nan, nan, nan]]
    np.testing.assert_array_equal(batch.targets.numpy(), np.array(expected, dtype=np.float32))


def test_packed_batches_give_the_same_scores(
    reward_model: RewardModel, write_comparisons: Write, tmp_path: Path
) -> None:
    root = write_comparisons(tmp_path, 3, references=2)
    dataset = ComparisonDataset(root, read_comparisons(root), DIMENSIONS)
    items = [dataset[k] for k in range(3)]
    whole, packed = (
        collate(items, encoder=reward_model.encoder, dimensions=DIMENSIONS, share_prefix=share)
        for share in (False, True)
    )
    assert packed.inputs["segments"].shape[0] == 3
    assert packed.pair_ids == whole.pair_ids
    with torch.no_grad():
        torch.testing.assert_close(reward_model(packed.inputs).mean, reward_model(whole.inputs).mean)
