from __future__ import annotations

import random

import pytest
from transformers import Qwen2Tokenizer

from data_build.tabletop.edits import EDIT_KINDS, TWO_REFERENCE_KINDS, Edit, sample_pair
from data_build.tabletop.phrases import describe, name, phrasings
from data_build.tabletop.tiny_editor import TEXT_LENGTH, make_tokenizer, vocabulary_words
from data_build.tabletop.world import Shape

ALL_KINDS = EDIT_KINDS + TWO_REFERENCE_KINDS
RED = Shape("circle", "red", "small", 0, 0)


def edits(kind: str, count: int) -> list[Edit]:
    rng = random.Random(0)
    return [sample_pair(rng, "train", (kind,))[1] for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer() -> Qwen2Tokenizer:
    return make_tokenizer(vocabulary_words())


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", ALL_KINDS)
def test_every_phrasing_fits_the_editors_text_encoder(kind: str, language: str, tokenizer: Qwen2Tokenizer) -> None:
    texts = {text for edit in edits(kind, 40) for text in phrasings(edit, language)}

    lengths = [len(ids) for ids in tokenizer(sorted(texts))["input_ids"]]

    assert max(lengths) <= TEXT_LENGTH


def test_words_of_the_world_are_single_tokens(tokenizer: Qwen2Tokenizer) -> None:
    words = vocabulary_words()

    assert {len(ids) for ids in tokenizer(words)["input_ids"]} == {1}


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_there_are_several_phrasings_in_both_languages(kind: str) -> None:
    for edit in edits(kind, 5):
        for language in ("en", "zh"):
            texts = phrasings(edit, language)
            assert len(texts) >= 2
            assert len(set(texts)) == len(texts)
            assert not any("{" in text or "None" in text for text in texts)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_description_is_one_of_the_phrasings(kind: str) -> None:
    for number, edit in enumerate(edits(kind, 10)):
        text = describe(edit, random.Random(number))
        assert text.en in phrasings(edit, "en")
        assert text.zh in phrasings(edit, "zh")
        assert text.en.isascii()
        assert not any(letter.isascii() and letter.isalpha() for letter in text.zh)


def test_texts_of_different_edits_of_a_kind_differ() -> None:
    for language in ("en", "zh"):
        texts = [
            phrasings(Edit("recolour", subject=Shape(kind, colour, "small", 0, 0), value=value), language)[0]
            for kind in ("circle", "square")
            for colour in ("red", "green")
            for value in ("blue", "cyan")
        ]
        assert len(set(texts)) == 8


def test_known_texts() -> None:
    edit = Edit("add", added=Shape("cross", "cyan", "large", 1, 3))

    assert phrasings(edit, "en")[0] == "add a large cyan cross in row 2, column 4"
    assert phrasings(edit, "zh")[0] == "在第2行第4列添加一个大青色十字"
    assert phrasings(Edit("resize", subject=RED, value="large"), "en")[0] == "make the red circle larger"
    assert phrasings(Edit("background", value="brown"), "zh")[0] == "把背景换成棕色"


def test_a_transfer_does_not_tell_the_colour() -> None:
    edit = Edit("transfer", subject=RED, value="cyan")

    assert not any("cyan" in text for text in phrasings(edit, "en"))
    assert not any("青" in text for text in phrasings(edit, "zh"))


def test_a_shape_is_named_by_colour_and_kind_and_by_size_where_asked() -> None:
    assert name(RED, "en") == "red circle"
    assert name(RED, "en", with_size=True) == "small red circle"
    assert name(RED, "zh", with_size=True) == "小红色圆形"
