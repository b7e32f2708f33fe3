"""Trackers: what they hold is read back from their files, without network or account."""

from __future__ import annotations

import csv
import json
import struct
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from bench.folder import BenchRun
from bench.tracking import log_results, scalars, tracked_config
from bench.workflow import generate, judge, summarize
from gnomon.cli import main
from gnomon.manifest import mask_text

SECRET = "hf_abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def run(
    make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Return a judged run of six cases, one of which failed, whose generator has the name of a key."""
    for name in ("WANDB_API_KEY", "WANDB_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("WANDB_SILENT", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789abcdefghij")
    generate(make_dataset(6), tmp_path / "run", brightness.MoodyCopy({"case-1": "refused"}), name=SECRET)
    judge(tmp_path / "run", brightness.ExplainingJudge())
    return tmp_path / "run"


def wandb_records(path: Path) -> Iterator[Any]:
    """Yield the records of a .wandb file: a LevelDB log behind seven bytes, in blocks of 32 KiB."""
    Record = import_module("wandb.proto.wandb_internal_pb2").Record  # noqa: N806
    data, position, record = path.read_bytes(), 7, b""
    while position + 7 <= len(data):
        left = 32768 - position % 32768
        if left < 7:
            position += left
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + 7])
        record += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # whole, or the last part
            parsed = Record()
            parsed.ParseFromString(record)
            record = b""
            yield parsed


def wandb_runs(run: Path) -> list[list[Any]]:
    """Return the records of every offline run in a run folder; ends wandb's service, which writes on after a run."""
    import_module("wandb").teardown()
    return [list(wandb_records(file)) for file in sorted(run.glob("logs/wandb/offline-run-*/*.wandb"))]


def of_kind(records: list[Any], kind: str) -> list[Any]:
    return [getattr(record, kind) for record in records if record.WhichOneof("record_type") == kind]


def test_the_csv_file_has_a_line_for_every_cell_and_is_always_written(run: Path) -> None:
    assert main(["bench", "summarize", "--run", str(run)]) == 0
    with (run / "results.csv").open() as file:
        rows = {(row["metric"], row["kind"], row["group"]): row for row in csv.DictReader(file)}
    assert set(rows) == {
        (metric, *group)
        for metric in ("brightness", "redness")
        for group in (("all", "all"), ("task", "dark"), ("task", "light"))
    }
    whole = summarize(run).judges["brightness"].metrics["brightness"]
    row = rows["brightness", "all", "all"]
    assert (float(row["value"]), float(row["ci_low"])) == (whole.value, whole.ci_low)
    assert (row["n_total"], row["n_scored"], row["failed"]) == ("6", "5", "refused=1")


def test_scalars_are_named_by_their_cell_and_an_unknown_one_is_none(
    make_dataset: Callable[..., Path], brightness: ModuleType, tmp_path: Path
) -> None:
    generate(make_dataset(2), tmp_path / "run", brightness.MoodyCopy({"case-1": "refused"}), name="copy")
    judge(tmp_path / "run", brightness.BrightnessJudge())
    found = scalars(summarize(tmp_path / "run"))
    assert found["brightness/redness/task/light/failed"] == 1
    assert "brightness/redness/task/light" not in found
    assert found["brightness/redness/all/all"] == found["brightness/redness/task/dark"]
    assert "brightness/redness/all/all/ci_low" not in found, "one case has no interval"


def test_the_config_masks_what_looks_like_a_key(run: Path) -> None:
    assert SECRET not in json.dumps(tracked_config(BenchRun.read(run)))


def test_tensorboard_has_scalars_pictures_and_texts_and_goes_on_in_its_folder(
    run: Path, brightness: ModuleType
) -> None:
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    log_results(BenchRun.read(run), summarize(run), ["tensorboard"], num_examples=2)
    judge(run, brightness.BrightnessJudge(name="second", version=2))
    results = summarize(run)
    log_results(BenchRun.read(run), results, ["tensorboard"], num_examples=2)
    events = accumulators.EventAccumulator(str(run / "logs/tensorboard/bench"), size_guidance={"tensors": 0})
    events.Reload()
    values = scalars(results)
    assert set(events.Tags()["scalars"]) == set(values)
    name = "brightness/brightness/task/dark"
    assert [event.step for event in events.Scalars(name)] == [12, 24], "verdicts"
    assert events.Scalars(name)[-1].value == pytest.approx(values[name], rel=1e-6)
    assert events.Tags()["images"] == ["examples/case-0/0", "examples/case-3/0"]
    first = events.Images("examples/case-0/0")[0]
    assert (first.width, first.height) == (32, 16), "the source and its edit"
    text = events.Tensors("examples/case-0/0/text_summary")[0]
    assert b"because of its light" in text.tensor_proto.string_val[0]


