"""How long half a million pictures take to become an index, and 2,390 samples; each in a process of its own.

Run it with `python benchmarks/mdmr_sampling.py`; about two minutes and 1 GB of disk. No picture is read: what was seen of
pictures, and their tags, are drawn by lot. Two in a hundred pictures repeat another one, one in ten is synthetic and made
from a real one.

* index: from `looks.jsonl` to `gallery.parquet`, near duplicates found (target: at most 2 GB).
* sampling: from the tables to the samples of `configs/data/mdmr`, at least 2,390 (target: at most 60 s and 2 GB).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.mdmr.cases import ENTITIES
from data_build.mdmr.annotations import COLUMNS, table_row
from data_build.mdmr.buckets import read_buckets
from data_build.mdmr.candidates import read_candidates
from data_build.mdmr.folder import BuildFolder
from data_build.mdmr.indexing import LOOKS, Indexer, look_key
from data_build.mdmr.sampling import sample_all
from data_build.mdmr.settings import GallerySettings, SampleSettings, Source
from data_build.mdmr.tables import read_table, write_table
from data_build.mdmr.tags import CATEGORIES, FACINGS, FRAMINGS, TAG_ATTRIBUTES, TEXT_LANGUAGES
from gnomon.runs import peak_memory

BUCKETS = Path(__file__).resolve().parent.parent / "configs" / "data" / "mdmr"
NUM_SAMPLES = 2390
MOST_SECONDS, MOST_GB = 60, 2
SETTINGS = GallerySettings(
    {"photographs": Source(Path("photographs")), "generated": Source(Path("generated"), origin="synthetic")}
)


def looks(num: int) -> Iterator[dict[str, Any]]:
    """Yield what was seen of `num` pictures, nine in ten of them real."""
    random = np.random.default_rng(0)
    hashes: list[int] = []
    for number in range(num):
        is_real = number < num * 9 // 10
        value = int(random.integers(2**63)) * 2
        if hashes and random.random() < 0.02:
            value = hashes[int(random.integers(len(hashes)))] ^ (1 << int(random.integers(64)))
        hashes.append(value)
        yield {
            "source": "photographs" if is_real else "generated",
            "member": f"{number // 1000:05d}.tar#{number:09d}.jpg",
            "stamp": "1:1",
            "status": "ok",
            "id": f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}",
            "width": 1024,
            "height": 1024 + number % 512,
            "perceptual_hash": f"{value:016x}",
            "caption": f"picture number {number} of a gallery that is made for measuring",
            "made_from": None if is_real else f"{random.integers(num * 9 // 10):09d}",
            "message": None,
        }


def tags(images: list[str]) -> Iterator[dict[str, Any]]:
    """Yield a row of tags for each picture; names and what attributes say come from lists of a thousand."""
    random = np.random.default_rng(1)
    for image in images:
        category = CATEGORIES[int(random.choice(len(CATEGORIES), p=_SHARES))]
        num_people = int(random.integers(1, 4)) if category == "people" else 0
        kinds = [_KIND_OF.get(category, "object"), *random.choice(ENTITIES, int(random.integers(0, 4)))]
        chosen = random.choice(TAG_ATTRIBUTES, int(random.integers(1, 6)), replace=False)
        has_text = category in ("posters", "logos", "lettering", "charts")
        yield table_row(
            image,
            {
                "category": category,
                "entities": [
                    {"kind": str(kind), "name": f"{kind} {min(int(random.pareto(1)), 999)}"} for kind in kinds
                ],
                "attributes": {str(name): f"{name} {random.integers(1000)}" for name in chosen},
                "num_people": num_people,
                "age": int(random.integers(1, 90)) if num_people else None,
                "framing": str(random.choice(FRAMINGS)) if num_people else None,
                "facing": str(random.choice(FACINGS)) if num_people else None,
                "text_language": str(random.choice(TEXT_LANGUAGES)) if has_text else None,
                "caption": f"picture {image}",
            },
        )


_SHARES = (0.3, 0.12, 0.25, 0.15, 0.06, 0.02, 0.03, 0.02, 0.05)
_KIND_OF = {
    "people": "person",
    "animals": "animal",
    "objects": "object",
    "scenes": "scene",
    "posters": "text",
    "logos": "text",
    "lettering": "text",
    "charts": "text",
    "artworks": "decoration",
}


def write_looks(folder: BuildFolder, num: int) -> None:
    """Write what was seen, as the stage gallery does while it looks."""
    folder.stage("gallery").mkdir(parents=True)
    with (folder.stage("gallery") / LOOKS).open("w") as file:
        file.writelines(f"{json.dumps(seen)}\n" for seen in looks(num))


def index(folder: BuildFolder, num: int) -> str:
    """Make the index; return what came of it."""
    order = [look_key(seen["source"], seen["member"]) for seen in looks(num)]
    ranges = {"photographs": (0, num * 9 // 10), "generated": (num * 9 // 10, num)}
    report = Indexer(folder.stage("gallery"), SETTINGS, order, ranges).write()
    return f"{report.outcomes}, {report.num_pairs:,} pairs"


def write_tags(folder: BuildFolder, num: int) -> None:
    """Write the tags of all pictures in the index."""
    folder.stage("annotate").mkdir()
    write_table(folder.tags, COLUMNS, tags(read_table(folder.gallery, ["id"])["id"].to_pylist()))


def sample(folder: BuildFolder, num: int) -> str:
    """Draw the samples; return what came of them."""
    samples, report = sample_all(read_candidates(folder), read_buckets([BUCKETS]), SampleSettings(max_uses=3))
    assert len({one.id for one in samples}) == len(samples) >= NUM_SAMPLES, report.buckets
    return f"{report.num_samples:,} samples, {report.num_pairs} the second of a pair"


STEPS = {"looks": write_looks, "index": index, "tags": write_tags, "sampling": sample}


def main() -> None:
    """Run each step in a process of its own, and print a line for those that are measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num", type=int, default=500_000, help="pictures")
    parser.add_argument("--step", choices=list(STEPS), help="run only this step in this process (used by itself)")
    parser.add_argument("--folder", type=Path, help="where (used by itself)")
    given = parser.parse_args()
    if given.step:
        start = time.perf_counter()
        said = STEPS[given.step](BuildFolder(given.folder), given.num)
        print(json.dumps([said, time.perf_counter() - start, peak_memory() / 2**30]))
        return
    with tempfile.TemporaryDirectory() as name:
        for step in STEPS:
            command = [sys.executable, __file__, "--step", step, "--folder", name, "--num", str(given.num)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            said, seconds, gigabytes = json.loads(done.stdout.splitlines()[-1])
            if said is None:
                continue
            is_met = gigabytes <= MOST_GB and (step != "sampling" or seconds <= MOST_SECONDS)
            print(
                f"{step:<9} of {given.num:,} pictures: {seconds:5.1f} s (target of sampling {MOST_SECONDS}), "
                f"{gigabytes:.2f} GB (target {MOST_GB}): {'met' if is_met else 'MISSED'}; {said}",
                flush=True,
            )


if __name__ == "__main__":
    main()
