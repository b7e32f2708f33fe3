"""The settings of `gnomon rm think`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from gnomon.errors import UserError
from gnomon.tracking import LoggerName
from rm.lora import LoraOptions

ProtocolName = Literal["pairwise", "rubric"]


@dataclass(frozen=True)
class ColdStart:
    """Supervised fine-tuning on rationales, so that replies have the right form before rewards ask for it.

    Attributes:
        steps: optimizer steps.
        batch_size: rationales per step, over all ranks.
        micro_batch_size: rationales per forward pass and rank.
        learning_rate: the highest one; it falls to zero along a cosine.
        warmup_steps: steps in which it rises from zero.
    """

    steps: int = 200
    batch_size: int = 16
    micro_batch_size: int = 1
    learning_rate: float = 1e-4
    warmup_steps: int = 10


@dataclass(frozen=True)
class Grpo:
    """Group relative policy optimization (Shao et al. 2024, arXiv 2402.03300), as trl's GRPOTrainer does it.

    Attributes:
        steps: optimizer steps; every one samples fresh replies.
        group_size: replies to each prompt, whose rewards are compared with each other.
        prompts_per_step: prompts per step, over all ranks; even, since both orders of a pair stand together.
        micro_batch_size: replies per forward and backward pass and rank.
        learning_rate: constant after the warm-up.
        warmup_steps: steps in which it rises from zero.
        beta: weight of the KL divergence from the cold-started model.
        temperature: of the sampling.
        max_completion_length: longest reply, in tokens, thinking included.
        length_cache: how many tokens before that the length reward begins to fall.
    """

    steps: int = 300
    group_size: int = 8
    prompts_per_step: int = 16
    micro_batch_size: int = 1
    learning_rate: float = 1e-5
    warmup_steps: int = 10
    beta: float = 0.04
    temperature: float = 1.0
    max_completion_length: int = 2048
    length_cache: int = 512


@dataclass(frozen=True)
class RewardWeights:
    """What each reward counts; see :mod:`rm.thinking.rewards`.

    Attributes:
        answer: for the human label.
        format: for a thought and one readable answer.
        length: for replies that end in time.
    """

    answer: float = 1.0
    format: float = 0.5
    length: float = 0.5


@dataclass(frozen=True)
class ThinkingOptions:
    """A thinking judge: a LoRA on the language model of a vision-language model, which is otherwise frozen.

    Attributes:
        base: the vision-language model, a folder or a name on the hub.
        data: folder with comparisons.jsonl.
        protocol: "pairwise" asks which of two pictures is better, "rubric" for the score of one.
        metric: dimension of the labels, and the rubric that is asked about.
        language: of the questions and the instructions, "en" or "zh".
        tie_margin: scores of a rubric that differ by no more count as a tie.
        rationales: file with one JSON object a line for the cold start: comparison, order, text.
        thinking_template: whether a chat template that knows `enable_thinking` is given it as true.
        lora: the adapter.
        cold_start: the first stage; it is skipped without rationales.
        grpo: the second stage.
        rewards: their weights.
        dtype: of the frozen weights: float32, bfloat16 or float16.
        device: "auto" takes a GPU where there is one, "cpu" does not.
        gradient_checkpointing: compute activations twice to save memory.
        save_steps: steps between two checkpoints, the furthest that a killed run falls back.
        seed: of adapter, order and sampling.
        tracker: where figures are logged.
    """

    base: str
    data: str
    protocol: ProtocolName = "pairwise"
    metric: str = "overall"
    language: str = "en"
    tie_margin: float = 0.0
    rationales: str | None = None
    thinking_template: bool = True
    lora: LoraOptions = field(default_factory=LoraOptions)
    cold_start: ColdStart = field(default_factory=ColdStart)
    grpo: Grpo = field(default_factory=Grpo)
    rewards: RewardWeights = field(default_factory=RewardWeights)
    dtype: Literal["float32", "bfloat16", "float16"] = "bfloat16"
    device: Literal["auto", "cpu"] = "auto"
    gradient_checkpointing: bool = True
    save_steps: int = 25
    seed: int = 0
    tracker: LoggerName = "csv"

    def check(self, ranks: int = 1) -> None:
        """Refuse sizes that do not divide each other before anything is loaded.

        Args:
            ranks: processes that train together.

        Raises:
            UserError: with the keys.
        """
        grpo, cold = self.grpo, self.cold_start
        _expect(grpo.group_size >= 2, "grpo.group_size of at least 2 (a reply alone has no group)", grpo.group_size)
        _expect(cold.steps >= 0 and grpo.steps >= 0, "steps of at least 0", f"{cold.steps} and {grpo.steps}")
        _expect(self.save_steps > 0, "save_steps of at least 1", self.save_steps)
        _expect(grpo.temperature > 0, "a grpo.temperature above 0 (equal replies teach nothing)", grpo.temperature)
        _expect(
            0 < grpo.length_cache <= grpo.max_completion_length,
            f"grpo.length_cache between 1 and grpo.max_completion_length ({grpo.max_completion_length})",
            grpo.length_cache,
        )
        # Both orders of a pair, or both candidates of one, must be on one rank: a rubric's reward compares them.
        _expect(
            grpo.prompts_per_step > 0 and grpo.prompts_per_step % (2 * ranks) == 0,
            f"grpo.prompts_per_step that {2 * ranks} divides (pairs on {ranks} ranks)",
            grpo.prompts_per_step,
        )
        _divides(grpo.prompts_per_step * grpo.group_size, grpo.micro_batch_size * ranks, "grpo", ranks)
        _divides(cold.batch_size, cold.micro_batch_size * ranks, "cold_start", ranks)


def _expect(holds: bool, what: str, got: object) -> None:
    if not holds:
        raise UserError(f"expected {what}, got {got}")


def _divides(total: int, part: int, stage: str, ranks: int) -> None:
    if part < 1 or total < 1 or total % part:
        raise UserError(
            f"expected {stage}.micro_batch_size times {ranks} ranks to divide the {total} replies of a step, "
            f"got {part}; choose another {stage}.micro_batch_size"
        )
