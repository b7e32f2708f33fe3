"""Answers by rule instead of by a model: controls that a measurement must see through, and fixed replies for tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from gnomon.errors import UserError
from gnomon.hashing import stable_hash, stable_seed
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply, Usage
from rm.vlm.wire import conversation_hash

Rule = Literal["always_yes", "always_no", "always_first", "random", "table"]

CONFIDENCE = 0.9
"""Probability of the choice that a rule takes; the others share the rest."""


class ScriptedVLM:
    """A model that looks at nothing.

    Attributes:
        name: for people.
        max_concurrency: 1; see :class:`rm.vlm.conversation.VLM`.
    """

    max_concurrency = 1

    def __init__(
        self,
        rule: Rule,
        *,
        answers: Sequence[str] = ("Yes", "No"),
        table: Mapping[str, str] | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        """Keep the rule.

        Args:
            rule: "always_yes" and "always_no" say so; "always_first" gives the first of `answers` or choices; "random"
                draws one of them, by a hash of the conversation; "table" looks the reply up.
            answers: whole replies for "always_first" and "random"; judges that expect JSON need JSON here.
            table: replies by :func:`prompt_text` or by :func:`rm.vlm.wire.conversation_hash`.
            seed: of "random".
            name: for people; the rule's by default.

        Raises:
            UserError: for an unknown rule, no answers, and a table without its rule or the other way round.
        """
        known = ("always_yes", "always_no", "always_first", "random", "table")
        if rule not in known:
            raise UserError(f"expected one of {', '.join(known)} as rule, got {rule!r}")
        if (rule == "table") != (table is not None):
            raise UserError(f"expected a table exactly for the rule 'table', got rule {rule!r} and table {table!r}")
        if not answers:
            raise UserError("expected at least one of answers, got none")
        self.name = name or f"scripted {rule}"
        self._rule, self._answers, self._table, self._seed = rule, tuple(answers), dict(table or {}), seed

    @property
    def fingerprint(self) -> str:
        """A hash of the rule and all that it goes by."""
        return stable_hash(["scripted", self._rule, self._answers, self._table, self._seed])

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Return one reply per conversation, in order; one that the table lacks is an "api_error"."""
        return [self._reply(conversation, parameters.seed) for conversation in conversations]

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Give the choice that the rule takes a probability of `CONFIDENCE`, and the others equal shares of the rest.

        Where there is no such choice ("always_yes" among "A" and "B"), the status is "parse_error".

        Raises:
            ValueError: for fewer than two choices, equal or empty ones.
        """
        if len(choices) < 2 or len(set(choices)) < len(choices) or not all(choices):
            raise ValueError(f"expected at least two different choices, got {list(choices)}")
        return [self._choice(conversation, choices) for conversation in conversations]

    def _reply(self, conversation: Conversation, sample: int | None) -> Reply:
        text = self._pick(conversation, self._answers, sample)
        if text is None:
            return Reply("", "api_error", error=f"the table has no reply to {prompt_text(conversation)[:80]!r}")
        return Reply(text, finish_reason="stop", usage=Usage(0, 0, 0.0))

    def _choice(self, conversation: Conversation, choices: Sequence[str]) -> ChoiceScores:
        picked = self._pick(conversation, choices, None)
        taken = next((choice for choice in choices if picked is not None and choice.lower() == picked.lower()), None)
        if picked is None:
            return ChoiceScores(None, "api_error", f"the table has no reply to {prompt_text(conversation)[:80]!r}")
        if taken is None:
            return ChoiceScores(None, "parse_error", f"{picked!r} is none of the choices {list(choices)}")
        rest = math.log((1.0 - CONFIDENCE) / (len(choices) - 1))
        return ChoiceScores({choice: math.log(CONFIDENCE) if choice == taken else rest for choice in choices})

    def _pick(self, conversation: Conversation, options: Sequence[str], sample: int | None) -> str | None:
        if self._rule == "table":
            found = self._table.get(prompt_text(conversation))
            return self._table.get(conversation_hash(conversation)) if found is None else found
        if self._rule in ("always_yes", "always_no"):
            return "Yes" if self._rule == "always_yes" else "No"
        if self._rule == "always_first":
            return options[0]
        place = stable_seed(self._seed, conversation_hash(conversation), "" if sample is None else sample)
        return options[place % len(options)]


def prompt_text(conversation: Conversation) -> str:
    """Return all texts of a conversation, one below the other, without its pictures."""
    return "\n".join(part for message in conversation for part in message.content if isinstance(part, str))
