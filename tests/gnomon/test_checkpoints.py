"""Checkpoints are written whole or not at all, and a torn one is a message."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

from gnomon.checkpoints import AtomicCheckpointIO
from gnomon.errors import UserError


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    path = tmp_path / "new" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"weight": torch.arange(3), "step": 1}, path)
    AtomicCheckpointIO().save_checkpoint({"weight": torch.arange(3), "step": 2}, path)
    loaded = AtomicCheckpointIO().load_checkpoint(path, weights_only=True)
    assert loaded["step"] == 2
    assert torch.equal(loaded["weight"], torch.arange(3))
    assert [item.name for item in path.parent.iterdir()] == ["last.ckpt"]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_a_torn_checkpoint_is_a_message_with_the_file_and_the_way_out(tmp_path: Path, share: float) -> None:
    path = tmp_path / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"weight": torch.arange(10_000)}, path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * share)])
    with pytest.raises(UserError, match=r"could not read the checkpoint .*last\.ckpt: .+\. Put a copy .* or delete it"):
        AtomicCheckpointIO().load_checkpoint(path, weights_only=True)


FULL_DISK = """
import sys
from pathlib import Path
import torch
from gnomon.checkpoints import AtomicCheckpointIO
from gnomon.errors import UserError
folder, checkpoints = Path(sys.argv[1]), AtomicCheckpointIO()
checkpoints.save_checkpoint({"step": 1}, folder / "last.ckpt")
try:
    checkpoints.save_checkpoint({"step": 2, "weight": torch.zeros(1_000_000)}, folder / "last.ckpt")
except UserError as error:
    print(error)
print(checkpoints.load_checkpoint(folder / "last.ckpt"), len(list(folder.iterdir())))
"""


def test_a_write_that_fails_keeps_the_checkpoint_before(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=64k tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL_DISK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr}")
    message, left = done.stdout.splitlines()
    assert message.startswith(f"the disk is full: could not write {tmp_path}/last.ckpt")
    assert left == "{'step': 1} 1"
