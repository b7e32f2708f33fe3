"""Instructions for photographs: several models each write a few for every photograph and task; people choose later.

In the folder:

    photos.jsonl     one line a photograph
    images/          the photographs, upright and without metadata, by the hash of their pixels
    proposals.jsonl  one line for each instruction or failure to write it, append-only; of several the last counts
    problems.jsonl   files that are no photograph, and photographs that are there twice
    summary.json     counts

A photograph is known by its pixels, so that files may be renamed and more of them added, and the same command asks
only for what is missing or failed in a way that may pass (:data:`bench.folder.TRIED_AGAIN`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pydantic import Field

from bench.folder import TRIED_AGAIN
from bench.placement import nearest
from data_build.editcompass.photos import PHOTOS, Photo, PhotoProblem, picture_files, take_photos
from data_build.editcompass.questions import PACKAGE, ask_for_instructions, read_instructions
from data_build.editcompass.tasks import PHOTO_TASKS
from data_build.texts import texts_hash
from gnomon.datasets import write_records
from gnomon.errors import UserError
from gnomon.images import load_image
from gnomon.progress import track
from gnomon.records import Record, Status, Text
from gnomon.runs import RunFolder
from rm.protocols.asking import raw_text, read_reply
from rm.vlm.conversation import VLM, GenerationParameters, Reply

COMMAND = "data propose-edits"
PROPOSALS = "proposals.jsonl"
PROBLEMS = "problems.jsonl"
SUMMARY = "summary.json"
MAX_TOKENS = 2048

Key = tuple[str, str, str, int]
"""Photograph, task, model and number."""


class Proposal(Record):
    """One instruction that a model wrote, or why there is none; `raw` is the whole reply, with the first of its lines.

    `instruction` is None exactly where `status` is not "ok".
    """

    id: str = Field(min_length=1)
    photo: str
    task: str
    model: str
    number: int
    instruction: Text | None
    status: Status = "ok"
    reason: str | None = None
    raw: str | None = None

    @property
    def key(self) -> Key:
        """What it is known by."""
        return (self.photo, self.task, self.model, self.number)


class ProposalSummary(Record):
    """Counts: files by what became of them, and instructions by status, in all and by model."""

    num_photos: int
    num_left_out: dict[str, int]
    num_asked: int
    statuses: dict[str, int]
    statuses_of_models: dict[str, dict[str, int]]


def propose_edits(
    photos: str | Path,
    out: str | Path,
    vlms: Sequence[VLM],
    *,
    tasks: Sequence[str],
    num: int = 3,
    parameters: GenerationParameters | None = None,
    batch_size: int = 8,
) -> ProposalSummary:
    """Ask every model for `num` instructions a photograph and task; run again to go on after a stop.

    Args:
        photos: folder with the photographs, at any depth.
        out: the folder to write.
        vlms: whom to ask; their names tell them apart.
        tasks: out of :data:`data_build.editcompass.tasks.PHOTO_TASKS`.
        num: instructions a reply.
        parameters: how replies are sampled; greedy, of at most 2048 tokens, by default.
        batch_size: questions at once.

    Raises:
        UserError: for unknown or repeated tasks, models without a name of their own, a folder without a photograph,
            and where `out` holds something else or is in use.
    """
    _check(vlms, tasks, num, batch_size)
    parameters = parameters or GenerationParameters(max_tokens=MAX_TOKENS)
    files = picture_files(Path(photos))
    config = {
        "tasks": list(tasks),
        "num": num,
        "models": {vlm.name: vlm.fingerprint for vlm in vlms},
        "parameters": asdict(parameters),
        "texts": texts_hash(PACKAGE, "propose"),
    }
    with RunFolder.open(out, command=COMMAND, config=config, seed=parameters.seed or 0) as run:
        found, problems = take_photos(Path(photos), files, run.path)
        write_records(run.path / PROBLEMS, problems)
        write_records(run.path / PHOTOS, found)
        if not found:
            raise UserError(f"no photograph in {photos} can be read, the first: {problems[0].message}")
        known = {proposal.key: proposal for proposal in run.read(Proposal, PROPOSALS)}
        for vlm in vlms:
            questions = [
                (photo, task)
                for photo in found
                for task in tasks
                if any(_needs_work(known.get((photo.id, task, vlm.name, number))) for number in range(1, num + 1))
            ]
            batches = [questions[start : start + batch_size] for start in range(0, len(questions), batch_size)]
            for batch in track(batches, f"asking {vlm.name}"):
                _ask_batch(run, vlm, batch, num, parameters, known)
        keys = [(photo.id, task, vlm.name, n) for photo in found for task in tasks for vlm in vlms for n in _upto(num)]
        summary = _summary(found, problems, [known[key] for key in keys])
        run.write_json(SUMMARY, summary)
    return summary


def _upto(num: int) -> range:
    return range(1, num + 1)


def _check(vlms: Sequence[VLM], tasks: Sequence[str], num: int, batch_size: int) -> None:
    names = [vlm.name for vlm in vlms]
    if not names or len(set(names)) < len(names):
        raise UserError(f"expected models with names of their own, got {', '.join(names) or 'none'}; give each a name")
    unknown = [f"{task!r}{nearest(task, PHOTO_TASKS)}" for task in tasks if task not in PHOTO_TASKS]
    if unknown or not tasks or len(set(tasks)) < len(tasks):
        raise UserError(
            f"expected different tasks out of {', '.join(PHOTO_TASKS)}, got {', '.join(unknown or tasks) or 'none'}; "
            "the others are built from scenarios or by program"
        )
    if num < 1 or batch_size < 1:
        raise UserError(f"expected num and batch_size >= 1, got {num} and {batch_size}")


def _needs_work(proposal: Proposal | None) -> bool:
    return proposal is None or proposal.status in TRIED_AGAIN


def _ask_batch(
    run: RunFolder,
    vlm: VLM,
    batch: Sequence[tuple[Photo, str]],
    num: int,
    parameters: GenerationParameters,
    known: dict[Key, Proposal],
) -> None:
    """Ask one model about some photographs, and record what was missing and failures where they are news."""
    pictures = {photo.id: load_image(run.path / photo.path) for photo, _ in batch}
    conversations = [ask_for_instructions(pictures[photo.id], task, num) for photo, task in batch]
    replies = vlm.generate(conversations, parameters)
    for (photo, task), reply in zip(batch, replies, strict=True):
        for proposal in _proposals(photo, task, vlm.name, num, reply):
            if _needs_work(known.get(proposal.key)) and proposal != known.get(proposal.key):
                run.append(proposal, PROPOSALS)
                known[proposal.key] = proposal


def _proposals(photo: Photo, task: str, model: str, num: int, reply: Reply) -> Iterator[Proposal]:
    """Yield one proposal for each number, whatever the reply is worth."""
    whole = read_reply(reply, partial(read_instructions, num=num))
    for number in _upto(num):
        reading = whole if whole.value is None else whole.value[number - 1]
        yield Proposal(
            id=f"{photo.id}/{task}/{model}/{number}",
            photo=photo.id,
            task=task,
            model=model,
            number=number,
            instruction=reading.value if isinstance(reading.value, Text) else None,
            status=reading.status,
            reason=reading.problem,
            raw=raw_text(reply) if number == 1 else None,
        )


def _summary(
    photos: Sequence[Photo], problems: Sequence[PhotoProblem], proposals: Sequence[Proposal]
) -> ProposalSummary:
    models: dict[str, Counter[str]] = {}
    for proposal in proposals:
        models.setdefault(proposal.model, Counter())[proposal.status] += 1
    return ProposalSummary(
        num_photos=len(photos),
        num_left_out=_counted(Counter(problem.status for problem in problems)),
        num_asked=len(proposals),
        statuses=_counted(sum(models.values(), Counter())),
        statuses_of_models={name: _counted(counts) for name, counts in models.items()},
    )


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items()))
