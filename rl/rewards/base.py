"""What a reward is, how it is asked, and what happens to the rows that it could not judge."""

from __future__ import annotations

import math
import textwrap
import traceback
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from PIL.Image import Image
from torch import Tensor

from gnomon.errors import UserError
from gnomon.records import Case
from rl.monitors import PICTURE_MONITORS

RESERVED_METRICS = frozenset(
    {"reward", "failed", "reward_mean", "reward_std", "group_std", "zero_std_groups", *PICTURE_MONITORS}
)
"""Names that the trainer logs by itself; a part of a reward or a monitor of that name would overwrite them."""

_NO_REASON = "no reason given"


@dataclass(frozen=True, eq=False)
class RewardOutput:
    """Rewards of a batch.

    Attributes:
        total: what is maximised, float `[batch]`; NaN where it failed.
        breakdown: values by dimension, each `[batch]`, for metrics and for rewards that are kept apart (GDPO). The
            names are the same for every batch, whatever failed in it: ranks average them together.
        failed: boolean `[batch]`. A failure is masked out of training; it is never a low reward.
        reasons: why rows failed, as far as the judge can say.
    """

    total: Tensor
    breakdown: dict[str, Tensor]
    failed: Tensor
    reasons: dict[int, str] = field(default_factory=dict)


class Reward(Protocol):
    """Anything that scores pictures; set by `class_path` in a config.

    `cases` is a `Sequence[Case]`, `references` a `Sequence[list[Image]]` and `images` a `Sequence[Image]`, one per
    row; the result is a :class:`RewardOutput`. The annotations are open because the config parser compares them
    literally, and a reward in a user's own file need not repeat them; `ask_reward` checks what matters.

    Two attributes are taken up where a reward has them: `weights`, the weight of each part of the breakdown in the
    total, lets GDPO normalise the parts one by one; `fingerprint`, a text that differs for rewards that answer
    differently, is part of a run's identity.
    """

    def __call__(self, *, cases: Any, references: Any, images: Any) -> Any:
        """Score `images`."""
        ...


