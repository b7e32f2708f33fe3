"""The settings of each stage, as a config has them; nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from bench.cogcanvas.cases import REFERENCE_GENERATION
from data_build.cogcanvas.vocabulary import Role
from gnomon.errors import UserError
from gnomon.records import Split
from rm.vlm.conversation import VLM, GenerationParameters


class PictureVectors(Protocol):
    """Pictures to vectors, such as :class:`bench.evaluators.vision.embedding.DinoEmbedder`.

    Annotated by `Any` where jsonargparse compares annotations, see :class:`bench.cli.AnyGenerator`.
    """

    name: str

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the answer depends on."""

    def embed(self, images: Any) -> Any:
        """Return a vector for each picture [pictures, dimensions], NaN where there is nothing to compare."""


class TextPictureVectors(PictureVectors, Protocol):
    """Texts and pictures to vectors in one space, such as :class:`bench.evaluators.text_image.TextImageEmbedder`."""

    def embed_texts(self, texts: Any) -> Any:
        """Return a vector for each text [texts, dimensions]."""


class AestheticScorer(Protocol):
    """A picture to how much people like to look at it, on the scorer's own scale: a predictor of aesthetics."""

    name: str

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the answer depends on."""

    def score(self, image: Any) -> Any:
        """Return the picture's number."""


class Faces(Protocol):
    """Finds faces, such as :class:`bench.evaluators.faces.mtcnn.MtcnnDetector`."""

    name: str

    @property
    def fingerprint(self) -> str:
        """A hash of everything that the answer depends on."""

    def detect(self, image: Any) -> Any:
        """Return the faces in a picture."""


@dataclass(frozen=True)
class ManifestSettings:
    """Where the references are.

    Attributes:
        files: manifests, see :class:`data_build.cogcanvas.entries.ManifestEntry`.
        folder: below which the paths of manifests are; a manifest's own by default.
        max_bytes: of one file.
        timeout: seconds for one file, names and redirects included.
        max_redirects: of one file.
        concurrency: files that are fetched at once.
    """

    files: list[Path] = field(default_factory=list)
    folder: Path | None = None
    max_bytes: int = 50 * 2**20
    timeout: float = 60.0
    max_redirects: int = 5
    concurrency: int = 8

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.concurrency < 1:
            raise UserError(f"expected manifest.concurrency >= 1, got {self.concurrency}")


@dataclass(frozen=True)
class NearDuplicates:
    """Of pictures that are nearly the same, one stays.

    Attributes:
        backend: whose vectors are compared.
        cosine: from which two are nearly the same, on this backend's scale; the paper has .90 for DINOv2.
        roles: among which it is looked for; objects and fashion items are compared with each other as well.
    """

    backend: PictureVectors
    cosine: float
    roles: list[Role] = field(default_factory=lambda: ["object", "fashion"])


@dataclass(frozen=True)
class AestheticFilter:
    """Pictures that few would like to look at are left out.

    Attributes:
        backend: who says so.
        minimum: on its scale; the paper has 5.0 for the predictor v2.5.
        roles: of pictures that are looked at.
    """

    backend: AestheticScorer
    minimum: float
    roles: list[Role] = field(default_factory=lambda: ["object", "fashion"])


@dataclass(frozen=True)
class TextPictureFilter:
    """Pictures that do not show what they are called are left out.

    Attributes:
        backend: whose vectors are compared.
        minimum: cosine of picture and name, on this backend's scale; the paper has .25 for CLIP ViT-L/14.
        roles: of pictures that are looked at.
    """

    backend: TextPictureVectors
    minimum: float
    roles: list[Role] = field(default_factory=lambda: ["object", "fashion"])


@dataclass(frozen=True)
class CurateSettings:
    """Which pictures are used. A check without a backend is not made, and the report says so.

    Attributes:
        near_duplicates: see :class:`NearDuplicates`.
        aesthetic: see :class:`AestheticFilter`.
        text_picture: see :class:`TextPictureFilter`.
        faces: finds faces, for which a background is left out.
        min_side: shorter side of a background, in pixels.
        reviews: files of people who looked through `review.csv`; what one of them takes out is left out.
    """

    near_duplicates: NearDuplicates | None = None
    aesthetic: AestheticFilter | None = None
    text_picture: TextPictureFilter | None = None
    faces: Faces | None = None
    min_side: int = 1024
    reviews: list[Path] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.min_side < 1:
            raise UserError(f"expected curate.min_side >= 1, got {self.min_side}")


@dataclass(frozen=True)
class AttributesSettings:
    """Who says what references are like.

    Attributes:
        vlm: the model that is asked about entries without attributes; None where all have them.
        parameters: how replies are sampled; greedy, of at most 1024 tokens, by default. The schema is added.
        batch_size: pictures at once.
        audits: files of annotators who filled in `audit.csv`; see :mod:`data_build.cogcanvas.audit`.
    """

    vlm: VLM | None = None
    parameters: GenerationParameters | None = None
    batch_size: int = 8
    audits: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class SampleSettings:
    """How scenes are drawn.

    Attributes:
        num: scenes; the paper keeps 1,361 of about 4,000.
        seed: of all that is drawn by lot.
    """

    num: int = 1361
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.num < 1:
            raise UserError(f"expected sample.num >= 1, got {self.num}")


@dataclass(frozen=True)
class WriteSettings:
    """How prompts are written.

    Attributes:
        vlm: the model that is asked.
        parameters: how replies are sampled; greedy, of at most 1024 tokens, by default. The schema is added.
        batch_size: scenes at once.
        max_attempts: drafts of one scene, at most; each is told what was wrong with those before.
    """

    vlm: VLM | None = None
    parameters: GenerationParameters | None = None
    batch_size: int = 8
    max_attempts: int = 5

    def __post_init__(self) -> None:
        """Refuse numbers out of range."""
        if self.max_attempts < 1 or self.batch_size < 1:
            raise UserError(
                f"expected write.max_attempts >= 1 and write.batch_size >= 1, got {self.max_attempts} "
                f"and {self.batch_size}"
            )


@dataclass(frozen=True)
class VerifySettings:
    """How prompts are checked.

    Attributes:
        vlm: the model that is asked.
        parameters: how replies are sampled; greedy, of at most 512 tokens, by default. The schema is added.
        batch_size: questions at once.
        overrides: files of people who overrule the model, or take a scene out.
    """

    vlm: VLM | None = None
    parameters: GenerationParameters | None = None
    batch_size: int = 8
    overrides: list[Path] = field(default_factory=list)


@dataclass(frozen=True)
class GraphSettings:
    """How graphs are completed; there is nothing to set."""


@dataclass(frozen=True)
class QuestionSettings:
    """Which questions there are.

    Attributes:
        negated: whether there are also questions whose answer is no, so that a judge that always says yes is seen.
    """

    negated: bool = False


@dataclass(frozen=True)
class DatasetSettings:
    """How the benchmark is written.

    Attributes:
        split: of all cases.
        tasks: "reference_generation", and "text_to_image" for the same scenes without references.
        prompts: a released `prompts.jsonl`, to be used with this build's references in place of scenes of its own.
    """

    split: Split = "test"
    tasks: Sequence[Literal["reference_generation", "text_to_image"]] = (REFERENCE_GENERATION,)  # type: ignore[assignment]
    prompts: Path | None = None
