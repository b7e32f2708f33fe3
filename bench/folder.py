"""What lies where in the folder of a benchmark run, and how it is opened and read.

    manifest.json      what ran: generator, seed, repeats, selection, hash of the dataset, versions
    generate.json      where the cases were read from, and the run's settings in full
    cases.jsonl        the cases of this run
    candidates.jsonl   one line for each generated picture or failure to make it
    images/            the pictures, <case id>_<seed>.png
    judge_<name>.json  a judge that was run here: fingerprint, metrics, the words that it puts questions in
    samples.jsonl      one verdict a line
    results.json       the numbers
    results.csv        the same, one line a cell
    logs/              what trackers keep, see :mod:`bench.tracking`
    report.html        the page

All steps share one manifest, because they share one identity: which generator made pictures of which cases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.benchmarks import Scoring
from bench.generators import CONTENT_HASH, file_stem
from bench.results import Item
from gnomon.datasets import dataset_hash, dataset_stamp, read_records
from gnomon.errors import UserError
from gnomon.files import last_change
from gnomon.hashing import stable_hash
from gnomon.jsonl import Model, Part, read_parts, uncollected
from gnomon.records import Candidate, Case, Status, Verdict
from gnomon.runs import SAMPLES, RunFolder, read_manifest

COMMAND = "bench"
CANDIDATES = "candidates.jsonl"
CASES = "cases.jsonl"
GENERATE = "generate.json"
RESULTS = "results.json"
REPORT = "report.html"

TRIED_AGAIN: frozenset[Status] = frozenset(
    {"missing_output", "unreadable_image", "api_error", "truncated", "parse_error"}
)
"""Failures that another try may mend; the other statuses are answers."""


class RunConfig(BaseModel):
    """The identity of a benchmark run, apart from its seed and the dataset's hash."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    generator: str
    generator_class: str
    generator_fingerprint: str | None
    repeats: int
    limit: int | None
    offset: int = 0
    tasks: tuple[str, ...] | None = None
    sample_ids: tuple[str, ...] | None = None
    max_references: int | None = None
    reference_roles: tuple[str, ...] | None = None  # of the references that the generator is given; None: all
    language: str | None = None  # of the instructions, where the generator says

    def identity(self) -> dict[str, object]:
        """Return what makes this run another one when it differs.

        A setting that is newer than some runs counts only where it was used, so that those runs can go on. The language
        is part of the generator's fingerprint.
        """
        newer = ("offset", "tasks", "sample_ids", "max_references", "reference_roles")
        defaults = {name for name in newer if getattr(self, name) == RunConfig.model_fields[name].default}
        return self.model_dump(mode="json", exclude=defaults | {"language"})


class GenerateFile(BaseModel):
    """`generate.json`: how `gnomon bench generate` was called; the manifest would mask a name that looks like a key.

    `num_cases_of_dataset` counts those that were not selected too; None in runs that are older than it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cases: str
    stamp: str = ""
    num_cases_of_dataset: int | None = None
    batch_size: int
    config: RunConfig


class JudgeFile(BaseModel):
    """`judge_<name>.json`: one judge that was run on this folder.

    One of questions has no metrics of its own. One that does not look is a control: a yardstick, and no opinion.
    `texts` are the words that questions are put in, where they are the same for all: with the cases and `samples.jsonl`
    they say what was asked and answered in full, and another judge can be asked the same.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    judge_class: str
    fingerprint: str
    metrics: list[str]
    asks_questions: bool = False
    looks: bool = True
    texts: dict[str, str] = Field(default_factory=dict)


def last_look(run: Path) -> int:
    """Return when the pictures of a run were last known to be as they are recorded, in ns; 0 where there is no record.

    What did not change since, by :func:`gnomon.files.last_change`, need not be opened: to decode all pictures of a
    benchmark takes minutes.
    """
    try:
        return last_change(run / CANDIDATES)
    except FileNotFoundError:
        return 0


