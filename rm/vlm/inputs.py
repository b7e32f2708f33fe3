"""Model inputs of prompts with pictures: every picture is preprocessed once and alone, every prompt tokenized alone.

So nothing about a prompt depends on what else is in the batch, and pictures that many prompts share cost once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torch.nn.functional import pad
from transformers import ProcessorMixin

from gnomon.errors import UserError
from gnomon.images import UnreadableImageError, content_hash, to_rgb

# What families call the kind of each token (0 text, 1 picture), which some need to place or to mask pictures.
_KINDS = ("mm_token_type_ids", "token_type_ids")


@dataclass(frozen=True)
class Picture:
    """A preprocessed picture.

    Attributes:
        key: equal for equal pixels.
        text: what stands for it in the prompt, with one placeholder per token of it.
        tokens: how many placeholders those are.
        features: the model's inputs that hold it, such as pixel values, by name.
    """

    key: str
    text: str
    tokens: int
    features: dict[str, Tensor]


@dataclass(frozen=True)
class Row:
    """One prompt as the model reads it.

    Attributes:
        ids: of the tokens.
        is_picture: whether a token is a placeholder of a picture.
        pictures: in the order of their placeholders.
    """

    ids: tuple[int, ...]
    is_picture: tuple[bool, ...]
    pictures: tuple[Picture, ...]

    def __len__(self) -> int:
        return len(self.ids)

    def __add__(self, ids: Sequence[int]) -> Row:
        """Return the row with more text tokens at its end."""
        return Row(self.ids + tuple(ids), self.is_picture + (False,) * len(ids), self.pictures)

    def head(self, length: int) -> Row:
        """Return the first tokens with their pictures; `length` must not cut one."""
        return Row(self.ids[:length], self.is_picture[:length], self.pictures[: self.pictures_before(length)])

    @cached_property
    def spans(self) -> list[tuple[int, int]]:
        """First placeholder, and the place behind the last one, of each picture."""
        places = [position for position, yes in enumerate(self.is_picture) if yes]
        ends = list(itertools.accumulate(picture.tokens for picture in self.pictures))
        return [
            (places[end - picture.tokens], places[end - 1] + 1)
            for picture, end in zip(self.pictures, ends, strict=True)
        ]

    def pictures_before(self, length: int) -> int:
        """Return how many pictures lie wholly in the first `length` tokens."""
        return sum(end <= length for _, end in self.spans)


class InputEncoder:
    """Turns prompts and pictures into model inputs; needs no weights.

    Attributes:
        processor: the model's.
    """

    def __init__(self, processor: ProcessorMixin) -> None:
        self.processor = processor
        self.placeholder = str(getattr(processor, "image_token", None))
        if self.placeholder not in processor.tokenizer.get_vocab():
            raise UserError(
                f"expected a processor that says what stands for a picture, {type(processor).__name__} does not; "
                "choose a model of another family"
            )
        probe = processor(text=["a"], add_special_tokens=False)
        self.kinds_name = next((name for name in _KINDS if name in probe), None)

    def pictures(self) -> Callable[[Image.Image], Picture]:
        """Return :meth:`picture` with a memory, so that an image that comes again costs nothing.

        Drop it when the images are done with: it keeps them and their features.
        """
        by_identity: dict[int, tuple[Image.Image, Picture]] = {}
        by_content: dict[str, Picture] = {}

        def encode(image: Image.Image) -> Picture:
            if id(image) not in by_identity:
                rgb = _decoded(image)
                key = content_hash(rgb)
                if key not in by_content:
                    by_content[key] = self.picture(rgb, key)
                # The image is kept, or another could get its place in memory and be taken for it.
                by_identity[id(image)] = image, by_content[key]
            return by_identity[id(image)][1]

        return encode

    def picture(self, image: Image.Image, key: str) -> Picture:
        """Preprocess an RGB image.

        Raises:
            UnreadableImageError: when the image processor refuses it, for its shape.
        """
        try:
            encoded = self.processor(
                text=[self.placeholder],
                images=[[image]],
                add_special_tokens=False,
                return_text_replacement_offsets=True,
                return_tensors="pt",
            )
        # Image processors have no exception of their own for impossible shapes: ValueError, ZeroDivisionError, ...
        except Exception as error:
            raise UnreadableImageError(
                f"expected a picture that the image processor takes, got {image.width} x {image.height}: {error}"
            ) from error
        text = str(encoded["text_replacement_offsets"][0][0]["replacement"])
        text_names = {"input_ids", "attention_mask", "text_replacement_offsets", *_KINDS}
        features = {name: value for name, value in encoded.items() if name not in text_names}
        ids = encoded["input_ids"][0].tolist()
        return Picture(key, text, sum(token in self._picture_ids for token in ids), features)

    def row(self, text: str, pictures: Sequence[Picture]) -> Row:
        """Tokenize a prompt.

        Args:
            text: with one placeholder per picture.
            pictures: in the placeholders' order.

        Raises:
            ValueError: when placeholders and pictures differ in number.
        """
        parts = text.split(self.placeholder)
        if len(parts) != len(pictures) + 1:
            raise ValueError(
                f"expected a prompt with {len(pictures)} pictures, the chat template left {len(parts) - 1} places"
            )
        expanded = parts[0] + "".join(picture.text + part for picture, part in zip(pictures, parts[1:], strict=True))
        # The chat template wrote the special tokens already; the tokenizer must not add them again.
        ids = tuple(self.processor.tokenizer(expanded, add_special_tokens=False)["input_ids"])
        return Row(ids, tuple(token in self._picture_ids for token in ids), tuple(pictures))

    @cached_property
    def _picture_ids(self) -> frozenset[int]:
        return frozenset(token for token in self.processor.image_token_ids if token is not None)

    def collate(self, rows: Sequence[Row], *, left: bool = False, skip: int = 0) -> dict[str, Tensor]:
        """Return the padded inputs of rows.

        Args:
            rows: the prompts.
            left: pad on the left, as generation needs it.
            skip: how many of each row's first pictures to leave out; the tokens stay.
        """
        width = max(map(len, rows))

        def table(values: Sequence[Sequence[int]], filler: int) -> Tensor:
            padded = [
                [filler] * (width - len(row)) + list(row) if left else list(row) + [filler] * (width - len(row))
                for row in values
            ]
            return torch.tensor(padded)

        inputs = {
            "input_ids": table([row.ids for row in rows], self.processor.tokenizer.pad_token_id),
            "attention_mask": table([[1] * len(row) for row in rows], 0),
        }
        if self.kinds_name:
            inputs[self.kinds_name] = table([[int(yes) for yes in row.is_picture] for row in rows], 0)
        return inputs | join_features([picture for row in rows for picture in row.pictures[skip:]])


def join_features(pictures: Sequence[Picture]) -> dict[str, Tensor]:
    """Return the features of all pictures as one input; none without pictures."""
    if not pictures:
        return {}
    features = {name: [picture.features[name] for picture in pictures] for name in pictures[0].features}
    if features["pixel_values"][0].ndim == 5:
        return {name: _join_parts(values) for name, values in features.items()}
    return {name: torch.cat(values) for name, values in features.items()}


def _join_parts(values: Sequence[Tensor]) -> Tensor:
    """Join pictures that are cut into parts [1, parts, ..., height, width] as the parts of one prompt.

    The model sorts parts to placeholders by their order alone.
    """
    height, width = (max(value.shape[axis] for value in values) for axis in (-2, -1))
    return torch.cat([pad(value, (0, width - value.shape[-1], 0, height - value.shape[-2])) for value in values], dim=1)


def position_ids(backbone: Any, inputs: dict[str, Tensor], grids: dict[str, Tensor]) -> Tensor:
    """Return where each token stands, so that padding does not matter.

    Args:
        backbone: the model below the language-model head.
        inputs: of whole rows, as `collate` makes them.
        grids: shapes of all pictures in the rows, for families that place a picture's tokens in three dimensions.

    Returns:
        [rows, tokens], or [3, rows, tokens] for time, height and width.
    """
    mask = inputs["attention_mask"]
    if hasattr(backbone, "get_rope_index"):
        placed: Tensor = backbone.get_rope_index(
            inputs["input_ids"], inputs["mm_token_type_ids"], attention_mask=mask, **grids
        )[0]
        return placed
    return (mask.cumsum(dim=1) - 1).clamp(min=0)


def grids_of(rows: Sequence[Row]) -> dict[str, Tensor]:
    """Return the shapes of the rows' pictures in patches, where the family has them."""
    features = join_features([picture for row in rows for picture in row.pictures])
    return {name: value for name, value in features.items() if name.endswith("grid_thw")}


def _decoded(image: Image.Image) -> Image.Image:
    try:
        if not image.width * image.height:
            raise ValueError("it has no pixels")
        return to_rgb(image)
    # Pixels of a lazily opened file are read here, and decoders raise nearly anything.
    except Exception as error:
        raise UnreadableImageError(f"could not read a picture: {error}") from error
