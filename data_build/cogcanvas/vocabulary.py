"""The closed words that references are described by, and how close the things are that people do with items.

Source: Nguyen et al. 2026 (arXiv 2606.15867), sections 3.3 and 3.4, which name the ends of both axes (small handheld to
large wearable, close-contact holding to loose standing beside); what lies between them is ours.
"""

from __future__ import annotations

from typing import Literal, get_args

from bench.cogcanvas.cases import BACKGROUND, FASHION, IDENTITY, OBJECT

Role = Literal["identity", "object", "fashion", "background"]
ROLES: tuple[str, ...] = get_args(Role)
assert ROLES == (IDENTITY, OBJECT, FASHION, BACKGROUND)

Size = Literal["small_handheld", "large_handheld", "small_wearable", "free_standing", "large_wearable"]
SIZES: tuple[str, ...] = get_args(Size)
"""Of items, from small to large."""

Strength = Literal["close_contact", "light_contact", "loose"]
STRENGTHS: tuple[str, ...] = get_args(Strength)
"""How close a person and their item are."""

Action = Literal[
    "wear",
    "hold",
    "carry",
    "embrace",
    "ride",
    "sit_on",
    "play",
    "use",
    "touch",
    "lean_on",
    "push",
    "pull",
    "stand_beside",
    "look_at",
    "point_at",
]
_CLOSE = ("wear", "hold", "carry", "embrace", "ride", "sit_on", "play", "use")
_LIGHT = ("touch", "lean_on", "push", "pull")
STRENGTH_OF: dict[str, str] = {
    action: "close_contact" if action in _CLOSE else "light_contact" if action in _LIGHT else "loose"
    for action in get_args(Action)
}
"""What a person can do with an item, and how close that is."""

IN_WORDS: dict[str, str] = {
    **{"wear": "wearing", "hold": "holding", "carry": "carrying", "embrace": "embracing", "ride": "riding"},
    **{"sit_on": "sitting on", "play": "playing", "use": "using", "touch": "touching", "lean_on": "leaning on"},
    **{"push": "pushing", "pull": "pulling", "stand_beside": "standing beside", "look_at": "looking at"},
    **{"point_at": "pointing at"},
}
"""The same as a question has it: "Is she ... the bag?"."""
assert IN_WORDS.keys() == STRENGTH_OF.keys()

RELATION_IN_WORDS = {
    "left_of": "to the left of",
    "right_of": "to the right of",
    "in_front_of": "in front of",
    "behind": "behind",
}

Age = Literal["child", "teenager", "young_adult", "middle_aged", "older_adult"]
Gender = Literal["woman", "man", "unclear"]
Ethnicity = Literal[
    "african", "east_asian", "european", "latin_american", "middle_eastern", "south_asian", "southeast_asian", "unclear"
]
