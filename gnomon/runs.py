"""Run folders: one writer at a time, append-only samples, atomic files, and a manifest that says what ran.

A run may be killed at any moment and started again with the same command: finished lines stay, a line that the
kill cut in two is dropped, and what is already there need not be done twice (:meth:`RunFolder.done_keys`).
"""

from __future__ import annotations

import fcntl
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pydantic import BaseModel, ValidationError

from gnomon.errors import UserError, is_interrupt
from gnomon.files import TEMPORARY_SUFFIX, atomic_write_bytes, atomic_write_text, writing
from gnomon.hashing import to_plain
from gnomon.jsonl import Model, read_records, to_line
from gnomon.manifest import Manifest, RunStatus, Start, differences, mask_text, plain_config, versions

__all__ = [
    "MANIFEST",
    "SAMPLES",
    "RunFolder",
    "atomic_write_bytes",
    "atomic_write_text",
    "peak_memory",
    "read_manifest",
]

MANIFEST = "manifest.json"
SAMPLES = "samples.jsonl"
_LOCK = ".lock"

Key = TypeVar("Key", bound=Hashable)

# A forked worker inherits the lock and would hold it after its parent was killed, so the fork closes its copy.
# Closing does not unlock for the parent: a flock lasts until the last copy of the descriptor is closed.
_open_locks: set[int] = set()


def _close_inherited_locks() -> None:
    for descriptor in _open_locks:
        os.close(descriptor)
    _open_locks.clear()


os.register_at_fork(after_in_child=_close_inherited_locks)


