"""What is said to a vision-language model and what comes back; a failure is a status of one reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from gnomon.records import Status

if TYPE_CHECKING:
    from PIL import Image

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    """One turn of a conversation.

    Attributes:
        role: who speaks.
        content: texts and RGB pictures in the order in which they are read.
    """

    role: Role
    content: tuple[str | Image.Image, ...]


Conversation = tuple[Message, ...]


@dataclass(frozen=True)
class GenerationParameters:
    """How a reply is sampled.

    Attributes:
        max_tokens: longest reply, in tokens, thinking included.
        temperature: 0 always takes the likeliest token.
        top_p: share of the probability mass that tokens are drawn from, in (0, 1].
        seed: of the sampling; None leaves it to the backend.
        thinking: whether a model that can think aloud first is asked to.
        schema: JSON schema that the reply must follow, where the backend can hold a model to one.
    """

    max_tokens: int = 1024
    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | None = 0
    thinking: bool = False
    schema: dict[str, Any] | None = None


@dataclass(frozen=True)
class Usage:
    """What a reply took.

    Attributes:
        prompt_tokens: tokens read.
        completion_tokens: tokens written.
        cost: in US dollars; None where no prices are known.
    """

    prompt_tokens: int
    completion_tokens: int
    cost: float | None = None


@dataclass(frozen=True)
class Reply:
    """What a model said, or why it said nothing.

    Attributes:
        text: the answer without the thinking; may be part of one where `status` is "truncated".
        status: "ok", "truncated" (the longest reply was reached), "refused" (the provider or the model withheld it),
            "api_error" (no reply came, whatever the backend) or "unreadable_image".
        finish_reason: the backend's own word for how the reply ended.
        thinking: what was thought aloud before the answer.
        error: for people, where `status` is not "ok".
        usage: tokens and cost, where known.
        cached: whether the reply was read from a cache; `usage` then says what it once took.
        seconds: how long it took, waiting included.
        served_by: the server's own word for the model that answered, where it gives one.
    """

    text: str
    status: Status = "ok"
    finish_reason: str | None = None
    thinking: str = ""
    error: str | None = None
    usage: Usage | None = None
    cached: bool = False
    seconds: float | None = None
    served_by: str | None = None


@dataclass(frozen=True)
class ChoiceScores:
    """How likely each of some fixed answers is as the reply's first words.

    Attributes:
        logprobs: natural logarithm of each choice's probability among all replies; None where `status` is not "ok".
        status: as in :class:`Reply`.
        error: for people, where `status` is not "ok".
        usage: tokens and cost, where known.
        cached: whether it was read from a cache.
        served_by: as in :class:`Reply`.
    """

    logprobs: dict[str, float] | None
    status: Status = "ok"
    error: str | None = None
    usage: Usage | None = None
    cached: bool = False
    served_by: str | None = None


class VLM(Protocol):
    """A vision-language model that can be asked.

    Attributes:
        name: for people.
        max_concurrency: how many questions it can work on at once when several threads ask; 1 for a model in this
            process, which is asked by one thread.
    """

    name: str

    @property
    def max_concurrency(self) -> int:
        """See the class."""

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for models that answer equally."""

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Return one reply per conversation, in order; never raises for one bad item."""

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Return the log-probability of each choice as the reply to each conversation, in order."""


_OPEN, _CLOSE = "<think>", "</think>"


def split_thinking(text: str) -> tuple[str, str]:
    """Return what was thought aloud and what was answered.

    Chat templates often write the opening tag into the prompt, so that a reply holds the closing one alone. An opening
    tag that is never closed is a thought that was cut off: there is no answer.
    """
    head, closed, tail = text.rpartition(_CLOSE)
    if closed:
        return head.replace(_OPEN, "").replace(_CLOSE, "").strip(), tail.strip()
    if text.lstrip().startswith(_OPEN):
        return text.lstrip().removeprefix(_OPEN).strip(), ""
    return "", text.strip()
