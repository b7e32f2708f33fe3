"""Processors of vision-language models for pictures only, the same on every machine.

A judge looks at pictures, never at videos. Dropping the video processor has a second good: transformers' video
processors need torchvision, and so would every processor that holds one. Pictures always go through the PIL backend,
so that a score does not depend on whether torchvision happens to be installed.
"""

from __future__ import annotations

import inspect
from typing import Any, cast

from transformers import PreTrainedConfig, ProcessorMixin
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

from gnomon.errors import UserError


def image_only(processor_class: type[ProcessorMixin]) -> type[ProcessorMixin]:
    """Return `processor_class` without its video processor, under the same name.

    transformers reads the parts of a processor off the signature of its `__init__`; one that does not mention a video
    processor has none. Files that the result saves name the original class, so stock code can read them.
    """
    if "video_processor" not in inspect.signature(processor_class.__init__).parameters:
        return processor_class

    def __init__(  # noqa: N807, the body of a class that is made here
        self: ProcessorMixin, image_processor: Any = None, tokenizer: Any = None, chat_template: Any = None
    ) -> None:
        processor_class.__init__(
            self, image_processor=image_processor, tokenizer=tokenizer, chat_template=chat_template
        )

    return type(
        processor_class.__name__, (processor_class,), {"__init__": __init__, "__module__": processor_class.__module__}
    )


def load_processor(name: str, config: PreTrainedConfig) -> ProcessorMixin:
    """Load the processor that belongs to models with this `config`.

    Args:
        name: a folder with the processor's files, or a name on the hub.
        config: the model's config; its class decides the processor's class.

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
    try:
        processor: ProcessorMixin = processor_class.from_pretrained(name, backend="pil")
    except OSError as error:
        raise UserError(f"expected the files of a {processor_class.__name__} in {name}: {error}") from error
    if processor.tokenizer.pad_token_id is None:
        processor.tokenizer.pad_token = processor.tokenizer.eos_token
    return processor