class RunFolder:
    """A folder that this process alone writes to, between `with RunFolder.open(...) as run:` and its end.

    Attributes:
        path: the folder.
        manifest: what `manifest.json` holds.
        previous_status: how the last start of this run ended ("running": it was killed), None at the first.
    """

    def __init__(self, path: Path, manifest: Manifest, previous_status: RunStatus | None) -> None:
        """Use :meth:`open` or :meth:`hold`: they take the lock and check that the folder belongs to this run."""
        self.path = path
        self.manifest = manifest
        self.previous_status = previous_status
        self._descriptors: dict[str, int] = {}
        self._append_lock = threading.Lock()

    @classmethod
    @contextmanager
    def open(
        cls,
        path: str | Path,
        *,
        command: str,
        config: Mapping[str, object],
        seed: int,
        inputs: Mapping[str, str] | None = None,
    ) -> Iterator[RunFolder]:
        """Make the folder or go on in it, and record how that ends: :meth:`hold` and one :meth:`start`.

        In a distributed run only rank zero opens the folder.

        Raises:
            UserError: see :meth:`hold`.
            ValueError: see :meth:`hold`.
        """
        with (
            cls.hold(path, command=command, config=config, seed=seed, inputs=inputs) as run,
            run.start(command),
        ):
            yield run

    @classmethod
    @contextmanager
    def hold(
        cls,
        path: str | Path,
        *,
        command: str,
        config: Mapping[str, object],
        seed: int,
        inputs: Mapping[str, str] | None = None,
    ) -> Iterator[RunFolder]:
        """Lock the folder without a start: what happens before one, or without any, leaves the manifest as it is.

        Args:
            path: the folder; made when missing.
            command: what runs, such as "bench judge".
            config: the resolved config; secrets are masked before anything is written or compared.
            seed: the seed of the run.
            inputs: hashes of what the run reads, by name (`{"dataset": dataset_hash(root)}`).

        Raises:
            UserError: when another process writes there, when the folder holds another run or other files
                (with the keys that differ), or when it cannot be written.
            ValueError: for a config value that JSON cannot hold, with its dotted key.
        """
        folder = Path(path)
        manifest = Manifest(
            command=command,
            config=plain_config(config),
            seed=seed,
            inputs=dict(inputs or {}),
            versions=versions(),
            started_at=_now(),
        )
        _refuse_foreign_folder(folder)
        with _locked(folder):
            old = _adopt(folder, manifest)
            run = cls(folder, old or manifest, old.status if old else None)
            try:
                yield run
            finally:
                run._close_files()

    @contextmanager
    def start(self, step: str) -> Iterator[None]:
        """Record in the manifest that a step starts, and how it ends.

        Args:
            step: for people, and to tell whether all steps of a run are finished.
        """
        before, begun, process = self.manifest, time.monotonic(), os.getpid()
        start = Start(step=step, started_at=_now(), versions=before.other_versions())
        self._save(before, start)
        status: RunStatus = "finished"
        message: str | None = None
        try:
            yield
        except BaseException as error:
            status = "interrupted" if is_interrupt(error) else "failed"
            message = None if is_interrupt(error) else mask_text(f"{type(error).__name__}: {error}")
            raise
        finally:
            if os.getpid() == process:  # the end of a forked child is not the end of the step
                seconds = time.monotonic() - begun
                ended = {"status": status, "error": message, "ended_at": _now(), "seconds": seconds}
                self._save(before, start.model_copy(update=ended))

    def _save(self, before: Manifest, start: Start) -> None:
        self.manifest = before.with_start(start, peak_memory())
        self.write_json(MANIFEST, self.manifest)

    def append(self, record: BaseModel | Mapping[str, Any], name: str = SAMPLES) -> None:
        """Append one record as a line that survives a kill as soon as this returns; threads may share the run.

        Args:
            record: the record.
            name: of the file, directly in the folder: what a kill leaves is mended only there.

        Raises:
            UserError: when the disk is full; the file then ends with the last whole line.
            ValueError: for values that JSON cannot hold, with the dotted key, and for a name with a folder.
        """
        if "/" in name:
            raise ValueError(f"expected the name of a file directly in the run folder, got {name!r}")
        line = f"{to_line(record)}\n".encode()
        path = self.path / name
        with self._append_lock, writing(path):
            if name not in self._descriptors:
                self._descriptors[name] = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            _append_whole(self._descriptors[name], line)

    def read(self, model: type[Model], name: str = SAMPLES) -> list[Model]:
        """Return the records of an append-only file; none when nothing was appended yet.

        Raises:
            UserError: for a broken line, with file and line.
        """
        path = self.path / name
        return read_records(path, model, drop_torn_tail=True) if path.exists() else []

    def done_keys(self, key: Callable[[dict[str, Any]], Key], name: str = SAMPLES) -> set[Key]:
        """Return `key(line)` of every finished line of an append-only file, each line as a plain dict.

        Example: `run.done_keys(lambda line: (line["case_id"], line["metric"]))`.

        Raises:
            UserError: for a line that lacks what `key` looks up, with file and line.
        """
        path = self.path / name
        if not path.exists():
            return set()
        keys = set()
        whole_lines = path.read_bytes().split(b"\n")[:-1]
        for number, line in enumerate(whole_lines, start=1):
            if not line.strip():
                continue
            try:
                keys.add(key(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(
                    f"{path}:{number}: expected a line that this run wrote: {error!r}; remove it, or use another --out"
                ) from error
        return keys

    def write_json(self, name: str, obj: object) -> None:
        """Write `obj` to `name` as indented JSON, atomically.

        Raises:
            UserError: when the system refuses to write.
            ValueError: for values that JSON cannot hold, with the dotted key.
        """
        text = json.dumps(to_plain(obj), ensure_ascii=False, allow_nan=False, indent=2)
        atomic_write_text(self.path / name, f"{text}\n")

    def _close_files(self) -> None:
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()


def read_manifest(path: str | Path) -> Manifest | None:
    """Return the manifest of a run folder without opening it for writing; None where there is none.

    Raises:
        UserError: when `manifest.json` is not one of ours.
    """
    file = Path(path) / MANIFEST
    try:
        return Manifest.model_validate_json(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValidationError) as error:
        raise UserError(
            f"expected a manifest of a gnomon run in {file}, got something else; choose another --out"
        ) from error


def peak_memory() -> int:
    """Return the largest resident memory of this process so far, in bytes."""
    # VmHWM first: ru_maxrss of a program that a large process started holds that process's peak.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _refuse_foreign_folder(folder: Path) -> None:
    """Refuse before anything is written there, a lock included."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"expected a folder for the run, {folder} is a file; choose another --out")
    if not folder.is_dir() or (folder / MANIFEST).exists():
        return
    strangers = _strangers(folder)  # without the manifest: another process may have written it since
    if strangers:
        shown = ", ".join(strangers[:3]) + (", ..." if len(strangers) > 3 else "")
        raise UserError(
            f"expected an empty folder or one of an earlier run, {folder} holds {shown} but no {MANIFEST}; "
            "choose another --out, or empty the folder"
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; the system frees it however the process ends."""
    file, process = folder / _LOCK, os.getpid()
    with writing(file):
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        _open_locks.add(descriptor)
        with writing(file):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
                raise UserError(
                    f"{folder} is in use by process {holder}; wait until it ends, or use another folder"
                ) from error
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
        yield
    finally:
        if os.getpid() == process:  # a forked child closed its copy already; the number may be another file's now
            _open_locks.discard(descriptor)
            os.close(descriptor)


def _adopt(folder: Path, manifest: Manifest) -> Manifest | None:
    """Check the folder under its lock, mend what a kill left, and return the manifest of earlier starts."""
    old = read_manifest(folder)
    if old is None:
        _refuse_foreign_folder(folder)
    else:
        different = differences(old, manifest)
        if different and _left_nothing(folder, old):
            return None
        if different:
            raise UserError(
                f"{folder} holds another run, which differs in {'; '.join(different)}. "
                "Choose another --out, or delete the folder if it is no longer needed"
            )
    _remove_leftovers(folder)
    for file in sorted(folder.glob("*.jsonl")):
        mend_tail(file)
    return old


def _left_nothing(folder: Path, manifest: Manifest) -> bool:
    """Return whether no step of a run ever finished or wrote a file, so that a mended config may take its folder."""
    finished = any(start.status == "finished" for start in manifest.starts)
    return not finished and not _strangers(folder)


def _strangers(folder: Path) -> list[str]:
    """Return the names in a folder beside those that every run writes."""
    ours = (_LOCK, MANIFEST)
    return sorted(
        item.name for item in folder.iterdir() if item.name not in ours and not item.name.endswith(TEMPORARY_SUFFIX)
    )


def _remove_leftovers(folder: Path) -> None:
    """Delete the temporary files that a kill left here and below, but not in a run folder of its own further down."""
    for name, subfolders, files in os.walk(folder):
        parent = Path(name)
        subfolders[:] = [subfolder for subfolder in subfolders if not (parent / subfolder / MANIFEST).exists()]
        for file in files:
            if file.startswith(".") and file.endswith(TEMPORARY_SUFFIX):
                (parent / file).unlink(missing_ok=True)


def mend_tail(path: Path) -> None:
    """Cut off a last line that a kill left torn; only its newline is added where the line itself is whole."""
    with writing(path), path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        tail = _tail(file, size)
        if not tail:
            return
        # No true prefix of a JSON object is one itself, so a tail that parses lost nothing but the newline.
        if tail.startswith(b"{") and _is_json(tail):
            file.seek(size)
            file.write(b"\n")
        else:
            file.truncate(size - len(tail))


def _tail(file: BinaryIO, size: int) -> bytes:
    """Return what stands behind the last newline of a file of `size` bytes, which is read from its end."""
    tail, start, step = b"", size, 1 << 16
    while start and b"\n" not in tail:
        step = min(2 * step, start)
        start -= step
        file.seek(start)
        tail = file.read(step) + tail
    return tail[tail.rfind(b"\n") + 1 :]


def _is_json(data: bytes) -> bool:
    try:
        json.loads(data)
    except ValueError:
        return False
    return True


def _append_whole(descriptor: int, line: bytes) -> None:
    """Write all of `line` or nothing: a short write on a full disk is taken back."""
    size = os.fstat(descriptor).st_size
    written = 0
    try:
        while written < len(line):
            written += os.write(descriptor, line[written:])
    except BaseException:
        os.ftruncate(descriptor, size)
        raise
