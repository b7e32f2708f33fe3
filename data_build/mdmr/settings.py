"""The settings of each stage, as a config has them; nothing heavy is imported here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from gnomon.errors import UserError
from gnomon.records import Split
from rm.vlm.conversation import VLM, GenerationParameters

DEFAULT_OVERLAP = 0.9
"""Words that two questions must share to ask nearly the same, see :func:`data_build.mdmr.duplicates.word_overlap`."""


@dataclass(frozen=True)
class Source:
    """One source of pictures, as a config has it.

    Attributes:
        path: a folder, or one parquet or tar file.
        origin: "real" for photographs and what people drew, "synthetic" for what a model generated.
        image: column of a parquet file that holds the pictures.
        caption: key or column of a picture's caption.
        made_from: key or column that names the real picture which a synthetic one was made from: by its member,
            its file name with or without ending, or its id.
    """

    path: Path
    origin: Literal["real", "synthetic"] = "real"
    image: str = "image"
    caption: str = "caption"
    made_from: str = "made_from"


@dataclass(frozen=True)
class GallerySettings:
    """What the gallery is made of.

    Attributes:
        sources: by name; the order decides which of two equal pictures is kept.
        min_side: shortest side of a picture that is used, in pixels.
        max_distance: bits out of 64 in which the perceptual hashes of near duplicates differ at most, 0..6.
        num_threads: pictures that are decoded at the same time.
    """

    sources: dict[str, Source] = field(default_factory=dict)
    min_side: int = 1024
    max_distance: int = 4
    num_threads: int = 4


@dataclass(frozen=True)
class AnnotateSettings:
    """Who says what is in the pictures: exactly one of a model and a file.

    Attributes:
        vlm: a vision-language model.
        file: lines {image, tags}: the picture's id, `source/member`, member or file name, and tags in the schema of
            :class:`data_build.mdmr.tags.Tags`.
        limit: ask about so many more pictures at most.
        parameters: how replies are sampled; greedy, of at most 2048 tokens, by default. The schema is added.
        batch_size: pictures at once.
    """

    vlm: VLM | None = None
    file: Path | None = None
    limit: int | None = None
    parameters: GenerationParameters | None = None
    batch_size: int = 8


@dataclass(frozen=True)
class SampleSettings:
    """How samples are drawn.

    Attributes:
        buckets: YAML files of buckets, or folders of them.
        samples: of each bucket, in place of what the files say; more than are wanted where later stages leave some out.
        max_uses: samples that a picture may be in.
        num_pairs: at most so many samples get a second one, of the synthetic pictures that were made from their own.
        seed: of all that is drawn by lot.
    """

    buckets: list[Path] = field(default_factory=list)
    samples: int | None = None
    max_uses: int = 3
    num_pairs: int = 100
    seed: int = 0


@dataclass(frozen=True)
class InstructSettings:
    """How samples are asked about.

    Attributes:
        vlm: the model that is asked.
        parameters: how replies are sampled; greedy, of at most 1024 tokens, by default. The schema is added.
        batch_size: samples at once.
    """

    vlm: VLM | None = None
    parameters: GenerationParameters | None = None
    batch_size: int = 8

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.batch_size < 1:
            raise UserError(f"expected instruct.batch_size >= 1, got {self.batch_size}")


@dataclass(frozen=True)
class FilterSettings:
    """What people decided.

    Attributes:
        reviews: files; none for no filter.
        num_reviewers: people who must have kept a sample at least, where there are files.
    """

    reviews: list[Path] = field(default_factory=list)
    num_reviewers: int = 1


@dataclass(frozen=True)
class BlindSettings:
    """What becomes of questions that their words alone answer.

    Attributes:
        action: "drop" them, "flag" them in `questions.jsonl` and keep them, or "off": do not ask.
        confidence: least probability of the expected answer in each of the four ways.
    """

    action: Literal["drop", "flag", "off"] = "drop"
    confidence: float = 0.9

    def __post_init__(self) -> None:
        """Refuse what is no confidence: at one half, guesses would pass."""
        if not 0.5 < self.confidence <= 1:
            raise UserError(f"expected checklists.blind.confidence in (0.5, 1], got {self.confidence}")


@dataclass(frozen=True)
class ChecklistSettings:
    """How checklists are written and checked.

    Attributes:
        vlm: the model that is asked, with the references and without any picture.
        parameters: how replies are sampled; greedy, of at most 8192 tokens, by default. The schema is added.
        num_questions: about so many are asked for each case; the paper has 29.6 on average.
        overlap: share of common words from which two questions ask the same; above 1 for never.
        blind: what becomes of questions that their words alone answer.
        batch_size: cases, and questions without pictures, at once.
    """

    vlm: VLM | None = None
    parameters: GenerationParameters | None = None
    num_questions: int = 30
    overlap: float = DEFAULT_OVERLAP
    blind: BlindSettings = field(default_factory=BlindSettings)
    batch_size: int = 8

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.num_questions < 5 or self.batch_size < 1 or self.overlap <= 0:
            raise UserError(
                "expected checklists.num_questions >= 5, one a dimension, checklists.batch_size >= 1 and "
                f"checklists.overlap > 0, got {self.num_questions}, {self.batch_size} and {self.overlap}"
            )


@dataclass(frozen=True)
class DatasetSettings:
    """How the benchmark is written.

    Attributes:
        split: of all cases.
    """

    split: Split = "test"
