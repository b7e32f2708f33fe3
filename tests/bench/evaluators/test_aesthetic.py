"""The two aesthetic predictors on tiny random encoders of the real classes, and heads as they are stored."""

from __future__ import annotations

import json
from collections import OrderedDict
from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torch import Tensor, nn
from transformers import CLIPModel, SiglipVisionModel
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

from bench.evaluators.aesthetic import METRIC, AestheticJudge, AestheticPredictor
from gnomon.errors import UserError
from tests.bench.evaluators.scenes import request


class V25(nn.Module):
    """The head of v2.5 as its authors store it: dropout between all layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        drop = nn.Dropout(0.5)
        self.scoring_head = nn.Sequential(
            nn.Linear(width, 8), drop, nn.Linear(8, 6), drop, nn.Linear(6, 4), drop, nn.Linear(4, 3), drop,
            nn.Linear(3, 1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.scoring_head(x)
        return scores


class Laion(nn.Module):
    """LAION's head as its authors store it: no dropout before the last layer."""

    def __init__(self, width: int) -> None:
        super().__init__()
        drop = nn.Dropout(0.2)
        self.layers = nn.Sequential(
            nn.Linear(width, 8), drop, nn.Linear(8, 6), drop, nn.Linear(6, 4), drop, nn.Linear(4, 3), nn.Linear(3, 1)
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x)
        return scores


def stored(head: nn.Module, path: Path) -> Path:
    torch.save(OrderedDict(head.state_dict()), path)
    return path


def test_v25_is_its_head_on_siglip_at_unit_length(siglip_vision: Path, noise: Image.Image, tmp_path: Path) -> None:
    head = V25(16).eval()
    predictor = AestheticPredictor(stored(head, tmp_path / "v25.pth"), siglip_vision)
    pixels = SiglipImageProcessorPil.from_pretrained(siglip_vision)([noise], return_tensors="pt")
    with torch.inference_mode():
        seen = SiglipVisionModel.from_pretrained(siglip_vision).eval()(**pixels).pooler_output
        expected = head(seen / seen.norm(dim=-1, keepdim=True)).item()
    assert predictor.score(noise) == pytest.approx(expected, abs=1e-5)
    assert (predictor.family, predictor.name) == ("v2.5", f"v2.5, {siglip_vision.name}")


def test_laion_is_its_head_on_clips_projection_at_unit_length(clip: Path, noise: Image.Image, tmp_path: Path) -> None:
    head = Laion(12).eval()
    predictor = AestheticPredictor(stored(head, tmp_path / "laion.pth"), clip)
    pixels = CLIPImageProcessorPil.from_pretrained(clip)([noise], return_tensors="pt")
    with torch.inference_mode():
        seen = CLIPModel.from_pretrained(clip).eval().get_image_features(**pixels).pooler_output
        expected = head(seen / seen.norm(dim=-1, keepdim=True)).item()
    assert predictor.score(noise) == pytest.approx(expected, abs=1e-5)
    assert predictor.family == "laion"


def test_the_judge_names_family_and_encoder(clip: Path, noise: Image.Image, tmp_path: Path) -> None:
    weights = {name: value.bfloat16() for name, value in Laion(12).state_dict().items()}
    save_file(weights, tmp_path / "laion.safetensors")
    judge = AestheticJudge(AestheticPredictor(tmp_path / "laion.safetensors", clip))
    assert judge.name == f"aesthetic (laion, {clip.name})"
    verdict, other = judge.judge([request(tmp_path, METRIC, noise, []), request(tmp_path, "clip_t", noise, [])])
    assert verdict.value == pytest.approx(judge.predictor.score(noise))
    assert json.loads(verdict.raw or "") == {"predictor": f"laion, {clip.name}"}
    assert other.status == "not_applicable"


def test_the_head_is_part_of_the_fingerprint(clip: Path, tmp_path: Path) -> None:
    one, other = (AestheticPredictor(stored(Laion(12), tmp_path / f"{place}.pth"), clip) for place in range(2))
    assert one.fingerprint != other.fingerprint


def test_a_score_that_is_no_number_is_a_failure(clip: Path, noise: Image.Image, tmp_path: Path) -> None:
    head = Laion(12)
    nn.init.constant_(next(head.parameters()), float("nan"))
    judge = AestheticJudge(AestheticPredictor(stored(head, tmp_path / "nan.pth"), clip))
    assert judge.judge([request(tmp_path, METRIC, noise, [])])[0].status == "out_of_range"


def test_head_and_encoder_belong_together(clip: Path, siglip_vision: Path, tmp_path: Path) -> None:
    v25, laion = stored(V25(16), tmp_path / "v25.pth"), stored(Laion(12), tmp_path / "laion.pth")
    with pytest.raises(UserError, match=r"the encoder of the aesthetic predictor v2\.5 that SiglipVisionModel loads"):
        AestheticPredictor(v25, clip)
    with pytest.raises(UserError, match="predictor laion that CLIPVisionModelWithProjection loads"):
        AestheticPredictor(laion, siglip_vision)
    with pytest.raises(UserError, match="an encoder of 20 dimensions, as the head has"):
        AestheticPredictor(stored(Laion(20), tmp_path / "wide.pth"), clip)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "there is no such file"), (b"no weights", "expected weights at"), ({"a": torch.ones(1)}, "it has a")],
)
def test_other_files_are_refused(content: object, message: str, tmp_path: Path) -> None:
    path = tmp_path / "head.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(UserError, match=message):
        AestheticPredictor(path)
