"""What is reviewed: photographs with the instructions that models wrote for them, and whole cases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.editcompass.cases import NAME
from bench.placement import nearest
from data_build.editcompass.photos import PHOTOS, Photo
from data_build.editcompass.proposals import PROPOSALS, Proposal
from data_build.editcompass.tasks import metrics_of
from gnomon.datasets import CASES
from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.jsonl import iterate_lines, read_records
from gnomon.records import Case, Reference
from gnomon.runs import read_manifest


@dataclass(frozen=True)
class Option:
    """What an item is, or may become, in one task.

    Attributes:
        task: the task.
        fixed: the case that it is; None where an instruction has to be chosen first.
        photo: the photograph, where it is one.
        proposals: the instructions to choose from, by id.
        failed: why others are no instruction, by id.
    """

    task: str
    fixed: Case | None
    photo: Photo | None
    proposals: dict[str, Proposal]
    failed: dict[str, str]

    def refuse(self, proposal: str) -> str | None:
        """Say why a proposal cannot be chosen; None where it can."""
        if proposal in self.proposals:
            return None
        if self.fixed is not None:
            return f"{self.fixed.id} is a case with an instruction of its own; there is nothing to select"
        if proposal in self.failed:
            return f"the proposal {proposal!r} holds no instruction: {self.failed[proposal]}"
        return f"no proposal for this item and task is called {proposal!r}{nearest(proposal, self.proposals)}"

    def case(self, proposal: str | None) -> Case:
        """Return the case, of the instruction that was chosen where it is a photograph."""
        if self.fixed is not None:
            return self.fixed
        assert self.photo is not None
        assert proposal is not None
        chosen = self.proposals[proposal]
        assert chosen.instruction is not None
        return Case(
            id=f"{self.task}-{self.photo.id}",
            benchmark=NAME,
            task=self.task,
            instruction=chosen.instruction,
            references=[Reference(path=self.photo.path)],
            metrics=metrics_of(self.task),
            meta={"photo": self.photo.file, "proposal": chosen.id},
        )


@dataclass(frozen=True)
class Item:
    """One thing that reviewers speak of.

    Attributes:
        id: what they call it.
        where: `file:line` of it.
        root: the folder that its pictures are below.
        options: one for each task; a case has one.
        fingerprint: hash of all that is known of it, short of the pixels.
    """

    id: str
    where: str
    root: Path
    options: list[Option]
    fingerprint: str


def read_items(folders: Sequence[Path]) -> dict[str, Item]:
    """Return all items of some folders by id, in their order.

    Raises:
        UserError: for a folder without items, one of a run that did not end, a broken line, and an id in two places.
    """
    found: dict[str, Item] = {}
    for folder in folders:
        for item in _folder_items(folder):
            if item.id in found:
                raise UserError(
                    f"the item {item.id!r} of {folder} is also in {found[item.id].root}; reviews could not tell them "
                    "apart: leave one of them out or rename it"
                )
            found[item.id] = item
    if not found:
        raise UserError(f"expected items to review in {', '.join(map(str, folders)) or 'a folder'}, there are none")
    return found


def _folder_items(folder: Path) -> list[Item]:
    manifest = read_manifest(folder)
    if manifest is not None and manifest.status != "finished":
        raise UserError(f"{folder} is of a run that is not finished ({manifest.status}); run its command again first")
    if (folder / PHOTOS).is_file():
        return _photo_items(folder)
    if (folder / CASES).is_file():
        return _case_items(folder)
    raise UserError(f"expected a folder with {PHOTOS} or {CASES}, got {folder}; check --items")


def _photo_items(folder: Path) -> list[Item]:
    last = {proposal.key: proposal for proposal in read_records(folder / PROPOSALS, Proposal)}
    by_photo: dict[str, dict[str, list[Proposal]]] = {}
    for proposal in last.values():
        by_photo.setdefault(proposal.photo, {}).setdefault(proposal.task, []).append(proposal)
    items = []
    for number, photo in enumerate(read_records(folder / PHOTOS, Photo), start=1):
        tasks = by_photo.get(photo.id, {})
        options = [
            Option(
                task=task,
                fixed=None,
                photo=photo,
                proposals={proposal.id: proposal for proposal in proposals if proposal.instruction is not None},
                failed={
                    proposal.id: f"{proposal.status}: {proposal.reason}"
                    for proposal in proposals
                    if proposal.instruction is None
                },
            )
            for task, proposals in tasks.items()
        ]
        fingerprint = stable_hash([photo, *(proposal for proposals in tasks.values() for proposal in proposals)])
        items.append(Item(photo.id, f"{folder / PHOTOS}:{number}", folder, options, fingerprint))
    return items


def _case_items(folder: Path) -> list[Item]:
    """Return the cases; whether their pictures are there is found when they are needed."""
    items = []
    for line in iterate_lines(folder / CASES, Case):
        if line.record is None or line.record.benchmark != NAME:
            problem = line.problem or f"expected a case of {NAME}, got one of {line.record and line.record.benchmark!r}"
            raise UserError(f"{folder / CASES}:{line.number}: {problem}")
        option = Option(task=line.record.task, fixed=line.record, photo=None, proposals={}, failed={})
        where = f"{folder / CASES}:{line.number}"
        items.append(Item(line.record.id, where, folder, [option], stable_hash(line.record)))
    return items
