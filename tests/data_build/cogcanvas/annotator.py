"""An annotator by rule: reads what it is asked as any model does, and describes, writes and checks by it.

It looks at a picture's mean colour alone; what is asked for, names and form stand in the question.
"""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from rm.vlm.conversation import ChoiceScores, Conversation, GenerationParameters, Reply
from rm.vlm.scripted import prompt_text

_QUOTED = r'("(?:[^"\\]|\\.)*")'
_BINDING = re.compile(rf"^Item: {_QUOTED}, .*? {_QUOTED} is ([a-z ]+) it\.$", re.MULTILINE)


class Annotator:
    """Does what is asked.

    Args:
        name: for people.
        rejects: part of a prompt, by check; the first draft with it is turned down, later ones pass.
        always_rejects: part of a prompt; every draft with it is turned down.
        first_faults: by part of a scene's text, what is wrong with its first draft: "unmentioned", "absent", "cycle",
            "nonsense".
        delay: seconds for each reply.
    """

    def __init__(
        self,
        name: str = "annotator",
        *,
        rejects: dict[str, str] | None = None,
        always_rejects: str | None = None,
        first_faults: dict[str, str] | None = None,
        delay: float = 0.0,
    ) -> None:
        self.name, self.rejects, self.always_rejects = name, rejects or {}, always_rejects
        self.first_faults, self.delay = first_faults or {}, delay
        self.fingerprint = f"annotator {name}"
        self.max_concurrency = 1
        self.num_asked = 0

    def generate(self, conversations: Sequence[Conversation], parameters: GenerationParameters) -> list[Reply]:
        """Answer each conversation."""
        return [self._reply(conversation, parameters) for conversation in conversations]

    def choose(self, conversations: Sequence[Conversation], choices: Sequence[str]) -> list[ChoiceScores]:
        """Not asked by any stage."""
        return [ChoiceScores(None, "api_error", "not asked") for _ in conversations]

    def _reply(self, conversation: Conversation, parameters: GenerationParameters) -> Reply:
        time.sleep(self.delay)
        self.num_asked += 1
        assert parameters.schema is not None
        assert parameters.temperature == 0
        (key,) = parameters.schema["required"]
        text = prompt_text(conversation)
        pictures = [part for message in conversation for part in message.content if isinstance(part, Image.Image)]
        if key == "attributes":
            return _json({key: describe(text, pictures[0])})
        assert len(pictures) == 1 + len(_BINDING.findall(text)), "the place and the items are shown"
        if key == "check":
            return _json({key: self._check(text)})
        fault = next((fault for part, fault in self.first_faults.items() if part in text), None)
        if fault == "nonsense" and "Earlier drafts" not in text:
            return Reply("Let me think about that.", finish_reason="stop")
        return _json({key: write(text, fault)})

    def _check(self, text: str) -> dict[str, Any]:
        prompt = json.loads(re.search(rf"^Prompt: {_QUOTED}$", text, re.MULTILINE)[1])  # type: ignore[index]
        check = re.search(r"^(Interaction|Layout|Scene) [a-z]+: ", text, re.MULTILINE)
        assert check is not None
        name = {"Interaction": "plausibility", "Layout": "layout", "Scene": "compatibility"}[check[1]]
        part = self.rejects.get(name)
        refused = (part is not None and part in prompt and "slowly" not in prompt) or (
            self.always_rejects is not None and self.always_rejects in prompt
        )
        return {"passes": not refused, "explanation": f"{name} is wrong here" if refused else "It is all right."}


def describe(text: str, picture: Image.Image) -> dict[str, Any]:
    """Return attributes by what a question says the picture shows, and its colour."""
    color = _color(picture)
    if "shows a person" in text:
        hair = ("short red hair", "long black hair", "grey curls")[sum(map(ord, color)) % 3]
        outfit = f"{color} coat"
        words = {"facial_hair": None, "eyewear": None, "headwear": None}
        return {
            **{"age": "young_adult", "gender": "woman", "ethnicity": "unclear", "hair": hair, "outfit": outfit},
            **{**words, "description": f"a person in a {outfit} with {hair}"},
        }
    if "shows a place" in text:
        return {"scene_type": "open ground", "landmark_name": None, "description": f"a {color} place"}
    worn = "shows something to wear" in text
    return {
        "size_category": "small_wearable" if worn else "small_handheld",
        "afforded_interactions": ["wear", "hold", "point_at"] if worn else ["hold", "touch", "stand_beside"],
        **{"color": color, "material": None, "pattern": None, "description": f"a {color} thing"},
    }


def _color(picture: Image.Image) -> str:
    names = {
        "red": (200, 40, 40),
        "green": (40, 160, 60),
        "blue": (40, 60, 200),
        "white": (240,) * 3,
        "grey": (128,) * 3,
    }
    mean = np.asarray(picture.convert("RGB").resize((8, 8))).reshape(-1, 3).mean(axis=0)
    return min(names, key=lambda name: float(np.abs(mean - np.array(names[name])).sum()))


def write(text: str, fault: str | None) -> dict[str, Any]:
    """Return a prompt and graphs for a scene; the first draft has the fault, later ones do not."""
    place = json.loads(re.search(rf"^Place: {_QUOTED}", text, re.MULTILINE)[1])  # type: ignore[index]
    people = [json.loads(name) for name in re.findall(rf"^Person: {_QUOTED}", text, re.MULTILINE)]
    bindings = [(json.loads(item), json.loads(person), doing) for item, person, doing in _BINDING.findall(text)]
    again = "Earlier drafts" in text
    fault = None if again else fault
    sentences = [f"{', '.join(people[:-1])} and {people[-1]} {'slowly ' if again else ''}meet before {place}."]
    sentences += [f"{person} is {doing} {item}." for item, person, doing in bindings]
    positions = [{"first": one, "relation": "left_of", "second": other} for one, other in itertools.pairwise(people)]
    if fault == "unmentioned":
        sentences[0] = f"Some people meet before {place}."
        sentences = sentences[:1]
    if fault == "cycle":
        positions.append({"first": people[-1], "relation": "left_of", "second": people[0]})
    second = "Somebody Else" if fault == "absent" else people[1]
    return {
        "prompt": " ".join(sentences),
        "interactions": [
            {"first": people[0], "second": second, "action": "shaking hands with", "is_mutual": True},
            *({"first": one, "second": people[0], "action": "looking at", "is_mutual": False} for one in people[2:]),
        ],
        "positions": positions,
    }


def _json(value: Any) -> Reply:
    return Reply(json.dumps(value, ensure_ascii=False), finish_reason="stop")
