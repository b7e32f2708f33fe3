"""Pictures out of ordinary packages as material of a small gallery; what they show was written down by hand."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import sklearn
from PIL import Image

from tests.data_build.mdmr.small_gallery import DATA, Material, Thing

STAMPS, CLIPART, LANDSCAPES = (
    Path("tuxpaint/stamps"),
    Path("openclipart/png/people"),
    Path("backgrounds/mate/nature"),
)
FONTS = ("fonts/truetype/wqy/wqy-microhei.ttc", "fonts/opentype/noto/NotoSansCJK-Regular.ttc")

_ANIMALS = (
    *("mammals/giraffe", "mammals/rabbit_little", "mammals/hedgehog", "mammals/cats/tiger", "mammals/dogs/fox"),
    *("mammals/equines/zebra", "mammals/bovines/cow", "mammals/elephant"),
)
_OBJECTS = (
    *("household/dishes/teapot", "household/dishes/mug", "hobbies/music/string/violin", "hobbies/camera_35mm"),
    *("household/kettle", "household/tools/hammer", "household/rubberduck", "sports/basketball"),
)
_OUTFITS = ("clothes/t_jacket", "clothes/hats/sombrero", "clothes/t_scarf")
_DECORATIONS = ("seasonal/christmas/bow", "seasonal/christmas/xmaswreath", "seasonal/christmas/star")
_SCENES = {"Garden": "flower bed", "Dune": "grass on a dune", "GreenMeadow": "green meadow"}


def _person(name: str, framing: str, age: int, **attributes: str) -> tuple[str, dict[str, Any]]:
    return name, {"framing": framing, "age": age, "facing": "front", "attributes": attributes}


_PEOPLE = {
    "woman_fashion_02_gerald__01": _person(
        "woman in a magenta dress", "full_body", 35, hair="black bob", outfit="magenta dress", pose="hand on the hip"
    ),
    "woman_reading_gerald_g._01": _person(
        "woman with a book", "full_body", 40, hair="blond bob", pose="sitting, head on the hand", expression="dreaming"
    ),
    "bride1_jarno_vasamaa_01": _person(
        "bride", "full_body", 30, outfit="white wedding dress", makeup="red lips", hair="auburn updo"
    ),
    "ballerina_architetto_fra_01": _person(
        "dancer", "full_body", 25, pose="dancing on one leg", outfit="orange leotard", hair="brown curls"
    ),
    "a_happy_boy_01": _person("boy with fair hair", "upper_body", 6, expression="shy smile", hair="short fair hair"),
    "blacksmiti_ganson": _person("blacksmith", "full_body", 45, outfit="leather apron", pose="bent over the anvil"),
    "head14": _person("woman with green eyes", "head_and_shoulders", 30, makeup="red lips", expression="sceptical"),
    "adult_astrid_graeber_01": _person(
        "man with spiky hair", "close_up", 25, hair="spiky black hair", expression="stern", makeup="dark eyeliner"
    ),
}
_HOPPER = _person(
    "officer with glasses", "upper_body", 78, expression="calm smile", outfit="navy uniform", makeup="powder"
)


def pictures_root() -> Path | None:
    """Return the folder below which the packages lie, what GNOMON_PICTURES names or /usr/share; None for neither."""
    for root in (Path(os.environ.get("GNOMON_PICTURES", "/usr/share")), Path("/usr/share")):
        if all((root / part).is_dir() for part in (STAMPS, CLIPART, LANDSCAPES)):
            return root
    return None


def package_material(root: Path) -> Material:
    """Return material of the packages' pictures.

    Args:
        root: the folder below which they lie, such as /usr/share.
    """
    photographs = Path(sklearn.__file__).parent / "datasets" / "images"
    people = [
        Thing("person", name, Image.open(root / CLIPART / f"{file}.png").convert("RGBA"), tags)
        for file, (name, tags) in _PEOPLE.items()
    ]
    people.append(
        Thing("person", _HOPPER[0], Image.open(DATA / "sample_data" / "grace_hopper.jpg").convert("RGBA"), _HOPPER[1])
    )
    scenes = [
        Thing("scene", name, Image.open(root / LANDSCAPES / f"{file}.jpg").convert("RGB").reduce(4))
        for file, name in _SCENES.items()
    ]
    scenes.append(Thing("scene", "palace by a lake", Image.open(photographs / "china.jpg").convert("RGB")))
    fonts = [root / font for font in FONTS if (root / font).is_file()]
    return Material(
        people=people,
        animals=[_stamp(root, "animal", f"animals/{file}") for file in _ANIMALS],
        objects=[_stamp(root, "object", file) for file in _OBJECTS],
        outfits=[_stamp(root, "outfit", file) for file in _OUTFITS],
        decorations=[_stamp(root, "decoration", file) for file in _DECORATIONS],
        scenes=scenes,
        **({"font": fonts[0]} if fonts else {}),
    )


def _stamp(root: Path, kind: str, file: str) -> Thing:
    """Return a stamp with the caption that the package gives it."""
    path = root / STAMPS / f"{file}.png"
    caption = path.with_suffix(".txt")
    words = caption.read_text(encoding="utf-8").splitlines()[0] if caption.is_file() else path.stem.replace("_", " ")
    name = words.strip().rstrip(".!").removeprefix("A ").removeprefix("An ").removeprefix("The ")
    return Thing(kind, name[:80], Image.open(path).convert("RGBA"))
