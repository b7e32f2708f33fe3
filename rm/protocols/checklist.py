"""A judge that answers the yes/no questions of a checklist in words, with a short reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Protocol

from gnomon.hashing import stable_hash
from gnomon.records import Question, Verdict
from rm.judge import JudgeRequest
from rm.pictures import Pictures
from rm.protocols.asking import READING_VERSION, Asked, Outcome, Shell, read_reply, single_outcome
from rm.protocols.parsing import Parsed, read_checklist
from rm.protocols.templates import compose, load_form, quoted, text_hash
from rm.vlm.conversation import VLM, Conversation, GenerationParameters, Reply


@dataclass(frozen=True)
class ChecklistForm:
    """How a question of a checklist is put.

    Attributes:
        form: "checklist" asks for a JSON object with a reason, "yes_no" for one word.
        language: of the texts, "en" or "zh".
    """

    form: str = "checklist"
    language: str = "en"

    def prompt_hash(self, question: Question) -> str:
        """Return a hash of all words but the instruction."""
        return text_hash(load_form(self.form, self.language), {"question": question.text.get(self.language)})

    def build(self, instruction: str, question: str, pictures: Pictures) -> Conversation:
        """Return the question about one picture; it comes last, so that all questions about a picture begin alike."""
        return compose(
            load_form(self.form, self.language),
            language=self.language,
            references=pictures.references,
            candidates=pictures.candidates,
            values={"instruction": quoted(instruction), "question": quoted(question)},
        )

    def read(self, reply: Reply) -> Parsed[float]:
        """Return 1.0 for yes and 0.0 for no."""
        parsed = read_reply(reply, read_checklist)
        value = None if parsed.value is None else float(parsed.value)
        return Parsed(value, parsed.status, parsed.level, parsed.rationale, parsed.problem)


class Checklist:
    """The questions of a benchmark: which case has which.

    A request asks for a question by its id, as the metric. The value of an answer is what was seen, 1.0 for yes and 0.0
    for no, whatever answer the question expects.

    Args:
        questions: by case id.
    """

    def __init__(self, questions: Mapping[str, Sequence[Question]]) -> None:
        self._by_case = {case: {question.id: question for question in asked} for case, asked in questions.items()}
        self.ids = tuple(dict.fromkeys(name for asked in self._by_case.values() for name in asked))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all questions."""
        return stable_hash(self._by_case)

    def get(self, request: JudgeRequest) -> Question:
        """Return the question that a request is about.

        Raises:
            KeyError: when the case does not have it.
        """
        return self._by_case[request.case.id][request.metric]

    def problem(self, request: JudgeRequest) -> str | None:
        """Say that the case does not have the question."""
        if request.metric in self._by_case.get(request.case.id, {}):
            return None
        return f"case {request.case.id!r} has no question {request.metric!r}"


class ChecklistJudge:
    """Answers questions with a reason; the value is 1.0 for yes and 0.0 for no.

    Args:
        vlm: whom to ask.
        questions: by case id; a request names one of its case's questions as the metric.
        parameters: how replies are drawn.
        language: of the questions and the instruction.
        name: for people.
        batch_size: requests whose pictures are in memory together.
    """

    def __init__(
        self,
        vlm: VLM,
        questions: Mapping[str, Sequence[Question]],
        *,
        parameters: GenerationParameters | None = None,
        language: str = "en",
        name: str | None = None,
        batch_size: int = 64,
    ) -> None:
        self.vlm, self.checklist, self.form = vlm, Checklist(questions), ChecklistForm("checklist", language)
        self.parameters = parameters or GenerationParameters()
        self.name, self.metrics, self.batch_size = name or f"checklist ({vlm.name})", self.checklist.ids, batch_size

    @property
    def max_concurrency(self) -> int:
        """How many questions the model can work on at once."""
        return self.vlm.max_concurrency

    @cached_property
    def fingerprint(self) -> str:
        """Hash of model, form, questions and sampling."""
        form = load_form(self.form.form, self.form.language)
        asked = [form, self.form.language, self.checklist.fingerprint, asdict(self.parameters)]
        return stable_hash(["checklist", READING_VERSION, self.vlm.fingerprint, asked])

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Return one verdict per request, in order."""
        return checklist_shell(self, self._answer).judge(requests)

    def _answer(self, asked: Sequence[Asked]) -> list[Outcome]:
        replies = self.vlm.generate(build_all(asked, self.checklist, self.form), self.parameters)
        return [single_outcome(reply, self.form.read(reply)) for reply in replies]


def build_all(asked: Sequence[Asked], checklist: Checklist, form: ChecklistForm) -> list[Conversation]:
    """Return the conversation of each request."""
    return [
        form.build(
            item.request.case.instruction.get(form.language),
            checklist.get(item.request).text.get(form.language),
            item.pictures,
        )
        for item in asked
    ]


class _QuestionJudge(Protocol):
    """A judge of questions."""

    checklist: Checklist
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
        problem=judge.checklist.problem,
        prompt_hash=lambda request: judge.form.prompt_hash(judge.checklist.get(request)),
        answer=answer,
        question_id=lambda request: request.metric,
        batch_size=judge.batch_size,
        max_concurrency=judge.max_concurrency,
    )
