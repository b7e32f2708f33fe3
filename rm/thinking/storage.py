"""The folder of a trained thinking judge: a PEFT adapter, its processor, what it was trained to answer, and a card."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peft import PeftModel
from transformers import ProcessorMixin

from gnomon.hashing import stable_hash
from gnomon.records import Record
from rm.storage import base_fingerprint, check_adapter, relative_to, replace_folder
from rm.thinking.asking import Question
from rm.thinking.options import ThinkingOptions

MANIFEST = "thinking.json"


class ThinkingManifest(Record):
    """What `thinking.json` holds.

    Attributes:
        format: version of this file.
        base: a path relative to the folder, or a name on the hub.
        base_fingerprint: tells whether it is still the same model.
        protocol: "pairwise" or "rubric".
        metric: what it was asked about.
        language: of the questions.
        prompt_hash: of the words of the question.
        template_hash: of the chat template and what it is given.
        thinking: to be asked with, as `rm.vlm.conversation.GenerationParameters.thinking`.
        max_tokens: longest reply in training, thinking included.
    """

    format: int = 1
    base: str
    base_fingerprint: str
    protocol: str
    metric: str
    language: str
    prompt_hash: str
    template_hash: str
    thinking: bool
    max_tokens: int


def template_hash(processor: ProcessorMixin, thinking: bool) -> str:
    """Return a hash of the chat template and what it is given."""
    return stable_hash([str(processor.chat_template), thinking])


def is_identity(model: PeftModel) -> bool:
    """Say whether the adapter does nothing, because all its B matrices are zero."""
    return not any(bool(value.any()) for name, value in model.named_parameters() if ".lora_B.default." in name)


def save_adapter(model: PeftModel, folder: Path) -> None:
    """Write an adapter, in place of an earlier one.

    Raises:
        UserError: when it is the identity, or cannot be written.
    """
    with replace_folder(_emptied(folder)) as temporary:
        _write_adapter(model, temporary)


def save_judge(
    model: PeftModel,
    folder: Path,
    *,
    base: str,
    options: ThinkingOptions,
    question: Question,
    processor: ProcessorMixin,
    notes: Mapping[str, Any],
) -> None:
    """Write the trained judge, in place of an earlier one.

    Args:
        model: with the trained adapter.
        folder: where to.
        base: where the base model is.
        options: the settings.
        question: what it was trained to answer.
        processor: of the base model.
        notes: lines for the card.

    Raises:
        UserError: when the adapter is the identity, or the folder cannot be written.
    """
    manifest = ThinkingManifest(
        base=relative_to(base, folder),
        base_fingerprint=base_fingerprint(base),
        protocol=options.protocol,
        metric=options.metric,
        language=options.language,
        prompt_hash=question.prompt_hash,
        template_hash=template_hash(processor, options.thinking_template),
        thinking=options.thinking_template,
        max_tokens=options.grpo.max_completion_length,
    )
    with replace_folder(_emptied(folder)) as temporary:
        _write_adapter(model, temporary)
        processor.save_pretrained(temporary)
        (temporary / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
        (temporary / "README.md").write_text(_card(manifest, notes), encoding="utf-8")


def _emptied(folder: Path) -> Path:
    """Delete what an earlier start of this run left; the run folder is ours alone."""
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def _write_adapter(model: PeftModel, folder: Path) -> None:
    # The other one is trl's frozen copy of the cold start.
    model.save_pretrained(str(folder), selected_adapters=["default"])
    check_adapter(folder)


def _card(manifest: ThinkingManifest, notes: Mapping[str, Any]) -> str:
    what = "says which of two edits is better" if manifest.protocol == "pairwise" else "gives an edit a score"
    lines = [
        "---",
        "library_name: peft",
        f"base_model: {manifest.base}",
        "tags: [judge, image-editing, grpo]",
        "---",
        "",
        "# A judge of image edits that thinks before it answers",
        "",
        f"A LoRA adapter that {what}.",
        f"It is asked about `{manifest.metric}` in the words of gnomon's {manifest.protocol} protocol.",
        "",
        f"- base model: `{manifest.base}` (frozen)",
        f"- language of the questions: {manifest.language}",
        f"- longest reply in training: {manifest.max_tokens} tokens",
        *(f"- {name}: {value}" for name, value in notes.items()),
        "",
        "```python",
        "from rm.vlm.local import LocalVLM",
        "",
        f'vlm = LocalVLM("{manifest.base}", adapter="this folder")',
        "```",
        "",
    ]
    return "\n".join(lines)