def weighted_sum(breakdown: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    """Combine dimensions `[batch]` to one total, float64 so that no order of summation shows.

    A weight of 0 leaves a dimension out, also where its value is NaN.
    """
    return torch.stack([weight * breakdown[name].double() for name, weight in weights.items() if weight]).sum(dim=0)


def checked_weights(
    weights: Mapping[str, float] | None, *, default: Mapping[str, float], owner: str
) -> dict[str, float]:
    """Return `weights` or the default, as plain numbers.

    Raises:
        UserError: when there are none, all are 0, or one is not finite; `owner` says whose they are.
    """
    chosen = {name: float(weight) for name, weight in (default if weights is None else weights).items()}
    broken = [name for name, weight in chosen.items() if not math.isfinite(weight)]
    if broken or not any(chosen.values()):
        found = f"{', '.join(broken)} not finite" if broken else str(chosen)
        raise UserError(f"expected finite weights of {owner}, at least one of them not 0, got {found}")
    return chosen


def apply_reward(
    reward: Reward,
    *,
    cases: Sequence[Case],
    references: Sequence[list[Image]],
    images: Sequence[Image],
    max_failed_share: float,
) -> RewardOutput:
    """Ask a reward about all pictures that share one failure budget: :func:`ask_reward`, then :func:`check_failures`.

    Raises:
        UserError: where these two do.
    """
    output = ask_reward(reward, cases=cases, references=references, images=images)
    check_failures(reward_name(reward), failures(output, cases), len(images), max_failed_share)
    return output


def ask_reward(
    reward: Reward, *, cases: Sequence[Case], references: Sequence[list[Image]], images: Sequence[Image]
) -> RewardOutput:
    """Call a reward, without gradients and autocast, and hold it to its contract; any number of rows may fail here.

    A total that is not finite counts as a failure, whatever the reward says, and so does a part that has a weight
    (`Reward.weights`), since GDPO could not use the row. A failed row has no numbers at all: total and breakdown are
    NaN there, so that no mean takes them up. A part that is only logged is NaN where it is not finite.

    Returns:
        float64 on the CPU, with a reason for every failed row.

    Raises:
        UserError: when the reward raises (where in its code), answers in another form or length, or names a part of
            its breakdown as the trainer names a metric of its own.
    """
    name = reward_name(reward)
    if not len(cases) == len(references) == len(images):
        raise ValueError(
            f"expected one case and one list of references per picture, got {len(cases)}, {len(references)} and "
            f"{len(images)}"
        )
    try:
        with _plain_arithmetic():
            output: RewardOutput = reward(cases=cases, references=references, images=images)
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{name} raised {_where(error)} on {len(images)} pictures") from error
    _check_form(name, output, len(images))
    marked, total = output.failed.cpu(), output.total.detach().cpu().double()
    breakdown = {key: values.detach().cpu().double() for key, values in output.breakdown.items()}
    weighted = {"": total, **{key: breakdown[key] for key in _weighted_parts(reward, breakdown)}}
    failed = marked.clone()
    reasons = {row: output.reasons.get(row) or _NO_REASON for row in marked.nonzero().flatten().tolist()}
    for key, values in weighted.items():
        for row in (~failed & ~torch.isfinite(values)).nonzero().flatten().tolist():
            what = f"{key} is not finite" if key else "not finite"
            failed[row], reasons[row] = True, output.reasons.get(row) or f"{what} ({values[row].item()})"
    return RewardOutput(
        torch.where(failed, math.nan, total),
        {key: torch.where(failed | ~torch.isfinite(values), math.nan, values) for key, values in breakdown.items()},
        failed,
        dict(sorted(reasons.items())),
    )


def _weighted_parts(reward: Reward, breakdown: Mapping[str, Tensor]) -> list[str]:
    weights = getattr(reward, "weights", None)
    return [name for name in breakdown if weights.get(name)] if isinstance(weights, Mapping) else []


@contextmanager
def _plain_arithmetic() -> Iterator[None]:
    """No gradients, and no mixed precision: that of the trainer is the policy's, a judge has its own."""
    with torch.no_grad(), torch.autocast("cpu", enabled=False), torch.autocast("cuda", enabled=False):
        yield


def _check_form(name: str, output: object, num_pictures: int) -> None:
    if not isinstance(output, RewardOutput):
        raise UserError(f"expected a RewardOutput from {name}, got {type(output).__name__}")
    for field_name, value in (("breakdown", output.breakdown), ("reasons", output.reasons)):
        if not isinstance(value, Mapping):
            raise UserError(f"expected a dict as `{field_name}` from {name}, got {type(value).__name__}")
    # A part may itself be called "total", and must not be checked in its place.
    parts = {f"breakdown/{key}": values for key, values in output.breakdown.items()}
    lengths = {"total": output.total, "failed": output.failed, **parts}
    given: dict[str, object] = {**lengths}
    others = {key: type(values).__name__ for key, values in given.items() if not isinstance(values, Tensor)}
    if others:
        raise UserError(f"expected torch tensors from {name}, got {others}; wrap them in torch.tensor(...)")
    wrong = {key: list(values.shape) for key, values in lengths.items() if values.shape != (num_pictures,)}
    if wrong:
        # Rows would be scored for their neighbours.
        raise UserError(f"expected one value for each of {num_pictures} pictures from {name}, got {wrong}")
    if output.failed.dtype != torch.bool:
        raise UserError(f"expected booleans in `failed` from {name}, got {output.failed.dtype}")
    taken = sorted(RESERVED_METRICS & set(output.breakdown))
    if taken:
        raise UserError(
            f"expected other names in the breakdown of {name} than those that the trainer logs by itself, got "
            f"{', '.join(taken)}; rename them"
        )


def _where(error: Exception) -> str:
    """Name an error with its text and the line that raised it: a reward is often a user's own code."""
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} ({error}; {Path(place.filename).name}, line {place.lineno})"


