"""A judge of questions that answers by rule, and cases of every family of MDMR-Bench whose texts are an attack."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from gnomon.datasets import write_records
from gnomon.hashing import stable_hash, stable_seed
from gnomon.images import save_png
from gnomon.records import Case, Question, Reference, Status, Text, Verdict
from rm.judge import JudgeRequest

Answer = bool | float | Status


class RuleJudge:
    """Answers each question about each picture as a function says: what is seen, a probability, or a failure."""

    asks_questions = True
    metrics: tuple[str, ...] = ()

    def __init__(self, name: str, rule: Callable[[JudgeRequest], Answer]) -> None:
        self.name, self.rule = name, rule
        self.fingerprint = stable_hash(["rule", name])

    @classmethod
    def of_table(cls, name: str, table: Mapping[tuple[str, str, int, str], Answer]) -> RuleJudge:
        """Answer by generator, case id, seed and question."""
        return cls(
            name,
            lambda asked: table[asked.candidate.generator, asked.case.id, asked.candidate.seed, asked.metric],
        )

    def judge(self, requests: Sequence[JudgeRequest]) -> list[Verdict]:
        """Answer each request."""
        return [self._verdict(request) for request in requests]

    def _verdict(self, request: JudgeRequest) -> Verdict:
        answer = self.rule(request)
        return Verdict(
            case_id=request.case.id,
            generator=request.candidate.generator,
            seed=request.candidate.seed,
            metric=request.metric,
            question_id=request.metric,
            value=None if isinstance(answer, str) else float(answer),
            status=answer if isinstance(answer, str) else "ok",
            rationale=f"because of <b>{request.metric}</b>",
            judge=self.fingerprint,
        )


ATTACK = "<script>document.title = 'run'</script> \"make\" it & <img src=x onerror=alert(1)> brighter"
FAMILIES = {
    "entity_fusion": ("people", "objects"),
    "attribute_transfer": ("texture", "hair"),
    "multi_element_extraction": ("multi_element_extraction",),
    "infographic_manipulation": ("addition", "font_change"),
    "visual_reasoning": ("logical_state", "analogical_layout"),
}
DIMENSIONS = ("following", "consistency", "composition", "minimality", "quality")


def checklist(number: int) -> list[Question]:
    """Eight questions; a case of an odd number has none on minimality."""
    texts = [f"Is the hat of person {k} {ATTACK}?" for k in range(8)]
    return [
        Question(
            id=f"{dimension}-{k}",
            text=Text(en=texts[k], zh="图中有帽子吗？"),
            level="global" if k % 3 == 0 else "atomic",
            dimension=dimension,
            expected=k != 3,
            about=[("instruction", "reference-1", "reference-1.color")[k % 3]],
            depends_on=["following-0"] if k == 6 else [],
        )
        for k, dimension in enumerate((*DIMENSIONS, *DIMENSIONS[:3]))
        if dimension != "minimality" or number % 2 == 0
    ]


def seen(request: JudgeRequest) -> bool | Status:
    """Answer by chance, better for the second generator; some questions are refused."""
    draw = stable_seed(request.candidate.generator, request.case.id, request.candidate.seed, request.metric) % 100
    if draw < 6:
        return "refused"
    (question,) = (one for one in request.case.questions if one.id == request.metric)
    is_right = draw < (60 if request.candidate.generator == "bright" else 85)
    return question.expected == is_right


def write_cases(root: Path) -> None:
    """Write two cases of each sub-task, of one to three references; every second one has a synthetic twin as a pair."""
    cases = []
    places = [(family, subtask) for family, subtasks in FAMILIES.items() for subtask in subtasks for _ in range(2)]
    for position, (family, subtask) in enumerate(places):
        noise = np.random.default_rng(position).integers(0, 150, (96, 144, 3), dtype=np.uint8)
        paths = [f"images/{position}_{number}.png" for number in range(1 + position % 3)]
        for path in paths:
            save_png(Image.fromarray(noise), root / path)
        cases.append(
            Case(
                id=f"<case> '{position}'",
                benchmark="mdmr-bench",
                task=family,
                subtask=subtask,
                instruction=Text(en=f"{ATTACK} {position}", zh="让它更亮"),
                references=[Reference(path=path, role="person", name='a "name"') for path in paths],
                questions=checklist(position),
                meta={"reference_origin": ("real", "synthetic")[position % 2], "pair_id": f"pair {position // 2}"},
            )
        )
    write_records(root / "cases.jsonl", cases)
