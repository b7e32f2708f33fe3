"""The steps of a benchmark over one run folder: generate, judge, summarize, compare.

Each step may be killed at any moment and run again: what is in the folder stays and is not done twice. Work goes in
batches that are the same in every run; a batch that a kill cut short is computed again as a whole and only what
was missing is added, so that an interrupted run ends with the same numbers as an uninterrupted one. A picture that was
lost since (:mod:`bench.pictures`) is made again; verdicts about it count as long as it has the same pixels. What
failed in a way that may pass (:data:`bench.folder.TRIED_AGAIN`) is tried again, alone; of several lines about one item
the last counts. A generator whose pictures do not depend on their batch (`is_itemwise`) is only asked for what is
missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from PIL import Image

from bench.aggregation import metric_difference, metric_results
from bench.benchmarks import Scoring, benchmark_of, no_slices
from bench.cogcanvas.subjects import subject_results
from bench.comparable import refuse_other_numbers
from bench.folder import (
    CANDIDATES,
    CASES,
    GENERATE,
    RESULTS,
    BenchRun,
    GenerateFile,
    JudgeFile,
    RunConfig,
    hash_once,
    image_path,
    items_of,
    judge_file,
    needs_work,
    open_run,
    read_json,
)
from bench.generators import CONTENT_HASH, REFERENCE_ROLES, Failure, FolderGenerator, Generator, Made, language_of
from bench.judging import key_of_verdict
from bench.pictures import note_look, remove_lost
from bench.results import (
    Item,
    JudgeResult,
    MetricDifference,
    Results,
    RunComparison,
    count_candidates,
)
from bench.scores import Verdicts, prompt_hashes, scores_and_questions, scores_of, served_by
from bench.selection import check_roles, select
from bench.slices import slice_cells
from gnomon.datasets import read_cases, resolve, write_records
from gnomon.errors import UserError
from gnomon.hashing import stable_seed
from gnomon.images import content_hash, load_image, save_png
from gnomon.jsonl import uncollected
from gnomon.progress import track
from gnomon.records import CLEAN_SOURCE, Candidate, Case, Verdict
from gnomon.runs import RunFolder
from rm.judge import Judge, asks_questions, looks, texts_of

if TYPE_CHECKING:
    from pytorch_lightning import Trainer

COMPARISON = "comparison.json"
Element = TypeVar("Element")
WholeVerdicts = Mapping[tuple[str, str], Mapping[Item, Verdict]]


def generate(
    cases_root: str | Path,
    out: str | Path,
    generator: Generator,
    *,
    name: str,
    seed: int = 0,
    repeats: int = 1,
    tasks: Sequence[str] | None = None,
    sample_ids: Sequence[str] | None = None,
    offset: int = 0,
    limit: int | None = None,
    max_references: int | None = None,
    reference_roles: Sequence[str] | None = None,
    batch_size: int = 8,
) -> BenchRun:
    """Make one picture for every case and seed that has none, or whose last try failed in a way that may pass.

    Args:
        cases_root: dataset folder with `cases.jsonl`.
        out: the run folder.
        generator: makes the pictures.
        name: the generator's name in tables, such as a model with its version and adapter.
        seed: the first seed; the generator gets `stable_seed(case id, seed)`, so cases do not share their noise.
        repeats: candidates a case, with the seeds `seed`, `seed` + 1, ...
        tasks: take only cases of these tasks; None for all.
        sample_ids: take only cases with these ids; None for all.
        offset: leave out the first of those.
        limit: take only so many of what is left; None for all.
        max_references: how many references the generator takes at most; a case with more is not generated and its
            candidate is `not_applicable`. None for any number.
        reference_roles: roles of the references that the generator is given; it does not see the others, and judges do.
            None for all. Candidates record it, for what a method was not given may not be held against it.
        batch_size: cases a call. Not part of the run's identity: it may be lowered to go on after too little memory.

    Raises:
        UserError: for a broken dataset, unknown names, a folder in use or of another run, and overwritten pictures.
        ValueError: for numbers below 1, or below 0 for `offset` and `max_references`.
    """
    _check_numbers(1, repeats=repeats, batch_size=batch_size, limit=limit)
    _check_numbers(0, offset=offset, max_references=max_references)
    root, out = Path(cases_root), Path(out)
    with ExitStack() as held:
        with uncollected():
            everything = read_cases(root)
            check_roles(everything, reference_roles)
            cases = select(everything, tasks=tasks, sample_ids=sample_ids, offset=offset, limit=limit)
            if isinstance(generator, FolderGenerator):
                generator.inspect(everything, range(seed, seed + repeats))
            config = RunConfig(
                generator=name,
                generator_class=_class_path(generator),
                generator_fingerprint=getattr(generator, "fingerprint", None),
                repeats=repeats,
                limit=limit,
                offset=offset,
                tasks=_in_order(tasks),
                sample_ids=_in_order(sample_ids),
                max_references=max_references,
                reference_roles=_in_order(reference_roles),
                language=language_of(generator),
            )
            dataset, stamp = hash_once(root, out, cases=everything)
            folder = held.enter_context(open_run(out, config, seed, dataset))
            by_id = {case.id: _as_generators_see_it(case, config.reference_roles) for case in cases}
            known = _known(folder, generator, by_id)
            held.enter_context(folder.start("generate"))
            settings = GenerateFile(
                cases=str(root.resolve()),
                stamp=stamp,
                num_cases_of_dataset=len(everything),
                batch_size=batch_size,
                config=config,
            )
            _write_settings(folder, settings, cases)
            within = _without_beyond(folder, config, by_id, seed, known)
            work = _work(folder.path, generator, _batches(items_of(within, seed, repeats), batch_size), known)
        _make_missing(folder, root, generator, config, work, by_id, known)
    return BenchRun.read(out)


def _known(folder: RunFolder, generator: Generator, cases: Mapping[str, Case]) -> dict[Item, Candidate]:
    """Return the candidates that are recorded, after a look at where they were taken from."""
    known = {(record.case_id, record.seed): record for record in folder.read(Candidate, CANDIDATES)}
    if isinstance(generator, FolderGenerator):
        generator.refuse_changed(known.values(), cases, folder.path)
    return known


def _in_order(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(set(names)))


def _write_settings(folder: RunFolder, settings: GenerateFile, cases: Sequence[Case]) -> None:
    if not (folder.path / CASES).exists():  # equal ones otherwise, by the run's identity
        write_records(folder.path / CASES, cases)
    folder.write_json(GENERATE, settings)


def _check_numbers(least: int, **numbers: int | None) -> None:
    for name, value in numbers.items():
        if value is not None and value < least:
            raise ValueError(f"expected {name} >= {least}, got {value}")


def _without_beyond(
    folder: RunFolder, config: RunConfig, by_id: Mapping[str, Case], seed: int, known: Mapping[Item, Candidate]
) -> list[Case]:
    """Return the cases with no more references than the generator takes, and record the others."""
    most = config.max_references
    within = [case for case in by_id.values() if most is None or len(case.references) <= most]
    beyond = [case for case in by_id.values() if most is not None and len(case.references) > most]
    for item in items_of(beyond, seed, config.repeats):
        if item not in known:
            folder.append(_beyond(config.generator, item, by_id[item[0]], most), CANDIDATES)
    return within


def _work(
    run: Path, generator: Generator, batches: Sequence[Sequence[Item]], known: Mapping[Item, Candidate]
) -> list[tuple[Sequence[Item], Sequence[Item]]]:
    """Return for each batch with work the items that the generator is asked for, and those of them that are missing."""
    is_itemwise = getattr(generator, "is_itemwise", False)
    lost = remove_lost(run, known)
    work: list[tuple[Sequence[Item], Sequence[Item]]] = []
    for batch in batches:
        waiting = [item for item in batch if item in lost or needs_work(known.get(item))]
        if waiting:
            whole = not is_itemwise and any(item not in known or item in lost for item in batch)
            work.append((batch if whole else waiting, waiting))
    return work


def _make_missing(
    folder: RunFolder,
    root: Path,
    generator: Generator,
    config: RunConfig,
    work: Sequence[tuple[Sequence[Item], Sequence[Item]]],
    by_id: Mapping[str, Case],
    known: Mapping[Item, Candidate],
) -> None:
    """Make the pictures that are missing, and record them, and failures where they are news."""
    for asked, waiting in track(work, f"generating with {config.generator}"):
        made = _outputs(root, generator, asked, by_id)
        for item in waiting:
            candidate = _record(folder.path, config, item, made[item])
            if candidate != known.get(item):
                folder.append(candidate, CANDIDATES)
    note_look(folder.path)


def _outputs(
    root: Path, generator: Generator, batch: Sequence[Item], by_id: Mapping[str, Case]
) -> dict[Item, Image.Image | Made | Failure]:
    """Return what the generator makes of one batch."""
    cases = [by_id[case_id] for case_id, _ in batch]
    references = [[load_image(resolve(root, reference.path)) for reference in case.references] for case in cases]
    # Pictures that exist are named by the run's seeds; those of the noise are nobody's names.
    exist = isinstance(generator, FolderGenerator)
    seeds = [seed if exist else stable_seed(case_id, seed) for case_id, seed in batch]
    outputs = generator.generate(cases, references, seeds)
    if len(outputs) != len(batch):
        raise ValueError(f"expected {len(batch)} pictures from {_class_path(generator)}, got {len(outputs)}")
    return dict(zip(batch, outputs, strict=True))


def _beyond(name: str, item: Item, case: Case, max_references: int | None) -> Candidate:
    """Return the candidate of a case that has more references than the generator takes."""
    reason = f"{len(case.references)} references, and the generator takes at most {max_references}"
    return Candidate(
        case_id=item[0], generator=name, seed=item[1], path=None, status="not_applicable", sampling={"reason": reason}
    )


def _as_generators_see_it(case: Case, roles: Sequence[str] | None) -> Case:
    """Return a case without the references and questions that are for judges alone."""
    shown = [
        reference
        for reference in case.references
        if reference.role != CLEAN_SOURCE and (roles is None or reference.role in roles)
    ]
    return case.model_copy(update={"references": shown, "questions": []})


def _record(path: Path, config: RunConfig, item: Item, output: Image.Image | Made | Failure) -> Candidate:
    """Save a picture, if there is one, and return the candidate."""
    case_id, seed = item
    sampling: dict[str, Any] = {"noise_seed": stable_seed(case_id, seed)}
    if config.reference_roles is not None:
        sampling[REFERENCE_ROLES] = list(config.reference_roles)
    made = Candidate(case_id=case_id, generator=config.generator, seed=seed, path=None, sampling=sampling)
    if isinstance(output, Failure):
        failed = {**sampling, "reason": output.reason}
        return made.model_copy(update={"status": output.status, "sampling": failed})
    picture, told = (output.picture, output.sampling) if isinstance(output, Made) else (output, {})
    save_png(picture, path / image_path(item))
    hashed = {**told, **sampling, CONTENT_HASH: content_hash(picture)}
    return made.model_copy(update={"path": image_path(item), "sampling": hashed})


def judge(run: str | Path, judge: Judge, *, batch_size: int = 8, trainer: Trainer | None = None) -> BenchRun:
    """Ask a judge for every metric of every candidate that it has not judged yet, or failed to in a way that may pass.

    A judge of questions is asked those of each case in place of metrics. All metrics of one candidate come in one call;
    where the judge's model works on several questions at once, each candidate has a call of its own, and later batches
    are asked about ahead. Some verdicts need no judge: a candidate that failed, whose picture is missing or unreadable,
    gets that as its status; a metric that other cases of the dataset list and this one does not is `not_applicable`, as
    is one that the benchmark says does not apply. Any other metric that no case lists is the judge's own and applies
    everywhere.

    Args:
        run: folder of a run that :func:`generate` made; may still be incomplete.
        judge: the judge. Its fingerprint is part of what a verdict is known by.
        batch_size: candidates a call, whose verdicts are written together.
        trainer: runs the judging on its ranks, see :mod:`bench.evaluators.judge`; None for this process alone.

    Raises:
        UserError: when the folder holds no run, is in use, or knows another judge of this name, or when the
            dataset changed since the pictures were made or is no longer there.
        ValueError: when the judge answers something else than it was asked.
    """
    if batch_size < 1:
        raise ValueError(f"expected batch_size >= 1, got {batch_size}")
    from bench.evaluators.command import single_process_trainer

    trainer = trainer or single_process_trainer()
    with uncollected():
        bench_run = _readable_run(run)
        everything = read_cases(bench_run.root)
        dataset = hash_once(bench_run.root, bench_run.path, cases=everything)[0] if trainer.is_global_zero else None
        if dataset not in (None, bench_run.dataset):
            raise UserError(f"{bench_run.root} changed since pictures of its cases were made; generate in a new folder")
    # Of the whole dataset: what a case is asked must not hang on which others were selected.
    listed = {metric for case in everything for metric in case.metrics}
    if not trainer.is_global_zero:
        # What exists is read before the ranks meet, hence before the first one writes.
        _judge_batches(bench_run, judge, listed, batch_size, trainer, None)
        return bench_run
    with bench_run.open() as folder:
        entry = JudgeFile(
            name=judge.name,
            judge_class=_class_path(judge),
            fingerprint=judge.fingerprint,
            metrics=list(judge.metrics),
            asks_questions=asks_questions(judge),
            looks=looks(judge),
            texts=texts_of(judge),
        )
        _refuse_other_judge(bench_run, entry)
        with folder.start(f"judge {judge.name}"):
            folder.write_json(judge_file(judge.name), entry)
            _judge_batches(bench_run, judge, listed, batch_size, trainer, folder.append)
    return bench_run


def _readable_run(run: str | Path) -> BenchRun:
    """Return a run whose dataset is still there."""
    bench_run = BenchRun.read(run)
    if not bench_run.root.is_dir():
        raise UserError(
            f"the cases of {bench_run.path} were read from {bench_run.root}, which is no longer there; put it back, or "
            "run the same `gnomon bench generate` with the folder's new place as --cases"
        )
    return bench_run


def _judge_batches(
    run: BenchRun,
    judge: Judge,
    listed: Set[str],
    batch_size: int,
    trainer: Trainer,
    record: Callable[[Verdict], None] | None,
) -> None:
    """Ask what is open, and record verdicts that were missing and failures where they are news."""
    from bench.evaluators.judge import JudgeEvaluator, predict

    with uncollected():
        verdicts = [verdict for by_item in run.verdicts().values() for verdict in by_item.values()]
        known = {key_of_verdict(verdict): verdict for verdict in verdicts}
        evaluator = JudgeEvaluator(run, judge, listed, known, record)
        batches = _batches(run.candidates(), batch_size)
    predict(trainer, evaluator, batches)


def _refuse_other_judge(run: BenchRun, entry: JudgeFile) -> None:
    """Refuse a second judge under the name of one that worked here; one that never answered may be put right."""
    file = run.path / judge_file(entry.name)
    if not file.exists():
        return
    old = read_json(file, JudgeFile)
    if old.fingerprint == entry.fingerprint:
        return
    if any(fingerprint == old.fingerprint for fingerprint, _ in run.verdicts()):
        raise UserError(
            f"{run.path} was judged by another {entry.name!r} (fingerprint {old.fingerprint}, "
            f"now {entry.fingerprint}); give this judge another name"
        )


def summarize(run: str | Path, scoring: Scoring | None = None) -> Results:
    """Compute `results.json` from the verdicts that are there, complete or not, and return it.

    Args:
        run: folder of a run.
        scoring: what scores are made by, from now on and in everything that computes scores of this run; None for what
            they were made by last, and the usual where the run was never summarized.

    Raises:
        UserError: when the folder holds no run or is in use.
    """
    with uncollected():
        return _summarized(run, scoring)


def _summarized(run: str | Path, scoring: Scoring | None) -> Results:
    """Do it in a frame of its own, at whose end cases are let go of, before the collector goes through them."""
    bench_run = BenchRun.read(run)
    if scoring is not None:
        bench_run = replace(bench_run, scoring=scoring)
    with bench_run.open() as folder:
        results = _results(bench_run)
        folder.write_json(RESULTS, results)
    return results


def _results(run: BenchRun) -> Results:
    # What parts of a picture contribute stands in the whole verdicts, which take ten times the memory.
    has_slices = any(benchmark_of(case).slices is not no_slices for case in run.cases.values())
    whole = run.verdicts() if has_slices else {}
    verdicts: Verdicts = whole if has_slices else run.short_verdicts()
    candidates = run.candidates()
    return Results(
        generator=run.config.generator,
        benchmarks=sorted({case.benchmark for case in run.cases.values()}),
        dataset=run.dataset,
        seed=run.seed,
        repeats=run.config.repeats,
        num_cases=len(run.cases),
        num_cases_of_dataset=run.num_cases_of_dataset,
        candidates=count_candidates(run.items, candidates),
        judges={entry.name: _judge_result(run, verdicts, whole, entry) for entry in run.judges()},
        scoring=run.scoring,
        subjects=subject_results(candidates, run.cases),
    )


def _judge_result(run: BenchRun, verdicts: Verdicts, whole: WholeVerdicts, entry: JudgeFile) -> JudgeResult:
    scores, questions = scores_and_questions(run, verdicts, entry)
    metrics = metric_results(run.items, scores, run.cases)
    for metric in entry.metrics:
        if slices := slice_cells(whole.get((entry.fingerprint, metric), {}), run.cases):
            metrics[metric] = metrics[metric].model_copy(update={"slices": slices})
    return JudgeResult(
        fingerprint=entry.fingerprint,
        metrics=metrics,
        questions=questions,
        served_by=served_by(verdicts, entry),
        prompt_hashes=prompt_hashes(verdicts, entry),
    )


def compare(run_a: str | Path, run_b: str | Path, out: str | Path) -> RunComparison:
    """Write how scores changed from `run_a` to `run_b` to `out`/comparison.json, a run folder, and return it.

    Differences are paired by case: the repeats of a case are averaged in each run, then subtracted. Only judges that
    judged both runs are compared.

    Raises:
        UserError: when the runs are about different datasets or summarized in different ways, have no judge in common
            or judges of one name and different fingerprints, or when `out` holds something else than an earlier
            comparison of these runs.
    """
    before, after = BenchRun.read(run_a), BenchRun.read(run_b)
    refuse_other_numbers([before, after])
    cases = before.cases | after.cases
    known = before.short_verdicts(), after.short_verdicts()
    judges: dict[str, dict[str, MetricDifference]] = {}
    served = {}
    for entry in _shared_judges(before, after):
        first, second = scores_of(before, known[0], entry), scores_of(after, known[1], entry)
        judges[entry.name] = {
            metric: metric_difference(first.get(metric, {}), second.get(metric, {}), cases)
            for metric in {**first, **second}
        }
        served[entry.name] = dict(sum((Counter(served_by(verdicts, entry)) for verdicts in known), Counter[str]()))
    comparison = RunComparison(
        before=before.config.generator,
        after=after.config.generator,
        dataset=before.dataset,
        judges=judges,
        served_by=served,
        scoring=before.scoring,
    )
    config = {"before": comparison.before, "after": comparison.after}
    inputs = {"before": before.identity, "after": after.identity}
    with RunFolder.open(out, command="bench compare", config=config, seed=0, inputs=inputs) as folder:
        folder.write_json(COMPARISON, comparison)
    return comparison


def _shared_judges(before: BenchRun, after: BenchRun) -> list[JudgeFile]:
    """Return the judges of both runs; refuse to compare the scores of two judges that only share a name."""
    others = {entry.name: entry for entry in after.judges()}
    shared = [entry for entry in before.judges() if entry.name in others]
    if not shared:
        raise UserError(
            f"{before.path} and {after.path} have no judge in common; run `gnomon bench judge` on both with the same"
        )
    for entry in shared:
        if entry.fingerprint != others[entry.name].fingerprint:
            raise UserError(
                f"judge {entry.name!r} is not the same in {before.path} and {after.path}; judge both with one of them, "
                "under a new name"
            )
    return shared


def _batches(elements: Sequence[Element], size: int) -> list[Sequence[Element]]:
    return [elements[start : start + size] for start in range(0, len(elements), size)]


def _class_path(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"
