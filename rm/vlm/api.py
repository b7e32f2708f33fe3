"""A vision-language model behind any server that speaks OpenAI's chat completions."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Generic

from PIL import Image

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.images import content_hash
from gnomon.records import Status
from rm.background import run_to_end
from rm.vlm.cache import Answer, ReplyCache
from rm.vlm.chat import ChatClient, ChatMemory
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply, Usage
from rm.vlm.requests import Endpoint, NoAnswerError, SharedClient, ask_each, require_positive
from rm.vlm.wire import (
    Body,
    Prices,
    adjusted,
    chat_messages,
    choice_fields,
    conversation_hash,
    data_url,
    read_choice_scores,
    read_reply,
    reply_fields,
    served_by,
)

_COUNTING = threading.Lock()  # of the module, because a model that holds one could not be sent to another process


class ApiVLM:
    """Asks a model behind a server; nothing is lost or reordered, and one bad item is one reply's status.

    What may pass (408, 425, 429, 5xx, broken connections, silence) is tried again; anything else that the server
    refuses is the item's "api_error" at once. Only a 401 or 404 (wrong key, address or model name) from a server that
    has not answered anything yet stops the whole call, since every further item would fail alike.

    The cache's keys and the fingerprint hold the whole address, because one model name can mean different weights or
    quantizations on different servers. A server that moves is asked afresh; one that serves new weights at the same
    address needs a new model name or another cache folder.

    Attributes:
        name: for people.
    """

    def __init__(
        self,
        *,
        model: str,
        base_url: str,
        api_key_variable: str | None = None,
        max_concurrency: int = 16,
        timeout: float = 120.0,
        max_retries: int = 8,
        backoff: float = 1.0,
        longest_wait: float = 60.0,
        thinking_switch: bool = False,
        top_logprobs: int = 20,
        extra_body: dict[str, Any] | None = None,
        prompt_price: float | None = None,
        completion_price: float | None = None,
        cache: str | Path | None = None,
        name: str | None = None,
    ) -> None:
        """Keep the settings; nothing is sent yet.

        Args:
            model: the name under which the server knows the model.
            base_url: of the server, such as "http://127.0.0.1:8000/v1".
            api_key_variable: name of the environment variable that holds a key; None for no key.
            max_concurrency: requests in flight at once, those of all threads together.
            timeout: seconds for one whole request.
            max_retries: further tries per request.
            backoff: seconds before the first of them, twice that before the next, and so on.
            longest_wait: seconds between two tries, at most, also where the server asks for more.
            thinking_switch: whether the chat template knows `enable_thinking` (vLLM and SGLang with Qwen3 and others);
                only then is the server told whether the model shall think.
            top_logprobs: how many of the likeliest first tokens `choose` asks for; servers allow 20 as a rule.
            extra_body: fields put over those of every request; a null takes one away. Newer models of OpenAI want
                `{max_tokens: null, max_completion_tokens: 4096, temperature: null, top_p: null}`.
            prompt_price: US dollars per million tokens read; give both prices or none.
            completion_price: US dollars per million tokens written.
            cache: folder where answers are kept; None keeps none.
            name: for people; the model's by default.

        Raises:
            UserError: names the setting that is wrong.
        """
        self._endpoint = Endpoint(
            base_url.rstrip("/"), model, api_key_variable, timeout, max_retries, backoff, longest_wait
        )
        self._shared = SharedClient(self._endpoint, max_concurrency)
        require_positive(top_logprobs=top_logprobs)
        if (prompt_price is None) != (completion_price is None):
            raise UserError("expected both prompt_price and completion_price, or none of them, got one")
        self.name = name or model
        self._top_logprobs = top_logprobs
        self._thinking_switch, self._extra_body = thinking_switch, dict(extra_body or {})
        has_prices = prompt_price is not None and completion_price is not None
        self._prices = Prices(prompt_price, completion_price) if has_prices else None  # type: ignore[arg-type]
        self._cache = None if cache is None else ReplyCache(cache)
        self._memory = ChatMemory()
        self._total = Usage(0, 0, None if self._prices is None else 0.0)

    @property
    def max_concurrency(self) -> int:
        """How many questions are in flight at once, where as many are asked."""
        return self._shared.max_concurrency

    @property
    def fingerprint(self) -> str:
        """A hash of what decides the answers: address, model and the fields of requests; never of a key."""
        decisive = [self._endpoint.base_url, self._endpoint.model, self._thinking_switch, self._extra_body]
        return stable_hash(["api", *decisive])

    def usage_total(self) -> Usage:
        """Return what all answers took that came from the server, those of a cache left out."""
        return self._total

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Return one reply per conversation, in order; never raises for one bad item.

        Raises:
            UserError: for a wrong key, address or model name, and without the package aiohttp.
        """
        question = _Question(
            Reply,
            asdict(parameters),
            reply_fields(parameters, thinking_switch=self._thinking_switch),
            lambda answer: read_reply(answer, self._prices),
            lambda status, error: Reply("", status, error=error),
            lambda reply, seconds: replace(reply, seconds=seconds),
        )
        return run_to_end(self._ask(conversations, question))

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Return the log-probability of each choice as the first token of the reply, in order.

        See :func:`rm.vlm.wire.read_choice_scores` for what a server's short list of tokens allows to say.

        Raises:
            ValueError: for fewer than two choices, equal or empty ones.
            UserError: as :meth:`generate`.
        """
        if len(choices) < 2 or len(set(choices)) < len(choices) or not all(choices):
            raise ValueError(f"expected at least two different choices, got {list(choices)}")
        question = _Question(
            ChoiceScores,
            {"choices": list(choices), "top_logprobs": self._top_logprobs},
            choice_fields(self._top_logprobs, thinking_switch=self._thinking_switch),
            lambda answer: read_choice_scores(answer, choices, self._prices),
            lambda status, error: ChoiceScores(None, status, error),
            lambda scores, _: scores,
        )
        return run_to_end(self._ask(conversations, question))

    async def _ask(self, conversations: Sequence[Conversation], question: _Question[Answer]) -> list[Answer]:
        fields = adjusted(question.fields, self._extra_body)
        client, pictures = ChatClient(self._shared, self._memory), _Pictures()
        return await ask_each(
            client, conversations, lambda conversation: self._one(client, conversation, question, fields, pictures)
        )

    async def _one(
        self,
        client: ChatClient,
        conversation: Conversation,
        question: _Question[Answer],
        fields: Body,
        pictures: _Pictures,
    ) -> Answer:
        started = time.monotonic()
        try:
            kept, key = await self._look_up(conversation, question, pictures)
            if kept is not None:
                return replace(kept, cached=True)
            urls = await pictures.urls.of(conversation)
            messages = chat_messages(conversation, lambda image: urls[id(image)])
        except Exception as error:  # a broken file that Pillow opened raises nearly anything when it is read
            return question.failed("unreadable_image", f"a picture that cannot be sent: {error}")
        try:
            async with client.places:
                completion = await client.complete({"messages": messages, **fields})
                answer = replace(question.read(completion), served_by=served_by(completion))
        except NoAnswerError as error:
            answer = question.failed(error.status, str(error))
        answer = question.timed(answer, time.monotonic() - started)
        if answer.usage is not None:
            self._count(answer.usage)
        if self._cache is not None:
            await asyncio.to_thread(self._cache.put, key, answer)
        return answer

    async def _look_up(
        self, conversation: Conversation, question: _Question[Answer], pictures: _Pictures
    ) -> tuple[Answer | None, str]:
        """Return the kept answer, if there is one, and its key."""
        if self._cache is None:
            return None, ""
        hashes = await pictures.hashes.of(conversation)
        whole = conversation_hash(conversation, lambda image: hashes[id(image)])
        key = self._cache.key(self.fingerprint, whole, question.decisive)
        return await asyncio.to_thread(self._cache.get, key, question.kind), key

    def _count(self, usage: Usage) -> None:
        with _COUNTING:
            cost = None if self._total.cost is None else self._total.cost + (usage.cost or 0.0)
            self._total = Usage(
                self._total.prompt_tokens + usage.prompt_tokens,
                self._total.completion_tokens + usage.completion_tokens,
                cost,
            )


@dataclass(frozen=True)
class _Question(Generic[Answer]):
    """What is asked of every conversation of a call.

    Attributes:
        kind: class of the answers.
        decisive: what of it decides the answer, for the cache.
        fields: of the request.
        read: makes the answer of the server's.
        failed: makes the answer where none came.
        timed: notes the seconds that an answer took, where it has a place for them.
    """

    kind: type[Answer]
    decisive: object
    fields: Body
    read: Callable[[Body], Answer]
    failed: Callable[[Status, str], Answer]
    timed: Callable[[Answer, float], Answer]


class _Pictures:
    """Hashes and data URLs of the pictures of a call; the last few are remembered, as many questions are about them."""

    def __init__(self) -> None:
        self.hashes = _Remembered(content_hash, 4096)
        self.urls = _Remembered(data_url, 64)


class _Remembered:
    """A function of pictures, computed in other threads, that remembers its last results by identity."""

    def __init__(self, function: Callable[[Image.Image], str], capacity: int) -> None:
        self._function, self._capacity = function, capacity
        # The pictures are held as well, so that no other one can get the same id.
        self._known: OrderedDict[int, tuple[Image.Image, asyncio.Task[dict[int, str | Exception]]]] = OrderedDict()

    async def of(self, conversation: Conversation) -> dict[int, str]:
        """Return the values of a conversation's pictures by their ids.

        The questions about a picture come all at once: the first one has it computed, and the others wait for that.

        Raises:
            Exception: what the function raises for one of them.
        """
        images = {id(part): part for message in conversation for part in message.content if not isinstance(part, str)}
        missing = [image for key, image in images.items() if key not in self._known]
        if missing:
            task = asyncio.create_task(asyncio.to_thread(self._all, missing))
            self._known |= {id(image): (image, task) for image in missing}
        tasks = {key: self._known[key][1] for key in images}
        while len(self._known) > self._capacity:
            self._known.popitem(last=False)
        values = {}
        for key, task in tasks.items():
            value = (await asyncio.shield(task))[key]  # shielded, as others may wait for it
            if isinstance(value, Exception):
                raise value
            values[key] = value
        return values

    def _all(self, images: Sequence[Image.Image]) -> dict[int, str | Exception]:
        return {id(image): self._one(image) for image in images}

    def _one(self, image: Image.Image) -> str | Exception:
        try:
            return self._function(image)
        except Exception as error:  # of this picture alone; others of the conversation may be in other ones as well
            return error
