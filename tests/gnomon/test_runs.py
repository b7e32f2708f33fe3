"""Run folders: killed, full, shared or foreign, nothing is lost and nothing counted twice."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from gnomon.errors import UserError
from gnomon.manifest import mask_text
from gnomon.runs import RunFolder, mend_tail, peak_memory, read_manifest


class Sample(BaseModel):
    """One line of these tests' runs."""

    index: int
    text: str = ""


def start(path: Path, config: Mapping[str, object] | None = None, **changes: Any) -> AbstractContextManager[RunFolder]:
    arguments: dict[str, Any] = {"command": "bench judge", "config": config or {"a": {"b": 1}}, "seed": 0}
    return RunFolder.open(path, **(arguments | changes))


def manifest_of(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((path / "manifest.json").read_text())
    return content


def test_a_run_keeps_its_lines_and_says_how_it_went(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "run"
    config = {"model": {"api_key": "abc", "path": Path("x/y")}}
    with start(folder, config, seed=3, inputs={"dataset": "h"}) as run:
        assert run.previous_status is None
        assert run.read(Sample) == []
        run.append(Sample(index=1, text="红\n"))
        run.append({"index": 2})
        assert run.read(Sample) == [Sample(index=1, text="红\n"), Sample(index=2)]
        assert manifest_of(folder)["status"] == "running"
        time.sleep(0.02)
    content = manifest_of(folder)
    assert content["status"] == "finished"
    assert content["config"] == {"model": {"api_key": "***", "path": "x/y"}}
    assert (content["command"], content["seed"], content["inputs"]) == ("bench judge", 3, {"dataset": "h"})
    assert content["seconds"] >= 0.02
    assert content["peak_memory_bytes"] > 10_000_000
    assert {"gnomon", "python", "torch", "numpy"} <= content["versions"].keys()
    assert "abc" not in (folder / "manifest.json").read_text()


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    for expected in ([], [0], [0, 1]):
        with start(tmp_path / "run") as run:
            assert [sample.index for sample in run.read(Sample)] == expected
            run.append(Sample(index=len(expected)))
            time.sleep(0.02)
    content = manifest_of(tmp_path / "run")
    assert content["num_starts"] == 3
    assert content["seconds"] >= 3 * 0.02
    with start(tmp_path / "run") as run:
        assert run.previous_status == "finished"
        assert run.done_keys(lambda line: line["index"]) == {0, 1, 2}
        assert run.done_keys(lambda line: line["index"], name="other.jsonl") == set()


def test_a_later_start_keeps_the_versions_of_the_first_and_records_its_own(tmp_path: Path) -> None:
    with start(tmp_path):
        pass
    content = manifest_of(tmp_path)
    now = content["versions"]
    content["versions"] = {**now, "diffusers": "0.1", "flash": "2.0"}
    (tmp_path / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(ZeroDivisionError), start(tmp_path):
        _ = 1 / 0
    found = manifest_of(tmp_path)
    assert found["versions"] == content["versions"]
    assert [entry["versions"] for entry in found["starts"]] == [{}, {"diffusers": now["diffusers"], "flash": "missing"}]
    assert [entry["status"] for entry in found["starts"]] == ["finished", "failed"]
    assert [entry["step"] for entry in found["starts"]] == ["bench judge", "bench judge"]


def test_a_run_that_is_only_held_keeps_its_manifest(tmp_path: Path) -> None:
    with start(tmp_path):
        pass
    before = (tmp_path / "manifest.json").read_bytes()
    arguments: dict[str, Any] = {"command": "bench judge", "config": {"a": {"b": 1}}, "seed": 0}
    with RunFolder.hold(tmp_path, **arguments) as run:
        run.write_json("results.json", {})
        with pytest.raises(UserError, match="in use"), start(tmp_path):
            pass
    with pytest.raises(ZeroDivisionError), RunFolder.hold(tmp_path, **arguments):
        _ = 1 / 0
    assert (tmp_path / "manifest.json").read_bytes() == before


def test_an_error_s_text_is_kept_without_secrets(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), start(tmp_path):
        raise RuntimeError("401 for https://user:hunter2@host/, key sk-abcdefghijklmnop")
    error = manifest_of(tmp_path)["error"]
    assert error == f"RuntimeError: 401 for https://***@host/, key {mask_text('sk-abcdefghijklmnop')}"
    assert "abcdefgh" not in error


def fail_after_a_file(run: RunFolder) -> None:
    run.write_json("results.json", {})
    (run.path / "results.json").open("x")


def test_a_run_that_left_nothing_makes_way_for_a_mended_config(tmp_path: Path) -> None:
    arguments: dict[str, Any] = {"command": "bench judge", "seed": 0}
    with pytest.raises(ZeroDivisionError), RunFolder.open(tmp_path, config={"steps": 0}, **arguments):
        _ = 1 / 0
    with pytest.raises(FileExistsError), RunFolder.open(tmp_path, config={"steps": 1}, **arguments) as run:
        fail_after_a_file(run)
    found = manifest_of(tmp_path)
    assert (found["config"], found["num_starts"]) == ({"steps": 1}, 1)
    with (
        pytest.raises(UserError, match="holds another run"),
        RunFolder.open(tmp_path, config={"steps": 2}, **arguments),
    ):
        pass


def test_a_run_that_finished_keeps_its_folder_even_where_it_left_nothing(tmp_path: Path) -> None:
    with start(tmp_path):
        pass
    arguments: dict[str, Any] = {"command": "bench judge", "seed": 0}
    with pytest.raises(UserError, match="holds another run"), RunFolder.open(tmp_path, config={"a": 9}, **arguments):
        pass


def test_an_error_and_ctrl_c_are_told_apart_and_pass_through(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), start(tmp_path / "run"):
        _ = 1 / 0
    assert manifest_of(tmp_path / "run")["status"] == "failed"
    assert manifest_of(tmp_path / "run")["error"] == "ZeroDivisionError: division by zero"
    with pytest.raises(KeyboardInterrupt), start(tmp_path / "run"):
        raise KeyboardInterrupt
    assert (manifest_of(tmp_path / "run")["status"], manifest_of(tmp_path / "run")["error"]) == ("interrupted", None)
    with start(tmp_path / "run") as run:
        assert run.previous_status == "interrupted"
    assert manifest_of(tmp_path / "run")["status"] == "finished"


def test_another_config_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with start(folder, {"a": {"b": 1}, "token": "old"}) as run:
        run.append(Sample(index=0))
    before = (folder / "manifest.json").read_bytes()
    with (
        pytest.raises(
            UserError, match=r"holds another run, which differs in config\.a\.b: 1 -> 2; seed: 0 -> 1\. .*--out.*delete"
        ),
        start(folder, {"a": {"b": 2}, "token": "old"}, seed=1),
    ):
        pass
    assert (folder / "manifest.json").read_bytes() == before
    with start(folder, {"a": {"b": 1}, "token": "new"}) as run:  # a key that was renewed makes no other run
        assert len(run.read(Sample)) == 1


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    for name in "abcd":
        (tmp_path / name).write_text("x")
    with (
        pytest.raises(UserError, match=r"holds a, b, c, \.\.\. but no manifest\.json; choose another --out"),
        start(tmp_path),
    ):
        pass
    assert sorted(item.name for item in tmp_path.iterdir()) == ["a", "b", "c", "d"]
    with pytest.raises(UserError, match="is a file"), start(tmp_path / "a"):
        pass
    (tmp_path / "foreign").mkdir()
    (tmp_path / "foreign" / "manifest.json").write_text('{"name": "an extension"}')
    with (
        pytest.raises(UserError, match=r"expected a manifest of a gnomon run in .*foreign"),
        start(tmp_path / "foreign"),
    ):
        pass


def test_an_empty_folder_and_what_a_kill_left_before_the_manifest_are_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / ".lock").write_text("1\n")
    (tmp_path / ".0123.gnomon-tmp").write_text("half")
    with start(tmp_path):
        pass
    assert not (tmp_path / ".0123.gnomon-tmp").exists()


def test_what_a_kill_left_further_down_is_removed_but_not_in_a_run_of_its_own(tmp_path: Path) -> None:
    with start(tmp_path):
        pass
    with start(tmp_path / "bench" / "inner"):
        pass
    left = [tmp_path / "images" / "deep" / ".01.gnomon-tmp", tmp_path / "bench" / ".02.gnomon-tmp"]
    kept = [tmp_path / "bench" / "inner" / ".03.gnomon-tmp", tmp_path / "images" / "a.gnomon-tmp"]
    for path in [*left, *kept]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    with start(tmp_path):
        pass
    assert [path.exists() for path in [*left, *kept]] == [False, False, True, True]


def test_lines_are_appended_only_where_a_kill_is_mended(tmp_path: Path) -> None:
    with start(tmp_path) as run, pytest.raises(ValueError, match=r"directly in the run folder, got 'a/b\.jsonl'"):
        run.append({"index": 0}, "a/b.jsonl")


def test_a_second_writer_is_told_who_is_there(tmp_path: Path) -> None:
    with start(tmp_path / "run") as run:
        run.append(Sample(index=0))
        with (
            pytest.raises(UserError, match=rf"run is in use by process {os.getpid()}; wait .* another folder"),
            start(tmp_path / "run"),
        ):
            pass
    with start(tmp_path / "run") as run:
        assert len(run.read(Sample)) == 1


WRITER = """
import sys, os, time
from gnomon.runs import RunFolder
with RunFolder.open(sys.argv[1], command="bench judge", config={"a": {"b": 1}}, seed=0) as run:
    done = run.done_keys(lambda line: line["index"])
    print(len(done), flush=True)
    for index in range(10**9):
        if index not in done:
            run.append({"index": index, "text": "x" * 50_000})
"""


def test_killed_writers_lose_nothing_that_was_finished_and_count_nothing_twice(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for _ in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
        assert writer.stdout is not None
        assert writer.stdout.readline()
        size = (folder / "samples.jsonl").stat().st_size if (folder / "samples.jsonl").exists() else 0
        while not (folder / "samples.jsonl").exists() or (folder / "samples.jsonl").stat().st_size < size + 1_000_000:
            time.sleep(0.002)
        with pytest.raises(UserError, match=f"process {writer.pid}"), start(folder):
            pass
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
        whole = (folder / "samples.jsonl").read_bytes().count(b"\n")
        with start(folder) as run:
            assert run.previous_status == "running"
            indices = [sample.index for sample in run.read(Sample)]
            assert len(indices) in (whole, whole + 1)
            assert indices == list(range(len(indices)))


def test_a_torn_line_is_dropped_and_the_next_one_stands_alone(tmp_path: Path) -> None:
    with start(tmp_path) as run:
        run.append(Sample(index=0))
        run.append(Sample(index=1))
    with (tmp_path / "samples.jsonl").open("ab") as file:
        file.write('{"index": 2, "text": "红'.encode()[:-1])
    with start(tmp_path) as run:
        assert run.done_keys(lambda line: line["index"]) == {0, 1}
        run.append(Sample(index=2))
        assert [sample.index for sample in run.read(Sample)] == [0, 1, 2]
    assert (tmp_path / "samples.jsonl").read_bytes().count(b"\n") == 3


@pytest.mark.parametrize("length", [1, (1 << 17) - 1, 1 << 17, (1 << 17) + 1, 500_000])
@pytest.mark.parametrize("head", [b"", b'{"index": 0}\n' * 3])
def test_a_torn_line_of_any_length_is_cut_off(tmp_path: Path, head: bytes, length: int) -> None:
    path = tmp_path / "samples.jsonl"
    path.write_bytes(head + b"{".ljust(length, b"x"))
    mend_tail(path)
    assert path.read_bytes() == head
    whole = b'{"text": "' + b"x" * length + b'"}'
    path.write_bytes(head + whole)
    mend_tail(path)
    assert path.read_bytes() == head + whole + b"\n"


@settings(max_examples=40)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=1, max_size=4), st.data())
def test_a_file_cut_anywhere_keeps_every_line_that_was_whole(texts: list[str], data: st.DataObject) -> None:
    import tempfile

    lines = [Sample(index=index, text=text).model_dump_json().encode() + b"\n" for index, text in enumerate(texts)]
    whole = b"".join(lines)
    cut = data.draw(st.integers(0, len(whole)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "samples.jsonl"
        path.write_bytes(whole[:cut])
        mend_tail(path)
        mended = path.read_bytes()
    ends = [sum(map(len, lines[: count + 1])) for count in range(len(lines))]
    # A line counts as whole from its closing brace on, the newline is added.
    assert mended == b"".join(line for line, end in zip(lines, ends, strict=True) if cut >= end - 1)


def test_a_broken_line_in_the_middle_is_an_error_with_its_place(tmp_path: Path) -> None:
    with start(tmp_path) as run:
        run.append(Sample(index=0))
    (tmp_path / "samples.jsonl").write_text('{"index"\n{"index": 1}\n')
    with start(tmp_path) as run:
        with pytest.raises(UserError, match=r"samples\.jsonl:1: "):
            run.read(Sample)
        with pytest.raises(UserError, match=r"samples\.jsonl:1: "):
            run.done_keys(lambda line: line["index"])
    (tmp_path / "samples.jsonl").write_text('{"index": 0}\n')
    with start(tmp_path) as run, pytest.raises(UserError, match=r"samples\.jsonl:1: .*KeyError\('metric'\)"):
        run.done_keys(lambda line: line["metric"])
    (tmp_path / "samples.jsonl").write_text('\n{"index": 0}\n \n')
    with start(tmp_path) as run:
        assert run.done_keys(lambda line: line["index"]) == {0}
        assert len(run.read(Sample)) == 1
    for line in ("[1]", "3", "null", '"text"'):
        (tmp_path / "samples.jsonl").write_text(f"{line}\n")
        with start(tmp_path) as run, pytest.raises(UserError, match=r"samples\.jsonl:1: .*TypeError"):
            run.done_keys(lambda line: line["index"])


def test_threads_may_share_a_run(tmp_path: Path) -> None:
    def append_many(run: RunFolder, offset: int) -> None:
        for index in range(50):
            run.append(Sample(index=offset + index, text="x" * 500))

    with start(tmp_path) as run:
        threads = [threading.Thread(target=append_many, args=(run, 50 * number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(sample.index for sample in run.read(Sample)) == list(range(200))


FORKING = """
import os, sys, time
from gnomon.runs import RunFolder
with RunFolder.open(sys.argv[1], command="bench judge", config={"a": {"b": 1}}, seed=0):
    worker = os.fork()
    if worker == 0:
        time.sleep(60)
        os._exit(0)
    print(worker, flush=True)
    time.sleep(60)
"""


def test_a_forked_worker_that_outlives_a_killed_run_does_not_hold_its_lock(tmp_path: Path) -> None:
    writer = subprocess.Popen([sys.executable, "-c", FORKING, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    worker = int(writer.stdout.readline())
    try:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
        os.kill(worker, 0)  # still there
        with start(tmp_path / "run") as run:
            assert run.previous_status == "running"
    finally:
        os.kill(worker, signal.SIGKILL)
        writer.stdout.close()


def test_a_finished_worker_does_not_free_the_lock_of_its_parent(tmp_path: Path) -> None:
    with start(tmp_path / "run"):
        worker = multiprocessing.get_context("fork").Process(target=len, args=("",))
        worker.start()
        worker.join()
        with pytest.raises(UserError, match="in use"), start(tmp_path / "run"):
            pass


UNWINDING = """
import os, sys
from pathlib import Path
from gnomon.runs import RunFolder, read_manifest
folder = Path(sys.argv[1])
try:
    with RunFolder.open(folder, command="bench judge", config={"a": {"b": 1}}, seed=0) as run:
        run.append({"index": 0})
        child = os.fork()
        if child == 0:
            taken = [os.open("/dev/null", os.O_RDONLY) for _ in range(3)]  # the first has the number of the lock
            raise SystemExit(3)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), read_manifest(folder).status)
        run.append({"index": 1})
except SystemExit:
    for descriptor in taken:
        os.fstat(descriptor)  # raises where it was closed
    raise
print(read_manifest(folder).status, len((folder / "samples.jsonl").read_text().splitlines()))
"""


def test_a_forked_child_that_unwinds_neither_ends_its_parent_s_run_nor_closes_other_files(tmp_path: Path) -> None:
    command = [sys.executable, "-c", UNWINDING, str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["3 running", "finished 2"]


FULL_DISK = """
import sys
from pathlib import Path
from gnomon.errors import UserError
from gnomon.runs import RunFolder
folder = Path(sys.argv[1]) / "run"
try:
    with RunFolder.open(folder, command="c", config={}, seed=0) as run:
        for index in range(1000):
            run.append({"index": index, "text": "x" * 5000})
except UserError as error:
    print(error)
data = (folder / "samples.jsonl").read_bytes()
print(data.count(b"\\n") > 3, data.endswith(b"\\n"))
(folder / "samples.jsonl").write_bytes(data.split(b"\\n")[0] + b"\\n")
with RunFolder.open(folder, command="c", config={}, seed=0) as run:
    print(run.done_keys(lambda line: line["index"]))
"""


def test_a_full_disk_keeps_whole_lines_and_says_what_to_do(tmp_path: Path) -> None:
    script = 'mount -t tmpfs -o size=100k tmpfs "$1" && exec "$2" -c "$3" "$1"'
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL_DISK]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "mount" in done.stderr or "unshare" in done.stderr:
        pytest.skip(f"no small disk can be mounted here: {done.stderr}")
    message, lines, keys = done.stdout.splitlines()
    assert message.startswith(f"the disk is full: could not write {tmp_path}/run/")
    assert "make room and run the same command again" in message
    assert (lines, keys) == ("True True", "{0}")


def test_json_files_are_whole_and_finite(tmp_path: Path) -> None:
    with start(tmp_path) as run:
        run.write_json("results.json", {"text": "红", "sample": Sample(index=1)})
        assert json.loads((tmp_path / "results.json").read_text()) == {"text": "红", "sample": {"index": 1, "text": ""}}
        with pytest.raises(ValueError, match="finite number at 'value'"):
            run.write_json("results.json", {"value": float("nan")})
        with pytest.raises(ValueError, match="finite number at 'value'"):
            run.append({"value": float("nan")})
        assert run.read(Sample) == []


def test_a_manifest_can_be_read_by_others(tmp_path: Path) -> None:
    assert read_manifest(tmp_path / "nothing") is None
    with start(tmp_path / "run"):
        found = read_manifest(tmp_path / "run")
        assert found is not None
        assert (found.status, found.command) == ("running", "bench judge")


def test_peak_memory_is_this_process_s_own() -> None:
    ballast = bytearray(300_000_000)
    assert peak_memory() > len(ballast)
    program = "from gnomon.runs import peak_memory; print(peak_memory())"
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 10_000_000 < int(child.stdout) < 200_000_000
