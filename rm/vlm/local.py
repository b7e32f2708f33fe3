"""A vision-language model that runs in this process, through transformers."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jinja2
import torch
from PIL import Image
from transformers import GenerationConfig

from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash, stable_seed
from gnomon.images import UnreadableImageError
from gnomon.records import Status
from rm.lora import load_lora
from rm.storage import ADAPTER_FILE, base_fingerprint, check_adapter, resolve_base
from rm.vlm.choices import ChoiceReader
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply, Usage, split_thinking
from rm.vlm.inputs import InputEncoder, Row
from rm.vlm.loading import load_vlm, stock_model
from rm.vlm.prefix import to_device, windows
from rm.vlm.processor import control_tokens, load_processor, preprocessing_hash, render_chat, template_messages
from rm.vlm.sampling import sampling


@dataclass(frozen=True)
class _Prompt:
    """A conversation as the model reads it, or why it cannot be read."""

    text: str = ""
    row: Row | None = None
    status: Status = "ok"
    error: str | None = None

    @property
    def content(self) -> str:
        """A hash of text and pictures."""
        assert self.row is not None
        return stable_hash([self.text, [picture.key for picture in self.row.pictures]])


class LocalVLM:
    """A model of any family that `AutoModelForImageTextToText` loads, with any number of pictures per conversation.

    Texts of messages are texts: what would be a special token or a picture's placeholder becomes a blank. Replies do
    not depend on `batch_size`. Sampling settings that come with a checkpoint are not used, only those of the call.

    Attributes:
        name: for people.
        batch_size: conversations (or suffixes of a shared prefix) per forward.
        share_prefixes: whether `choose` lets conversations on the same pictures read them once.
        max_concurrency: 1; see :class:`rm.vlm.conversation.VLM`.

    Args:
        model: a folder, or a name on the hub.
        revision: commit, tag or branch on the hub.
        adapter: the folder of a LoRA adapter in PEFT's format.
        quantize: "nf4" for four bits per weight of the language model.
        dtype: "float32", "bfloat16" or "float16".
        device: such as "cpu" or "cuda".
        batch_size: see above.
        name: see above; the model's name by default.

    Raises:
        UserError: when model or adapter is missing or does not fit, or the adapter does nothing.
    """

    max_concurrency = 1

    def __init__(
        self,
        model: str | Path,
        *,
        revision: str | None = None,
        adapter: str | Path | None = None,
        quantize: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
        batch_size: int = 8,
        name: str | None = None,
    ) -> None:
        self.base = resolve_base(str(model))
        self.name = name or Path(self.base).name
        self.batch_size, self.share_prefixes = batch_size, True
        vlm: Any = load_vlm(self.base, dtype, revision=revision, quantize=quantize, device=device)
        processor = load_processor(self.base, vlm.config, revision=revision)
        if not processor.chat_template:
            raise UserError(f"expected a chat template in {self.base}, there is none; add chat_template.jinja")
        if adapter is not None:
            check_adapter(Path(adapter))
            vlm = load_lora(vlm, str(adapter))
        self.vlm = vlm.requires_grad_(False).eval()
        self._settings = [quantize, dtype, getattr(stock_model(vlm).config, "_commit_hash", None) or revision]
        self._adapter = None if adapter is None else Path(adapter)
        self.encoder = InputEncoder(processor)
        self._control_tokens = control_tokens(processor)
        self._stock = stock_model(self.vlm)
        self._reader = ChoiceReader(self._stock, self.encoder, self._control_tokens)
        self._end_ids = _end_ids(self._stock.generation_config, processor.tokenizer)
        # What a call leaves open, `generate` takes from here: a checkpoint's repetition penalty would change answers.
        self._stock.generation_config = GenerationConfig()

    @cached_property
    def fingerprint(self) -> str:
        """Hash of weights, adapter, chat template, preprocessing and precision."""
        processor = self.encoder.processor
        adapter = None if self._adapter is None else file_hash(self._adapter / ADAPTER_FILE)
        return stable_hash(
            [
                base_fingerprint(self.base),
                adapter,
                processor.chat_template,
                preprocessing_hash(processor),
                *self._settings,
            ]
        )

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Return one reply per conversation, in order; `parameters.schema` is left to the prompt.

        A sample depends on the seed and on the conversation alone: asking the same twice with one seed gives the same.
        """
        replies: list[Reply] = []
        for start in range(0, len(conversations), self.batch_size):
            prompts = self._prompts(conversations[start : start + self.batch_size], thinking=parameters.thinking)
            good = iter(self._generate([prompt for prompt in prompts if prompt.row is not None], parameters))
            replies += [
                Reply("", status=prompt.status, error=prompt.error) if prompt.row is None else next(good)
                for prompt in prompts
            ]
        return replies

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Return the log-probability of each choice as the reply's first tokens, in order.

        A choice's tokens are those that follow the prompt's own when both are tokenized as one text; the
        log-probability of several is their sum. Where all choices are one token, one forward answers a conversation.

        Raises:
            UserError: when there are no choices, two are alike, one is empty, or one runs together with the prompt's
                last token.
        """
        if not choices or len(set(choices)) != len(choices):
            raise UserError(f"expected one or more different choices, got {list(choices)}")
        scores: list[ChoiceScores] = []
        for window in windows([_images(conversation) for conversation in conversations], 4 * self.batch_size):
            scores += self._choose(conversations[window.start : window.stop], choices)
        return scores

    def _choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        prompts = self._prompts(conversations, thinking=False)
        scores = [ChoiceScores(None, status=prompt.status, error=prompt.error) for prompt in prompts]
        good = {index: prompt.row for index, prompt in enumerate(prompts) if prompt.row is not None}
        logprobs = self._reader.logprobs(
            [prompts[index].text for index in good],
            list(good.values()),
            choices,
            batch_size=self.batch_size,
            share=self.share_prefixes,
        )
        for (index, row), values in zip(good.items(), logprobs, strict=True):
            scores[index] = ChoiceScores(values, usage=Usage(len(row), 0))
        return scores

    @torch.no_grad()
    def first_tokens(self, conversations: Sequence[Conversation], count: int) -> list[list[tuple[str, float]] | Reply]:
        """Return the `count` likeliest first tokens of each reply with their log-probabilities, the likeliest first.

        A conversation that cannot be read gives a failed reply instead.
        """
        found: list[list[tuple[str, float]] | Reply] = []
        for start in range(0, len(conversations), self.batch_size):
            prompts = self._prompts(conversations[start : start + self.batch_size], thinking=False)
            rows = [prompt.row for prompt in prompts if prompt.row is not None]
            listed = iter(self._first_tokens(rows, count) if rows else [])
            found += [
                Reply("", status=prompt.status, error=prompt.error) if prompt.row is None else next(listed)
                for prompt in prompts
            ]
        return found

    def _first_tokens(self, rows: Sequence[Row], count: int) -> list[list[tuple[str, float]]]:
        inputs = to_device(self.encoder.collate(rows, left=True), self._stock)
        logprobs = self._stock(**inputs, logits_to_keep=1).logits[:, -1].float().log_softmax(dim=-1)
        top = logprobs.topk(min(count, logprobs.shape[-1]))
        tokenizer = self.encoder.processor.tokenizer
        return [
            [(tokenizer.decode([token]), value) for token, value in zip(ids, values, strict=True)]
            for ids, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]

    def _prompts(self, conversations: Sequence[Conversation], *, thinking: bool) -> list[_Prompt]:
        picture = self.encoder.pictures()

        def prompt(conversation: Conversation) -> _Prompt:
            try:
                text = self.prompt_text(conversation, thinking=thinking)
                pictures = [picture(part) for part in _pictures(conversation)]
                return _Prompt(text, self.encoder.row(text, pictures))
            except UnreadableImageError as error:
                return _Prompt(status="unreadable_image", error=str(error))
            except (jinja2.TemplateError, ValueError) as error:
                return _Prompt(status="api_error", error=f"the chat template does not take this conversation: {error}")

        return [prompt(conversation) for conversation in conversations]

    def prompt_text(self, conversation: Conversation, *, thinking: bool = False) -> str:
        """Return what the chat template makes of a conversation, with one placeholder per picture."""
        messages, _ = template_messages(conversation, self._control_tokens)
        return render_chat(self.encoder.processor, messages, enable_thinking=thinking)

    @torch.no_grad()
    def _generate(self, prompts: Sequence[_Prompt], parameters: GenerationParameters) -> Iterator[Reply]:
        if not prompts:
            return
        begin = time.perf_counter()
        rows = [prompt.row for prompt in prompts if prompt.row is not None]
        inputs = to_device(self.encoder.collate(rows, left=True), self._stock)
        tokenizer = self.encoder.processor.tokenizer
        settings = GenerationConfig(
            max_new_tokens=parameters.max_tokens,
            do_sample=False,
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=sorted(self._end_ids),
        )
        seed = secrets.randbits(62) if parameters.seed is None else parameters.seed
        seeds = [stable_seed("reply", seed, prompt.content) for prompt in prompts]
        written = self._stock.generate(
            **inputs, generation_config=settings, logits_processor=sampling(parameters, seeds)
        )[:, inputs["input_ids"].shape[1] :]
        seconds = (time.perf_counter() - begin) / len(prompts)
        for prompt, row, ids in zip(prompts, rows, written.tolist(), strict=True):
            yield self._reply(prompt, row, ids, seconds)

    def _reply(self, prompt: _Prompt, row: Row, ids: list[int], seconds: float) -> Reply:
        end = next((position for position, token in enumerate(ids) if token in self._end_ids), None)
        text = self.encoder.processor.tokenizer.decode(ids[:end], skip_special_tokens=True)
        # Some templates open the thinking in the prompt; cut off before its end, it must not pass for the answer.
        if prompt.text.rstrip().endswith("<think>"):
            text = f"<think>{text}"
        thinking, answer = split_thinking(text)
        return Reply(
            answer,
            status="truncated" if end is None else "ok",
            finish_reason="length" if end is None else "stop",
            thinking=thinking,
            error="the reply reached max_tokens" if end is None else None,
            usage=Usage(len(row), len(ids) if end is None else end + 1),
            seconds=seconds,
        )


def _pictures(conversation: Conversation) -> list[Image.Image]:
    return [part for message in conversation for part in message.content if not isinstance(part, str)]


def _images(conversation: Conversation) -> tuple[int, ...]:
    """Return which objects the pictures are: equal for conversations on the same ones."""
    return tuple(map(id, _pictures(conversation)))


def _end_ids(settings: GenerationConfig | None, tokenizer: Any) -> set[int]:
    """Return the tokens that end a reply: the checkpoint's own, and the tokenizer's."""
    own = getattr(settings, "eos_token_id", None)
    listed = own if isinstance(own, list) else [own]
    return {int(token) for token in [*listed, tokenizer.eos_token_id] if token is not None}
