"""Judging as a Lightning module: `Trainer.predict` under any strategy, every question asked exactly once.

Batches are the same on any number of ranks, and dealt like cards. After each step the first rank gets the verdicts of
all and writes them in the order of the batches, so that `samples.jsonl` is that of one rank, and a kill loses no more
than one step. Each rank has a whole copy of its judge; one that does not fit is served (`gnomon rm serve`, vLLM) and
asked over HTTP by all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, tensor, zeros
from torch.nn import Parameter
from torch.utils.data import DataLoader, IterableDataset

from bench.folder import BenchRun, needs_work
from bench.judging import Question, VerdictKey, judge_batch, key_of_verdict, open_questions
from gnomon.datasets import read_cases
from gnomon.jsonl import to_line
from gnomon.progress import track
from gnomon.ranks import failing_together, gather_texts
from gnomon.records import Candidate, Verdict
from gnomon.training import interruptible
from rm.judge import Judge


class JudgeEvaluator(LightningModule):
    """Asks a judge what is open, and hands the verdicts that are news to the first rank.

    Args:
        run: the run whose candidates are judged.
        judge: this rank's copy.
        known: the verdicts that exist.
        record: writes one on the first rank; None on the others.
    """

    def __init__(
        self,
        run: BenchRun,
        judge: Judge,
        known: Mapping[VerdictKey, Verdict],
        record: Callable[[Verdict], None] | None,
    ) -> None:
        super().__init__()
        self.run, self.judge, self.known, self.record = run, judge, known, record
        # Of the whole dataset: what a case is asked must not hang on which others were selected.
        self.listed = {metric for case in read_cases(run.root) for metric in case.metrics}
        self.unused = Parameter(zeros(1), requires_grad=False)  # some strategies take no module without weights

    def forward(self, batch: Sequence[Candidate]) -> list[Verdict]:
        """Return the verdicts about a batch of candidates that were asked for now."""
        wanted: list[Question] = [(candidate, metric) for candidate in batch for metric in self.judge.metrics]
        open_ = open_questions(self.run, self.judge, wanted, self.listed, self.known)
        return judge_batch(self.run, self.judge, open_, self.listed)

    def predict_step(self, batch: Sequence[Candidate], batch_idx: int) -> Tensor:
        """Judge a batch on each rank, write all of them on the first, and return how many were news."""
        with failing_together():
            verdicts = [verdict for verdict in self(batch) if self._is_news(verdict)]
        everyone = gather_texts([to_line(verdict) for verdict in verdicts])
        if self.record is not None:
            for line in everyone:
                self.record(Verdict.model_validate_json(line))
        return tensor(len(everyone))  # DeepSpeed looks into outputs, and knows no numbers

    def _is_news(self, verdict: Verdict) -> bool:
        old = self.known.get(key_of_verdict(verdict))
        return needs_work(old) and verdict != old

    def transfer_batch_to_device(
        self, batch: Sequence[Candidate], device: object, dataloader_idx: int
    ) -> Sequence[Candidate]:
        """Leave records where they are."""
        return batch


class _Dealt(IterableDataset[Sequence[Candidate]]):
    """The batches of one rank, as many on each: where they run out, empty ones."""

    def __init__(self, batches: Sequence[Sequence[Candidate]], title: str, trainer: Trainer) -> None:
        self.batches, self.title, self.trainer = batches, title, trainer

    def __iter__(self) -> Iterator[Sequence[Candidate]]:
        world_size, rank = self.trainer.world_size, self.trainer.global_rank
        steps = range(0, len(self.batches), world_size)
        for step in track(steps, self.title) if rank == 0 else steps:
            yield self.batches[step + rank] if step + rank < len(self.batches) else []


def predict(trainer: Trainer, evaluator: JudgeEvaluator, batches: Sequence[Sequence[Candidate]]) -> None:
    """Judge all batches.

    Raises:
        UserError: what the judge or the disk says, on any rank.
        KeyboardInterrupt: on Ctrl-C.
    """
    loader = DataLoader(
        _Dealt(batches, f"judging by {evaluator.judge.name}", trainer), batch_size=None, collate_fn=lambda batch: batch
    )
    with interruptible(trainer):
        trainer.predict(evaluator, loader, return_predictions=False)
