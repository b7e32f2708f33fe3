"""What a training adds to the transformer's own work: time, encoder calls, memory and resuming, on a fixed tiny editor.

Run it with `python benchmarks/rl_throughput.py`; it needs neither a GPU nor a network, and some minutes on one CPU
core. The editor has FLUX.2-klein's classes and random weights: 6 blocks 256 wide, pictures of 128 x 128 pixels with one
reference, 64 + 64 + 16 tokens.

What it prints:

* CPU seconds of an iteration over those of the same transformer calls alone. Those of the first iteration are recorded
  with their inputs; after each later one they are made again, with a backward pass where there was one. The best of
  several counts on both sides; since they take turns, other work on the machine disturbs both alike.
* calls of the encoders per case and iteration: 1 is right.
* the largest number of bytes in tensors at once while groups of 4, 8 and 16 are sampled, and the same while a
  micro-batch of 4 is trained. Sampling may grow by the latents that a candidate keeps: the first, the last, and those
  at the borders of its stochastic steps. Training may not grow at all.
* how long it takes to write a checkpoint and to go on from it.

Every figure with a target says whether it is met.
"""

from __future__ import annotations

import logging
import tempfile
import time
import warnings
import weakref
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers.utils import logging as diffusers_logging
from PIL import Image
from pytorch_lightning import Callback, LightningModule, Trainer
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.utils import logging as transformers_logging

from gnomon.datasets import write_records
from gnomon.images import save_png
from gnomon.records import Case, Reference, Text
from rl.algorithms import FlowGRPO
from rl.data import CaseData
from rl.generator import DiffusersGenerator
from rl.module import PolicyTraining
from rl.rewards import RewardOutput
from rl.settings import EmaSettings, LoraSettings, RolloutSettings

SIZE, STEPS, TEXT_TOKENS = 128, 6, 16
GROUP_SIZES = (4, 8, 16)
ITERATIONS = 5
TARGET = 1.15
LATENTS = (SIZE // 16) ** 2 * 32 * 4
"""Bytes of one sample's latents: a token for 16 x 16 pixels, 32 channels, float32."""
MEMORY_TOLERANCE = 1.1
"""What sampling may grow by, over the latents that are kept: some bytes of each candidate are no latents."""


class Brightness:
    """A reward that costs nothing."""

    def __call__(
        self, *, cases: Sequence[Case], references: Sequence[list[Image.Image]], images: Sequence[Image.Image]
    ) -> RewardOutput:
        """Return the mean of all channels."""
        values = torch.tensor([float(np.asarray(image).mean()) / 255 for image in images])
        return RewardOutput(values, {}, torch.zeros(len(images), dtype=torch.bool))


class TensorMemory(TorchDispatchMode):
    """Counts the bytes of the tensors that are made and not yet freed inside it: the same numbers on any machine.

    Attributes:
        peak: the most bytes at once.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.peak = 0
        self._seen: set[int] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operation and look at what it returns."""
        result = func(*args, **(kwargs or {}))
        for value in result if isinstance(result, tuple | list) else (result,):
            if isinstance(value, Tensor):
                self._add(value.untyped_storage())
        return result

    def _add(self, storage: torch.UntypedStorage) -> None:
        key, size = storage.data_ptr(), storage.nbytes()
        if not size or key in self._seen:
            return
        self._seen.add(key)
        self.now += size
        self.peak = max(self.peak, self.now)
        weakref.finalize(storage, self._free, key, size)

    def _free(self, key: int, size: int) -> None:
        self._seen.discard(key)
        self.now -= size


Call = tuple[tuple[Any, ...], dict[str, Any], bool]
"""Arguments of a call of the transformer, and whether it was made for a backward pass."""


class Recorder(Callback):
    """Records the calls of the models in the first iteration, and then takes turns with the later ones.

    Attributes:
        seconds: of each later iteration.
        bare: of making the recorded calls of the transformer again, after each of them.
        calls: of the transformer.
        encodings: how often a text and a picture were encoded.
    """

    def __init__(self) -> None:
        """Record nothing yet."""
        self.seconds: list[float] = []
        self.bare: list[float] = []
        self.calls: list[Call] = []
        self.encodings = Counter[str]()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Callbacks start before the module, which samples here."""
        if trainer.current_epoch == 0:
            assert isinstance(pl_module, PolicyTraining)
            pipeline = pl_module.generator.pipeline
            self._hooks = [
                pl_module.transformer.register_forward_pre_hook(self._record, with_kwargs=True),
                pipeline.text_encoder.register_forward_hook(lambda *_: self.encodings.update(["text"])),
                pipeline.vae.encoder.register_forward_hook(lambda *_: self.encodings.update(["image"])),
            ]
        self._start = time.process_time()

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop the clock, and make the calls alone."""
        if trainer.current_epoch == 0:
            for hook in self._hooks:
                hook.remove()
            return
        self.seconds.append(time.process_time() - self._start)
        assert isinstance(pl_module, PolicyTraining)
        self.bare.append(repeat_calls(pl_module.transformer, self.calls))
        pl_module.zero_grad()

    def _record(self, _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        detached = tuple(map(_detach, args)), {name: _detach(value) for name, value in kwargs.items()}
        self.calls.append((*detached, torch.is_grad_enabled()))


def _detach(value: Any) -> Any:
    return value.detach() if isinstance(value, Tensor) else value


def build_editor(folder: Path) -> dict[str, Any]:
    """Save the editor and return the arguments of its `DiffusersGenerator`."""
    from diffusers import (
        AutoencoderKLFlux2,
        FlowMatchEulerDiscreteScheduler,
        Flux2KleinPipeline,
        Flux2Transformer2DModel,
    )
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer, Qwen3Config, Qwen3ForCausalLM

    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    vocabulary = {token: index for index, token in enumerate([*specials, *sorted(ByteLevel.alphabet())])}
    tokenizer = Qwen2Tokenizer(vocab=vocabulary, merges=[], unk_token=specials[0], pad_token=specials[0])
    tokenizer.chat_template = "{{ messages[0]['content'] }}"
    torch.manual_seed(0)
    pipeline = Flux2KleinPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        vae=AutoencoderKLFlux2(
            block_out_channels=(8, 8, 8, 8),
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            layers_per_block=1,
            latent_channels=8,
            norm_num_groups=4,
            mid_block_add_attention=False,
        ),
        text_encoder=Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=len(vocabulary), hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                num_attention_heads=2, num_key_value_heads=2, head_dim=16, tie_word_embeddings=True,
            )
        ),
        tokenizer=tokenizer,
        transformer=Flux2Transformer2DModel(
            in_channels=32, num_layers=2, num_single_layers=4, attention_head_dim=32, num_attention_heads=8,
            joint_attention_dim=64, timestep_guidance_channels=32, axes_dims_rope=(8, 8, 8, 8), guidance_embeds=False,
        ),
        is_distilled=True,
    )  # fmt: skip
    pipeline.save_pretrained(folder)
    return {
        "model": str(folder),
        "num_inference_steps": STEPS,
        "height": SIZE,
        "width": SIZE,
        "batch_size": 8,
        "pipeline_kwargs": {"max_sequence_length": TEXT_TOKENS, "text_encoder_out_layers": [1, 2]},
    }