class ShortVerdict(NamedTuple):
    """What scores are made of: a verdict without its words and its pictures."""

    value: float | None
    status: Status
    served_by: str | None
    prompt_hash: str | None

    @classmethod
    def of(cls, verdict: Verdict) -> ShortVerdict:
        """Shorten a verdict; equal hashes are kept once."""
        prompt = None if verdict.prompt_hash is None else sys.intern(verdict.prompt_hash)
        return cls(verdict.value, verdict.status, verdict.served_by, prompt)


@dataclass(frozen=True)
class BenchRun:
    """A benchmark run as it lies on the disk, read without opening it for writing.

    Attributes:
        path: the run folder.
        root: the dataset folder that the cases came from.
        config: what identifies the run.
        seed: the first seed.
        dataset: hash of the dataset.
        num_cases_of_dataset: how many cases it has, of which the run may take some; None where that was not recorded.
        cases: the cases of this run by id, in their order.
        items: every (case id, seed) that the run is about.
        scoring: what its scores are made by: as it was last summarized.
    """

    path: Path
    root: Path
    config: RunConfig
    seed: int
    dataset: str
    num_cases_of_dataset: int | None
    cases: dict[str, Case]
    items: list[Item]
    scoring: Scoring = field(default_factory=Scoring)

    @classmethod
    def read(cls, path: str | Path) -> BenchRun:
        """Read what `gnomon bench generate` left.

        Raises:
            UserError: when the folder holds no such run, or a damaged one.
        """
        path = Path(path)
        manifest = read_manifest(path)
        if manifest is None or manifest.command != COMMAND or not (path / GENERATE).exists():
            raise UserError(
                f"expected a run of `gnomon bench generate` in {path}, found none; run it with --out {path}"
            )
        settings = read_json(path / GENERATE, GenerateFile)
        with uncollected():
            cases = {case.id: case for case in read_records(path / CASES, Case, ours=True)}
            items = items_of(list(cases.values()), manifest.seed, settings.config.repeats)
        return cls(
            path=path,
            root=Path(settings.cases),
            config=settings.config,
            seed=manifest.seed,
            dataset=manifest.inputs["dataset"],
            num_cases_of_dataset=settings.num_cases_of_dataset,
            cases=cases,
            items=items,
            scoring=read_scoring(path),
        )

    @cached_property
    def looked_at(self) -> int:
        """When this object first needed to know it, see :func:`last_look`."""
        return last_look(self.path)

    @property
    def identity(self) -> str:
        """Hash of what makes this run another one when it differs."""
        return stable_hash([self.config.identity(), self.seed, self.dataset])

    @contextmanager
    def open(self) -> Iterator[RunFolder]:
        """Hold the folder for one step; one that adds to the run records that with `RunFolder.start`.

        Raises:
            UserError: when it is in use.
        """
        with open_run(self.path, self.config, self.seed, self.dataset) as folder:
            yield folder

    def candidates(self) -> list[Candidate]:
        """Return the last candidate of every item that has one so far, in the order of `items`."""
        by_item = dict(self._parts(CANDIDATES, Candidate, lambda record: ((record.case_id, record.seed), record)))
        return [by_item[item] for item in self.items if item in by_item]

    def judges(self) -> list[JudgeFile]:
        """Return the judges that were run here, by name."""
        files = sorted(self.path.glob("judge_*.json"))
        return [read_json(file, JudgeFile) for file in files]

    def verdicts(self) -> dict[tuple[str, str], dict[Item, Verdict]]:
        """Return the last verdicts: (judge fingerprint, metric) -> item -> verdict.

        A verdict about a picture that was since made anew, with other pixels or not at all, does not count: it names
        its pictures by hash, and the candidate's is none of them.
        """
        return self._last(lambda verdict: verdict)

    def short_verdicts(self) -> dict[tuple[str, str], dict[Item, ShortVerdict]]:
        """Return of :meth:`verdicts` what scores are made of, in a tenth of the memory."""
        return self._last(ShortVerdict.of)

    def _last(self, part: Callable[[Verdict], Part]) -> dict[tuple[str, str], dict[Item, Part]]:
        """Return a part of the last verdicts."""
        pictures = {(made.case_id, made.seed): made.sampling.get(CONTENT_HASH) for made in self.candidates()}

        def placed(verdict: Verdict) -> tuple[str, str, Item, Part] | None:
            item = (verdict.case_id, verdict.seed)
            if verdict.image_hashes and pictures.get(item) not in verdict.image_hashes:
                return None
            return verdict.judge, verdict.metric, item, part(verdict)

        found: dict[tuple[str, str], dict[Item, Part]] = {}
        for one in self._parts(SAMPLES, Verdict, placed):
            if one is not None:
                judge, metric, item, kept = one
                found.setdefault((judge, metric), {})[item] = kept
        return found

    def _parts(self, name: str, model: type[Model], part: Callable[[Model], Part]) -> list[Part]:
        file = self.path / name
        return read_parts(file, model, part, drop_torn_tail=True, ours=True) if file.exists() else []


