from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from data_build.tabletop.tiny_editor import TEXT_LENGTH, make_tokenizer, vocabulary_words
from data_build.tabletop.world import COLOURS, KINDS


@pytest.mark.parametrize(
    "text", ["make the red circle blue", "把红色圆形涂成蓝色", "add a small cyan cross in row 2, column 3"]
)
def test_the_tokenizer_survives_the_disk_and_gives_the_text_back(text: str, tmp_path: Path) -> None:
    tokenizer = make_tokenizer(vocabulary_words())
    tokenizer.save_pretrained(tmp_path)
    read = AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer(text)["input_ids"]
    assert read(text)["input_ids"] == ids
    assert read.decode(ids) == text
    assert len(ids) <= TEXT_LENGTH


def test_each_word_of_the_world_is_one_token() -> None:
    tokenizer = make_tokenizer(vocabulary_words())
    for word in [*KINDS, *COLOURS]:
        assert len(tokenizer(f" {word}")["input_ids"]) == 1


def test_a_text_outside_the_world_is_still_encoded() -> None:
    tokenizer = make_tokenizer(vocabulary_words())
    assert tokenizer.decode(tokenizer("Ünïcode, 猫 & 🙂")["input_ids"]) == "Ünïcode, 猫 & 🙂"
