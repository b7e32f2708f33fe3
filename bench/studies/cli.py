"""`gnomon bench study NAME --runs DIR ... --out FILE`: a study over finished runs, as JSON and as a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse.typing import NonNegativeInt, PositiveInt

from gnomon.errors import UserError

if TYPE_CHECKING:
    from bench.folder import JudgeFile
    from bench.report.examples import JudgedRun
    from bench.statistics.ratings import Bootstrap


@dataclass(frozen=True)
class Inputs:
    """What every study gets: the runs, the judges of all of them, how to resample, and its own flags."""

    runs: Sequence[JudgedRun]
    judges: Sequence[JudgeFile]
    bootstrap: Bootstrap
    flags: Any


@dataclass(frozen=True)
class Study:
    """One of `STUDIES`.

    Attributes:
        help: one line about it.
        run: computes it, and returns what is written and what is printed.
        flags: of its own: name, and what `add_argument` takes.
    """

    help: str
    run: Callable[[Inputs], tuple[object, str]]
    flags: tuple[tuple[str, dict[str, Any]], ...] = ()


def study(argv: list[str]) -> None:
    """Run a study over finished runs: people and judges, other judges, repeats, numbers and origins of references.

    Args:
        argv: the arguments behind the verb, see `gnomon bench study --help`.

    Raises:
        UserError: for runs that do not belong together, and what the study itself cannot use.
        SystemExit: with 2 for a wrong command line.
    """
    from bench.statistics.ratings import Bootstrap
    from bench.studies.runs import judges_of_all, read_runs
    from bench.studies.text import write_study
    from gnomon.cli import underscored

    given = _parser().parse_args(underscored(argv))
    flags = given[given.name]
    ratings = flags.get("ratings")
    if ratings is not None and flags.out.resolve() == ratings.resolve():
        raise UserError(f"expected --out to be another file than --ratings, got {flags.out} for both")
    runs = read_runs(flags.runs, flags.tasks)
    judges = judges_of_all(runs, flags.judges)
    bootstrap = Bootstrap(seed=flags.seed, num_resamples=flags.num_resamples)
    result, text = STUDIES[given.name].run(Inputs(runs, judges, bootstrap, flags))
    about = {
        "study": given.name,
        "runs": {one.label: one.run.path for one in runs},
        "dataset": runs[0].run.dataset,
        "tasks": flags.tasks,
        "judges": {judge.name: judge.fingerprint for judge in judges},
        "seed": bootstrap.seed,
        "num_resamples": bootstrap.num_resamples,
        "confidence": bootstrap.confidence,
    }
    write_study(flags.out, {**about, "result": result})
    print(text)
    print(f"written to {flags.out}")


def _parser() -> Any:
    from jsonargparse import ArgumentParser

    parser = ArgumentParser(prog="gnomon bench study", description=(study.__doc__ or "").splitlines()[0])
    commands = parser.add_subcommands(dest="name")
    for name, one in STUDIES.items():
        own = ArgumentParser(description=one.help, allow_abbrev=False)
        own.add_argument("--runs", type=Path, nargs="+", required=True, help="judged run folders on one dataset")
        own.add_argument("--out", type=Path, required=True, help="JSON file to write")
        own.add_argument("--judges", type=str, nargs="+", help="their names; default: all that judged every run")
        own.add_argument("--tasks", type=str, nargs="+", help="only cases of these")
        for flag, settings in one.flags:
            own.add_argument(flag, **settings)
        own.add_argument("--num_resamples", type=PositiveInt, default=2000, help="bootstrap resamples of cases")
        own.add_argument("--seed", type=NonNegativeInt, default=0, help="of the resampling")
        commands.add_subcommand(name, own, help=one.help)
    return parser


def _human_agreement(inputs: Inputs) -> tuple[object, str]:
    from bench.benchmarks import Score
    from bench.studies.human_agreement import human_agreement
    from bench.studies.text import human_agreement_text
    from bench.studies.votes import RatedQuestion, read_votes

    by_label = {one.label: one for one in inputs.runs}

    def answers_of(judge: JudgeFile) -> Callable[[RatedQuestion], Score | None]:
        def answer(rated: RatedQuestion) -> Score | None:
            verdict = by_label[rated.model].answer(judge, rated.item, rated.question.id)
            return None if verdict is None else Score(verdict.value, verdict.status)

        return answer

    asking = {judge.name: answers_of(judge) for judge in inputs.judges if judge.asks_questions}
    if not asking:
        raise UserError(
            "expected a judge of questions among those of every run, there are only judges with metrics of their own; "
            "`gnomon bench alignment` compares those with people"
        )
    rated = read_votes(inputs.flags.ratings, inputs.runs)
    found = human_agreement(rated, asking, inputs.bootstrap, on_tie=inputs.flags.on_tie)
    return found, human_agreement_text(found)


def _judge_agreement(inputs: Inputs) -> tuple[object, str]:
    from bench.studies.judge_agreement import judge_agreement
    from bench.studies.text import judge_agreement_text

    found = judge_agreement(inputs.runs, inputs.judges, inputs.bootstrap)
    return found, judge_agreement_text(found)


def _reranking(inputs: Inputs) -> tuple[object, str]:
    from bench.studies.reranking import reranking
    from bench.studies.runs import headline_of
    from bench.studies.text import reranking_text

    if len(inputs.judges) < 2 or len(inputs.runs) < 2:
        raise UserError(
            f"expected two judges and two runs at least to compare orders, got {len(inputs.judges)} and "
            f"{len(inputs.runs)}; run `gnomon bench judge` again with another judge, nothing is generated anew"
        )
    headlines = {judge.name: headline_of(inputs.runs, judge, inputs.flags.metric) for judge in inputs.judges}
    found = reranking(inputs.runs, headlines, inputs.bootstrap)
    if found is None:
        raise UserError("expected cases that every judge has a score of in every run, there is none")
    return found, reranking_text(found)


def _repeats(inputs: Inputs) -> tuple[object, str]:
    from bench.studies.repeats import repeats
    from bench.studies.text import repeats_text

    found = {judge.name: repeats(inputs.runs, judge.name, _metrics(inputs, judge)) for judge in inputs.judges}
    return found, repeats_text(found)


def _reference_count(inputs: Inputs) -> tuple[object, str]:
    from bench.studies.reference_counts import reference_counts
    from bench.studies.text import reference_counts_text

    found = {
        judge.name: reference_counts(inputs.runs, judge.name, _metrics(inputs, judge), inputs.bootstrap)
        for judge in inputs.judges
    }
    return found, reference_counts_text(found)


def _reference_origin(inputs: Inputs) -> tuple[object, str]:
    from bench.studies.reference_origins import reference_origins
    from bench.studies.text import reference_origins_text

    found = {
        judge.name: reference_origins(inputs.runs, judge.name, _metrics(inputs, judge), inputs.bootstrap)
        for judge in inputs.judges
    }
    return found, reference_origins_text(found)


def _metrics(inputs: Inputs, judge: JudgeFile) -> list[str]:
    """Return the metrics of a judge that are shown: the chosen ones, or all, the one that runs are ordered by first."""
    from bench.studies.runs import headline_of, metrics_of

    if inputs.flags.metrics:
        return [headline_of(inputs.runs, judge, metric) for metric in inputs.flags.metrics]
    first = headline_of(inputs.runs, judge, None)
    return [first, *(metric for metric in metrics_of(inputs.runs, judge.name) if metric != first)]


_METRICS = ("--metrics", {"type": str, "nargs": "+", "help": "default: all of a judge"})

STUDIES = {
    "human-agreement": Study(
        "how far people agree with each other, and judges of questions with most of them",
        _human_agreement,
        (
            (
                "--ratings",
                {"type": Path, "required": True, "help": "CSV file: case,question,rater,value; see the docs"},
            ),
            ("--on_tie", {"choices": ["yes", "no"], "help": "what a tie of people counts as; default: no decision"}),
        ),
    ),
    "judge-agreement": Study(
        "how far judges agree with each other, those of questions and those that score", _judge_agreement
    ),
    "reranking": Study(
        "how judges order the same models, and how far their orders agree",
        _reranking,
        (("--metric", {"type": str, "help": "default: the one that runs are ordered by"}),),
    ),
    "repeats": Study("mean and sample standard deviation over seeds and runs of a model", _repeats, (_METRICS,)),
    "reference-count": Study("scores by the number of references", _reference_count, (_METRICS,)),
    "reference-origin": Study(
        "real against synthetic references, paired, and the gaps between models", _reference_origin, (_METRICS,)
    ),
}
