"""Judging as a Lightning module: `Trainer.predict` under any strategy, every question asked exactly once.

Batches are the same on any number of ranks, and dealt like cards. After each step the first rank gets the verdicts of
all and writes them in the order of the batches, so that `samples.jsonl` is that of one rank, and a kill loses no more
than one step. Each rank has a whole copy of its judge; one that does not fit is served (`gnomon rm serve`, vLLM) and
asked over HTTP by all.

A judge whose model works on several questions at once (`max_concurrency`) is asked about the candidates of later steps
while the verdicts of earlier ones are awaited and written, see :func:`rm.ahead.ask_ahead`.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence, Set
from itertools import islice
from statistics import fmean

from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, tensor, zeros
from torch.nn import Parameter
from torch.utils.data import DataLoader, IterableDataset

from bench.folder import BenchRun, needs_work
from bench.judging import Question, VerdictKey, judge_batch, key_of_verdict, open_questions
from gnomon.jsonl import to_line
from gnomon.progress import track
from gnomon.ranks import failing_together, gather_texts
from gnomon.records import Candidate, Verdict
from gnomon.training import interruptible
from rm.ahead import ask_ahead
from rm.judge import Judge, asked_about

_CALLS_AT_ONCE = 8
"""So many calls of a judge keep what it can take in flight; more of them cost time for passing work around."""
_SELDOM = 50_000
"""New objects after which the interpreter looks for cycles while a judge is asked ahead."""


class JudgeEvaluator(LightningModule):
    """Asks a judge what is open, and hands the verdicts that are news to the first rank.

    Args:
        run: the run whose candidates are judged.
        judge: this rank's copy.
        listed: the metrics that any case of the dataset lists.
        known: the verdicts that exist.
        record: writes one on the first rank; None on the others.
    """

    def __init__(
        self,
        run: BenchRun,
        judge: Judge,
        listed: Set[str],
        known: Mapping[VerdictKey, Verdict],
        record: Callable[[Verdict], None] | None,
    ) -> None:
        super().__init__()
        self.run, self.judge, self.listed, self.known, self.record = run, judge, listed, known, record
        self.thresholds = gc.get_threshold()
        self.ahead: Generator[list[Verdict], None, None] | None = None
        self.together = 1
        self.unused = Parameter(zeros(1), requires_grad=False)  # some strategies take no module without weights

    def forward(self, batch: Sequence[Candidate]) -> list[Verdict]:
        """Return the verdicts about a batch of candidates that were asked for now."""
        wanted: list[Question] = [(candidate, metric) for candidate in batch for metric in self._asked_about(candidate)]
        open_ = open_questions(self.run, self.judge, wanted, self.listed, self.known)
        return judge_batch(self.run, self.judge, open_, self.listed)

    def predict_step(self, batch: Sequence[Candidate], batch_idx: int) -> Tensor:
        """Judge a batch on each rank, write all of them on the first, and return how many were news."""
        with failing_together():
            verdicts = [verdict for verdict in self._judged(batch) if self._is_news(verdict)]
        if self.trainer.world_size > 1:
            lines = gather_texts([to_line(verdict) for verdict in verdicts])
            verdicts = [Verdict.model_validate_json(line) for line in lines]
        if self.record is not None:
            for verdict in verdicts:
                self.record(verdict)
        return tensor(len(verdicts))  # DeepSpeed looks into outputs, and knows no numbers

    def look_ahead(self, batches: Sequence[Sequence[Candidate]]) -> None:
        """Prepare to be given these batches, in this order; a judge of several questions at once is asked ahead."""
        max_concurrency = getattr(self.judge, "max_concurrency", 1)
        candidates = [candidate for batch in batches for candidate in batch]
        if max_concurrency > 1 and candidates:
            # What has been imported by now stays. Looking through it again and again for what may be freed takes a
            # third of the time of everything that a request costs here, and through what is in flight a tenth.
            gc.freeze()
            gc.set_threshold(_SELDOM, *self.thresholds[1:])
            questions = fmean(len(self._asked_about(candidate)) for candidate in candidates)
            self.together = max(1, int(max_concurrency / (_CALLS_AT_ONCE * questions)))
            self.ahead = ask_ahead(
                self.forward,
                [part for batch in batches for part in self._parts(batch)],
                max_concurrency=max_concurrency,
                questions=questions * self.together,
            )

    def give_up(self) -> None:
        """Stop asking ahead."""
        if self.ahead is not None:
            self.ahead.close()
            gc.set_threshold(*self.thresholds)
            gc.unfreeze()

    def _asked_about(self, candidate: Candidate) -> tuple[str, ...]:
        return asked_about(self.judge, self.run.cases[candidate.case_id])

    def _judged(self, batch: Sequence[Candidate]) -> list[Verdict]:
        if self.ahead is None:
            verdicts: list[Verdict] = self(batch)
            return verdicts
        return [verdict for verdicts in islice(self.ahead, len(self._parts(batch))) for verdict in verdicts]

    def _parts(self, batch: Sequence[Candidate]) -> list[Sequence[Candidate]]:
        """Return the candidates of a batch that are asked about in one call."""
        return [batch[start : start + self.together] for start in range(0, len(batch), self.together)]

    def _is_news(self, verdict: Verdict) -> bool:
        old = self.known.get(key_of_verdict(verdict))
        # A failure that stays the same is none, however long it took this time.
        return needs_work(old) and (old is None or verdict != old.model_copy(update={"seconds": verdict.seconds}))

    def transfer_batch_to_device(
        self, batch: Sequence[Candidate], device: object, dataloader_idx: int
    ) -> Sequence[Candidate]:
        """Leave records where they are."""
        return batch


class _Dealt(IterableDataset[Sequence[Candidate]]):
    """The batches of one rank, as many on each: where they run out, empty ones."""

    def __init__(self, batches: Sequence[Sequence[Candidate]], evaluator: JudgeEvaluator, trainer: Trainer) -> None:
        self.batches, self.evaluator, self.trainer = batches, evaluator, trainer

    def __iter__(self) -> Iterator[Sequence[Candidate]]:
        world_size, rank = self.trainer.world_size, self.trainer.global_rank
        places = range(rank, rank + len(self.batches), world_size)
        share = [self.batches[place] if place < len(self.batches) else [] for place in places]
        self.evaluator.look_ahead(share)
        yield from track(share, f"judging by {self.evaluator.judge.name}") if rank == 0 else share


def predict(trainer: Trainer, evaluator: JudgeEvaluator, batches: Sequence[Sequence[Candidate]]) -> None:
    """Judge all batches.

    Raises:
        UserError: what the judge or the disk says, on any rank.
        KeyboardInterrupt: on Ctrl-C.
    """
    loader = DataLoader(_Dealt(batches, evaluator, trainer), batch_size=None, collate_fn=lambda batch: batch)
    try:
        with interruptible(trainer):
            trainer.predict(evaluator, loader, return_predictions=False)
    finally:
        evaluator.give_up()
