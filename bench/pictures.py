"""The pictures of a run folder: whether each is still there, and is the one that its candidate tells of."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from bench.folder import CANDIDATES, image_path, last_look
from bench.generators import CONTENT_HASH, Failure
from bench.results import Item
from gnomon.datasets import resolve
from gnomon.files import last_change, writing
from gnomon.images import UnreadableImageError, content_hash, load_image
from gnomon.records import Candidate

_WAY_OUT = "`gnomon bench generate` makes it again"


def picture_failure(run: Path, candidate: Candidate, looked_at: int) -> Failure | None:
    """Return why the picture of a candidate cannot be judged; None where it can.

    A picture with other pixels than those that the candidate was recorded with is none of this run.

    Args:
        run: the run folder.
        candidate: one that was made (`path` is not None).
        looked_at: see :func:`bench.folder.last_look`.
    """
    assert candidate.path is not None, "a candidate that failed has no picture to look for"
    made = candidate.sampling.get(CONTENT_HASH)
    with suppress(OSError):
        # Links are not followed, which takes longer than all else here. In the same tick of the clock it may be either.
        if made is not None and last_change(f"{run}/{candidate.path}") < looked_at:
            return None
    try:
        file = resolve(run, candidate.path)
        if not file.is_file():
            return Failure("missing_output", f"no file {candidate.path}; {_WAY_OUT}")
        if made not in (None, content_hash(load_image(file))):
            return Failure("unreadable_image", f"{candidate.path} is not the picture that was made; {_WAY_OUT}")
    except (UnreadableImageError, OSError) as error:  # OSError: a folder that may not be entered
        return Failure("unreadable_image", str(error).replace(str(file), candidate.path))
    return None


def remove_lost(run: Path, known: Mapping[Item, Candidate]) -> set[Item]:
    """Return the items whose picture is gone, or is damaged or another one; what stands in its place is deleted.

    Deleted, because a file that is not there is seen whenever a run goes on.

    Args:
        run: the run folder, held by this process.
        known: the candidates that were recorded.

    Raises:
        UserError: where a file cannot be deleted.
    """
    lost = set()
    looked_at = last_look(run)
    for item, candidate in known.items():
        if candidate.path is not None and picture_failure(run, candidate, looked_at) is not None:
            file = run / image_path(item)
            with writing(file):
                file.unlink(missing_ok=True)
            lost.add(item)
    return lost


def note_look(run: Path) -> None:
    """Note that all pictures were just found or made as they are recorded."""
    with writing(run / CANDIDATES):
        os.utime(run / CANDIDATES)