def build_cases(folder: Path, count: int = 8) -> Path:
    """Write cases with one reference each."""
    rng = np.random.default_rng(0)
    cases = []
    for index in range(count):
        save_png(Image.fromarray(rng.integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8)), folder / f"{index}.png")
        text = Text(en=f"make it {index}", zh=f"变成{index}")
        references = [Reference(path=f"{index}.png")]
        cases.append(
            Case(id=f"case-{index}", benchmark="speed", task="recolour", instruction=text, references=references)
        )
    write_records(folder / "cases.jsonl", cases)
    return folder


def make_training(
    editor: dict[str, Any], *, prompts: int = 2, candidates: int = 8, window: int = 2, micro_batch_size: int = 8
) -> PolicyTraining:
    """Make the fixed training: Flow-GRPO with an average of the adapter."""
    return PolicyTraining(
        DiffusersGenerator(**editor),
        Brightness(),
        algorithm=FlowGRPO(ratio_tolerance=1e-4),
        rollout=RolloutSettings(
            num_prompts=prompts,
            num_candidates=candidates,
            micro_batch_size=micro_batch_size,
            window_size=window,
            window_last=0,
        ),
        lora=LoraSettings(rank=16, alpha=16),
        ema=EmaSettings(),
    )


def make_trainer(folder: Path, iterations: int, *callbacks: Callback) -> Trainer:
    """Make a trainer that writes nothing by itself."""
    return Trainer(
        accelerator="cpu",
        max_epochs=iterations,
        accumulate_grad_batches=2,
        callbacks=list(callbacks),
        default_root_dir=folder,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
        inference_mode=False,
    )


def repeat_calls(model: torch.nn.Module, calls: list[Call]) -> float:
    """Make recorded calls again with nothing between them, and return the seconds of CPU time."""
    start = time.process_time()
    for args, kwargs, with_gradient in calls:
        with torch.set_grad_enabled(with_gradient):
            output = model(*args, **kwargs)
        if with_gradient:
            output[0].float().sum().backward()
    return time.process_time() - start


def verdict(met: bool) -> str:
    """Say whether a target is met."""
    return "met" if met else "MISSED"


