"""Aesthetic: how much a picture as a whole is liked, by a head on a frozen encoder of pictures.

Two predictors go by nearly the same name. Their scales differ, and so do their encoders; every result names its own.

* "v2.5" (discus0434/aesthetic-predictor-v2-5): five linear layers on SigLIP SO400M/14, 384 pixels. 5.5 is great there.
* "laion" (christophschuhmann/improved-aesthetic-predictor): five linear layers on CLIP ViT-L/14's projected embedding.

Both see the embedding at unit length, and have no activation between their layers; dropout does nothing here. Nguyen et
al. 2026 (arXiv 2606.15867) say v2.5 and cite LAION.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import CLIPVisionModelWithProjection, SiglipVisionModel

from bench.evaluators.vision.loading import VisionModel
from gnomon.errors import UserError
from gnomon.hashing import file_hash, stable_hash
from gnomon.records import Verdict
from rm.judge import JudgeRequest
from rm.protocols.asking import Asked, Outcome, Shell

if TYPE_CHECKING:
    from PIL import Image

METRIC = "aesthetic"
Family = Literal["v2.5", "laion"]


class _Kind(NamedTuple):
    """How a family is stored and fed.

    Attributes:
        prefix: of the names of its weights.
        layers: numbers of its linear layers there.
        encoder: the class that loads its encoder.
        output: of the encoder that the head sees.
    """

    prefix: str
    layers: tuple[int, ...]
    encoder: Any
    output: str


_KINDS: dict[str, _Kind] = {
    "v2.5": _Kind("scoring_head.", (0, 2, 4, 6, 8), SiglipVisionModel, "pooler_output"),
    "laion": _Kind("layers.", (0, 2, 4, 6, 7), CLIPVisionModelWithProjection, "image_embeds"),
}


class AestheticPredictor:
    """An encoder of pictures and the head that was trained on it.

    Args:
        head: file of the head's weights, `.pth` or safetensors. Its names say which family it is of.
        encoder: a folder, or a name on the hub: SigLIP for "v2.5", CLIP for "laion". None takes the one that the
            family was trained on.
        revision: commit, tag or branch of the encoder on the hub.
        dtype: of the encoder: "float32", "bfloat16" or "float16"; the head is in float32.
        device: such as "cpu" or "cuda".

    Attributes:
        family: "v2.5" or "laion".
        name: the family and the encoder, for people.

    Raises:
        UserError: when there is no such file, model or device, or head and encoder do not belong together.
    """

    def __init__(
        self,
        head: str | Path,
        encoder: str | Path | None = None,
        *,
        revision: str | None = None,
        dtype: str = "float32",
        device: str = "cpu",
    ) -> None:
        weights = _read(Path(head))
        self.family = _family_of(weights, Path(head))
        self._hash, kind = file_hash(head), _KINDS[self.family]
        self._loaded = VisionModel(
            kind.encoder,
            f"the encoder of the aesthetic predictor {self.family}",
            encoder or ENCODERS[self.family],
            revision=revision,
            dtype=dtype,
            device=device,
        )
        self._head, self._output = _head(weights, kind), kind.output
        self.name = f"{self.family}, {self._loaded.name}"
        self._check_fit(weights[f"{kind.prefix}0.weight"].shape[1])

    @property
    def fingerprint(self) -> str:
        """Hash of both parts' weights, preprocessing and precision."""
        return stable_hash(["aesthetic", self.family, self._hash, self._loaded.fingerprint])

    @torch.inference_mode()
    def score(self, image: Image.Image) -> float:
        """Return how much a picture is liked: about 1 to 10.

        Raises:
            ValueError: for a picture of an impossible shape.
        """
        outputs = self._loaded.model(pixel_values=self._loaded.prepare([image]))
        embedding = nn.functional.normalize(getattr(outputs, self._output).float().cpu())
        return float(self._head(embedding))

    def _check_fit(self, width: int) -> None:
        expected = "siglip" if self.family == "v2.5" else "clip"
        config = self._loaded.config
        vision = getattr(config, "vision_config", config)
        # An encoder of another kind loads with random weights in places, and a warning is all that says so.
        if not config.model_type.startswith(expected):
            raise UserError(
                f"expected an encoder of the kind {expected} for the head {self.family}, {self._loaded.source} is "
                f"{config.model_type}"
            )
        has = vision.hidden_size if self.family == "v2.5" else vision.projection_dim
        if has != width:
            raise UserError(
                f"expected an encoder of {width} dimensions, as the head has, {self._loaded.source} has {has}; "
                f"{self.family} was trained on {ENCODERS[self.family]}"
            )


