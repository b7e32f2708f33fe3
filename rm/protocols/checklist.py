"""A judge that answers the yes/no questions of a checklist in words: with a short reason, or by one word alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, Protocol

from gnomon.hashing import stable_hash
from gnomon.records import Question, Verdict
from rm.judge import JudgeRequest
from rm.pictures import Pictures
from rm.protocols.asking import READING_VERSION, Asked, Outcome, Shell, applying, read_reply, single_outcome
from rm.protocols.parsing import Parsed, read_checklist, read_one_word
from rm.protocols.templates import compose, load_form, quoted, text_hash
from rm.vlm.conversation import VLM, Conversation, GenerationParameters, Reply

FormName = Literal["checklist", "yes_no"]


@dataclass(frozen=True)
class ChecklistForm:
    """How a question of a checklist is put.

    Attributes:
        form: "checklist" asks for a JSON object with a reason, "yes_no" for one word.
        language: of the texts, "en" or "zh".
        look: whether the pictures are shown; without them, what is asked for is a guess.
    """

    form: FormName = "checklist"
    language: str = "en"
    look: bool = True

    @property
    def texts(self) -> dict[str, str]:
        """The form's words."""
        return load_form(self.form if self.look else f"{self.form}_text_only", self.language)

    @property
    def note(self) -> str:
        """What a judge's name says of it."""
        return "" if self.look else ", text only"

    def prompt_hash(self, question: Question) -> str:
        """Return a hash of all words but the instruction."""
        return text_hash(self.texts, {"question": question.text.get(self.language)})

    def build(self, instruction: str, question: str, pictures: Pictures) -> Conversation:
        """Return the question about one picture; it comes last, so that all questions about a picture begin alike."""
        return compose(
            self.texts,
            language=self.language,
            references=pictures.references,
            candidates=pictures.candidates,
            values={"instruction": quoted(instruction), "question": quoted(question)},
        )

    def read(self, reply: Reply) -> Parsed[float]:
        """Return 1.0 for yes and 0.0 for no."""
        parsed = _one_word(reply) if self.form == "yes_no" else applying(read_reply(reply, read_checklist))
        value = None if parsed.value is None else float(parsed.value)
        return Parsed(value, parsed.status, parsed.level, parsed.rationale, parsed.problem)


def _one_word(reply: Reply) -> Parsed[bool]:
    """Read one word, also where the reply was cut behind it, as it is where it may have no more than two tokens."""
    if reply.status not in ("ok", "truncated"):
        return Parsed(None, reply.status, problem=reply.error)
    return read_one_word(reply.text)


def question_of(request: JudgeRequest) -> Question:
    """Return the question of its case that a request names as the metric.

    Raises:
        KeyError: when the case does not have it.
    """
    for question in request.case.questions:
        if question.id == request.metric:
            return question
    raise KeyError(request.metric)


def question_problem(request: JudgeRequest) -> str | None:
    """Say that a request is about a question that its case does not have."""
    if any(question.id == request.metric for question in request.case.questions):
        return None
    return f"case {request.case.id!r} has no question {request.metric!r}"


class ChecklistJudge:
    """Answers the questions of cases in words: with a reason, or by yes or no alone.

    A request names one of its case's questions as the metric. The value is what was seen, 1.0 for yes and 0.0 for no,
    whatever answer the question expects.

    Args:
        vlm: whom to ask.
        parameters: how replies are drawn.
        form: "checklist" asks for a reason and an answer; "yes_no" for one word, of which the first tokens are enough.
        language: of the questions and the instruction.
        look: False shows no picture. What is answered by the texts alone is no answer about the picture, hence a
            yardstick for judges that look.
        name: for people.
        batch_size: requests whose pictures are in memory together.
    """

    asks_questions = True
    metrics: tuple[str, ...] = ()

    def __init__(
        self,
        vlm: VLM,
        *,
        parameters: GenerationParameters | None = None,
        form: FormName = "checklist",
        language: str = "en",
        look: bool = True,
        name: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.vlm, self.form = vlm, ChecklistForm(form, language, look)
        self.parameters = parameters or GenerationParameters()
        kind = {"checklist": "checklist", "yes_no": "yes or no in a word"}[form]
        self.name, self.batch_size = name or f"{kind}{self.form.note} ({vlm.name})", batch_size

    @property
    def looks(self) -> bool:
        """Whether the pictures are shown."""
        return self.form.look

    @property
    def texts(self) -> dict[str, str]:
        """The words that questions are put in, with places for instruction and question."""
        return self.form.texts

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.vlm.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, form and sampling; the question's own words are in a verdict's prompt hash."""
        asked = [self.form.texts, self.form.language, asdict(self.parameters)]
        return stable_hash(["checklist", READING_VERSION, self.vlm.fingerprint, asked])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return checklist_shell(self, self._answer).judge(requests)

    def _answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        replies = self.vlm.generate(build_all(asked, self.form), self.parameters)
        return [single_outcome(reply, self.form.read(reply)) for reply in replies]


def build_all(asked: Sequence[Asked], form: ChecklistForm) -> list[Conversation]:
    """Return the conversation of each request."""
    return [
        form.build(
            item.request.case.instruction.get(form.language),
            question_of(item.request).text.get(form.language),
            item.pictures,
        )
        for item in asked
    ]


class _QuestionJudge(Protocol):
    """A judge of questions."""

    form: ChecklistForm
    batch_size: int

    @property
    def fingerprint(self) -> str: ...

    @property
    def max_concurrency(self) -> int: ...


def checklist_shell(judge: _QuestionJudge, answer: Callable[[Sequence[Asked]], list[Outcome]]) -> Shell:
    """Return what turns requests to a judge of questions into verdicts."""
    return Shell(
        judge.fingerprint,
        problem=question_problem,
        prompt_hash=lambda request: judge.form.prompt_hash(question_of(request)),
        answer=answer,
        question_id=lambda request: request.metric,
        batch_size=judge.batch_size,
        max_concurrency=judge.max_concurrency,
        looks=judge.form.look,
    )
