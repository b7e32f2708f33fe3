"""What sharing beginnings saves a judge: time and memory, on a fixed Qwen3-VL of some 26 million random weights.

Run it with `python benchmarks/judge_throughput.py`; it needs neither a GPU nor a network, and about five minutes on
one CPU core. Pictures have 320 x 320 pixels, 100 tokens each.

What it prints:

* a checklist of 20 questions on 3 pictures: one call each, one batch of whole prompts, and a shared beginning; the
  answers must be equal.
* 16 candidates of one source through the reward model: one forward each, one batch, and a shared beginning, with one
  reference picture and with three. A candidate's own picture is never shared, so with one reference of its size even
  a free beginning saves less than half of the pictures; each verdict says how much could be gained at most.
* pairs per second of training, forward and backward of 8 pairs with LoRA on the language model, each pair's beginning
  read twice and once, with one reference picture and with three.
* the most resident memory beyond the loaded model, each way in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from transformers.utils import logging as transformers_logging

from rm.lora import LoraOptions
from rm.reward_model import RewardModel
from rm.vlm.conversation import Conversation, Message
from rm.vlm.local import LocalVLM
from rm.vlm.processor import image_only

SIZE, QUESTIONS, CANDIDATES, PAIRS = 320, 20, 16, 8
QUESTIONS_TARGET, CANDIDATES_TARGET, TOLERANCE = 8.0, 2.0, 1e-4
_TEXT = (
    "yes no is the a an of in on at left right red blue green circle square background foreground person "
    "colour same as before unchanged visible sharp natural and than larger smaller where was asked for object "
    "removed added moved text image shows picture answer with only system user assistant Source Instruction "
    "Edited"
)
WORDS = _TEXT.split()
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TOKENS = ("im_start", "im_end", "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad", "endoftext")


def build_model(folder: Path) -> None:
    """Save the judge: 5 layers 512 wide in the language model, 6 layers 256 wide for pictures."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLProcessor
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(["<unk>", *WORDS])}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=words,
        unk_token="<unk>",
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        extra_special_tokens=[f"<|{name}|>" for name in TOKENS],
    )
    pictures = Qwen2VLImageProcessorPil(
        patch_size=16, merge_size=2, temporal_patch_size=2, size={"shortest_edge": 1024, "longest_edge": SIZE**2}
    )
    processor = image_only(Qwen3VLProcessor)(pictures, tokenizer, chat_template=CHAT_TEMPLATE)
    ids: dict[str, Any] = {
        f"{name}_id": tokenizer.convert_tokens_to_ids(f"<|{token}|>")
        for name, token in (
            ("image_token", "image_pad"),
            ("video_token", "video_pad"),
            ("vision_start_token", "vision_start"),
            ("vision_end_token", "vision_end"),
        )
    }
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 512,
            "intermediate_size": 1536,
            "num_hidden_layers": 5,
            "num_attention_heads": 8,
            "num_key_value_heads": 4,
            "head_dim": 64,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [12, 10, 10]},
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "depth": 6,
            "hidden_size": 256,
            "intermediate_size": 1024,
            "num_heads": 4,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "out_hidden_size": 512,
            "num_position_embeddings": 400,
            "deepstack_visual_indexes": [1, 3],
        },
        **ids,
    )
    torch.manual_seed(0)
    Qwen3VLForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


