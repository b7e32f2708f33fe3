"""A manifest of pictures out of ordinary packages; what they show was written down by hand.

People stay in the test's own folder, and nothing of them is kept.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import matplotlib
import sklearn
from PIL import Image

from tests.bench.evaluators.faces.photographs import photograph, skimage_photograph
from tests.data_build.mdmr.package_pictures import STAMPS

_SAMPLE_3, _SAMPLE_6 = "demo/sample3.jpg", "demo/sample6.jpg"
_TESTS = "tests/test_images"
Box = tuple[int, int, int, int]
_PEOPLE: list[tuple[str, str, Box | None, dict[str, str]]] = [
    ("Barack Obama", f"{_TESTS}/obama.jpg", None, {"outfit": "dark suit with a blue tie", "hair": "short dark hair"}),
    ("Barack Obama", f"{_TESTS}/obama2.jpg", None, {"outfit": "black suit", "hair": "short grey hair"}),
    ("Joe Biden", f"{_TESTS}/biden.jpg", None, {"outfit": "dark suit with a striped tie", "hair": "white hair"}),
    ("Nell Olive", _SAMPLE_6, (190, 340, 700, 1100), {"outfit": "olive dress", "hair": "long wavy hair"}),
    ("Rosa Bird", _SAMPLE_6, (620, 220, 1040, 1000), {"outfit": "burgundy dress", "hair": "straight black hair"}),
    ("Pia Stone", _SAMPLE_6, (1000, 170, 1470, 1000), {"outfit": "striped jumpsuit", "hair": "dark curls"}),
    ("Oona Field", _SAMPLE_6, (1420, 150, 1860, 1000), {"outfit": "green top with white straps", "hair": "brown hair"}),
    ("Ida Lark", _SAMPLE_3, (480, 230, 960, 950), {"outfit": "beige jacket", "hair": "blond curls"}),
]
_ITEMS: list[tuple[str, str, str, str, str, str]] = [  # role, name, stamp, size, interactions, colour
    ("object", "black teapot", "household/dishes/teapot", "small_handheld", "hold carry touch look_at", "black"),
    ("object", "violin", "hobbies/music/string/violin", "large_handheld", "hold play carry look_at", "brown"),
    ("object", "35 mm camera", "hobbies/camera_35mm", "small_handheld", "hold use look_at", "black"),
    ("object", "rubber duck", "household/rubberduck", "small_handheld", "hold touch point_at", "yellow"),
    ("object", "basketball", "sports/basketball", "large_handheld", "hold carry touch", "orange"),
    ("object", "classical guitar", "hobbies/music/string/guitar_classical", "large_handheld", "hold play", "brown"),
    ("object", "pink tricycle", "vehicles/cycle/pink_tricycle", "free_standing", "sit_on push stand_beside", "pink"),
    ("object", "British post box", "town/uk_post_box", "free_standing", "lean_on stand_beside point_at", "red"),
    ("object", "drum kit", "hobbies/music/percussion/drumkit", "free_standing", "play stand_beside touch", "copper"),
    ("fashion", "sombrero", "clothes/hats/sombrero", "small_wearable", "wear hold", "orange"),
    ("fashion", "top hat", "clothes/hats/tophat", "small_wearable", "wear hold look_at", "black"),
    ("fashion", "winter scarf", "clothes/t_scarf", "small_wearable", "wear hold", "white"),
    ("fashion", "zip jacket", "clothes/t_jacket", "large_wearable", "wear carry", "grey"),
]


def stamps_root() -> Path | None:
    """Return the folder with the stamps, below what GNOMON_PICTURES names or /usr/share; None for neither."""
    for root in (Path(os.environ.get("GNOMON_PICTURES", "/usr/share")), Path("/usr/share")):
        if (root / STAMPS).is_dir():
            return root / STAMPS
    return None


def write_package_manifest(folder: Path, stamps: Path) -> Path:
    """Write a manifest of pictures that are copied into the folder, with attributes, and return it.

    One item is there twice, smaller, and one background shows a person: neither can be used.
    """
    lines: list[dict[str, Any]] = []

    def add(role: str, name: str, image: Image.Image, attributes: dict[str, Any]) -> None:
        id = f"{role}-{len(lines):02}"
        (folder / "pictures").mkdir(parents=True, exist_ok=True)
        image.save(folder / "pictures" / f"{id}.png")
        place = f"pictures/{id}.png"
        lines.append({"id": id, "role": role, "name": name, "path": place, "attributes": attributes})

    for name, file, box, seen in _PEOPLE:
        image = photograph(file)
        gender = "man" if name in ("Barack Obama", "Joe Biden") else "woman"
        about = {
            "age": "older_adult" if name == "Joe Biden" else "young_adult",
            "gender": gender,
            "ethnicity": "unclear",
        }
        add("identity", name, image.crop(box) if box else image, {**about, **seen, "description": _description(seen)})
    for role, name, stamp, size, actions, color in _ITEMS:
        known: dict[str, Any] = {"size_category": size, "afforded_interactions": actions.split(), "color": color}
        add(role, name, Image.open(stamps / f"{stamp}.png"), {**known, "description": f"a {color} {name}"})
    duck = Image.open(stamps / "household/rubberduck.png").reduce(2)
    known = {"size_category": "small_handheld", "afforded_interactions": ["hold"], "description": "a duck"}
    add("object", "bath duck", duck, known)
    photographs = Path(sklearn.__file__).parent / "datasets" / "images"
    hopper = Path(matplotlib.__file__).parent / "mpl-data" / "sample_data" / "grace_hopper.jpg"
    places = [
        ("Lake Palace", Image.open(photographs / "china.jpg"), "palace by a lake"),
        ("Launch Pad", skimage_photograph("rocket.jpg"), "rocket on its pad at dusk"),
        ("Old Garage", skimage_photograph("motorcycle_left.png"), "garage with a red motorcycle"),
        ("Navy Office", Image.open(hopper), "flag behind an officer"),
    ]
    for name, image, scene in places:
        add("background", name, image.convert("RGB"), {"scene_type": scene, "description": f"a {scene}"})
    manifest = folder / "manifest.jsonl"
    manifest.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return manifest


def _description(seen: dict[str, str]) -> str:
    return f"{seen['hair']}, {seen['outfit']}"
