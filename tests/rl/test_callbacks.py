from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pytorch_lightning import LightningModule, Trainer

from gnomon.checkpoints import usable_checkpoint
from rl.callbacks import SaveCheckpoint


class Stop(BaseException):
    pass


class WritingTrainer(Trainer):
    """Writes a text as its checkpoint, a file or a folder, and stops like a kill after that if asked to."""

    def __init__(self, content: str, *, as_folder: bool, stop: bool) -> None:
        super().__init__(accelerator="cpu", logger=False, enable_checkpointing=False)
        self.content, self.as_folder, self.stop = content, as_folder, stop

    def save_checkpoint(self, filepath: str | Path, *_: Any, **__: Any) -> None:
        target = Path(filepath)
        assert not target.exists()
        if self.as_folder:
            target.mkdir()
            target /= "part"
        target.write_text(self.content)
        if self.stop:
            raise Stop


def save(path: Path, content: str, *, as_folder: bool, stop: bool = False) -> None:
    trainer = WritingTrainer(content, as_folder=as_folder, stop=stop)
    SaveCheckpoint(path).on_train_epoch_end(trainer, LightningModule())


def content(path: Path) -> str | None:
    found = usable_checkpoint(path)
    if found is None:
        return None
    return (found / "part" if found.is_dir() else found).read_text()


@pytest.mark.parametrize("as_folder", [False, True])
def test_there_is_a_whole_checkpoint_after_a_kill_at_any_point(
    as_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "last.ckpt"
    assert usable_checkpoint(path) is None
    with pytest.raises(Stop):
        save(path, "1", as_folder=as_folder, stop=True)
    assert usable_checkpoint(path) is None
    save(path, "1", as_folder=as_folder)
    assert content(path) == "1"
    with pytest.raises(Stop):
        save(path, "2", as_folder=as_folder, stop=True)
    assert content(path) == "1"

    def stop_at_replace(self: Path, target: Path) -> Path:
        raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stop_at_replace)
        with pytest.raises(Stop):
            save(path, "2", as_folder=as_folder)
    assert content(path) == "1"
    save(path, "3", as_folder=as_folder)
    assert content(path) == "3"
    assert [item.name for item in tmp_path.iterdir()] == ["last.ckpt"]
