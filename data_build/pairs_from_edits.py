"""Comparisons with known answers from (input, instruction, output) triples: `gnomon data build pairs-from-edits`.

Whoever judges edits must at least prefer the true edit to the unedited source, to the edit of another triple, to its
own blurred copy and to a black picture. No annotator is needed for that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageFilter

from gnomon.datasets import COMPARISONS, resolve, write_records
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_seed
from gnomon.images import content_hash, load_image, save_png
from gnomon.progress import track
from gnomon.records import ComparedImage, Comparison, Judgement, Record, Reference, Text
from gnomon.runs import RunFolder, atomic_write_text

KINDS = ("unedited", "foreign", "blurred", "black")
"""What the true edit is compared with."""

BLUR_SHARE = 1 / 64
"""Standard deviation of the blur, as a share of the shorter side."""

SUMMARY = "summary.json"
README = """# Pairs from edits

{num_comparisons} comparisons with known answers from {num_triples} of {num_rows} rows of {source}, made by \
`gnomon data build pairs-from-edits`: the true edit against {kinds} (`meta.kind`).
Left out: {num_without_output} rows without output, {num_unchanged} whose output is the input, \
{num_without_foreign} comparisons for want of a foreign edit, {num_identical} whose two pictures are identical.
Sides are placed so that each is right in half of a kind.
"""


@dataclass(frozen=True)
class Triple:
    """One row of the source file that has an output. Paths are files; hashes are of their pixels."""

    id: str
    instruction: str
    task: str | None
    source: Path
    edit: Path
    source_hash: str
    edit_hash: str


class PairsSummary(Record):
    """What became of the rows of a source file."""

    num_rows: int
    num_triples: int
    num_without_output: int
    num_unchanged: int
    num_without_foreign: int
    num_identical: int
    num_comparisons: int


def build_pairs(source: str | Path, out: str | Path, *, seed: int = 0, licence: str | None = None) -> PairsSummary:
    """Write a comparison folder; run again to go on after a stop.

    Args:
        source: JSON file with a list of `{"input": path, "output": path, "instruction": text}`, paths relative to its
            folder; "task" is taken over, other keys are ignored.
        out: the folder to write.
        seed: of the choice of foreign edits and of the sides.
        licence: of the pictures, noted in every comparison.

    Returns:
        Counts, those of rows that were left out included.

    Raises:
        UserError: for a file of another form (with the row), a missing or unreadable picture, a path that leaves the
            folder, no usable row, and where `out` holds something else or is in use.
    """
    source = Path(source)
    rows = _read_rows(source)
    config = {"source": source.name, "licence": licence}
    inputs = {"source": file_hash(source)}
    with RunFolder.open(out, command="data build pairs-from-edits", config=config, seed=seed, inputs=inputs) as run:
        complete = [(index, row) for index, row in enumerate(rows) if row.get("output")]
        triples = [_triple(source, index, row) for index, row in track(complete, "reading pictures")]
        changed = [triple for triple in triples if triple.source_hash != triple.edit_hash]
        if not changed:
            raise UserError(f"expected at least one row with an output that differs from its input in {source}")
        foreign = _foreign_edits(changed, seed)
        for triple in changed:
            _save(load_image(triple.source), run.path, f"images/{triple.id}_source.png")
            _save(load_image(triple.edit), run.path, f"images/{triple.id}_edit.png")
        comparisons: list[Comparison] = []
        num_identical = 0
        for kind in KINDS:
            members = [triple for triple in changed if kind != "foreign" or triple.id in foreign]
            worse = {
                triple.id: _worse_picture(run.path, kind, triple, foreign)
                for triple in track(members, f"comparing with {kind}")
            }
            # A blank page is its own blurred copy: there is nothing to tell apart.
            different = [t for t in members if content_hash(run.path / worse[t.id]) != t.edit_hash]
            num_identical += len(members) - len(different)
            second = _second_sides(different, kind, seed)
            comparisons += [
                _comparison(triple, kind, worse[triple.id], triple.id in second, source.name, licence)
                for triple in different
            ]
        summary = PairsSummary(
            num_rows=len(rows),
            num_triples=len(changed),
            num_without_output=len(rows) - len(complete),
            num_unchanged=len(triples) - len(changed),
            num_without_foreign=len(changed) - len(foreign),
            num_identical=num_identical,
            num_comparisons=len(comparisons),
        )
        run.write_json(SUMMARY, summary)
        text = README.format(source=source.name, kinds=", ".join(KINDS), **summary.model_dump())
        atomic_write_text(run.path / "README.md", text)
        comparisons.sort(key=lambda comparison: comparison.id)
        write_records(run.path / COMPARISONS, comparisons)
    return summary


def _read_rows(source: Path) -> list[dict[str, Any]]:
    try:
        rows = json.loads(source.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"expected a JSON file with a list of edits at {source}: {error}") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise UserError(f"expected a list of objects with input, output and instruction in {source}")
    for index, row in enumerate(rows):
        for key in ("input", "instruction"):
            if not isinstance(row.get(key), str) or not row[key].strip():
                raise UserError(f"{source}: row {index}: expected a text under '{key}', got {row.get(key)!r}")
        if not isinstance(row.get("output"), str | None):
            raise UserError(f"{source}: row {index}: expected a path under 'output', got {row['output']!r}")
    return rows


def _triple(source: Path, index: int, row: dict[str, Any]) -> Triple:
    try:
        before, after = (resolve(source.parent, row[key]) for key in ("input", "output"))
        hashes = content_hash(before), content_hash(after)
    except UserError as error:
        raise UserError(f"{source}: row {index}: {error}") from error
    task = row.get("task")
    return Triple(f"row-{index:05d}", row["instruction"], str(task) if task else None, before, after, *hashes)


def _foreign_edits(triples: Sequence[Triple], seed: int) -> dict[str, Triple]:
    """Give each triple, by id, the next one in a seeded order whose edit is neither its edit nor its source."""
    order = sorted(triples, key=lambda triple: stable_seed("foreign", seed, triple.id))
    foreign = {}
    for place, triple in enumerate(order):
        others = order[place + 1 :] + order[:place]
        found = next((o for o in others if o.edit_hash not in (triple.edit_hash, triple.source_hash)), None)
        if found is not None:
            foreign[triple.id] = found
    return foreign


def _second_sides(triples: Sequence[Triple], kind: str, seed: int) -> set[str]:
    """Return the ids of that half of the triples whose true edit comes second, so that no side is the better bet."""
    order = sorted(triples, key=lambda triple: stable_seed("side", seed, kind, triple.id))
    return {triple.id for triple in order[: len(order) // 2]}


def _worse_picture(out: Path, kind: str, triple: Triple, foreign: dict[str, Triple]) -> str:
    """Make the picture that the true edit is compared with, if it is not there yet, and return its path."""
    if kind == "unedited":
        return f"images/{triple.id}_source.png"
    if kind == "foreign":
        return f"images/{foreign[triple.id].id}_edit.png"
    edit = load_image(triple.edit)
    if kind == "blurred":
        path = f"images/{triple.id}_blurred.png"
        _save(edit.filter(ImageFilter.GaussianBlur(min(edit.size) * BLUR_SHARE)), out, path)
    else:
        path = f"images/black_{edit.width}x{edit.height}.png"
        _save(Image.new("RGB", edit.size), out, path)
    return path


def _save(image: Image.Image, out: Path, path: str) -> None:
    if not (out / path).exists():  # pictures are written whole or not at all
        save_png(image, out / path)


def _comparison(
    triple: Triple, kind: str, worse: str, edit_is_second: bool, source: str, licence: str | None
) -> Comparison:
    paths = [f"images/{triple.id}_edit.png", worse]
    if edit_is_second:
        paths.reverse()
    return Comparison(
        id=f"{triple.id}-{kind}",
        instruction=Text(en=triple.instruction),
        references=[Reference(path=f"images/{triple.id}_source.png")],
        candidates=[ComparedImage(path=path) for path in paths],
        judgements=[Judgement(i=0, j=1, dimension="overall", label="j" if edit_is_second else "i")],
        group_id=triple.id,
        task=triple.task,
        source=source,
        licence=licence,
        meta={"kind": kind},
    )
