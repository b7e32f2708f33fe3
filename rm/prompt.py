"""What a reward model is shown: one prompt per candidate, ending in a token that is there for the score alone."""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from transformers import ProcessorMixin

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from gnomon.images import UnreadableImageError
from rm.vlm.inputs import InputEncoder, Row
from rm.vlm.packing import pack
from rm.vlm.processor import control_tokens, preprocessing_hash, render_chat

DEFAULT_TEMPLATE = "Source: {references}\nInstruction: {instruction}\nEdited: {candidate}"
# Tokens that tokenizers reserve or hardly use, in order of preference: Qwen, Gemma, Llama; the last two are always
# there, and work wherever the chat template does not use them.
RESERVED_TOKENS = ("<|vision_pad|>", "<unused0>", "<|reserved_special_token_0|>", "<|endoftext|>")

_PLACES = re.compile(r"\{(references|instruction|candidate)\}")
_SENTINEL = "\ue000"  # a private-use character: stands for the instruction while the chat template is rendered


@dataclass(frozen=True)
class PromptTemplate:
    """The text around pictures and instruction, and the token at which the score is read.

    Attributes:
        text: holds `{references}` (all source pictures, possibly none), `{instruction}` and `{candidate}` once each.
        end_marker: a single token that the tokenizer has; None takes the first of `RESERVED_TOKENS` that it has, or
            the end-of-text token.
    """

    text: str = DEFAULT_TEMPLATE
    end_marker: str | None = None

    def __post_init__(self) -> None:
        """Check the placeholders.

        Raises:
            UserError: when one is missing or used twice.
        """
        found = sorted(_PLACES.findall(self.text))
        if found != ["candidate", "instruction", "references"]:
            raise UserError(
                "expected a template with {references}, {instruction} and {candidate} once each, "
                f"got {self.text!r}; mend model.template"
            )


