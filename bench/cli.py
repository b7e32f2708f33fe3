"""The commands under `gnomon bench`: thin shells around the workflow, the report and :mod:`bench.agreement`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Protocol

from jsonargparse.typing import NonNegativeFloat, NonNegativeInt, PositiveInt

from gnomon.errors import UserError
from gnomon.tracking import LoggerName


class AnyGenerator(Protocol):
    """:class:`bench.generators.Generator` as jsonargparse can check it; for other commands that take one, too.

    It compares the annotations of methods for equality, so a generator that promises more than it must would be
    refused; `Any` leaves the names to it and the types to mypy.
    """

    def generate(self, cases: Any, references: Any, seeds: Any) -> Any:
        """Return a picture or a failure for every case."""


class _Judge(Protocol):
    """:class:`rm.judge.Judge` as jsonargparse can check it, see :class:`AnyGenerator`."""

    name: str
    metrics: tuple[str, ...]
    fingerprint: str

    def judge(self, requests: Any) -> Any: ...


class _Embedder(Protocol):
    """:class:`bench.cogcanvas.retrieving.PictureEmbedder` as jsonargparse can check it, see :class:`AnyGenerator`."""

    name: str
    fingerprint: str

    def embed(self, images: Any) -> Any: ...


def list_benchmarks() -> None:
    """List the benchmarks and where their cases come from."""
    from bench.benchmarks import known_benchmarks

    for name, benchmark in known_benchmarks().items():
        print(f"{name:<20}{benchmark.description}")


def describe(name: str) -> None:
    """Say what a benchmark is: where its cases come from, its groups and metrics, what counts as a failure.

    Args:
        name: as `gnomon bench list` has it.
    """
    from bench.description import benchmark_named, description

    print(description(benchmark_named(name)))


def validate(*, cases: Path) -> None:
    """Check a folder of cases, every picture included; all problems at once, exit code 1 if there are any.

    Args:
        cases: dataset folder with cases.jsonl.
    """
    from bench.validation import validate_cases

    report = validate_cases(cases)
    print(report)
    if not report.ok:
        raise SystemExit(1)


def generate(
    *,
    cases: Path,
    out: Path,
    generator: AnyGenerator,
    name: str,
    seed: int = 0,
    repeats: PositiveInt = 1,
    tasks: list[str] | str | None = None,
    sample_ids: list[str] | str | None = None,
    offset: NonNegativeInt = 0,
    limit: PositiveInt | None = None,
    max_references: NonNegativeInt | None = None,
    reference_roles: list[str] | str | None = None,
    batch_size: PositiveInt = 8,
    fail_on_error: bool | NonNegativeFloat = False,
) -> None:
    """Make the pictures of a generator for the cases of a dataset folder; run again to go on after a stop.

    Args:
        cases: dataset folder with cases.jsonl.
        out: run folder.
        generator: what makes the pictures, such as bench.generators.FolderGenerator for pictures that exist.
        name: the generator's name in tables.
        seed: the first seed.
        repeats: candidates a case, with consecutive seeds.
        tasks: take only cases of these tasks, such as A,B.
        sample_ids: take only cases with these ids, such as A,B; as a list in YAML where ids hold commas.
        offset: leave out the first of those.
        limit: take only so many of what is left.
        max_references: how many references the generator takes at most; cases with more are not applicable.
        reference_roles: roles of the references that the generator is given, such as identity,object,fashion; all by
            default, none for a text alone. Judges see all.
        batch_size: cases at once; with a generator behind a server, so many that its requests are always in flight.
        fail_on_error: exit with 1, when all is done, where candidates failed: true for any, a number below 1 for that
            share of them or more, a number from 1 on for so many or more. Where all failed, always.
    """
    from bench.failures import by_status, check_failures
    from bench.selection import listed
    from bench.workflow import generate as run_step

    run = run_step(
        cases,
        out,
        generator,
        name=name,
        seed=seed,
        repeats=repeats,
        tasks=listed(tasks, flag="--tasks"),
        sample_ids=listed(sample_ids, flag="--sample-ids"),
        offset=offset,
        limit=limit,
        max_references=max_references,
        reference_roles=() if reference_roles in ("none", []) else listed(reference_roles, flag="--reference-roles"),
        batch_size=batch_size,
    )
    candidates = [made for made in run.candidates() if made.status != "not_applicable"]
    failures = [(made.status, made.sampling.get("reason")) for made in candidates if made.status != "ok"]
    beyond = len(run.items) - len(candidates)
    print(
        f"{len(run.items)} candidates of {len(run.cases)} cases in {run.path}, {len(failures)} failed"
        + (f" ({by_status(failures)})" if failures else "")
        + (f", {beyond} not applicable" if beyond else "")
    )
    check_failures("candidates", failures, num_items=len(candidates), fail_on_error=fail_on_error)


def judge(argv: list[str]) -> None:
    """Judge the candidates of a run; run again to go on after a stop, and with other judges to add theirs.

    Args:
        argv: the arguments behind the verb: those of :func:`judge_run`, and `--trainer.*` for several ranks.
    """
    from bench.evaluators.command import parse

    settings, trainer = parse(judge_run, argv, program="gnomon bench judge")
    judge_run(**settings, trainer=trainer)


def judge_run(
    *,
    run: Path,
    judge: _Judge,
    batch_size: PositiveInt = 8,
    fail_on_error: bool | NonNegativeFloat = False,
    trainer: Any = None,
) -> None:
    """Judge the candidates of a run.

    Args:
        run: run folder of `gnomon bench generate`.
        judge: who judges.
        batch_size: candidates whose verdicts are written together, and that a judge in this process is asked about at
            once; one behind a server always has its `max_concurrency` requests in flight.
        fail_on_error: exit with 1, when all is done, where verdicts of this judge failed: true for any, a number below
            1 for that share of them or more, a number from 1 on for so many or more. Where all failed, always.
        trainer: whose ranks share the work.
    """
    from bench.failures import by_status, check_failures
    from bench.workflow import judge as run_step

    done = run_step(run, judge, batch_size=batch_size, trainer=trainer)
    if trainer is not None and not trainer.is_global_zero:
        return
    verdicts = [
        verdict
        for (fingerprint, _), by_item in done.verdicts().items()
        for verdict in by_item.values()
        if fingerprint == judge.fingerprint and verdict.status != "not_applicable"
    ]
    failures = [(verdict.status, verdict.rationale) for verdict in verdicts if verdict.status != "ok"]
    print(
        f"judged {done.path} by {judge.name}: {len(verdicts)} verdicts, {len(failures)} failed"
        + (f" ({by_status(failures)})" if failures else "")
        + f"; `gnomon bench summarize --run {done.path}` makes the numbers"
    )
    check_failures("verdicts", failures, num_items=len(verdicts), fail_on_error=fail_on_error)


def summarize(argv: list[str]) -> None:
    """Turn the verdicts of a run into results.json and results.csv, print them, and log them to trackers.

    Args:
        argv: the arguments behind the verb, see `gnomon bench summarize --help`.
    """
    from jsonargparse import ActionConfigFile, ArgumentParser  # type: ignore[attr-defined]  # no explicit re-export

    from gnomon.cli import underscored

    parser = ArgumentParser(
        prog="gnomon bench summarize", description=(summarize.__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--config", action=ActionConfigFile, help="a YAML file with any of these")
    parser.add_function_arguments(summarize_run, skip={"as_no", "strict"}, as_group=False)
    parser.add_argument(
        "--as_no", action="store_true", help="count questions without an answer as answered wrongly: a lower bound"
    )
    parser.add_argument(
        "--strict", action="store_true", help="no overall score for an item without questions in every dimension"
    )
    given = parser.parse_args(underscored(argv)).as_dict()
    given.pop("config")
    summarize_run(**given)


def summarize_run(
    *,
    run: Path,
    tracker: LoggerName | list[LoggerName] = "csv",
    num_examples: NonNegativeInt = 12,
    as_no: bool = False,
    strict: bool = False,
) -> None:
    """Turn the verdicts of a run into numbers; `report`, `compare` and all else go by the same `as_no` and `strict`.

    Args:
        run: run folder.
        tracker: tensorboard, wandb or "[tensorboard, wandb]"; the CSV file is always written.
        num_examples: cases whose pictures are logged to trackers.
        as_no: see :class:`bench.benchmarks.Scoring`.
        strict: likewise.
    """
    from bench.benchmarks import Scoring
    from bench.folder import RESULTS, BenchRun
    from bench.text import results_text
    from bench.tracking import log_results
    from bench.workflow import summarize as run_step

    results = run_step(run, Scoring(as_no=as_no, strict=strict))
    print(results_text(results))
    trackers: list[LoggerName] = tracker if isinstance(tracker, list) else [tracker]
    table = log_results(BenchRun.read(run), results, trackers, num_examples=num_examples)
    print(f"written to {run / RESULTS} and {table}")


def report(argv: list[str]) -> None:
    """Write report.html of a run, or one page over several on the same dataset, with fresh numbers.

    Args:
        argv: the arguments behind the verb, see `gnomon bench report --help`.
    """
    from gnomon.cli import underscored

    given = _report_parser().parse_args(underscored(argv))
    if len(given.run) == 1 and given.out is None and given.metrics is None:
        from bench.report.pages import write_run_page

        print(f"written to {write_run_page(given.run[0], num_examples=given.num_examples)}")
        return
    from bench.report.leaderboard import write_leaderboard_page

    if given.out is None:
        raise UserError(
            "expected --out DIR for a leaderboard (several runs, or --metrics), a folder of its own; got none"
        )
    page = write_leaderboard_page(given.run, given.out, metrics=given.metrics, num_examples=given.num_examples)
    print(f"written to {page}")


def _report_parser() -> Any:
    from jsonargparse import ActionConfigFile, ArgumentParser  # type: ignore[attr-defined]  # no explicit re-export

    parser = ArgumentParser(prog="gnomon bench report", description=(report.__doc__ or "").splitlines()[0])
    parser.add_argument("--config", action=ActionConfigFile, help="a YAML file with any of these")
    parser.add_argument(
        "--run", type=Path, nargs="+", required=True, help="run folder; several make a leaderboard; a list in YAML"
    )
    parser.add_argument("--out", type=Path, help="folder of the leaderboard; one run's page is written into its folder")
    parser.add_argument(
        "--metrics", type=str, nargs="+", help="those of the leaderboard, the first of which orders runs; default: all"
    )
    parser.add_argument(
        "--num_examples", type=NonNegativeInt, default=12, help="cases whose pictures are shown for each judge"
    )
    return parser


def compare(*, before: Path, after: Path, out: Path, num_examples: int = 12) -> None:
    """Compare two runs on the same cases, paired by case: comparison.json and report.html.

    Run again after more judging; a folder that holds something else is refused.

    Args:
        before: run folder of the first generator.
        after: run folder of the second generator.
        out: folder of its own for the comparison.
        num_examples: cases whose pictures are shown.
    """
    from bench.report.pages import write_comparison_page
    from bench.text import comparison_text
    from bench.workflow import compare as run_step

    comparison = run_step(before, after, out)
    print(comparison_text(comparison))
    print(f"written to {write_comparison_page(before, after, out, comparison, num_examples=num_examples)}")


def agreement(
    *,
    ratings: Path,
    level: Literal["nominal", "ordinal", "interval"],
    out: Path,
    num_resamples: PositiveInt = 2000,
    seed: NonNegativeInt = 0,
) -> None:
    """Measure how far raters agree, per group: agreement ratio, kappas, Krippendorff's alpha, correlations.

    Args:
        ratings: CSV file with the header item,rater,value and, for several tables in one file, a column group.
        level: what values are compared by: equality (nominal), order (ordinal) or differences (interval).
        out: JSON file to write.
        num_resamples: bootstrap resamples of items for the 95 % intervals.
        seed: seed of the resampling.
    """
    from bench.agreement import agreement_text, group_agreement, write_agreement
    from bench.ratings import read_ratings
    from bench.statistics.ratings import Bootstrap

    if out.resolve() == ratings.resolve():
        raise UserError(f"expected --out to be another file than --ratings, got {out} for both")
    bootstrap = Bootstrap(seed=seed, num_resamples=num_resamples)
    groups = {name: group_agreement(table, bootstrap) for name, table in read_ratings(ratings, level).items()}
    write_agreement(out, groups)
    print(agreement_text(groups))
    print(f"written to {out}")


def alignment(argv: list[str]) -> None:
    """Measure how far a judge agrees with people: models by their means, pictures, the best picture of a case.

    Args:
        argv: the arguments behind the verb, see `gnomon bench alignment --help`.

    Raises:
        UserError: see :func:`bench.ratings.read_ratings` and :func:`bench.alignment.pictures.rated_pictures`.
        SystemExit: with 2 for a wrong command line.
    """
    from bench.alignment.figures import alignment as measure
    from bench.alignment.pictures import rated_pictures
    from bench.alignment.text import alignment_text, write_alignment
    from bench.ratings import read_ratings
    from bench.statistics.ratings import Bootstrap
    from gnomon.cli import underscored

    given = _alignment_parser().parse_args(underscored(argv))
    if given.out.resolve() == given.ratings.resolve():
        raise UserError(f"expected --out to be another file than --ratings, got {given.out} for both")
    ratings = read_ratings(given.ratings, "interval")
    rated = rated_pictures(given.runs, ratings, judge=given.judge, metric=given.metric)
    found = measure(rated, Bootstrap(seed=given.seed, num_resamples=given.num_resamples))
    write_alignment(given.out, found)
    print(alignment_text(found))
    print(f"written to {given.out}")


def retrieval(
    *,
    embedder: _Embedder,
    out: Path,
    cases: Path | None = None,
    slots: Path | None = None,
    query: Literal["text", "image"] = "text",
    cache: Path | None = None,
) -> None:
    """Measure how well an embedder picks the reference that a prompt means: Precision@k and Recall@k, k = 1, 3, 5.

    Args:
        embedder: of pictures and, for queries by text, of texts.
        out: JSON file to write.
        cases: dataset folder with cases.jsonl; an identity's pool is every picture that the cases have of it.
        slots: in place of cases, a JSON-lines file of slots with pools of their own, beside its pictures.
        query: by what is asked: a text, or a picture that a slot has.
        cache: folder where the vectors of pictures are kept.
    """
    from bench.cogcanvas.retrieval import RetrievalSlot, slots_of
    from bench.cogcanvas.retrieving import retrieval_text, retrieve, write_retrieval
    from gnomon.datasets import read_cases
    from gnomon.jsonl import read_records

    if (cases is None) == (slots is None):
        raise UserError("expected either --cases or --slots")
    if cases is not None:
        root, (asked, alone) = cases, slots_of(read_cases(cases))
    else:
        assert slots is not None
        root, asked, alone = slots.parent, read_records(slots, RetrievalSlot), 0
    result = retrieve(root, asked, embedder, query=query, cache=cache, n_alone=alone)
    write_retrieval(out, result)
    print(retrieval_text(result))
    print(f"written to {out}")


def _alignment_parser() -> Any:
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(
        prog="gnomon bench alignment", description=(alignment.__doc__ or "").splitlines()[0], allow_abbrev=False
    )
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="judged run folders, one for each model")
    parser.add_argument(
        "--ratings", type=Path, required=True, help="CSV file with the header item,rater,value,group; see the docs"
    )
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--judge", type=str | None, help="its name; needed where several judged all runs")
    parser.add_argument("--metric", type=str | None, help="default: the one that runs are ordered by")
    parser.add_argument("--num_resamples", type=PositiveInt, default=2000, help="bootstrap resamples of cases")
    parser.add_argument("--seed", type=NonNegativeInt, default=0, help="of the resampling")
    return parser


def compare_judges(argv: list[str]) -> None:
    """Put evaluations of `gnomon rm eval` on the same pairs side by side: comparison.json, table.csv and report.html.

    Args:
        argv: the arguments after `gnomon rm compare`.

    Raises:
        UserError: see :func:`bench.judges.workflow.compare_judges`.
        SystemExit: with 2 for a wrong command line.
    """
    from jsonargparse import ArgumentParser

    from bench.judges.workflow import compare_judges as run_comparison
    from gnomon.cli import underscored

    parser = ArgumentParser(
        prog="gnomon rm compare",
        description="Compare judges that were evaluated on the same pairs.",
        allow_abbrev=False,
    )
    parser.add_argument("--runs", type=Path, nargs="+", required=True, help="run folders of `gnomon rm eval`")
    parser.add_argument("--out", type=Path, required=True, help="folder of its own for the comparison")
    parser.add_argument("--about", type=Path | None, help="CSV file: run,family,parameters,thinking,rubrics")
    parser.add_argument("--against", type=str | None, help="the run to test the others against; the best by default")
    parser.add_argument("--seed", type=int, default=0, help="of the bootstrap and of the random judge")
    given = parser.parse_args(underscored(argv))
    text, page = run_comparison(given.runs, given.out, about=given.about, against=given.against, seed=given.seed)
    print(text)
    print(f"written to {page}")