def measure_time(editor: dict[str, Any], cases: Path, folder: Path) -> None:
    """Print iteration over bare calls, and encoder calls per case."""
    training, recorder = make_training(editor), Recorder()
    make_trainer(folder, ITERATIONS + 1, recorder).fit(training, CaseData(str(cases)))
    iteration, bare, calls = min(recorder.seconds), min(recorder.bare), recorder.calls
    num_trained = sum(with_gradient for *_, with_gradient in calls)
    print(f"iteration                    {iteration:8.3f} CPU s  ({training.layout})")
    print(f"bare transformer calls       {bare:8.3f} CPU s  ({len(calls)} forward, {num_trained} backward)")
    ratio = iteration / bare
    print(f"iteration / bare calls       {ratio:8.3f}    (target <= {TARGET}: {verdict(ratio <= TARGET)})")
    for kind in ("text", "image"):
        per_case = recorder.encodings[kind] / training.rollout.num_prompts
        what = f"{kind} encoder calls per case"
        print(f"{what:28} {per_case:8.3f}    (target 1: {verdict(per_case == 1)})")


@dataclass(frozen=True)
class MemoryRow:
    """The most bytes in tensors at once with one size of group and one number of steps kept."""

    candidates: int
    window: int
    sampling: int
    training: int

    @property
    def kept(self) -> int:
        """Bytes of latents that a group keeps: at `window + 1` borders, and the first and the last."""
        return self.candidates * (self.window + 3) * LATENTS


def memory_report(rows: Sequence[MemoryRow]) -> list[str]:
    """Say what each row takes, and by how much it grows over the first one."""
    first, lines = rows[0], ["peak tensor memory beside the weights, MiB"]
    for row in rows:
        line = f"  group of {row.candidates:2}, {row.window} steps kept: sampling {row.sampling / 2**20:7.2f}"
        line += f", training step {row.training / 2**20:7.2f}"
        if row is not first:
            growth, allowed = row.sampling - first.sampling, MEMORY_TOLERANCE * (row.kept - first.kept)
            line += f"; sampling grew by {growth / 2**20:5.2f} (target <= {allowed / 2**20:.2f}, the latents kept: "
            line += f"{verdict(growth <= allowed)}), training by {(row.training - first.training) / 2**20:.2f} "
            line += f"(target 0: {verdict(row.training <= MEMORY_TOLERANCE * first.training)})"
        lines.append(line)
    return lines


def measure_memory(editor: dict[str, Any], cases: Path, folder: Path) -> None:
    """Print the most bytes in tensors at once, by size of the group and by steps kept."""
    rows = []
    for candidates, window in [*((size, 2) for size in GROUP_SIZES), (GROUP_SIZES[-1], 4)]:
        training = make_training(
            {**editor, "batch_size": 4}, prompts=1, candidates=candidates, window=window, micro_batch_size=4
        )
        peaks: dict[str, int] = {}

        def watched(name: str, call: Callable[..., Any], peaks: dict[str, int] = peaks) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                with TensorMemory() as memory:
                    result = call(*args, **kwargs)
                peaks[name] = max(peaks.get(name, 0), memory.peak)
                return result

            return run

        sampling = training.sampling
        sampling.sample_and_judge = watched("sampling", sampling.sample_and_judge)  # type: ignore[method-assign]
        training.training_step = watched("training", training.training_step)  # type: ignore[method-assign]
        make_trainer(folder, 1).fit(training, CaseData(str(cases)))
        rows.append(MemoryRow(candidates, window, **peaks))
    print("\n".join(memory_report(rows)))


def measure_resume(editor: dict[str, Any], cases: Path, folder: Path) -> None:
    """Print the seconds of writing a checkpoint and of going on from it, without the loading of the model."""
    training = make_training(editor)
    trainer = make_trainer(folder, 1)
    trainer.fit(training, CaseData(str(cases)))
    checkpoint = folder / "resume.ckpt"
    start = time.perf_counter()
    trainer.save_checkpoint(checkpoint)
    written = time.perf_counter() - start
    fresh, again = make_training(editor), make_trainer(folder, 1)
    start = time.perf_counter()
    again.fit(fresh, CaseData(str(cases)), ckpt_path=checkpoint, weights_only=True)  # nothing is left to train
    print(f"checkpoint                   {written:8.3f} s to write {checkpoint.stat().st_size / 2**20:.2f} MiB")
    print(f"resume                       {time.perf_counter() - start:8.3f} s beside the loading of the model")


def main() -> None:
    """Measure everything once."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for library in (diffusers_logging, transformers_logging):
        library.set_verbosity_error()
        library.disable_progress_bar()
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        editor, cases = build_editor(folder / "editor"), build_cases(folder / "cases")
        measure_time(editor, cases, folder)
        measure_memory(editor, cases, folder)
        measure_resume(editor, cases, folder)


if __name__ == "__main__":
    main()
