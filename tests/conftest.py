"""What every test shares: no hub, no account, no window; and the published reference data, where they are at hand."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from tests.distributed.launcher import Zygote

# Before any library reads them: a test that reaches for the network fails at once instead of waiting for a time-out.
os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", WANDB_MODE="offline", MPLBACKEND="Agg")
# A shell ignores Ctrl-C on behalf of what it runs in the background, and so would all processes that tests start.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about what else the machine does; speed is measured in benchmarks/.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture(scope="session")
def golden_data() -> Path:
    """The folder of published judge replies, votes and pictures against which results are checked.

    It is not part of the repository: `GNOMON_GOLDEN` names it, `../shared/data` is looked at otherwise. A test that
    needs it is skipped where there is none, but a `GNOMON_GOLDEN` that leads nowhere is an error.
    """
    named = os.environ.get("GNOMON_GOLDEN")
    folder = Path(named) if named else REPOSITORY.parent / "shared" / "data"
    if folder.is_dir():
        return folder
    if named:
        pytest.fail(f"GNOMON_GOLDEN={named} is not a folder; correct it or unset it")
    pytest.skip(f"no reference data at {folder}; GNOMON_GOLDEN=FOLDER names another place")


@pytest.fixture(scope="session")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """A process that has imported everything and forks ranks."""
    started = Zygote(tmp_path_factory.mktemp("zygote"))
    with started.process:  # closes its input, at which it ends, and waits for it
        yield started
