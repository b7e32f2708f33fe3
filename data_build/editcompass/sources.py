"""Sources for scenarios: an expert's short description becomes a prompt, and the prompt a picture.

In the folder:

    prompts.jsonl    one line for each prompt or failure to write it, append-only; of several the last counts
    sources.jsonl    the same for the pictures
    images/          the pictures
    cases.jsonl      the cases, not yet reviewed, of scenarios that have all their pictures
    problems.jsonl   lines of the scenario file that cannot be used
    summary.json     counts

A prompt is known by what it was asked from and a picture by its prompt, so that scenarios may be mended and added, and
the same command works only on what is missing or failed in a way that may pass (:data:`bench.folder.TRIED_AGAIN`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from PIL import Image

from bench.editcompass.cases import NAME, OUTCOME
from bench.folder import TRIED_AGAIN
from bench.generators import Failure, FolderGenerator, Generator, Made, file_stem
from data_build.editcompass.questions import PACKAGE, ask_for_prompt, read_prompt
from data_build.editcompass.scenarios import Scenario, read_scenarios
from data_build.editcompass.tasks import metrics_of
from data_build.texts import texts_hash
from gnomon.datasets import CASES, write_records
from gnomon.errors import UserError
from gnomon.hashing import stable_hash, stable_seed
from gnomon.images import content_hash, save_png
from gnomon.progress import track
from gnomon.records import Case, Record, Reference, Split, Status, Text
from gnomon.runs import RunFolder
from rm.protocols.asking import raw_text, read_reply
from rm.vlm.conversation import VLM, GenerationParameters

COMMAND = "data refine-scenarios"
PROMPTS = "prompts.jsonl"
SOURCES = "sources.jsonl"
PROBLEMS = "problems.jsonl"
SUMMARY = "summary.json"

T = TypeVar("T")


class RefinedPrompt(Record):
    """The prompt of one picture, or why there is none; `asked` is a hash of what it was asked from."""

    picture: str
    asked: str
    prompt: str | None
    status: Status = "ok"
    reason: str | None = None
    raw: str | None = None


class Source(Record):
    """One generated picture, or why there is none."""

    picture: str
    prompt: str
    path: str | None
    seed: int
    status: Status = "ok"
    reason: str | None = None
    content_hash: str | None = None


class ScenarioSummary(Record):
    """Counts: scenarios, lines left out, prompts and pictures by status, and cases that have all their pictures."""

    num_scenarios: int
    num_left_out: int
    prompts: dict[str, int]
    sources: dict[str, int]
    num_cases: int


@dataclass(frozen=True)
class _Wanted:
    """One picture that a scenario needs."""

    picture: str
    description: str
    scenario: Scenario

    @property
    def asked(self) -> str:
        return stable_hash([self.description, self.scenario.task, self.scenario.instruction])


def refine_scenarios(
    scenarios: str | Path,
    out: str | Path,
    vlm: VLM,
    generator: Generator,
    *,
    parameters: GenerationParameters | None = None,
    split: Split = "test",
    seed: int = 0,
    batch_size: int = 8,
) -> ScenarioSummary:
    """Write a prompt and make a picture for every description; run again to go on after a stop.

    Args:
        scenarios: lines of :class:`data_build.editcompass.scenarios.Scenario`.
        out: the folder to write.
        vlm: writes the prompts.
        generator: makes pictures of a text alone.
        parameters: how replies are sampled; greedy, of at most 1024 tokens, by default.
        split: of the cases.
        seed: of the pictures.
        batch_size: prompts, and pictures, at once.

    Raises:
        UserError: without a usable line, for two pictures of one name in a folder, and where `out` holds something else
            or is in use.
    """
    if batch_size < 1:
        raise UserError(f"expected batch_size >= 1, got {batch_size}")
    parameters = parameters or GenerationParameters()
    usable, problems = read_scenarios(Path(scenarios))
    wanted = [_Wanted(name, text, scenario) for scenario in usable for name, text in scenario.pictures.items()]
    config = {
        "model": {vlm.name: vlm.fingerprint},
        "parameters": asdict(parameters),
        "texts": texts_hash(PACKAGE, "refine"),
        "generator": {
            "class": f"{type(generator).__module__}.{type(generator).__qualname__}",
            "fingerprint": getattr(generator, "fingerprint", None),
        },
        "split": split,
    }
    with RunFolder.open(out, command=COMMAND, config=config, seed=seed) as run:
        write_records(run.path / PROBLEMS, problems)
        prompts = _refine(run, vlm, wanted, parameters, batch_size)
        sources = _generate(run, generator, wanted, prompts, seed, batch_size)
        cases = [case for scenario in usable if (case := _case(scenario, prompts, sources, split)) is not None]
        write_records(run.path / CASES, cases)
        summary = ScenarioSummary(
            num_scenarios=len(usable),
            num_left_out=len(problems),
            prompts=_statuses(list(prompts.values())),
            sources=_statuses(list(sources.values())),
            num_cases=len(cases),
        )
        run.write_json(SUMMARY, summary)
    return summary


def _refine(
    run: RunFolder, vlm: VLM, wanted: Sequence[_Wanted], parameters: GenerationParameters, batch_size: int
) -> dict[str, RefinedPrompt]:
    """Ask for the prompts that are missing, and return all by picture."""
    written = {(record.picture, record.asked): record for record in run.read(RefinedPrompt, PROMPTS)}
    known = {item.picture: written[key] for item in wanted if (key := (item.picture, item.asked)) in written}
    waiting = [item for item in wanted if _needs_work(known.get(item.picture))]
    for batch in track(_batches(waiting, batch_size), "refining"):
        conversations = [
            ask_for_prompt(item.description, item.scenario.task, item.scenario.instruction) for item in batch
        ]
        for item, reply in zip(batch, vlm.generate(conversations, parameters), strict=True):
            reading = read_reply(reply, read_prompt)
            record = RefinedPrompt(
                picture=item.picture,
                asked=item.asked,
                prompt=reading.value,
                status=reading.status,
                reason=reading.problem,
                raw=raw_text(reply),
            )
            if record != known.get(item.picture):
                run.append(record, PROMPTS)
                known[item.picture] = record
    return known


def _generate(
    run: RunFolder,
    generator: Generator,
    wanted: Sequence[_Wanted],
    prompts: Mapping[str, RefinedPrompt],
    seed: int,
    batch_size: int,
) -> dict[str, Source]:
    """Make the pictures that are missing of those that have a prompt, and return all by picture."""
    texts = {item.picture: prompts[item.picture].prompt for item in wanted}
    ready = {name: text for name, text in texts.items() if text is not None}
    is_folder = isinstance(generator, FolderGenerator)
    if isinstance(generator, FolderGenerator):
        # Of all pictures, so that one whose prompt is still missing is not said to belong to none.
        generator.inspect([_question(item.picture, item.description) for item in wanted], [seed])
    written = {(record.picture, record.prompt): record for record in run.read(Source, SOURCES)}
    known = {name: written[name, text] for name, text in ready.items() if (name, text) in written}
    waiting = [name for name in ready if _needs_work(known.get(name)) or not _is_there(run.path, known[name])]
    for batch in track(_batches(waiting, batch_size), "generating sources"):
        seeds = [seed if is_folder else stable_seed(name, seed) for name in batch]
        outputs = generator.generate([_question(name, ready[name]) for name in batch], [[] for _ in batch], seeds)
        for name, noise_seed, output in zip(batch, seeds, outputs, strict=True):
            source = _record(run.path, name, ready[name], noise_seed, output)
            if source != known.get(name):
                run.append(source, SOURCES)
                known[name] = source
    return known


def _question(name: str, prompt: str) -> Case:
    """Return a case without references: a picture of a text alone."""
    return Case(id=name, benchmark=NAME, task="source", instruction=Text(en=prompt))


def _is_there(out: Path, source: Source) -> bool:
    return source.path is None or (out / source.path).exists()


def _record(out: Path, name: str, prompt: str, seed: int, output: Image.Image | Made | Failure) -> Source:
    """Save a picture, if there is one, and return the line about it."""
    if isinstance(output, Failure):
        return Source(picture=name, prompt=prompt, path=None, seed=seed, status=output.status, reason=output.reason)
    path, image = f"images/{file_stem(name)}.png", output.picture if isinstance(output, Made) else output
    save_png(image, out / path)
    return Source(picture=name, prompt=prompt, path=path, seed=seed, content_hash=content_hash(image))


def _case(
    scenario: Scenario, prompts: Mapping[str, RefinedPrompt], sources: Mapping[str, Source], split: Split
) -> Case | None:
    """Return the case of a scenario that has all its pictures."""
    paths = [sources[name].path if name in sources else None for name in scenario.pictures]
    found = [path for path in paths if path is not None]
    if len(found) < len(paths):
        return None
    role = "source" if len(found) == 1 else "reference"
    return Case(
        id=scenario.id,
        benchmark=NAME,
        task=scenario.task,
        instruction=scenario.instruction,
        references=[Reference(path=path, role=role) for path in found],
        metrics=metrics_of(scenario.task),
        hints={} if scenario.hints is None else {OUTCOME: scenario.hints},
        split=split,
        meta={
            "description": scenario.description,
            "prompts": [prompts[name].prompt for name in scenario.pictures],
        },
    )


def _needs_work(record: RefinedPrompt | Source | None) -> bool:
    return record is None or record.status in TRIED_AGAIN


def _batches(items: Sequence[T], size: int) -> list[Sequence[T]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _statuses(records: Sequence[RefinedPrompt | Source]) -> dict[str, int]:
    return dict(sorted(Counter(record.status for record in records).items()))
