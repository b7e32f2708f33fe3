"""U2NetP: what stands out in a photograph, and nothing where nothing does."""

from __future__ import annotations

import numpy as np
from PIL import Image

from bench.evaluators.offline import U2NETP
from bench.evaluators.vision.salience import SIZE, SalienceSegmenter
from tests.bench.evaluators.photographs import need, photograph


def test_the_flower_stands_out_from_the_leaves() -> None:
    need(U2NETP)
    image = photograph("flower")
    mask = SalienceSegmenter().foreground(image, ["person"])
    assert mask.shape == (SIZE, SIZE)
    assert 0.1 < mask.mean() < 0.4
    colours = np.asarray(image.resize((SIZE, SIZE)), np.float64)
    inside, outside = colours[mask].mean(0), colours[~mask].mean(0)
    assert inside[0] > 2 * outside[0]  # the petals are red, the leaves are not


def test_the_mask_goes_with_the_subject() -> None:
    need(U2NETP)
    image, segmenter = photograph("flower"), SalienceSegmenter()
    there, mirrored = (
        segmenter.foreground(one, []) for one in (image, image.transpose(Image.Transpose.FLIP_LEFT_RIGHT))
    )
    assert (there == mirrored[:, ::-1]).mean() > 0.97
    assert segmenter.fingerprint == SalienceSegmenter().fingerprint


def test_salience_is_between_0_and_1_even_in_a_black_picture() -> None:
    need(U2NETP)
    salience = SalienceSegmenter().salience(Image.new("RGB", (64, 64)))
    assert np.isfinite(salience).all()
    assert (salience.min(), salience.max()) in ((0, 1), (0, 0))
