"""Words for edits: several English and Chinese phrasings of every kind.

A phrasing is a format string over the parts that :func:`_parts` names. Phrasings are chosen by the caller's random
generator, so that one case has one English and one Chinese text.
"""

from __future__ import annotations

import random

from data_build.tabletop.edits import Edit
from data_build.tabletop.world import Shape
from gnomon.records import Text

KIND_ZH = {"circle": "圆形", "square": "方形", "triangle": "三角形", "cross": "十字"}
COLOUR_ZH = {"red": "红色", "green": "绿色", "blue": "蓝色", "yellow": "黄色", "purple": "紫色", "cyan": "青色"}
SIZE_ZH = {"small": "小", "large": "大"}
GROUND_ZH = {"white": "白色", "grey": "灰色", "black": "黑色", "brown": "棕色"}
COMPARATIVE = {"small": ("smaller", "变小"), "large": ("larger", "变大")}

ENGLISH: dict[str, tuple[str, ...]] = {
    "add": (
        "add a {added} in row {row}, column {column}",
        "put a {added} at row {row}, column {column}",
        "place a {added} in row {row}, column {column}",
    ),
    "remove": ("remove the {subject}", "delete the {subject}", "take away the {subject}"),
    "replace": (
        "replace the {subject} with a {value}",
        "turn the {subject} into a {value}",
        "change the {subject} to a {value}",
    ),
    "recolour": (
        "make the {subject} {value}",
        "paint the {subject} {value}",
        "change the colour of the {subject} to {value}",
    ),
    "resize": ("make the {subject} {comparative}", "resize the {subject} to be {comparative}"),
    "move": (
        "move the {subject} to row {row}, column {column}",
        "shift the {subject} to row {row}, column {column}",
    ),
    "swap": ("swap the {subject} and the {other}", "exchange the {subject} with the {other}"),
    "copy": (
        "copy the {subject} to row {row}, column {column}",
        "duplicate the {subject} at row {row}, column {column}",
    ),
    "background": ("make the background {value}", "change the background to {value}", "paint the background {value}"),
    "two_step": ("{first}, then {second}", "{first} and {second}"),
    "transfer": (
        "give the {subject} the colour of the shape in the second picture",
        "paint the {subject} like the shape in the second picture",
    ),
}
CHINESE: dict[str, tuple[str, ...]] = {
    "add": ("在第{row}行第{column}列添加一个{added}", "在第{row}行第{column}列放一个{added}"),
    "remove": ("删除{subject}", "去掉{subject}", "把{subject}移走"),
    "replace": ("把{subject}换成{value}", "将{subject}替换为{value}"),
    "recolour": ("把{subject}涂成{value}", "将{subject}的颜色改为{value}"),
    "resize": ("把{subject}{comparative}", "将{subject}{comparative}"),
    "move": ("把{subject}移到第{row}行第{column}列", "将{subject}移动到第{row}行第{column}列"),
    "swap": ("交换{subject}和{other}", "把{subject}与{other}互换"),
    "copy": ("把{subject}复制到第{row}行第{column}列", "将{subject}复制一个到第{row}行第{column}列"),
    "background": ("把背景换成{value}", "将背景改为{value}"),
    "two_step": ("先{first}，再{second}", "{first}，然后{second}"),
    "transfer": ("把{subject}涂成第二张图中形状的颜色", "让{subject}的颜色与第二张图中的形状相同"),
}


def describe(edit: Edit, rng: random.Random) -> Text:
    """Say the edit in English and in Chinese, each in a phrasing drawn from `rng`."""
    return Text(en=_say(edit, "en", rng), zh=_say(edit, "zh", rng))


def phrasings(edit: Edit, language: str) -> list[str]:
    """Return every text of the edit in one language ("en" or "zh"), two-step combinations included."""
    templates = (ENGLISH if language == "en" else CHINESE)[edit.kind]
    if edit.kind != "two_step":
        return [template.format(**_parts(edit, language)) for template in templates]
    firsts, seconds = (phrasings(step, language) for step in edit.steps)
    return [template.format(first=a, second=b) for template in templates for a in firsts for b in seconds]


def _say(edit: Edit, language: str, rng: random.Random) -> str:
    template = rng.choice((ENGLISH if language == "en" else CHINESE)[edit.kind])
    if edit.kind == "two_step":
        first, second = (_say(step, language, rng) for step in edit.steps)
        return template.format(first=first, second=second)
    return template.format(**_parts(edit, language))


def _parts(edit: Edit, language: str) -> dict[str, str]:
    """Return the words that fill a phrasing of this edit."""
    parts: dict[str, str] = {}
    if edit.subject is not None:
        parts["subject"] = name(edit.subject, language)
    if edit.other is not None:
        parts["other"] = name(edit.other, language)
    cell = edit.cell
    if edit.added is not None:
        parts["added"] = name(edit.added, language, with_size=True)
        cell = edit.added.cell
    if cell is not None:
        parts["row"], parts["column"] = str(cell[0] + 1), str(cell[1] + 1)
    if edit.value is not None:
        parts["value"] = _value_word(edit, language)
        if edit.kind == "resize":
            parts["comparative"] = COMPARATIVE[edit.value][0 if language == "en" else 1]
    return parts


def _value_word(edit: Edit, language: str) -> str:
    value = str(edit.value)
    if language == "en":
        return value
    words = {
        "replace": KIND_ZH,
        "recolour": COLOUR_ZH,
        "transfer": COLOUR_ZH,
        "background": GROUND_ZH,
        "resize": SIZE_ZH,
    }
    return words[edit.kind][value]


def name(shape: Shape, language: str, *, with_size: bool = False) -> str:
    """Name a shape by colour and kind, and by size where asked: "small red circle"."""
    if language == "en":
        words = ([shape.size] if with_size else []) + [shape.colour, shape.kind]
        return " ".join(words)
    size = SIZE_ZH[shape.size] if with_size else ""
    return f"{size}{COLOUR_ZH[shape.colour]}{KIND_ZH[shape.kind]}"
