"""How long half a million pictures take to become an index, and 2,390 samples; each in a process of its own.

Run it with `python benchmarks/mdmr_sampling.py`; about three minutes and 1 GB of disk. No picture is read: what was
seen of pictures, and their tags, are drawn by lot. Two in a hundred pictures nearly repeat another one; one in ten is
synthetic, made from a real one, and tagged like it.

* index: from `looks.jsonl` to `gallery.parquet`, near duplicates found (target: at most 120 s and 2 GB).
* sampling: from the tables to the samples of `configs/data/mdmr`, at least 2,390 (target: at most 60 s and 2 GB).
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
MOST_SECONDS, MOST_GB = {"index": 120, "sampling": 60}, 2
SETTINGS = GallerySettings(
    {"photographs": Source(Path("photographs")), "generated": Source(Path("generated"), origin="synthetic")}
)


def place_of(number: int, num: int) -> tuple[str, str]:
    """Return source and member of a picture; nine in ten are real."""
    source = "photographs" if number < num * 9 // 10 else "generated"
    return source, f"{number // 1000:05d}.tar#{number:09d}.jpg"


def looks(num: int) -> Iterator[dict[str, Any]]:
    """Yield what was seen of `num` pictures."""
    lots = random.Random(0)
    hashes: list[int] = []
    for number in range(num):
        source, member = place_of(number, num)
        value = lots.getrandbits(64)
        if hashes and lots.random() < 0.02:
            value = lots.choice(hashes) ^ (1 << lots.randrange(64))
        hashes.append(value)
        yield {
            "source": source,
            "member": member,
            "stamp": "1:1",
            "status": "ok",
            "id": f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}",
            "width": 1024,
            "height": 1024 + number % 512,
            "perceptual_hash": f"{value:016x}",
            "caption": f"picture number {number} of a gallery that is made for measuring",
            "made_from": f"{lots.randrange(num * 9 // 10):09d}" if source == "generated" else None,
            "message": None,
        }


def tags(images: list[tuple[str, str | None]]) -> Iterator[dict[str, Any]]:
    """Yield a row of tags for each picture; names and what attributes say come from lists of a thousand."""
    lots = random.Random()
    for image, made_from in images:
        lots.seed(made_from or image)
        category = lots.choices(CATEGORIES, _SHARES)[0]
        num_people = lots.randint(1, 3) if category == "people" else 0
        kinds = [_KIND_OF.get(category, "object"), *lots.choices(ENTITIES, k=lots.randrange(4))]
        chosen = lots.sample(TAG_ATTRIBUTES, lots.randint(1, 5))
        has_text = category in ("posters", "logos", "lettering", "charts")
        yield table_row(
            image,
            {
                "category": category,
                "entities": [
                    {"kind": kind, "name": f"{kind} {min(int(lots.paretovariate(1)), 999)}"} for kind in kinds
                ],
                "attributes": {name: f"{name} {lots.randrange(1000)}" for name in chosen},
                "num_people": num_people,
                "age": lots.randint(1, 90) if num_people else None,
                "framing": lots.choice(FRAMINGS) if num_people else None,
                "facing": lots.choice(FACINGS) if num_people else None,
                "text_language": lots.choice(TEXT_LANGUAGES) if has_text else None,
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
    order = [look_key(*place_of(number, num)) for number in range(num)]
    ranges = {"photographs": (0, num * 9 // 10), "generated": (num * 9 // 10, num)}
    report = Indexer(folder.stage("gallery"), SETTINGS, order, ranges).write()
    return f"{report.outcomes}, {report.num_pairs:,} pairs"


def write_tags(folder: BuildFolder, num: int) -> None:
    """Write the tags of all pictures in the index."""
    folder.stage("annotate").mkdir()
    table = read_table(folder.gallery, ["id", "made_from"])
    images = list(zip(table["id"].to_pylist(), table["made_from"].to_pylist(), strict=True))
    write_table(folder.tags, COLUMNS, tags(images))


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
            is_met = gigabytes <= MOST_GB and seconds <= MOST_SECONDS[step]
            print(
                f"{step:<8} of {given.num:,} pictures: {seconds:5.1f} s (target {MOST_SECONDS[step]}), "
                f"{gigabytes:.2f} GB (target {MOST_GB}): {'met' if is_met else 'MISSED'}; {said}",
                flush=True,
            )


if __name__ == "__main__":
    main()
