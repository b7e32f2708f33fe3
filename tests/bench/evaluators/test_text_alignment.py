"""CLIP-T by a tiny random CLIP of the real classes, and by ConSE on real photographs."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import CLIPModel, CLIPTokenizer
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil

from bench.evaluators.offline import (
    EFFICIENTNET_LITE0,
    IMAGENET_DEFINITIONS,
    IMAGENET_LEMMAS,
    IMAGENET_SYNSETS,
    MINILM,
)
from bench.evaluators.text_alignment import CLIP_T, TextAlignmentJudge
from bench.evaluators.text_image import TextImageEmbedder
from gnomon.errors import UserError
from gnomon.records import Text
from rm.judge import JudgeRequest
from tests.bench.evaluators.photographs import need, photograph
from tests.bench.evaluators.scenes import request

LONG = "five people in the rain before a tower"


def asked(root: Path, image: Image.Image | None, prompt: str, metric: str = CLIP_T) -> JudgeRequest:
    made = request(root, metric, image, [], case_id=prompt.replace(" ", "-"))
    case = made.case.model_copy(update={"instruction": Text(en=prompt)})
    return JudgeRequest(case, made.root, made.candidate, made.image, metric)


def test_the_value_is_the_cosine_of_the_model_itself(clip: Path, noise: Image.Image, tmp_path: Path) -> None:
    verdict = TextAlignmentJudge(TextImageEmbedder(clip)).judge([asked(tmp_path, noise, "a cat")])[0]
    model = CLIPModel.from_pretrained(clip).eval()
    inputs = CLIPTokenizer.from_pretrained(clip)(["a cat"], return_tensors="pt")
    pixels = CLIPImageProcessorPil.from_pretrained(clip)([noise], return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        expected = model(**inputs, pixel_values=pixels).logits_per_image / model.logit_scale.exp()
    assert verdict.value == pytest.approx(expected.item(), abs=1e-5)
    assert json.loads(verdict.raw or "") == {"tokens": 6, "max_tokens": 24, "truncated": False}


def test_a_long_prompt_is_cut_before_its_end_mark_and_says_so(clip: Path, noise: Image.Image, tmp_path: Path) -> None:
    judge = TextAlignmentJudge(TextImageEmbedder(clip))
    metrics = [asked(tmp_path, noise, prompt, metric) for prompt in (LONG, "a cat") for metric in judge.metrics]
    long, whole, short, short_whole = judge.judge(metrics)
    assert (long.status, whole.value, short.status, short_whole.value) == ("ok", 0.0, "ok", 1.0)
    assert json.loads(long.raw or "")["truncated"]
    model, tokenizer = CLIPModel.from_pretrained(clip).eval(), CLIPTokenizer.from_pretrained(clip)
    ids = tokenizer(LONG)["input_ids"]
    assert json.loads(long.raw or "")["tokens"] == len(ids) > 24
    kept = torch.tensor([[*ids[:23], ids[-1]]])  # by hand: 23 of them, and the end mark
    with torch.inference_mode():
        text = torch.nn.functional.normalize(model.get_text_features(input_ids=kept).pooler_output)
    seen = judge.embedder.embed([noise])
    assert long.value == pytest.approx(float(seen[0] @ text[0].numpy()), abs=1e-5)


def test_the_prompt_in_the_other_language_is_used_where_asked(clip: Path, noise: Image.Image, tmp_path: Path) -> None:
    made = asked(tmp_path, noise, "a cat")
    both = made.case.model_copy(update={"instruction": Text(en="a cat", zh="一只猫")})
    bilingual = JudgeRequest(both, made.root, made.candidate, made.image, CLIP_T)
    english, chinese = (TextAlignmentJudge(TextImageEmbedder(clip), language=language) for language in ("en", "zh"))
    assert english.fingerprint != chinese.fingerprint
    assert english.judge([bilingual])[0].value != chinese.judge([bilingual])[0].value
    with pytest.raises(UserError, match="'en' or 'zh'"):
        TextAlignmentJudge(TextImageEmbedder(clip), language="fr")


def test_what_cannot_be_judged_is_a_status(clip: Path, noise: Image.Image, tmp_path: Path) -> None:
    judge = TextAlignmentJudge(TextImageEmbedder(clip))
    gone = asked(tmp_path, noise, "gone")
    (tmp_path / gone.candidate.path).unlink()  # type: ignore[operator]  # it has one
    good = asked(tmp_path, noise, "a cat")
    verdicts = judge.judge([gone, good, asked(tmp_path, noise, "a cat", "id_sim")])
    assert [verdict.status for verdict in verdicts] == ["missing_output", "ok", "not_applicable"]


@pytest.mark.slow
def test_conse_puts_a_matching_caption_above_a_foreign_one(tmp_path: Path) -> None:
    need(EFFICIENTNET_LITE0, MINILM, IMAGENET_SYNSETS, IMAGENET_LEMMAS, IMAGENET_DEFINITIONS)
    from bench.evaluators.conse import ConseEmbedder

    judge = TextAlignmentJudge(ConseEmbedder())
    assert judge.name == "CLIP-T (ConSE)"
    captions = {"flower": "a red flower in a garden", "china": "a temple with a curved roof"}
    values = np.array(
        [
            [judge.judge([asked(tmp_path, photograph(shown), words)])[0].value for words in captions.values()]
            for shown in captions
        ]
    )
    assert values.argmax(1).tolist() == [0, 1]
    assert min(values[0, 0], values[1, 1]) > 0.4 > 0.3 > max(values[0, 1], values[1, 0])
