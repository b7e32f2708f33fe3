"""An author by rule: reads what it is asked as any model does, and writes instructions and checklists by it.

It sees no pixels, only how many pictures there are; names and roles of references stand in the question.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.mdmr.cases import REASONING
from data_build.mdmr.asking import PACKAGE
from data_build.texts import load_texts
from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply
from rm.vlm.scripted import prompt_text

_TEXTS = load_texts(PACKAGE, "instruct")
_ROLES = {
    text: role for roles in (_TEXTS["roles"], *_TEXTS["roles_of_families"].values()) for role, text in roles.items()
}
_LINE = re.compile(rf"Reference (\d+) is ({'|'.join(map(re.escape, _ROLES))})(?: \((.*)\))?\.$", re.MULTILINE)
_ZH = {
    **{"person": "人物", "animal": "动物", "object": "物品", "scene": "场景", "text": "文字", "outfit": "服装"},
    **{"decoration": "装饰", "attribute": "属性", "target": "主体", "elements": "元素", "source": "设计"},
    **{"before": "变化前的样子", "after": "变化后的样子", "query": "对象"},
}
_KEPT_AS_IT_IS = ("person", "animal", "object", "scene", "text", "outfit", "decoration", "elements")
_SHOWN_IN_THE_RESULT = (*_KEPT_AS_IT_IS, "target", "source", "query")
KNOWN_WITHOUT_LOOKING = {"en": "Does a triangle have three sides?", "zh": "三角形有三条边吗？"}


@dataclass(frozen=True)
class Shown:
    """A reference as a question speaks of it: its number and role, a name and attributes."""

    number: int
    role: str
    name: str
    attributes: dict[str, str]

    @property
    def en(self) -> str:
        """Words for it."""
        return f"the {self.name} of reference {self.number}"

    @property
    def zh(self) -> str:
        """Words for it."""
        return f"参考图{self.number}的{_ZH[self.role]}"


class Author:
    """Writes what is asked for.

    Args:
        name: for people.
        invalid: part of a question; samples with it are no good cases.
        broken: part of a question; it is answered by nonsense.
        faults: whether every checklist also holds questions that cannot serve, one of each kind.
        blind: how questions without a picture are answered: as somebody who thinks, or always by yes, or not at all.
        delay: seconds for each reply.
    """

    def __init__(
        self,
        name: str = "author",
        *,
        invalid: str | None = None,
        broken: str | None = None,
        faults: bool = False,
        blind: str = "thinks",
        delay: float = 0.0,
    ) -> None:
        self.name, self.invalid, self.broken, self.faults = name, invalid, broken, faults
        self.blind, self.delay = blind, delay
        self.fingerprint = f"author {name}"
        self.max_concurrency = 1
        self.num_written = 0
        self.num_blind = 0

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Write an instruction or a checklist for each conversation."""
        return [self._reply(prompt_text(conversation)) for conversation in conversations]

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Answer questions about pictures that cannot be seen."""
        return [self._choice(prompt_text(conversation), choices) for conversation in conversations]

    def _reply(self, text: str) -> Reply:
        time.sleep(self.delay)
        self.num_written += 1
        if self.broken is not None and self.broken in text:
            return Reply("Let me think about that.", finish_reason="stop")
        shown = read_roles(text)
        if "Check first whether" not in text:
            return _json({"checklist": write_questions(shown) + (write_faults(shown) if self.faults else [])})
        if self.invalid is not None and self.invalid in text:
            reason = "They do not go together."
            return _json({"case": {"valid": False, "problem": "no_fit", "reason": reason, "en": None, "zh": None}})
        english, chinese = write_instruction(text, shown)
        case = {"valid": True, "problem": None, "reason": "They go together.", "en": english, "zh": chinese}
        return _json({"case": case})

    def _choice(self, text: str, choices: Sequence[str]) -> ChoiceScores:
        self.num_blind += 1
        if self.blind == "fails":
            return ChoiceScores(None, "api_error", "no answer")
        follows = _frame("followed") in text
        says_yes = KNOWN_WITHOUT_LOOKING["en"] in text or follows
        if load_texts(PACKAGE, "blind")["asked"]["opposite"] in text:
            says_yes = not says_yes
        if self.blind == "always_yes":
            says_yes = True
        yes = [choice for choice in choices if choice.strip().lower() == "yes"]
        return ChoiceScores(
            {
                choice: math.log(0.98 / len(yes) if (choice in yes) == says_yes else 0.02 / (len(choices) - len(yes)))
                for choice in choices
            }
        )


def _frame(name: str) -> str:
    return str(load_texts(PACKAGE, "blind")["frames"][name])


def _json(value: Any) -> Reply:
    return Reply(json.dumps(value, ensure_ascii=False), finish_reason="stop")


def read_roles(text: str) -> list[Shown]:
    """Return the references that a question speaks of."""
    shown = []
    for number, role_text, known in _LINE.findall(text):
        words = [json.loads(word) for word in re.findall(r'"(?:[^"\\]|\\.)*"', known)]
        attributes = dict(word.split(": ", 1) for word in words if ": " in word)
        role = _ROLES[role_text]
        name = next((word for word in words if ": " not in word), role)
        shown.append(
            Shown(int(number), role, name, {key.replace(" ", "_"): value for key, value in attributes.items()})
        )
    return shown


def write_instruction(text: str, shown: Sequence[Shown]) -> tuple[str, str]:
    """Return an instruction in both languages for what is said of a sample."""
    family = next(name for name, words in _TEXTS["families"].items() if words in text)
    all_en, all_zh = " and ".join(one.en for one in shown), "和".join(one.zh for one in shown)
    if family == "entity_fusion":
        return (
            f"Put {all_en} together in one picture; each looks as it does there.",
            f"把{all_zh}放在同一张图里，各自保持原样。",
        )
    if family == "attribute_transfer":
        target = next((one for one in shown if one.role == "target"), shown[0])
        others = [one for one in shown if one is not target]
        what = " and ".join(
            f"{next(iter(one.attributes), 'look').replace('_', ' ')} of reference {one.number}" for one in others
        )
        return (
            f"Give {target.en} the {what}; everything else of it stays.",
            f"把{'和'.join(one.zh for one in others)}用到{target.zh}上，其余不变。",
        )
    if family == "multi_element_extraction":
        return (
            "Take two of the things in reference 1 and show them side by side on white.",
            "取出参考图1中的两样东西，并排放在白色背景上。",
        )
    if family == "infographic_manipulation":
        operation = next(name for name, words in _TEXTS["subtasks"].items() if words in text and name not in REASONING)
        lent = " and ".join(one.en for one in shown[1:]) or "your own words"
        return (
            f"Use {lent} for a {operation.replace('_', ' ')} of {shown[0].en}; the rest of the design stays.",
            f"用{'和'.join(one.zh for one in shown[1:])}修改{shown[0].zh}，其余不变。",
        )
    if any(one.role == "before" for one in shown):
        return (
            f"Make the change between references 1 and 2 to {shown[-1].en}.",
            f"把参考图1到参考图2的变化用到{shown[-1].zh}上。",
        )
    return f"Show what follows from {all_en}.", f"画出由{all_zh}推出的结果。"


def write_questions(shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """Return questions in all five dimensions, on both levels; what only lends something is not to be seen itself."""
    questions = []
    for one in shown:
        link = f"reference-{one.number}"
        if one.role in _SHOWN_IN_THE_RESULT:
            size = f"Is {one.en} of a fitting size?", f"{one.zh}的大小合适吗？"
            additions = f"Is {one.en} free of additions?", f"{one.zh}没有多余的东西吗？"
            questions += [
                _question("following", "atomic", [link], f"Can {one.en} be seen?", f"能看到{one.zh}吗？"),
                _question("composition", "atomic", [link], *size),
                _question("minimality", "atomic", [link], *additions),
            ]
        if one.role in _KEPT_AS_IT_IS:
            shape = f"Has {one.en} kept its shape?", f"{one.zh}的形状保持了吗？"
            color = f"Are the colours of {one.en} right?", f"{one.zh}的颜色对吗？"
            questions += [
                _question("consistency", "atomic", [link], *shape),
                _question("consistency", "atomic", [f"{link}.color"], *color),
            ]
        if one.role == "attribute":
            for name in one.attributes:
                words = name.replace("_", " ")
                en = f"Is the {words} that of reference {one.number}?"
                questions.append(
                    _question("consistency", "atomic", [f"{link}.{name}"], en, f"{words}与参考图{one.number}一致吗？")
                )
    about = ["instruction"]
    return [
        *questions,
        _question("following", "global", about, "Was everything done that was asked for?", "要求都做到了吗？"),
        _question("consistency", "global", about, "Do all parts look like their references?", "各部分都像参考图吗？"),
        _question("composition", "global", about, "Do light and perspective agree everywhere?", "光线和透视一致吗？"),
        _question(
            "minimality",
            "global",
            about,
            "Is there anything that nobody asked for?",
            "有没有多余的内容？",
            expected="no",
        ),
        _question("quality", "global", about, "Is the picture sharp and free of artifacts?", "画面清晰、没有瑕疵吗？"),
        _question("quality", "atomic", about, "Are all edges clean?", "所有边缘都干净吗？"),
    ]


def write_faults(shown: Sequence[Shown]) -> list[dict[str, Any]]:
    """Return seven questions that cannot serve: one of each kind, of which two contradict each other."""
    good = next(question for question in write_questions(shown) if question["en"].startswith("Can "))
    beyond = f"reference-{len(shown) + 1}"
    twice = ("Is the sky blue?", "天空是蓝色的吗？")
    return [
        good,
        good | {"en": good["en"].replace("Can", "Could"), "zh": f"究竟{good['zh']}"},
        good | {"dimension": "beauty"},
        _question("quality", "atomic", [beyond], "Is this one there?", "这个在吗？"),
        _question("following", "atomic", ["instruction"], *twice),
        _question("following", "atomic", ["instruction"], *twice, expected="no"),
        _question("composition", "global", ["instruction"], KNOWN_WITHOUT_LOOKING["en"], KNOWN_WITHOUT_LOOKING["zh"]),
    ]


def _question(
    dimension: str, level: str, about: list[str], en: str, zh: str, *, expected: str = "yes"
) -> dict[str, Any]:
    return {"dimension": dimension, "level": level, "about": about, "expected": expected, "en": en, "zh": zh}
