"""Processors of vision-language models for pictures only, the same on every machine.

A judge looks at pictures, never at videos and never at sounds. Dropping the other parts has a second good:
transformers' video processors need torchvision, and so would every processor that holds one. Pictures always go
through the PIL backend, so that a score does not depend on whether torchvision happens to be installed.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any, cast

from PIL import Image
from transformers import PreTrainedConfig, ProcessorMixin
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from gnomon.errors import UserError
from gnomon.hashing import stable_hash
from rm.vlm.conversation import Conversation

_DROPPED = ("video_processor", "feature_extractor", "audio_processor")


class _PicturesOnly(ProcessorMixin):
    """Stands between a processor's class and transformers' base class, and takes the dropped parts away."""

    def __init__(self, *parts: Any, **named: Any) -> None:
        super().__init__(  # type: ignore[no-untyped-call]
            *parts, **{name: part for name, part in named.items() if name not in _DROPPED}
        )


def image_only(processor_class: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """Return `processor_class` without its video and audio parts, under the same name.

    transformers reads the parts of a processor off the signature of its `__init__`; one that does not mention a video
    processor has none. Files that the result saves name the original class, so stock code can read them.
    """
    signature = inspect.signature(processor_class.__init__)
    kept = [parameter for name, parameter in signature.parameters.items() if name not in _DROPPED]
    names = [parameter.name for parameter in kept if parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][1:]
    dropped = [name for name in signature.parameters if name in _DROPPED]
    if not dropped:
        return processor_class

    def __init__(self: ProcessorMixin, *parts: Any, **settings: Any) -> None:  # noqa: N807, of a class made here
        named = dict(zip(names, parts, strict=False)) | settings
        processor_class.__init__(self, **dict.fromkeys(dropped), **named)

    def from_args_and_dict(
        cls: type[ProcessorMixin], args: Sequence[Any], processor_dict: dict[str, Any], **settings: Any
    ) -> ProcessorMixin:
        """Pass on every setting that the class knows: transformers itself looks at the code of `__init__` for names."""
        known = set(names[len(args) :])
        return cls(*args, **{name: value for name, value in {**processor_dict, **settings}.items() if name in known})

    # Parts and settings are read and written by these names.
    vars(__init__)["__signature__"] = signature.replace(parameters=kept)
    members = {
        "__init__": __init__,
        "__module__": processor_class.__module__,
        "from_args_and_dict": classmethod(cast(Any, from_args_and_dict)),
    }
    return type(processor_class.__name__, (processor_class, _PicturesOnly), members)


def load_processor(name: str, config: PreTrainedConfig, *, revision: str | None = None) -> ProcessorMixin:
    """Load the processor that belongs to models with this `config`.

    Args:
        name: a folder with the processor's files, or a name on the hub.
        config: the model's config; its class decides the processor's class.
        revision: commit, tag or branch on the hub.

    Raises:
        UserError: when transformers knows no processor for such models, or its files are missing.
    """
    if type(config) not in PROCESSOR_MAPPING:
        raise UserError(
            f"expected a vision-language model, transformers knows no processor for {config.model_type!r} ({name}); "
            "choose a model that AutoProcessor can load"
        )
    # The mapping's own annotation speaks of pairs of classes, which it holds for image processors only.
    processor_class = image_only(cast("type[ProcessorMixin]", PROCESSOR_MAPPING[type(config)]))
    options: dict[str, Any] = {} if revision is None else {"revision": revision}
    try:
        processor: ProcessorMixin = processor_class.from_pretrained(name, backend="pil", **options)
    except OSError as error:
        raise UserError(f"expected the files of a {processor_class.__name__} in {name}: {error}") from error
    if processor.tokenizer.pad_token_id is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    return processor


def limit_pixels(processor: ProcessorMixin, max_pixels: int) -> None:
    """Have pictures of more than `max_pixels` pixels shrunk to about so many before they are cut into tokens.

    The setting is part of the processor, is saved with it, and changes :func:`preprocessing_hash`.

    Raises:
        UserError: for a family whose pictures do not have a number of tokens of their own (only Qwen's have), and for a
            limit below the smallest picture.
    """
    images = processor.image_processor
    if not (hasattr(images, "merge_size") and images.size.longest_edge and images.size.shortest_edge):
        raise UserError(
            f"{type(processor).__name__} gives every picture the same number of tokens; leave model.max_pixels out"
        )
    if max_pixels < images.size.shortest_edge:
        raise UserError(
            f"expected model.max_pixels of at least {images.size.shortest_edge}, the smallest picture of "
            f"{type(processor).__name__}, got {max_pixels}"
        )
    images.size = {"shortest_edge": images.size.shortest_edge, "longest_edge": max_pixels}


def control_tokens(processor: ProcessorMixin, *more: str) -> re.Pattern[str]:
    """Return a pattern of all texts that a prompt must not take from a user: each would become one special token.

    Substitute a blank, not the empty string: with that, the rest could close up to another such text.

    Args:
        processor: whose special tokens and picture placeholder they are.
        more: texts that have a meaning of their own in the prompt.
    """
    added = processor.tokenizer.added_tokens_decoder.values()
    tokens = {token.content for token in added if token.special} | set(more)
    if placeholder := getattr(processor, "image_token", None):
        tokens.add(str(placeholder))
    # Alternatives are tried in order, so that a token which begins like another must come first.
    return re.compile("|".join(re.escape(token) for token in sorted(tokens, key=lambda text: (-len(text), text))))


def template_messages(
    conversation: Conversation, control: re.Pattern[str]
) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    """Return roles and content as chat templates know them, and the pictures in the order of their places.

    Texts that stand together are joined; what would be a special token in them becomes a blank.

    Args:
        conversation: what is said.
        control: of :func:`control_tokens`.
    """
    messages, pictures = [], []
    for message in conversation:
        content: list[dict[str, Any]] = []
        for part in message.content:
            if not isinstance(part, str):
                pictures.append(part)
                content.append({"type": "image"})
            elif content and content[-1]["type"] == "text":
                content[-1]["text"] += part
            else:
                content.append({"type": "text", "text": part})
        for item in content:
            if item["type"] == "text":
                item["text"] = control.sub(" ", item["text"])
        messages.append({"role": message.role, "content": content})
    return messages, pictures


def render_chat(processor: ProcessorMixin, messages: Sequence[dict[str, Any]], **variables: Any) -> str:
    """Return the text of a conversation up to where the reply begins, with one placeholder per picture.

    Args:
        processor: holds the chat template.
        messages: roles and lists of content items, as chat templates know them.
        variables: for the template; those that it does not mention are left out.
    """
    known = {name: value for name, value in variables.items() if name in str(processor.chat_template)}
    # The base class's method: some families' own first ask their video processor for its settings.
    text = ProcessorMixin.apply_chat_template(
        processor, list(messages), tokenize=False, add_generation_prompt=True, **known
    )
    return str(text)


def preprocessing_hash(processor: ProcessorMixin) -> str:
    """Return a hash of the image processor's settings (sizes, mean, patch)."""
    settings = processor.image_processor.to_dict()
    # The type's name says which backend wrote the file, not what happens to pixels.
    return stable_hash({key: value for key, value in settings.items() if key != "image_processor_type"})