ENCODERS: dict[str, str] = {"v2.5": "google/siglip-so400m-patch14-384", "laion": "openai/clip-vit-large-patch14"}
"""The encoder that each family was trained on."""


def _read(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise UserError(
            f"expected the weights of an aesthetic predictor at {path}, there is no such file; v2.5's are "
            "aesthetic_predictor_v2_5.pth, LAION's sac+logos+ava1-l14-linearMSE.pth"
        )
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        found: dict[str, Tensor] = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch and safetensors share no class for a file that is broken
        raise UserError(f"expected weights at {path}, .pth or .safetensors: {error}") from error
    if not isinstance(found, dict):
        raise UserError(f"expected named weights at {path}, got {type(found).__name__}")
    return found


def _family_of(weights: dict[str, Tensor], path: Path) -> Family:
    families: tuple[Family, ...] = ("v2.5", "laion")
    for family in families:
        kind = _KINDS[family]
        names = {f"{kind.prefix}{layer}.{part}" for layer in kind.layers for part in ("weight", "bias")}
        if set(weights) == names:
            return family
    raise UserError(
        f"expected the head of an aesthetic predictor at {path}: five linear layers scoring_head.0 to .8 (v2.5) or "
        f"layers.0 to .7 (laion); it has {', '.join(sorted(weights)[:4]) or 'nothing'}"
    )


def _head(weights: dict[str, Tensor], kind: _Kind) -> nn.Sequential:
    """Return the linear layers one after the other."""
    layers = []
    for layer in kind.layers:
        weight = weights[f"{kind.prefix}{layer}.weight"].float()
        linear = nn.Linear(weight.shape[1], weight.shape[0])
        linear.load_state_dict({"weight": weight, "bias": weights[f"{kind.prefix}{layer}.bias"].float()})
        layers.append(linear)
    return nn.Sequential(*layers).requires_grad_(False).eval()


class Predictor(Protocol):
    """Says how much a picture is liked; see :class:`AestheticPredictor`."""

    name: str

    @property
    def fingerprint(self) -> str:
        """Hash of weights and preprocessing."""

    def score(self, image: Image.Image) -> float:
        """Return the score of a picture."""


class AestheticJudge:
    """What an aesthetic predictor says of the whole picture, about 1 to 10, as metric `aesthetic`.

    Args:
        predictor: says it.
        batch_size: candidates whose pictures are in memory together.
        name: for people; says family and encoder by default.
    """

    metrics: tuple[str, ...] = (METRIC,)

    def __init__(self, predictor: Predictor, *, batch_size: int = 8, name: str | None = None) -> None:
        self.predictor, self.batch_size = predictor, batch_size
        self.name = name or f"aesthetic ({predictor.name})"

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the predictor."""
        return stable_hash([METRIC, 1, self.predictor.fingerprint])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order; `out_of_range` for a score that is not finite."""
        return Shell(
            self.fingerprint,
            problem=lambda request: None if request.metric == METRIC else f"the judge's metric is {METRIC}",
            prompt_hash=lambda request: None,
            answer=lambda asked: [self._answer(one) for one in asked],
            batch_size=self.batch_size,
            shown=lambda request: [],
        ).judge(requests)

    def _answer(self, asked: Asked) -> Outcome:
        start = time.perf_counter()
        try:
            value = self.predictor.score(asked.pictures.candidates[0])
        except ValueError as error:
            return Outcome(None, "unreadable_image", str(error))
        raw = json.dumps({"predictor": self.predictor.name})
        if not abs(value) < float("inf"):
            return Outcome(None, "out_of_range", "the score is not a finite number", raw)
        return Outcome(value, "ok", None, raw, time.perf_counter() - start)
