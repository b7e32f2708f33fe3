"""All importers by name."""

from __future__ import annotations

from data_build.importers import (
    edit_compass,
    editreward_compass,
    editreward_data,
    editscore_editreward_bench,
    editscore_reward_data,
    genai_bench,
    hpdv3,
    imagereward,
    mmrb2,
    tiger_editreward_bench,
    xverse_bench,
)
from data_build.importers.shell import Importer
from gnomon.datasets import CASES

IMPORTERS = {
    "editreward-data": Importer(
        "TIGER-Lab/EditReward-Data",
        editreward_data.convert,
        left_out={"valid_dataset_1.json": "its 503 pairs are the decided edit pairs of GenAI-Bench, a test set"},
    ),
    "tiger-editreward-bench": Importer("TIGER-Lab/EditReward-Bench", tiger_editreward_bench.convert, split="test"),
    "editscore-editreward-bench": Importer(
        "EditScore/EditReward-Bench", editscore_editreward_bench.convert, split="test"
    ),
    "editscore-reward-data": Importer("EditScore/EditScore-Reward-Data", editscore_reward_data.convert, split="train"),
    "hpdv3": Importer("MizzenAI/HPDv3", hpdv3.convert),
    "imagereward": Importer("THUDM/ImageRewardDB", imagereward.convert),
    "mmrb2": Importer("MMRB2", mmrb2.convert, split="test", licence="CC-BY-NC-4.0, not for training"),
    "genai-bench": Importer("TIGER-Lab/GenAI-Bench", genai_bench.convert, split="test"),
    "editreward-compass": Importer("EditReward-Compass", editreward_compass.convert, split="test"),
    "edit-compass": Importer("Edit-Compass", edit_compass.convert, file=CASES),
    "xverse-bench": Importer(
        "bytedance/XVerse, XVerseBench",
        xverse_bench.convert,
        file=CASES,
        left_out={
            f"XVerseBench_{kind}_DSG.json": "its questions go into the cases of the prompts beside it"
            for kind in ("single", "multi")
        },
    ),
}