class PromptEncoder:
    """Turns (instruction, references, candidate) rows into model inputs; needs no weights.

    Attributes:
        processor: the processor of the base model.
        template: the template, with its end token settled.
        end_marker_id: id of the token at which the score is read.
    """

    def __init__(self, processor: ProcessorMixin, template: PromptTemplate) -> None:
        """Settle the end token.

        Raises:
            UserError: when the tokenizer lacks the end token, or the processor has no chat template.
        """
        if not processor.chat_template:
            raise UserError("expected a processor with a chat template, got one without; add chat_template.jinja")
        self.processor = processor
        end_marker = template.end_marker or self._first_reserved_token()
        self.template = PromptTemplate(template.text, end_marker)
        ids = processor.tokenizer(end_marker, add_special_tokens=False)["input_ids"]
        if len(ids) != 1 or ids[0] == processor.tokenizer.unk_token_id:
            raise UserError(
                f"expected an end marker that the tokenizer has as one token, {end_marker!r} becomes {len(ids)}; "
                "choose one of its special tokens that the chat template does not use"
            )
        self.end_marker_id = int(ids[0])
        self._skeletons: dict[int, str] = {}

    def _first_reserved_token(self) -> str:
        known = self.processor.tokenizer.get_vocab()
        found = next((token for token in RESERVED_TOKENS if token in known), self.processor.tokenizer.eos_token)
        if found is None:
            raise UserError("expected a tokenizer with a reserved or end-of-text token; name one as end_marker")
        return str(found)

    @cached_property
    def template_hash(self) -> str:
        """Hash of everything that shapes the text: template, end token, chat template."""
        return stable_hash([self.template.text, self.template.end_marker, self.processor.chat_template])

    @cached_property
    def preprocessing_hash(self) -> str:
        """Hash of the image processor's settings (sizes, mean, patch)."""
        return preprocessing_hash(self.processor)

    @cached_property
    def _control_tokens(self) -> re.Pattern[str]:
        return control_tokens(self.processor, str(self.template.end_marker))

    def render(self, instruction: str, num_references: int) -> str:
        """Return the text of one prompt, with one placeholder per picture and the end token last.

        Control tokens inside the instruction become blanks: it is a user's text, and must not be able to add
        pictures or a second end token.
        """
        if num_references not in self._skeletons:
            self._skeletons[num_references] = self._skeleton(num_references)
        clean = self._control_tokens.sub(" ", instruction.replace(_SENTINEL, " "))
        return self._skeletons[num_references].replace(_SENTINEL, clean)

    def _skeleton(self, num_references: int) -> str:
        content: list[Any] = []
        # Splitting at a pattern with a group alternates text, name, text, name, ..., text.
        for position, part in enumerate(_PLACES.split(self.template.text)):
            if position % 2 and part != "instruction":
                content += [{"type": "image"}] * (num_references if part == "references" else 1)
            elif part:
                content.append({"type": "text", "text": _SENTINEL if position % 2 else part})
        messages: list[Any] = [{"role": "user", "content": content}]
        text = render_chat(self.processor, messages)
        if text.count(_SENTINEL) != 1:
            raise UserError(
                f"expected a chat template that renders the instruction once, it does {text.count(_SENTINEL)} times; "
                "check the processor's chat_template.jinja"
            )
        return f"{text}{self.template.end_marker}"

    def encode(
        self,
        instructions: Sequence[str],
        references: Sequence[Sequence[Image.Image]],
        candidates: Sequence[Image.Image],
    ) -> dict[str, Tensor]:
        """Return the padded model inputs of rows; each has its own number of references.

        Args:
            instructions: one per row [rows].
            references: RGB pictures, any number per row [rows].
            candidates: one RGB picture per row [rows].

        Raises:
            ValueError: when the lengths differ or a picture has an impossible shape.
        """
        if not len(instructions) == len(references) == len(candidates) > 0:
            raise ValueError(
                "expected as many instructions as lists of references and candidates, at least one, got "
                f"{len(instructions)}, {len(references)} and {len(candidates)}"
            )
        texts = [self.render(text, len(pictures)) for text, pictures in zip(instructions, references, strict=True)]
        images = [[*pictures, candidate] for pictures, candidate in zip(references, candidates, strict=True)]
        # The chat template wrote the special tokens already; the tokenizer must not add them again.
        encoded = self.processor(text=texts, images=images, padding=True, add_special_tokens=False, return_tensors="pt")
        return dict(encoded)

    def rows(
        self,
        instructions: Sequence[str],
        references: Sequence[Sequence[Image.Image]],
        candidates: Sequence[Image.Image],
    ) -> list[Row]:
        """Return what :meth:`encode` pads, prompt by prompt; a picture that comes again is preprocessed once.

        Raises:
            ValueError: when a picture has an impossible shape, or a prompt does not hold the end token exactly once.
        """
        picture = self.inputs.pictures()
        rows = []
        try:
            for text, sources, candidate in zip(instructions, references, candidates, strict=True):
                pictures = [picture(image) for image in (*sources, candidate)]
                rows.append(self.inputs.row(self.render(text, len(sources)), pictures))
        except UnreadableImageError as error:
            raise ValueError(str(error)) from error
        self._check_counts([row.ids.count(self.end_marker_id) for row in rows])
        return rows

    def encode_packed(
        self,
        instructions: Sequence[str],
        references: Sequence[Sequence[Image.Image]],
        candidates: Sequence[Image.Image],
    ) -> dict[str, Tensor]:
        """Return the inputs of rows as :func:`rm.vlm.packing.pack` makes them: equal beginnings stand there once.

        Raises:
            ValueError: as for :meth:`rows`.
        """
        rows = self.rows(instructions, references, candidates)
        return pack(self.inputs, rows, self.sharing(rows, instructions), [self.end_place(row) for row in rows])

    def end_place(self, row: Row) -> int:
        """Return the place of the end token."""
        return row.ids.index(self.end_marker_id)

    @staticmethod
    def sharing(rows: Sequence[Row], instructions: Sequence[str]) -> list[Hashable]:
        """Return a key per row, equal for rows that differ in the candidate alone."""
        return [
            (text, *(picture.key for picture in row.pictures[:-1]))
            for text, row in zip(instructions, rows, strict=True)
        ]

    @cached_property
    def inputs(self) -> InputEncoder:
        """Makes the inputs of rows."""
        return InputEncoder(self.processor)

    def _check_counts(self, counts: list[int]) -> None:
        if any(count != 1 for count in counts):
            raise ValueError(
                f"expected the end token {self.template.end_marker!r} once per prompt, got {counts} times; "
                "choose an end token that the chat template does not use"
            )

    def end_positions(self, inputs: dict[str, Tensor]) -> Tensor:
        """Return where each row's end token stands [rows], by its id, so that padding does not matter.

        Raises:
            ValueError: when a row has none or several.
        """
        found = (inputs["input_ids"] == self.end_marker_id) & inputs["attention_mask"].bool()
        self._check_counts(found.sum(dim=1).tolist())
        return found.to(torch.int64).argmax(dim=1)
