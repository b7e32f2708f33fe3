"""A tiny editor of puzzles, the sibling of the tabletop's: it marks the best answer, another valid one, or nothing.

It is trained on all three, so that candidates of one puzzle differ in kind and reinforcement learning has something to
choose from. Classes and sizes are those of :mod:`data_build.tabletop.tiny_editor`; the autoencoder starts from the
shipped one, which does not know puzzles.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLFlux2
from einops import reduce
from PIL import Image
from torch import Tensor
from transformers import Qwen2Tokenizer

from data_build.demo.steps import model_folder
from data_build.puzzles.build import draw_instances
from data_build.puzzles.puzzle import AnyPuzzle
from data_build.puzzles.verify import verify_instance
from data_build.tabletop.shipped import write_editor
from data_build.tabletop.tiny_editor import (
    TEXT_LENGTH,
    decode_tokens,
    encode_pictures,
    make_tokenizer,
)
from data_build.tabletop.train_autoencoder import Draw, train_autoencoder
from data_build.tabletop.train_editor import (
    CHINESE_SHARE,
    Editor,
    Pairs,
    cached_pairs,
    sample,
    to_pictures,
    train_editor,
)
from gnomon.hashing import stable_seed
from gnomon.records import Record, Split, Text

RESOLUTION, CELL = 64, 16
"""Pixels per side of a picture and of the part of it that is one token."""
TASK = "optimal_path"
SETTINGS: dict[str, Any] = {
    "sizes": [3, 3],
    "least_distance": 3,
    "shares": {"road": 0.4, "grass": 0.3, "water": 0.2, "wall": 0.1},
}
"""What is taught: large cells for a picture this small, and few walls, so that most puzzles have several ways."""
UNEDITED_SHARE = 0.35
"""Share of targets that are the unedited source."""


@dataclass(frozen=True)
class DrawnPuzzle:
    """An instance, and answers to draw into it: the best one first."""

    instance: Record
    answers: tuple[Any, ...]


def draw_puzzles(puzzle: AnyPuzzle, count: int, seed: int, split: Split) -> list[DrawnPuzzle]:
    """Draw puzzles, each with its best answer and, where there is one, another valid one.

    They are not those that `gnomon data build avr` draws for the same seed.

    Raises:
        UserError: when the puzzle's settings admit not so many.
    """
    seed = stable_seed("puzzle-editor", seed)
    drawn = []
    for number, instance in enumerate(draw_instances(puzzle, count, seed, split)):
        spoilt = puzzle.spoil(instance, random.Random(stable_seed(seed, split, number)))
        others = [answer for answer in spoilt.values() if puzzle.check(instance, answer).value == "suboptimal"]
        drawn.append(DrawnPuzzle(instance, (puzzle.solve(instance), *others[:1])))
    return drawn


def pictures_of(images: Iterable[Image.Image]) -> Tensor:
    """Return pictures as [batch, 3, height, width] in -1..1."""
    arrays = torch.from_numpy(np.stack([np.asarray(image) for image in images]))
    return arrays.permute(0, 3, 1, 2).contiguous().float() / 127.5 - 1


def any_pictures(puzzle: AnyPuzzle) -> Draw:
    """Return what draws sources, right answers and wrong ones of all kinds, to learn what pictures look like."""

    def draw(rng: random.Random, count: int) -> Tensor:
        pictures: list[Image.Image] = []
        while len(pictures) < count:
            instance = puzzle.sample(rng)
            if instance is not None:
                answers = [None, puzzle.solve(instance), *puzzle.spoil(instance, rng).values()]
                pictures += [puzzle.render(instance, RESOLUTION, answer) for answer in rng.sample(answers, 2)]
        return pictures_of(pictures[:count])

    return draw


def make_words(puzzle: AnyPuzzle, instances: Iterable[Record]) -> list[str]:
    """Return the words and clauses of instructions, which become tokens."""
    words = set()
    for text in {puzzle.instruct(instance) for instance in instances}:
        english = re.findall(r"[^\W\d]+", text.get("en"))
        words |= {*english, *(f" {word}" for word in english), *re.findall(r"[^\W\d]+", text.get("zh"))}
    return sorted(words)


def tokens_of(texts: Sequence[str], tokenizer: Qwen2Tokenizer) -> tuple[Tensor, Tensor]:
    """Return ids and mask [texts, 24]; of a longer text the editor reads the beginning, as pipelines do."""
    ids = tokenizer(texts, padding="max_length", max_length=TEXT_LENGTH, truncation=True, return_tensors="pt")
    return ids["input_ids"], ids["attention_mask"]


@torch.no_grad()
def encode_puzzles(
    puzzle: AnyPuzzle,
    drawn: Sequence[DrawnPuzzle],
    autoencoder: AutoencoderKLFlux2,
    tokenizer: Qwen2Tokenizer,
    seed: int,
) -> Pairs:
    """Return one pair for each answer of each puzzle."""
    rng = random.Random(stable_seed(seed, "puzzle-texts"))
    parts: dict[str, list[Tensor]] = {"sources": [], "targets": [], "changed": []}
    texts = []
    for start in range(0, len(drawn), 128):
        chunk = drawn[start : start + 128]
        sources = pictures_of(puzzle.render(item.instance, RESOLUTION) for item in chunk)
        numbers = [number for number, item in enumerate(chunk) for _ in item.answers]
        targets = pictures_of(puzzle.render(i.instance, RESOLUTION, answer) for i in chunk for answer in i.answers)
        parts["sources"].append(encode_pictures(autoencoder, sources).half()[numbers])
        parts["targets"].append(encode_pictures(autoencoder, targets).half())
        parts["changed"].append(changed_tokens(sources[numbers], targets))
        texts += [_text(puzzle.instruct(item.instance), rng) for item in chunk for _ in item.answers]
    input_ids, attention_mask = tokens_of(texts, tokenizer)
    joined = {name: torch.cat(tensors) for name, tensors in parts.items()}
    return Pairs(**joined, input_ids=input_ids, attention_mask=attention_mask)


def _text(text: Text, rng: random.Random) -> str:
    return text.get("zh" if rng.random() < CHINESE_SHARE else "en")


def changed_tokens(sources: Tensor, targets: Tensor) -> Tensor:
    """Return [pictures, tokens] booleans: in which tokens' pixels two pictures differ."""
    different = (sources != targets).any(dim=1)
    cells: Tensor = reduce(different.byte(), "b (h i) (w j) -> b (h w)", "max", i=CELL, j=CELL).bool()
    return cells


