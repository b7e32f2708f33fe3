"""How likely fixed answers are: tokens are looked up in context, log-probabilities read from forwards of prompts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from gnomon.errors import UserError
from rm.vlm.inputs import InputEncoder, Row
from rm.vlm.prefix import Batch, batches

Tokens = tuple[int, ...]


@dataclass
class _Reading:
    """A row, and the choices that are read from it.

    Attributes:
        row: a prompt, and behind it the longest of these choices without its last token.
        prompt: number of the prompt.
        length: of the prompt.
        choices: tokens of each.
    """

    row: Row
    prompt: int
    length: int
    choices: list[Tokens] = field(default_factory=list)

    def places(self, offset: int) -> set[int]:
        """Return where, behind the first `offset` tokens, tokens of the choices are predicted."""
        return {self.length - 1 - offset + step for choice in self.choices for step in range(len(choice))}


class ChoiceReader:
    """Reads log-probabilities of choices.

    Args:
        model: the stock model, language-model head included.
        encoder: makes its inputs.
        control_tokens: matches the tokenizer's special tokens.
    """

    def __init__(self, model: Any, encoder: InputEncoder, control_tokens: re.Pattern[str]) -> None:
        self.model, self.encoder, self.control_tokens = model, encoder, control_tokens
        self._known: dict[tuple[str, str], Tokens] = {}

    @torch.no_grad()
    def logprobs(
        self, texts: Sequence[str], rows: Sequence[Row], choices: Sequence[str], *, batch_size: int, share: bool
    ) -> list[dict[str, float]]:
        """Return the log-probability of each choice behind each prompt.

        Args:
            texts: the prompts as texts, whose ends decide how choices are tokenized.
            rows: the same prompts, encoded.
            choices: the answers.
            batch_size: rows per forward.
            share: whether prompts on the same pictures read them once.

        Raises:
            UserError: for a choice that adds no token, or runs together with the prompt's last one.
        """
        tokens = [{choice: self.tokens(text, choice) for choice in choices} for text in texts]
        readings = [
            reading
            for number, row in enumerate(rows)
            for reading in _readings(number, row, set(tokens[number].values()))
        ]
        groups = [tuple(picture.key for picture in reading.row.pictures) for reading in readings]
        found: dict[tuple[int, Tokens], float] = {}
        for batch in batches(
            self.model.model,
            self.encoder,
            [reading.row for reading in readings],
            groups,
            [reading.length - 1 for reading in readings],
            batch_size=batch_size,
            share=share,
        ):
            found |= self._read(batch, [readings[index] for index in batch.indices])
        return [{choice: found[number, ids] for choice, ids in known.items()} for number, known in enumerate(tokens)]

    def _read(self, batch: Batch, readings: Sequence[_Reading]) -> dict[tuple[int, Tokens], float]:
        places = sorted(set().union(*(reading.places(batch.offset) for reading in readings)))
        keep = torch.tensor(places, device=self.model.device)
        logprobs = self.model(**batch.inputs, logits_to_keep=keep).logits.float().log_softmax(dim=-1)
        column = {place: position for position, place in enumerate(places)}
        found = {}
        for line, reading in zip(logprobs, readings, strict=True):
            first = reading.length - 1 - batch.offset
            for choice in reading.choices:
                steps = [column[first + step] for step in range(len(choice))]
                found[reading.prompt, choice] = float(line[steps, list(choice)].double().sum())
        return found

    def tokens(self, prompt: str, choice: str) -> Tokens:
        """Return the tokens of a choice behind a prompt.

        Special tokens are walls that no token reaches across, so what stands behind the last one is enough context.

        Raises:
            UserError: when the choice adds no token or changes the prompt's own.
        """
        last = max((match.start() for match in self.control_tokens.finditer(prompt)), default=0)
        key = prompt[last:], choice
        if key not in self._known:
            self._known[key] = self._tokens_behind(*key)
        return self._known[key]

    def _tokens_behind(self, text: str, choice: str) -> Tokens:
        before, together = (
            self.encoder.processor.tokenizer(part, add_special_tokens=False)["input_ids"]
            for part in (text, text + choice)
        )
        if together[: len(before)] != before or len(together) == len(before):
            raise UserError(
                f"expected a choice that adds tokens to the prompt's end {text[-20:]!r}, {choice!r} adds none or runs "
                "together with it; begin the choice with another character"
            )
        return tuple(together[len(before) :])


def _readings(number: int, prompt: Row, choices: set[Tokens]) -> list[_Reading]:
    """Return as few rows as all choices can be read from: one, where every choice is one token."""
    readings: list[_Reading] = []
    for choice in sorted(choices, key=lambda ids: (-len(ids), ids)):
        for reading in readings:
            # A longer choice that begins alike has predicted this one's last token on its way.
            if reading.row.ids[reading.length :][: len(choice) - 1] == choice[:-1]:
                reading.choices.append(choice)
                break
        else:
            readings.append(_Reading(prompt + choice[:-1], number, len(prompt), [choice]))
    return readings