def test_wandb_offline_has_cells_table_pictures_and_artifacts_and_goes_on_in_its_run(run: Path) -> None:
    pytest.importorskip("wandb")
    flags = ["--tracker", "[csv, wandb]", "--num-examples", "3"]
    assert main(["bench", "summarize", "--run", str(run), *flags]) == 0
    time.sleep(1.1)  # wandb names its folders by the second
    assert main(["bench", "summarize", "--run", str(run), *flags]) == 0
    records = wandb_runs(run)
    ids = [{logged.run_id for logged in of_kind(each, "run")} for each in records]
    assert ids == [{BenchRun.read(run).identity[:16]}] * 2

    (history,) = of_kind(records[0], "history")
    logged = {item.nested_key[0] if item.nested_key else item.key: json.loads(item.value_json) for item in history.item}
    values = scalars(summarize(run))
    assert {name: logged[name] for name in values} == pytest.approx(values)
    assert logged["num_verdicts"] == 12

    artifacts = {found.type: found for found in of_kind(records[0], "artifact")}
    assert set(artifacts) == {"dataset", "config", "results", "run_table"}
    contents = {entry.path: Path(entry.local_path) for one in artifacts.values() for entry in one.manifest.contents}
    assert all(path.is_relative_to(run / "logs") for path in contents.values())
    assert contents["results.json"].read_text() == mask_text((run / "results.json").read_text())
    assert contents["cases.jsonl"].read_bytes() == (run / "cases.jsonl").read_bytes()
    assert json.loads(artifacts["dataset"].metadata)["hash"] == BenchRun.read(run).dataset

    table = json.loads(contents["examples/table.table.json"].read_bytes())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    assert [row["case"] for row in rows] == ["case-0", "case-2", "case-4"], "as many as asked for"
    assert all("because of its light" in row["rationale"] for row in rows)
    for row in rows:
        edit = np.asarray(Image.open(contents[row["edit"]["path"]]))
        assert np.array_equal(edit, np.asarray(Image.open(run / f"images/{row['case']}_0.png")))
        source = np.asarray(Image.open(contents[row["reference_1"]["path"]]))
        assert row["brightness"] == pytest.approx(edit.mean() / 255)
        assert source.mean() <= edit.mean()
    for folder in run.glob("logs/wandb/offline-run-*"):
        assert len(list(folder.glob("files/media/images/examples/*.png"))) == 3


def test_wandb_shows_a_failed_candidate_as_a_failure_without_numbers(run: Path) -> None:
    pytest.importorskip("wandb")
    log_results(BenchRun.read(run), summarize(run), ["wandb"])
    (file,) = run.glob("logs/wandb/offline-run-*/files/media/table/examples/*.json")
    table = json.loads(file.read_bytes())
    (row,) = (row for row in table["data"] if row[0] == "case-1")
    failed = dict(zip(table["columns"], row, strict=True))
    assert (failed["edit"], failed["status"], failed["brightness"]) == (None, "refused", None)
    assert failed["failures"] == "brightness: refused, redness: refused"


def test_no_tracker_holds_a_key(run: Path) -> None:
    pytest.importorskip("wandb")
    pytest.importorskip("tensorboard")
    log_results(BenchRun.read(run), summarize(run), ["tensorboard", "wandb"])
    assert len(wandb_runs(run)[0]) > 5, "all is written"
    logged = [path for path in (run / "logs").rglob("*") if path.is_file()]
    assert len(logged) > 10
    for path in [*logged, run / "results.csv"]:
        content = path.read_bytes()
        assert SECRET.encode() not in content, path
        assert b"sk-0123456789abcdefghij" not in content, path


def test_wandb_can_be_switched_off(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_MODE", "disabled")
    log_results(BenchRun.read(run), summarize(run), ["wandb"])
    assert list(run.rglob("*.wandb")) == []


def test_an_unknown_tracker_is_an_error_that_names_it(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "summarize", "--run", str(run), "--tracker", "mlflow"]) == 2
    assert "mlflow" in capsys.readouterr().err