class _Summarized(BaseModel):
    """What `results.json` says of how it was made, whatever else is in it, by whichever version."""

    model_config = ConfigDict(extra="ignore")

    scoring: Scoring = Scoring()


def read_scoring(path: Path) -> Scoring:
    """Return what the scores of a run are made by: as it was last summarized, the usual where it never was."""
    return read_json(path / RESULTS, _Summarized).scoring if (path / RESULTS).exists() else Scoring()


def hash_once(root: Path, run: Path, *, cases: Sequence[Case] | None = None) -> tuple[str, str]:
    """Return hash and stamp of the dataset in `root`; the hash is the run's, unless a file was written since.

    Hashing decodes every picture, which takes minutes for a real benchmark, and each step and resume needs the hash.
    `cases` are those of the dataset, where they have been read already.
    """
    stamp = dataset_stamp(root, cases=cases)
    manifest, settings = read_manifest(run), run / GENERATE
    if manifest is not None and manifest.command == COMMAND and settings.exists():
        known = read_json(settings, GenerateFile)
        if (known.stamp, known.cases) == (stamp, str(root.resolve())):
            return manifest.inputs["dataset"], stamp
    return dataset_hash(root), stamp


@contextmanager
def open_run(path: Path, config: RunConfig, seed: int, dataset: str) -> Iterator[RunFolder]:
    """Hold the run folder under the one command and config that all steps share; raises as RunFolder.hold."""
    with RunFolder.hold(
        path, command=COMMAND, config=config.identity(), seed=seed, inputs={"dataset": dataset}
    ) as folder:
        yield folder


def read_json(path: Path, model: type[Model]) -> Model:
    """Read a file that one of the steps wrote.

    Raises:
        UserError: when it is damaged.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        reason = error.strerror if isinstance(error, OSError) else error.errors(include_url=False)[0]["msg"]
        raise UserError(
            f"{path} is not as `gnomon bench` wrote it: {reason}; delete it and run the step that made it again"
        ) from error


def needs_work(record: Candidate | Verdict | None) -> bool:
    """Say whether an item is still to be done: never tried, or failed in a way that another try may mend."""
    return record is None or record.status in TRIED_AGAIN


def items_of(cases: list[Case], seed: int, repeats: int) -> list[Item]:
    """Return (case id, seed) of every candidate, the repeats of a case side by side."""
    return [(case.id, seed + repeat) for case in cases for repeat in range(repeats)]


def image_path(item: Item) -> str:
    """Return the path of an item's picture below the run folder."""
    return f"images/{file_stem(item[0])}_{item[1]}.png"


def judge_file(name: str) -> str:
    """Return the file name that tells about the judge `name`."""
    return f"judge_{file_stem(name)}.json"
