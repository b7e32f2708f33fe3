"""Rows of a stage's dataset: prompts, pictures and labels for GRPO, texts and pictures for the cold start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from transformers import ProcessorMixin

from rm.thinking.asking import Question
from rm.thinking.data import Example, Target
from rm.thinking.prompts import (
    completion_text,
    opens_thought,
    template_variables,
)
from rm.vlm.processor import control_tokens, render_chat, template_messages


class PromptRows:
    """Makes rows of prompts, pictures and labels; pictures are decoded when a row is asked for.

    Attributes:
        variables: what the chat template is given.
        opened: whether the chat template opens the thought.
    """

    def __init__(
        self, question: Question, processor: ProcessorMixin, examples: Sequence[Example], *, thinking: bool
    ) -> None:
        self.question, self.examples = question, examples
        self.control = control_tokens(processor)
        self.variables = template_variables(processor, thinking)
        messages, _ = self.messages(examples[0])
        self.opened = opens_thought(render_chat(processor, messages, **self.variables))

    def messages(self, example: Example) -> tuple[list[dict[str, Any]], list[Any]]:
        """Return an example's question, and its pictures in the order of their places."""
        return template_messages(self.question.build_conversation(example.comparison, example.order), self.control)

    def __call__(self, batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        """Return the columns of some rows."""
        chosen = [self.examples[row] for row in batch["row"]]
        asked = [self.messages(example) for example in chosen]
        return {
            "prompt": [messages for messages, _ in asked],
            "images": [pictures for _, pictures in asked],
            "label": [example.label for example in chosen],
            "pair": [example.pair for example in chosen],
            "side": [example.side for example in chosen],
        }


class TargetRows:
    """Makes rows of prompts and replies as texts, so that the cold start sees what generation will see."""

    def __init__(
        self, question: Question, processor: ProcessorMixin, targets: Sequence[Target], *, thinking: bool
    ) -> None:
        self.prompts = PromptRows(question, processor, [target.example for target in targets], thinking=thinking)
        self.targets, self.processor = targets, processor

    def __call__(self, batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        """Return the columns of some rows."""
        asked = [self.prompts.messages(self.targets[row].example) for row in batch["row"]]
        texts = [render_chat(self.processor, messages, **self.prompts.variables) for messages, _ in asked]
        end = str(self.processor.tokenizer.eos_token)
        replies = [self.targets[row].text for row in batch["row"]]
        return {
            "prompt": texts,
            "completion": [completion_text(reply, text, end) for reply, text in zip(replies, texts, strict=True)],
            "images": [pictures for _, pictures in asked],
        }


def dataset(rows: list[int], loader: PromptRows | TargetRows) -> Any:
    """Return the rows as the only kind of dataset that trl takes, made when they are asked for."""
    from datasets import Dataset

    return Dataset.from_dict({"row": rows}).with_transform(loader)