def draw(seed: int) -> Image.Image:
    """Return a picture of noise."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (SIZE, SIZE, 3), dtype=np.uint8))


def make_questions() -> list[Conversation]:
    """Return the checklist: 20 questions of about a dozen words on the same three pictures."""
    rng = np.random.default_rng(0)
    pictures = [draw(seed) for seed in range(3)]
    system = Message("system", ("Answer with yes or no only",))
    return [
        (system, Message("user", (*pictures, f"is {' '.join(rng.choice(WORDS[3:40], 11))} answer yes or no")))
        for _ in range(QUESTIONS)
    ]


def ways_to_ask(folder: Path) -> dict[str, Callable[[], torch.Tensor]]:
    """Return the ways to answer the checklist; each gives log-probabilities [questions, 2]."""
    vlm = LocalVLM(folder, batch_size=QUESTIONS)
    asked = make_questions()

    def ask(*, share: bool, size: int) -> torch.Tensor:
        vlm.share_prefixes, vlm.batch_size = share, size
        calls = [[conversation] for conversation in asked] if size == 1 else [asked]
        scores = [score for call in calls for score in vlm.choose(call, ["yes", "no"])]
        return torch.tensor([list((score.logprobs or {}).values()) for score in scores])

    return {
        "one call each": lambda: ask(share=False, size=1),
        "one batch": lambda: ask(share=False, size=QUESTIONS),
        "shared": lambda: ask(share=True, size=QUESTIONS),
    }


def ways_to_score(folder: Path, references: int) -> dict[str, Callable[[], torch.Tensor]]:
    """Return the ways to score candidates of one source; each gives scores [candidates, dimensions]."""
    model = RewardModel.from_base(folder)
    sources = [draw(100 + seed) for seed in range(references)]
    candidates = [draw(200 + seed) for seed in range(CANDIDATES)]
    instruction = "the red circle left of the square moved right and the background same as before"

    def score(some: list[Image.Image], *, share: bool) -> torch.Tensor:
        return model.score(
            instruction=instruction, references=sources, candidates=some, batch_size=CANDIDATES, share_prefix=share
        ).values

    return {
        "one call each": lambda: torch.cat([score([candidate], share=False) for candidate in candidates]),
        "one batch": lambda: score(candidates, share=False),
        "shared": lambda: score(candidates, share=True),
    }


def ways_to_train(folder: Path, references: int) -> dict[str, Callable[[], torch.Tensor]]:
    """Return the ways to do a training step without its update; each gives the adapter's gradient [weights]."""
    model = RewardModel.from_base(folder, lora=LoraOptions(r=16, alpha=32, dropout=0.0))
    adapter = [parameter for name, parameter in model.named_parameters() if ".lora_" in name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for parameter in adapter:
            torch.nn.init.normal_(parameter, std=0.02)  # a fresh adapter is zero, and half of its gradients too
    rows = (
        [f"the {WORDS[9 + pair % 3]} circle left of the square moved right" for pair in range(PAIRS) for _ in range(2)],
        [[draw(1000 + 10 * pair + number) for number in range(references)] for pair in range(PAIRS) for _ in range(2)],
        [draw(2000 + number) for number in range(2 * PAIRS)],
    )
    whole, packed = model.encoder.encode(*rows), model.encoder.encode_packed(*rows)

    def step(inputs: dict[str, Tensor]) -> torch.Tensor:
        model.zero_grad()
        scores = model(inputs).mean
        torch.nn.functional.softplus(scores[1::2] - scores[::2]).mean().backward()
        return torch.cat([parameter.grad.flatten() for parameter in adapter if parameter.grad is not None])

    return {"twice": lambda: step(whole), "once": lambda: step(packed)}


def ways(task: str, folder: Path) -> dict[str, Callable[[], torch.Tensor]]:
    """Return the ways to do `task`: "questions", or "candidates1" or "pairs1" with one reference, and so on."""
    if task == "questions":
        return ways_to_ask(folder)
    if task.startswith("pairs"):
        return ways_to_train(folder, int(task.removeprefix("pairs")))
    return ways_to_score(folder, int(task.removeprefix("candidates")))


def measure(task: str, folder: Path, target: float, repeats: int) -> None:
    """Print the seconds of each way, how much sharing gains against its target, and the memory."""
    print(f"\n{task}", flush=True)
    seconds, values = timed(task, folder, repeats)
    each, batch, shared = seconds.values()
    difference = float((values["shared"] - values["one call each"]).abs().max())
    gain = each / shared
    verdict = "met" if gain >= target else "MISSED"
    print(f"  shared against one call each {gain:6.2f} times as fast (target {target:.0f}: {verdict}{bound(task)})")
    print(f"  shared against one batch     {batch / shared:6.2f} times as fast")
    print(f"  largest difference {difference:.1e} ({'equal' if difference < TOLERANCE else 'DIFFERENT'})", flush=True)


def measure_training(references: int, folder: Path, repeats: int) -> None:
    """Print the pairs per second of each way, and whether the gradients are equal."""
    print(f"\npairs with {references} reference pictures", flush=True)
    seconds, values = timed(f"pairs{references}", folder, repeats)
    for way, value in seconds.items():
        print(f"  the beginning {way:5} {PAIRS / value:6.2f} pairs/s")
    gain, pictures = seconds["twice"] / seconds["once"], 2 * (references + 1) / (references + 2)
    largest = float(values["twice"].abs().max())
    difference = float((values["once"] - values["twice"]).abs().max()) / largest
    print(f"  once against twice {gain:6.2f} times as fast ({pictures:.2f} by the number of pictures)")
    verdict = "equal" if difference < TOLERANCE else "DIFFERENT"
    print(f"  largest difference of the gradients {difference:.1e} of the largest gradient ({verdict})", flush=True)


def timed(task: str, folder: Path, repeats: int) -> tuple[dict[str, float], dict[str, Tensor]]:
    """Return the seconds of each way, the best of several turns, and what it gives; print them with the memory."""
    known = ways(task, folder)
    seconds = dict.fromkeys(known, float("inf"))
    values: dict[str, torch.Tensor] = {}
    for _ in range(repeats):
        # In turns, so that whatever else the machine does hits all of them.
        for way, run in known.items():
            start = time.perf_counter()
            values[way] = run()
            seconds[way] = min(seconds[way], time.perf_counter() - start)
    for way in known:
        print(f"  {way:14} {seconds[way]:7.3f} s   {memory_of(task, way, folder):7.1f} MiB beyond the loaded model")
    return seconds, values


def bound(task: str) -> str:
    """Say what sharing could gain at most for candidates, were texts free: pictures that run without it and with it."""
    if not task.startswith("candidates"):
        return ""
    references = int(task.removeprefix("candidates"))
    alone, shared = CANDIDATES * (references + 1), references + CANDIDATES
    return f"; {alone} pictures against {shared}, so {alone / shared:.2f} at most"


def memory_of(task: str, way: str, folder: Path) -> float:
    """Return what :func:`report_memory` prints, from a process of its own."""
    arguments = ["--task", task, "--way", way, "--folder", str(folder)]
    done = subprocess.run([sys.executable, __file__, *arguments], check=True, stdout=subprocess.PIPE, text=True)
    return float(json.loads(done.stdout.splitlines()[-1]))


def report_memory(task: str, way: str, folder: Path) -> None:
    """Print the MiB by which the most resident memory grows during one call."""
    run = ways(task, folder)[way]
    before = peak_memory()
    run()
    print(json.dumps(peak_memory() - before))


def peak_memory() -> float:
    """Return the most resident memory of this process, in MiB; getrusage would count the parent's (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def main() -> None:
    """Measure everything once, or the memory of one way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", help="print the memory of one way of this task (with --way and --folder)")
    parser.add_argument("--way", default="shared")
    parser.add_argument("--folder", type=Path, default=Path())
    parser.add_argument("--repeats", type=int, default=3, help="turns of each way, of which the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    transformers_logging.disable_progress_bar()
    if options.task:
        report_memory(options.task, options.way, options.folder)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "judge"
        build_model(folder)
        weights = sum(parameter.numel() for parameter in LocalVLM(folder).vlm.parameters())
        print(f"a Qwen3-VL of {weights / 1e6:.1f} million weights, one CPU thread")
        for task, target in (
            ("questions", QUESTIONS_TARGET),
            ("candidates1", CANDIDATES_TARGET),
            ("candidates3", CANDIDATES_TARGET),
        ):
            measure(task, folder, target, options.repeats)
        for references in (1, 3):
            measure_training(references, folder, options.repeats)


if __name__ == "__main__":
    main()