@torch.no_grad()
def measure_autoencoder(
    puzzle: AnyPuzzle, drawn: Sequence[DrawnPuzzle], autoencoder: AutoencoderKLFlux2
) -> dict[str, float]:
    """Return the shares of reproduced best answers that are `correct`, and of sources on which nothing is found."""
    sources = [puzzle.render(item.instance, RESOLUTION) for item in drawn]
    targets = [puzzle.render(item.instance, RESOLUTION, item.answers[0]) for item in drawn]
    figures = {}
    for name, originals, wanted in (("target", targets, "correct"), ("source", sources, "invalid")):
        pictures = pictures_of(originals)
        decoded = autoencoder.decode(autoencoder.encode(pictures).latent_dist.mode()).sample.clamp(-1, 1)
        values = _values(puzzle, drawn, sources, to_pictures(decoded))
        figures[f"{name}_psnr"] = -10 * float(((decoded - pictures) ** 2).mean().div(4).log10())
        figures[f"{name}_{wanted}"] = values.count(wanted) / len(values)
    return figures


@torch.no_grad()
def measure_editor(
    puzzle: AnyPuzzle,
    drawn: Sequence[DrawnPuzzle],
    editor: Editor,
    autoencoder: AutoencoderKLFlux2,
    tokenizer: Qwen2Tokenizer,
    seed: int,
) -> dict[str, float]:
    """Return the shares of what sampled edits are, one a puzzle, asked for in English."""
    sources = [puzzle.render(item.instance, RESOLUTION) for item in drawn]
    text = editor.encode_text(*tokens_of([puzzle.instruct(item.instance).get("en") for item in drawn], tokenizer))
    generator = torch.Generator().manual_seed(stable_seed(seed, "puzzle-editor-measure"))
    tokens = sample(editor, encode_pictures(autoencoder, pictures_of(sources)), text, generator)
    values = _values(puzzle, drawn, sources, to_pictures(decode_tokens(autoencoder, tokens)))
    return {value: values.count(value) / len(values) for value in ("correct", "suboptimal", "invalid", "unreadable")}


def _values(
    puzzle: AnyPuzzle, drawn: Sequence[DrawnPuzzle], sources: Sequence[Image.Image], edits: Sequence[Image.Image]
) -> list[str]:
    return [
        verify_instance(puzzle, item.instance, source, edit).value
        for item, source, edit in zip(drawn, sources, edits, strict=True)
    ]


def train_puzzle_editor(
    folder: Path,
    *,
    out: Path,
    puzzle: AnyPuzzle,
    autoencoder_steps: int = 400,
    editor_steps: int = 1500,
    num_puzzles: int = 8000,
    num_check: int = 240,
    seed: int = 0,
) -> dict[str, float]:
    """Train autoencoder and editor and write the pipeline folder.

    Args:
        folder: of the trainings; a second call goes on where one was stopped.
        out: of the pipeline.
        puzzle: what it learns, with its settings.
        autoencoder_steps: about .2 s each on one core.
        editor_steps: about .3 s each.
        num_puzzles: drawn training puzzles.
        num_check: validation puzzles that the figures are of.
        seed: of everything.

    Returns:
        Shares of validation puzzles: reproduced right by the autoencoder, and what the editor made of them.

    Raises:
        UserError: when the puzzle's settings admit not so many.
    """
    check = draw_puzzles(puzzle, num_check, seed, "validation")
    autoencoder = train_autoencoder(
        folder / "autoencoder",
        num_steps=autoencoder_steps,
        batch_size=16,
        seed=seed,
        draw=any_pictures(puzzle),
        evaluate=lambda model: measure_autoencoder(puzzle, check, model),
        start=AutoencoderKLFlux2.from_pretrained(model_folder("editor"), subfolder="vae"),
    ).eval()
    tokenizer = make_tokenizer(make_words(puzzle, [item.instance for item in check]))

    def make_pairs() -> Pairs:
        drawn = draw_puzzles(puzzle, num_puzzles, seed, "train")
        return encode_puzzles(puzzle, drawn, autoencoder, tokenizer, seed)

    editor = train_editor(
        folder / "editor",
        cached_pairs(folder / "editor", make_pairs),
        len(tokenizer),
        num_steps=editor_steps,
        evaluate=lambda model: measure_editor(puzzle, check, model, autoencoder, tokenizer, seed),
        batch_size=32,
        unedited_share=UNEDITED_SHARE,
        seed=seed,
    )
    write_editor(out, autoencoder, tokenizer, editor.text_encoder, editor.transformer)
    return {
        **{f"autoencoder_{name}": value for name, value in measure_autoencoder(puzzle, check, autoencoder).items()},
        **{f"editor_{n}": v for n, v in measure_editor(puzzle, check, editor, autoencoder, tokenizer, seed).items()},
    }