def reward_name(reward: Reward) -> str:
    """Name a reward in messages."""
    return str(getattr(reward, "name", None) or type(reward).__name__)


def failures(output: RewardOutput, cases: Sequence[Case]) -> list[tuple[str, str]]:
    """Return case id and reason of every failed row, in order of rows."""
    return [(cases[row].id, output.reasons.get(row, _NO_REASON)) for row in output.failed.nonzero().flatten().tolist()]


def check_failures(name: str, failed: Sequence[tuple[str, str]], num_pictures: int, max_failed_share: float) -> None:
    """Stop a run whose reward failed too often; `failed` holds those of all ranks and batches that share the budget.

    Args:
        name: of the reward, for the message.
        failed: case id and reason of each failed row.
        num_pictures: how many pictures were judged.
        max_failed_share: the budget, 0..1.

    Raises:
        UserError: when more than `max_failed_share` failed; it counts the reasons and names cases.
    """
    # As floats, 1/49 of 49 is less than 1.
    if not failed or len(failed) <= max_failed_share * num_pictures + 1e-6:
        return
    cases: defaultdict[str, list[str]] = defaultdict(list)
    for case, reason in failed:
        cases[reason].append(case)
    common = sorted(cases.items(), key=lambda item: -len(item[1]))
    shown = "; ".join(
        f"{len(ids)} x {_cut(reason)} ({', '.join(list(dict.fromkeys(ids))[:3])})" for reason, ids in common[:3]
    )
    more = f"; and {len(common) - 3} other reasons" if len(common) > 3 else ""
    raise UserError(
        f"{name} failed on {len(failed)} of {num_pictures} pictures, more than the allowed share of "
        f"{max_failed_share:g}: {shown}{more}. Mend the judge, or raise model.rollout.max_failed_share"
    )


def _cut(reason: str) -> str:
    """Keep a reason, which may be a whole reply of a judge, to one line that can be read."""
    return textwrap.shorten(reason, 200, placeholder=" ...")


def concatenate(outputs: Sequence[RewardOutput]) -> RewardOutput:
    """Join the rewards of consecutive batches.

    Raises:
        UserError: when their breakdowns have different names.
    """
    names = [set(output.breakdown) for output in outputs]
    if any(found != names[0] for found in names):
        different = sorted(set().union(*names) - names[0].intersection(*names))
        raise UserError(
            f"expected the same breakdown for every batch of pictures, {', '.join(different)} is not in all"
        )
    starts = [sum(len(output.total) for output in outputs[:place]) for place in range(len(outputs))]
    return RewardOutput(
        torch.cat([output.total for output in outputs]),
        {key: torch.cat([output.breakdown[key] for output in outputs]) for key in outputs[0].breakdown},
        torch.cat([output.failed for output in outputs]),
        {
            start + row: reason
            for start, output in zip(starts, outputs, strict=True)
            for row, reason in output.reasons.items()
        },
    )


def merge_metrics(sources: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Join what several sources report into one table of metrics.

    Args:
        sources: who reports ("the reward", "monitor half", ...) and what, by name.

    Raises:
        UserError: when two of them use one name; a monitor called like a part of the reward would hide it otherwise.
    """
    merged: dict[str, Tensor] = {}
    owner: dict[str, str] = {}
    for source, metrics in sources.items():
        for name, values in metrics.items():
            if name in merged:
                raise UserError(
                    f"expected different names of metrics, {owner[name]} and {source} both report {name!r}; rename one"
                )
            merged[name], owner[name] = values, source
    return merged


def check_monitor_names(monitors: Mapping[str, object]) -> None:
    """Refuse monitors that are called like something that the trainer logs by itself.

    Raises:
        UserError: names them.
    """
    taken = sorted(RESERVED_METRICS & set(monitors))
    if taken:
        raise UserError(
            f"expected names of monitors that the trainer does not use itself, got {', '.join(taken)} in "
            "model.monitors; rename them"
        )
