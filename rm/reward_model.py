"""A reward model: a vision-language model that reads a prompt and one scalar head per named dimension.

The last hidden state at one reserved token goes through a linear head in float32; the language-model head is never
run. What is saved is small: the LoRA adapter in PEFT's format, the heads, the processor's files and a manifest that
names the base model. The manifest holds hashes of the base, the prompt template and the picture preprocessing;
loading refuses what does not match, because a judge with another template still returns plausible numbers.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from peft import PeftModel
from PIL import Image
from torch import Tensor, nn
from transformers import PreTrainedModel

from gnomon.errors import UserError
from rm.gaussian import log_odds
from rm.heads import ScoreHead, Scores
from rm.lora import LoraOptions, add_lora, load_lora
from rm.pairs import DIMENSIONS
from rm.prompt import PromptEncoder, PromptTemplate
from rm.storage import (
    HEAD_FILE,
    MANIFEST,
    RewardModelManifest,
    base_fingerprint,
    check_adapter,
    load_head,
    read_manifest,
    relative_to,
    replace_folder,
    resolve_base,
    save_head,
    write_card,
)
from rm.vlm.inputs import Row
from rm.vlm.loading import DTYPES, Quantize, load_vlm, stock_model
from rm.vlm.packing import is_packed, unpacked
from rm.vlm.prefix import batches, windows
from rm.vlm.processor import limit_pixels, load_processor


@dataclass(frozen=True)
class ScoreOutput:
    """Scores of candidates.

    Attributes:
        dimensions: names of the columns.
        values: float32 without gradient [candidates, dimensions]; larger is better, the scale is the model's own.
        sigmas: standard deviations of the values, shaped as they are; None for a model without uncertainty.
        temperatures: what differences are divided by before they are log-odds [dimensions]; 1 where never fitted.
    """

    dimensions: tuple[str, ...]
    values: Tensor
    sigmas: Tensor | None
    temperatures: Tensor

    def preference(self, first: int, second: int) -> dict[str, float]:
        """Return, per dimension, the calibrated probability that candidate `first` is better than `second`."""
        log_sigma = None if self.sigmas is None else self.sigmas.log()
        rows = torch.tensor([first]), torch.tensor([second])
        probability = torch.sigmoid(log_odds(Scores(self.values, log_sigma), *rows)[0] / self.temperatures)
        return dict(zip(self.dimensions, probability.tolist(), strict=True))


class RewardModel(nn.Module):
    """Scores of edited pictures per named dimension; use :meth:`from_base` or :meth:`from_pretrained`.

    Attributes:
        vlm: the vision-language model, with a LoRA adapter or frozen.
        encoder: makes its inputs.
        dimensions: what the heads are called, in order.
        head: the heads as one float32 layer [hidden -> dimensions]; row d is the head of dimension d.
        base: where the base model came from.
        temperatures: per dimension, what differences are divided by before they are log-odds; fitted on validation
            data, and empty before that.
        quantize: "nf4" where the base's language model is kept in four bits a weight.
    """

    def __init__(
        self,
        vlm: PreTrainedModel | PeftModel,
        encoder: PromptEncoder,
        dimensions: Sequence[str],
        *,
        base: str,
        lora: LoraOptions | None,
        dtype: str,
        uncertainty: bool = False,
        quantize: Quantize | None = None,
    ) -> None:
        """Put the parts together; the heads are drawn from torch's generator."""
        super().__init__()
        if not dimensions or len(set(dimensions)) != len(dimensions):
            raise UserError(f"expected one or more different dimensions, got {list(dimensions)}")
        self.vlm = vlm
        self.encoder = encoder
        self.dimensions = tuple(dimensions)
        self.base = base
        self.lora = lora
        self.dtype_name = dtype
        self.temperatures: dict[str, float] = {}
        self.quantize = quantize
        width = int(vlm.config.get_text_config().hidden_size)
        self.head = ScoreHead(width, len(self.dimensions), uncertainty=uncertainty)

    @classmethod
    def from_base(
        cls,
        base: str | Path,
        *,
        dimensions: Sequence[str] = DIMENSIONS,
        lora: LoraOptions | None = None,
        template: PromptTemplate | None = None,
        dtype: str = "float32",
        uncertainty: bool = False,
        quantize: Quantize | None = None,
        max_pixels: int | None = None,
        seed: int = 0,
    ) -> RewardModel:
        """Put fresh heads, and an adapter if asked for, on a base model; everything else is frozen.

        Args:
            base: a folder with the model and its processor, or a name on the hub.
            dimensions: names of the heads.
            lora: the adapter; None trains the heads alone.
            template: the prompt; None for the default one.
            dtype: of the base model: "float32", "bfloat16" or "float16". Heads and adapter are float32.
            uncertainty: whether every score comes with a standard deviation.
            quantize: "nf4" keeps the base's language model in four bits a weight (QLoRA); None as it is.
            max_pixels: larger pictures are shrunk to about so many pixels; None keeps the base's own limit.
            seed: of heads and adapter.

        Raises:
            UserError: when the base is missing or no such model, or `lora` matches nothing.
        """
        name = resolve_base(str(base))
        vlm = load_vlm(name, dtype, quantize=quantize)
        processor = load_processor(name, vlm.config)
        if max_pixels is not None:
            limit_pixels(processor, max_pixels)
        encoder = PromptEncoder(processor, template or PromptTemplate())
        with _seeded(seed):
            vlm.requires_grad_(False)
            adapted = vlm if lora is None else add_lora(vlm, lora)
            model = cls(
                adapted,
                encoder,
                dimensions,
                base=name,
                lora=lora,
                dtype=dtype,
                uncertainty=uncertainty,
                quantize=quantize,
            )
            return model.eval()

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, base: str | Path | None = None) -> RewardModel:
        """Load what :meth:`save_pretrained` wrote; nothing in it takes gradients.

        Args:
            folder: the saved folder.
            base: where the base model is now, when it has moved.

        Raises:
            UserError: when the folder or its base is missing, or a hash does not match, or the adapter does nothing.
        """
        folder = Path(folder)
        manifest = read_manifest(folder)
        name = resolve_base(str(base or manifest.base), beside=None if base else folder)
        if (found := base_fingerprint(name)) != manifest.base_fingerprint:
            raise UserError(
                f"{folder} was trained on another base model than the one in {name} (fingerprint {found[:12]}, "
                f"expected {manifest.base_fingerprint[:12]}); give the right one as base"
            )
        vlm: PreTrainedModel | PeftModel = load_vlm(name, manifest.dtype, quantize=manifest.quantize)
        template = PromptTemplate(manifest.template, manifest.end_marker)
        encoder = PromptEncoder(load_processor(str(folder), vlm.config), template)
        manifest.check_hashes(folder, encoder)
        if manifest.lora is not None:
            check_adapter(folder)
            vlm = load_lora(cast(PreTrainedModel, vlm), str(folder))
        lora = None if manifest.lora is None else LoraOptions(**manifest.lora)
        model = cls(
            vlm,
            encoder,
            manifest.dimensions,
            base=name,
            lora=lora,
            dtype=manifest.dtype,
            uncertainty=manifest.uncertainty,
            quantize=manifest.quantize,
        )
        load_head(model.head, folder)
        model.temperatures = dict(manifest.temperatures)
        return model.requires_grad_(False).eval()

    @property
    def device(self) -> torch.device:
        """Where the heads are."""
        return self.head.weight.device

    def forward(self, inputs: dict[str, Tensor]) -> Scores:
        """Return the scores of inputs that `encoder.encode` or `encoder.encode_packed` made.

        Raises:
            ValueError: when a prompt does not hold the end token exactly once.
        """
        dtype = DTYPES[self.dtype_name]
        moved = {
            key: value.to(self.device, dtype if value.is_floating_point() else None) for key, value in inputs.items()
        }
        # `.model` is everything below the language-model head, which is not needed.
        backbone = self._stock().model
        if is_packed(moved):
            moved, (sequences, places) = unpacked(backbone, moved)
        else:
            places = self.encoder.end_positions(moved)
            sequences = torch.arange(len(places), device=self.device)
        scores: Scores = self.head(backbone(**moved, use_cache=False).last_hidden_state[sequences, places])
        return scores

    def _stock(self) -> Any:
        """Return the vision-language model as transformers knows it, adapter layers inside."""
        return stock_model(self.vlm)

    def checkpoint_activations(self) -> None:
        """Compute activations twice in training instead of keeping them: less memory, about a third more time."""
        self._stock().activation_checkpointing_enable({"use_reentrant": False})

    def answer_yes_or_no(self) -> None:
        """Make every head the base model's own opinion: the log-odds of "yes" against "no" as its next word.

        The heads become the difference of the two words' rows in the language-model head: a zero-shot yardstick for
        what training adds.

        Raises:
            UserError: when the model has no language-model head, or the tokenizer no single token for a word.
        """
        output = self._stock().get_output_embeddings()
        if output is None:
            raise UserError(f"expected a base model with a language-model head at {self.base}, it has none")
        yes, no = (output.weight[self._word_id(word)].float() for word in ("yes", "no"))
        with torch.no_grad():
            self.head.weight[: len(self.dimensions)] = yes - no
            self.head.bias.zero_()

    def _word_id(self, word: str) -> int:
        tokenizer = self.encoder.processor.tokenizer
        for text in (f" {word}", word):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            if len(ids) == 1 and ids[0] != tokenizer.unk_token_id:
                return int(ids[0])
        raise UserError(
            f"expected a tokenizer with a token for {word!r} in {self.base}, it has none; evaluate a trained model"
        )

    def score(
        self,
        *,
        instruction: str,
        references: Sequence[Image.Image],
        candidates: Sequence[Image.Image],
        batch_size: int = 16,
        share_prefix: bool = True,
    ) -> ScoreOutput:
        """Score candidates of one instruction.

        Args:
            instruction: what was asked for.
            references: source pictures, RGB, any number.
            candidates: edited pictures, RGB.
            batch_size: candidates per forward; it does not change the scores.
            share_prefix: read what the prompts of one instruction and its references begin with once; it does not
                change the scores either.
        """
        count = len(candidates)
        return self.score_batch(
            instructions=[instruction] * count,
            references=[references] * count,
            candidates=candidates,
            batch_size=batch_size,
            share_prefix=share_prefix,
        )

    def score_batch(
        self,
        *,
        instructions: Sequence[str],
        references: Sequence[Sequence[Image.Image]],
        candidates: Sequence[Image.Image],
        batch_size: int = 16,
        share_prefix: bool = True,
    ) -> ScoreOutput:
        """Score one candidate per row; see :meth:`score`. The values are on the CPU, in the rows' order.

        Raises:
            ValueError: when the lengths differ or a picture has an impossible shape.
        """
        if not len(instructions) == len(references) == len(candidates):
            raise ValueError(
                "expected lists of equal length, got "
                f"{len(instructions)} instructions, {len(references)} references and {len(candidates)} candidates"
            )
        groups = [(text, *map(id, sources)) for text, sources in zip(instructions, references, strict=True)]
        parts: list[Scores] = []
        with self._evaluating(), torch.no_grad():
            for window in windows(groups, 4 * batch_size):
                part = slice(window.start, window.stop)
                rows = self.encoder.rows(instructions[part], references[part], candidates[part])
                parts.append(self._score_rows(rows, instructions[part], batch_size, share_prefix))
        return self._output(parts)

    def _score_rows(
        self, rows: Sequence[Row], instructions: Sequence[str], batch_size: int, share_prefix: bool
    ) -> Scores:
        """Return scores on the CPU, in the rows' order; rows that differ in the candidate alone share their start."""
        mean, log_sigma = torch.zeros(2, len(rows), len(self.dimensions))
        backbone = self._stock().model
        groups = self.encoder.sharing(rows, instructions)
        ends = [self.encoder.end_place(row) for row in rows]
        for batch in batches(
            backbone, self.encoder.inputs, rows, groups, ends, batch_size=batch_size, share=share_prefix
        ):
            hidden = backbone(**batch.inputs).last_hidden_state
            places = [ends[index] - batch.offset for index in batch.indices]
            scores: Scores = self.head(hidden[range(len(places)), places])
            mean[list(batch.indices)] = scores.mean.cpu()
            if scores.log_sigma is not None:
                log_sigma[list(batch.indices)] = scores.log_sigma.cpu()
        return Scores(mean, log_sigma if self.head.uncertainty else None)

    def _output(self, parts: Sequence[Scores]) -> ScoreOutput:
        """Put the batches' scores together."""
        none = torch.zeros(0, len(self.dimensions))
        values = torch.cat([none, *(part.mean.cpu() for part in parts)])
        sigmas = [none, *(part.log_sigma.exp().cpu() for part in parts if part.log_sigma is not None)]
        return ScoreOutput(
            self.dimensions,
            values,
            torch.cat(sigmas) if self.head.uncertainty else None,
            torch.tensor([self.temperatures.get(name, 1.0) for name in self.dimensions]),
        )

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        training = self.training
        self.eval()
        try:
            yield
        finally:
            self.train(training)

    def save_pretrained(
        self, folder: str | Path, *, notes: dict[str, Any] | None = None, include_base: bool = False
    ) -> None:
        """Write adapter, heads, processor, manifest and model card; the folder appears whole or not at all.

        Args:
            folder: where to; an earlier reward model there is replaced.
            notes: what the model card should say about the training (plain values by name).
            include_base: write the base model, with the adapter merged into it, instead of the adapter: large, but
                it needs nothing else.

        Raises:
            UserError: when the folder holds something else or cannot be written, or the base is quantized and to be
                included: an adapter that was trained on four bits is not merged into them without loss.
        """
        if include_base and self.quantize:
            raise UserError(
                f"expected a base in full precision to include, this one is quantized ({self.quantize}); save the "
                "adapter alone"
            )
        with replace_folder(Path(folder)) as temporary:
            base = self._write_weights(temporary, include_base)
            save_head(self.head, temporary / HEAD_FILE)
            self.encoder.processor.save_pretrained(str(temporary))
            manifest = RewardModelManifest(
                base="base" if include_base else relative_to(base, Path(folder)),
                base_fingerprint=base_fingerprint(base),
                dimensions=list(self.dimensions),
                template=self.encoder.template.text,
                end_marker=str(self.encoder.template.end_marker),
                template_hash=self.encoder.template_hash,
                preprocessing_hash=self.encoder.preprocessing_hash,
                dtype=self.dtype_name,
                uncertainty=self.head.uncertainty,
                temperatures=self.temperatures,
                quantize=self.quantize,
                lora=None if self.lora is None or include_base else asdict(self.lora),
            )
            (temporary / MANIFEST).write_text(manifest.model_dump_json(indent=2) + "\n", encoding="utf-8")
            write_card(temporary, manifest, notes or {})

    def _write_weights(self, folder: Path, include_base: bool) -> str:
        """Write the adapter, or the merged base; return where the base is."""
        if include_base:
            vlm = copy.deepcopy(self.vlm)
            merged = vlm.merge_and_unload() if isinstance(vlm, PeftModel) else vlm
            merged.save_pretrained(str(folder / "base"))
            return str(folder / "base")
        if isinstance(self.vlm, PeftModel):
            # "auto" would look the base model's vocabulary up on the hub.
            self.vlm.save_pretrained(str(folder), save_embedding_layers=False)
        return self.base


def weights_hash(model: RewardModel) -> str:
    """Return the sha256 (hex) of what was trained, and the fingerprint of the base below it."""
    digest = hashlib.sha256((base_fingerprint(model.base) + (model.quantize or "")).encode())
    for name, value in sorted(model.state_dict().items()):
        if name.startswith("head.") or ".lora_" in name:
            digest.update(name.encode())
            digest.update(value.detach().float().cpu().numpy().tobytes())
    return digest.hexdigest()


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Draw from a generator of our own and leave torch's as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
