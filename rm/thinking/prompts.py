"""The ends of prompts and the beginnings of replies: where the thought opens, and that its tags survive."""

from __future__ import annotations

from typing import Any

from transformers import ProcessorMixin

from gnomon.errors import UserError
from rm.thinking.rewards import CLOSE, OPEN


def template_variables(processor: ProcessorMixin, thinking: bool) -> dict[str, Any]:
    """Return what the chat template is given; nothing where it does not know `enable_thinking`."""
    return {"enable_thinking": thinking} if "enable_thinking" in str(processor.chat_template) else {}


def opens_thought(prompt: str) -> bool:
    """Say whether the chat template wrote the opening tag, so that a reply begins inside the thought."""
    return prompt.rstrip().endswith(OPEN)


def completion_text(reply: str, prompt: str, end: str) -> str:
    """Return what a model is to write after `prompt`: the reply without what the prompt holds of it, and its end."""
    if opens_thought(prompt):
        reply = reply.lstrip().removeprefix(OPEN).lstrip()
    return f"{reply}{end}"


def check_tags(processor: ProcessorMixin) -> None:
    """Refuse a tokenizer that loses the tags when a reply is decoded: no reply would ever have the right form.

    Raises:
        UserError: in that case.
    """
    tokenizer = processor.tokenizer
    ids = tokenizer(f"{OPEN} a {CLOSE} b", add_special_tokens=False)["input_ids"]
    text = tokenizer.decode(ids, skip_special_tokens=True)
    if OPEN not in text or CLOSE not in text:
        raise UserError(
            f"expected a tokenizer that keeps {OPEN} and {CLOSE} in what it decodes, got {text!r}; choose another "
            "base, or add both to its vocabulary as tokens that are not special"
        )
