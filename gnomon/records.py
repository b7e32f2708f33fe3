"""The nouns of Gnomon: every record that is written to or read from a file, as pydantic models.

This is the only place where bytes become objects. A record refuses unknown keys, so a misspelt field is an
error at the line where it stands and never a default that nobody asked for. Paths inside records are relative
POSIX paths below the folder that holds the record's file; :mod:`gnomon.datasets` enforces that.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

Label = Literal["i", "j", "tie", "tie_good", "tie_bad"]
Split = Literal["train", "validation", "test"]
Status = Literal[
    "ok",
    "parse_error",
    "out_of_range",
    "truncated",
    "refused",
    "api_error",
    "missing_output",
    "unreadable_image",
    "not_applicable",
]

CLEAN_SOURCE = "clean_source"
"""Role of a reference that judges see and generators do not: the source without the marks that the edit goes by."""


class Record(BaseModel):
    """Base of all records: frozen, no unknown keys, no NaN or infinity."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Text(Record):
    """A text in the languages that it exists in; at least one of them."""

    en: str | None = None
    zh: str | None = None

    @model_validator(mode="after")
    def _one_language(self) -> Text:
        if not (self.en or self.zh):
            raise ValueError("expected a text under 'en' or 'zh', got neither")
        return self

    def get(self, language: str) -> str:
        """Return the text in `language` ("en" or "zh"), or in the other one where it is missing.

        Raises:
            ValueError: for a language other than "en" and "zh".
        """
        if language not in ("en", "zh"):
            raise ValueError(f"expected language 'en' or 'zh', got {language!r}")
        preferred, other = (self.en, self.zh) if language == "en" else (self.zh, self.en)
        return preferred or other or ""


class Reference(Record):
    """One picture that the instruction refers to: the source of an edit, an identity, an object, a style."""

    path: str
    role: str = "source"
    name: str | None = None
    attributes: dict[str, str] = Field(default_factory=dict)


class Question(Record):
    """A yes/no item of a checklist.

    `about` names what it tests, such as a reference or an attribute of one. It makes sense only where the questions of
    the same checklist that `depends_on` names are answered as expected.
    """

    id: str = Field(min_length=1)
    text: Text
    level: Literal["global", "atomic"] = "atomic"
    dimension: str
    expected: bool = True
    about: list[str] = Field(default_factory=list)
    depends_on: list[str] = Field(default_factory=list)


class Case(Record):
    """One task for a generator: an instruction, 0..n references, and the metrics and questions that apply.

    Questions are for judges alone; their ids are unique within the case.
    """

    id: str = Field(min_length=1)
    benchmark: str
    task: str
    subtask: str | None = None
    instruction: Text
    references: list[Reference] = Field(default_factory=list)
    metrics: list[str] = Field(default_factory=list)
    questions: list[Question] = Field(default_factory=list)
    hints: dict[str, str] = Field(default_factory=dict)
    split: Split | None = None
    meta: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _questions_are_told_apart(self) -> Case:
        ids = [question.id for question in self.questions]
        if len(set(ids)) < len(ids):
            twice = sorted({name for name in ids if ids.count(name) > 1})
            raise ValueError(f"expected questions with ids of their own, got several of {', '.join(twice)}")
        unknown = sorted({name for question in self.questions for name in question.depends_on} - set(ids))
        if unknown:
            raise ValueError(f"expected questions that depend on others of the case, got {', '.join(unknown)}")
        return self


class Candidate(Record):
    """One generated image and how it was made. `path` is None where the generator failed; `status` says how."""

    case_id: str = Field(min_length=1)
    generator: str
    seed: int
    path: str | None
    status: Status = "ok"
    sampling: dict[str, Any] = Field(default_factory=dict)


class Judgement(Record):
    """A preference between two candidates of one comparison, in one dimension.

    `i` and `j` are positions in `Comparison.candidates`; `label` says which of the two is better, or what kind
    of tie it is. `margin` (>= 0) says by how much, `votes` how many annotators chose each label.
    """

    i: int = Field(ge=0)
    j: int = Field(ge=0)
    dimension: str
    label: Label
    votes: dict[str, int] | None = None
    margin: float | None = Field(default=None, ge=0)


class ComparedImage(Record):
    """One side of a comparison: an image, who made it and, where they exist, its absolute scores."""

    path: str
    generator: str | None = None
    scores: dict[str, float] = Field(default_factory=dict)


class Comparison(Record):
    """2..K candidates of one instruction with the judgements between them.

    `group_id` names what must be resampled together in a cluster bootstrap: pairs of one instruction and one
    set of references share it.
    """

    id: str = Field(min_length=1)
    instruction: Text
    references: list[Reference] = Field(default_factory=list)
    candidates: list[ComparedImage] = Field(min_length=2)
    judgements: list[Judgement] = Field(min_length=1)
    group_id: str = Field(min_length=1)
    task: str | None = None
    split: Split | None = None
    source: str | None = None
    licence: str | None = None
    meta: dict[str, Any] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _judgements_point_at_candidates(self) -> Comparison:
        count = len(self.candidates)
        for judgement in self.judgements:
            if judgement.i == judgement.j or max(judgement.i, judgement.j) >= count:
                raise ValueError(
                    f"expected judgements between two different candidates 0..{count - 1}, "
                    f"got i={judgement.i}, j={judgement.j}"
                )
        return self


class Verdict(Record):
    """One answer of one judge about one candidate: a metric or a question.

    `value` is None exactly when `status` is not "ok": a failure is a status, never a number. `served_by` is a server's
    own word for the model that answered, where the judge is behind one that gives it.
    """

    case_id: str
    generator: str
    seed: int = 0
    metric: str
    value: float | None
    status: Status = "ok"
    question_id: str | None = None
    rationale: str | None = None
    raw: str | None = None
    judge: str
    prompt_hash: str | None = None
    image_hashes: list[str] = Field(default_factory=list)
    seconds: float | None = None
    served_by: str | None = None

    @model_validator(mode="after")
    def _value_only_when_ok(self) -> Verdict:
        if (self.value is None) == (self.status == "ok"):
            raise ValueError(
                f"expected a value exactly when status is 'ok', got value={self.value}, status={self.status!r}"
            )
        return self
