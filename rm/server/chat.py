"""Chat completions of a local model, in the form of OpenAI's API: requests to conversations, replies to answers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field, model_validator

from rm.server.limits import Limits
from rm.service import decode_picture
from rm.vlm.conversation import Conversation, GenerationParameters, Message, Reply

PATH = "/v1/chat/completions"
MAX_TOP_LOGPROBS = 20


class ChatModel(Protocol):
    """A vision-language model that can be served."""

    name: str

    @property
    def fingerprint(self) -> str:
        """A hash that is equal for models that answer equally."""

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Return one reply per conversation."""

    def first_tokens(self, conversations: Sequence[Conversation], count: int) -> list[list[tuple[str, float]] | Reply]:
        """Return the likeliest first tokens of each reply, or a failed reply."""


class ImageUrl(BaseModel):
    """Where a picture is: a data URL; addresses are not fetched, since a request must not make a server call others."""

    url: str


class Part(BaseModel):
    """One part of a message."""

    type: Literal["text", "image_url"]
    text: str | None = None
    image_url: ImageUrl | None = None

    @model_validator(mode="after")
    def _has_its_content(self) -> Part:
        if getattr(self, self.type) is None:
            raise ValueError(f"expected {self.type} in a part of this type")
        return self


class ChatMessage(BaseModel):
    """One turn."""

    role: Literal["system", "user", "assistant"]
    content: str | list[Part]


class TemplateOptions(BaseModel):
    """What a chat template may be told."""

    enable_thinking: bool = False


class ChatRequest(BaseModel):
    """A request; fields that change nothing here are ignored, those that would change the answer are refused."""

    model_config = ConfigDict(extra="ignore")

    messages: list[ChatMessage] = Field(min_length=1)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float = Field(1.0, ge=0.0)
    top_p: float = Field(1.0, gt=0.0, le=1.0)
    seed: int | None = None
    logprobs: bool = False
    top_logprobs: int = Field(0, ge=0, le=MAX_TOP_LOGPROBS)
    chat_template_kwargs: TemplateOptions = TemplateOptions()
    n: Literal[1] = 1
    stream: Literal[False] = False
    stop: None = None
    tools: None = None
    response_format: None = None

    @model_validator(mode="after")
    def _one_token_of_probabilities(self) -> ChatRequest:
        if self.logprobs and self.length != 1:
            raise ValueError("logprobs are given for a reply of one token: set max_tokens to 1")
        return self

    @property
    def length(self) -> int:
        """Longest reply in tokens."""
        return self.max_completion_tokens or self.max_tokens or GenerationParameters().max_tokens

    @property
    def parameters(self) -> GenerationParameters:
        """How the reply is drawn."""
        return GenerationParameters(
            max_tokens=self.length,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed,
            thinking=self.chat_template_kwargs.enable_thinking,
        )

    def conversation(self, limits: Limits) -> Conversation:
        """Return the messages with their pictures decoded.

        Raises:
            ValueError: for too many pictures, and one that is no data URL or cannot be read.
        """
        messages = tuple(Message(message.role, _content(message, limits)) for message in self.messages)
        images = sum(not isinstance(part, str) for message in messages for part in message.content)
        if images > limits.images:
            raise ValueError(f"expected at most {limits.images} pictures, got {images}")
        return messages


def _content(message: ChatMessage, limits: Limits) -> tuple[Any, ...]:
    if isinstance(message.content, str):
        return (message.content,)
    return tuple(_part(part, limits) for part in message.content)


def _part(part: Part, limits: Limits) -> Any:
    if part.image_url is None:
        return part.text
    head, comma, data = part.image_url.url.partition(",")
    if not (head.startswith("data:image/") and head.endswith(";base64") and comma):
        raise ValueError("expected a picture as a data URL (data:image/png;base64,...); addresses are not fetched")
    return decode_picture(data, max_pixels=limits.pixels)


@dataclass(frozen=True, eq=False)
class Question:
    """One request, ready to be answered."""

    conversation: Conversation
    parameters: GenerationParameters
    top_logprobs: int | None


Answer = tuple[Reply, list[tuple[str, float]] | None]
"""A reply, and its likeliest first tokens where they were asked for."""


def answer(model: ChatModel, questions: Sequence[Question]) -> list[Answer]:
    """Answer questions together where they ask for the same kind of reply."""
    groups: dict[Any, list[int]] = {}
    for number, question in enumerate(questions):
        groups.setdefault((question.parameters, question.top_logprobs), []).append(number)
    answers: dict[int, Answer] = {}
    for (parameters, top_logprobs), members in groups.items():
        conversations = [questions[number].conversation for number in members]
        if top_logprobs is None:
            found: list[Answer] = [(reply, None) for reply in model.generate(conversations, parameters)]
        else:
            tokens = model.first_tokens(conversations, max(1, top_logprobs))
            found = [(listed, None) if isinstance(listed, Reply) else _first(listed) for listed in tokens]
        answers |= zip(members, found, strict=True)
    return [answers[number] for number in range(len(questions))]


def _first(listed: list[tuple[str, float]]) -> Answer:
    return Reply(listed[0][0], status="truncated", finish_reason="length"), listed


def failed(reason: str) -> Answer:
    """Return the answer to a question that went wrong."""
    return Reply("", status="api_error", error=reason), None


def completion(model: str, found: Answer) -> dict[str, Any]:
    """Return a chat completion."""
    reply, listed = found
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.thinking:
        message["reasoning_content"] = reply.thinking
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": reply.finish_reason or "stop"}
    if listed is not None:
        top = [{"token": token, "logprob": logprob} for token, logprob in listed]
        choice["logprobs"] = {"content": [{**top[0], "top_logprobs": top}]}
    usage = reply.usage
    counts = (0, 0) if usage is None else (usage.prompt_tokens, usage.completion_tokens)
    return {
        "id": f"chatcmpl-{uuid.uuid4().hex}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": counts[0], "completion_tokens": counts[1], "total_tokens": sum(counts)},
    }
