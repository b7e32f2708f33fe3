"""Pictures of every kind become the same upright opaque RGB, and broken ones say why."""

from __future__ import annotations

import hashlib
import re
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from PIL import Image

from gnomon.images import UnreadableImageError, content_hash, decode_image, load_image, save_png, to_rgb

RED, BLUE, WHITE = (255, 0, 0), (0, 0, 255), (255, 255, 255)


def two_pixels(left: tuple[int, ...], right: tuple[int, ...], mode: str = "RGB") -> Image.Image:
    image = Image.new(mode, (2, 1))
    image.putpixel((0, 0), left)
    image.putpixel((1, 0), right)
    return image


def pixels(image: Image.Image) -> list[list[int]]:
    assert image.mode == "RGB"
    values: list[list[int]] = np.asarray(image).reshape(-1, 3).tolist()
    return values


@pytest.mark.parametrize(
    ("orientation", "size", "colours"),
    [  # EXIF 2.32, tag 0x0112, for a stored row of red, blue
        (1, (2, 1), [RED, BLUE]),
        (2, (2, 1), [BLUE, RED]),
        (3, (2, 1), [BLUE, RED]),
        (6, (1, 2), [RED, BLUE]),
        (8, (1, 2), [BLUE, RED]),
    ],
)
def test_exif_orientation_is_applied_once(
    tmp_path: Path, orientation: int, size: tuple[int, int], colours: list[tuple[int, ...]]
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    two_pixels(RED, BLUE).save(tmp_path / "turned.png", exif=exif)
    image = load_image(tmp_path / "turned.png")
    assert image.size == size
    assert pixels(image) == [list(colour) for colour in colours]
    assert pixels(to_rgb(image)) == pixels(image)


def test_alpha_is_flattened_on_white(tmp_path: Path) -> None:
    two_pixels((255, 0, 0, 0), (0, 0, 0, 128), "RGBA").save(tmp_path / "alpha.png")
    # 128/255 of black over white: 255 * (1 - 128 / 255) = 127
    assert pixels(load_image(tmp_path / "alpha.png")) == [[255, 255, 255], [127, 127, 127]]


def test_grey_with_alpha_is_flattened_on_white(tmp_path: Path) -> None:
    two_pixels((0, 0), (100, 255), "LA").save(tmp_path / "grey_alpha.png")
    assert pixels(load_image(tmp_path / "grey_alpha.png")) == [[255] * 3, [100] * 3]


@pytest.mark.parametrize("suffix", ["png", "gif"])
def test_a_transparent_palette_entry_becomes_white(tmp_path: Path, suffix: str) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *BLUE])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / f"palette.{suffix}", transparency=0)
    assert pixels(load_image(tmp_path / f"palette.{suffix}")) == [list(WHITE), list(BLUE)]


def test_a_palette_with_an_alpha_per_entry_is_flattened(tmp_path: Path) -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 0, *BLUE])
    image.putpixel((1, 0), 1)
    image.save(tmp_path / "palette.png", transparency=bytes([128, 255]))
    assert pixels(load_image(tmp_path / "palette.png")) == [[127] * 3, list(BLUE)]


def test_a_transparent_colour_of_an_rgb_picture_becomes_white(tmp_path: Path) -> None:
    two_pixels(RED, BLUE).save(tmp_path / "keyed.png", transparency=RED)
    assert pixels(load_image(tmp_path / "keyed.png")) == [list(WHITE), list(BLUE)]


@pytest.mark.parametrize("suffix", ["png", "tif", "pgm"])
def test_16_bit_grey_is_scaled_and_not_clipped(tmp_path: Path, suffix: str) -> None:
    levels = np.array([[0, 128, 257, 32768, 65535]], dtype=np.uint16)
    Image.fromarray(levels).save(tmp_path / f"deep.{suffix}")
    greys = [round(level / 257) for level in levels[0].tolist()]
    assert pixels(load_image(tmp_path / f"deep.{suffix}")) == [[grey] * 3 for grey in greys]


def test_a_transparent_level_of_16_bit_grey_becomes_white(tmp_path: Path) -> None:
    Image.fromarray(np.array([[1000, 1001]], dtype=np.uint16)).save(tmp_path / "deep.png", transparency=1000)
    assert pixels(load_image(tmp_path / "deep.png")) == [[255] * 3, [4] * 3]


def png(
    width: int, bits: int, colour_type: int, row: bytes, key: Sequence[int] = (), interlaced: bool = False
) -> bytes:
    """Return a PNG of one row as Pillow writes none: PNG specification, 11.2.2 (IHDR) and 11.3.2.1 (tRNS)."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + name + data + zlib.crc32(name + data).to_bytes(4, "big")

    header = width.to_bytes(4, "big") + (1).to_bytes(4, "big") + bytes([bits, colour_type, 0, 0, interlaced])
    transparent = chunk(b"tRNS", b"".join(level.to_bytes(2, "big") for level in key)) if key else b""
    body = chunk(b"IDAT", zlib.compress(row))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + transparent + body + chunk(b"IEND", b"")


def test_16_bit_colour_is_scaled(tmp_path: Path) -> None:
    (tmp_path / "deep.png").write_bytes(png(1, 16, 2, bytes([0, 0xFF, 0xFF, 0x80, 0x80, 0x01, 0x01])))
    assert pixels(load_image(tmp_path / "deep.png")) == [[255, 128, 1]]


@pytest.mark.parametrize("interlaced", [False, True])
@pytest.mark.parametrize("key", [(0x1234, 0x5678, 0x9ABC), (0x0034, 0x0034, 0x0034), (0, 0, 0), (0xFFFF, 0, 0)])
def test_a_transparent_colour_of_16_bits_becomes_white_and_its_neighbours_do_not(
    tmp_path: Path, key: tuple[int, int, int], interlaced: bool
) -> None:
    neighbour = (key[0], key[1], key[2] ^ 1)
    first, second = (b"".join(level.to_bytes(2, "big") for level in colour) for colour in (key, neighbour))
    # The first and the second pixel of an interlaced row stand in passes 1 and 6, each with a filter byte.
    row = b"\0" + first + (b"\0" if interlaced else b"") + second
    (tmp_path / "deep.png").write_bytes(png(2, 16, 2, row, key, interlaced))
    assert pixels(load_image(tmp_path / "deep.png")) == [[255] * 3, [level >> 8 for level in neighbour]]


@pytest.mark.parametrize(("bits", "key"), [(1, 0), (1, 1), (2, 1), (2, 3), (4, 0), (4, 7), (4, 15), (8, 200)])
def test_a_transparent_level_of_grey_becomes_white_at_every_depth(tmp_path: Path, bits: int, key: int) -> None:
    largest = 2**bits - 1
    for level in {0, 1, key, largest}:
        (tmp_path / "grey.png").write_bytes(png(1, bits, 0, bytes([0, level << (8 - bits)]), (key,)))
        expected = 255 if level == key else level * 255 // largest
        assert pixels(load_image(tmp_path / "grey.png")) == [[expected] * 3]


def test_cmyk_grey_and_black_and_white_become_rgb(tmp_path: Path) -> None:
    two_pixels((0, 255, 255, 0), (0, 0, 0, 255), "CMYK").save(tmp_path / "print.tif")
    assert pixels(load_image(tmp_path / "print.tif")) == [list(RED), [0, 0, 0]]
    Image.new("CMYK", (8, 8), (0, 0, 0, 255)).save(tmp_path / "print.jpg")
    assert max(pixels(load_image(tmp_path / "print.jpg"))[0]) < 5
    Image.new("L", (1, 1), 77).save(tmp_path / "grey.png")
    assert pixels(load_image(tmp_path / "grey.png")) == [[77] * 3]
    Image.new("1", (1, 1), 1).save(tmp_path / "bits.png")
    assert pixels(load_image(tmp_path / "bits.png")) == [[255] * 3]


def test_pixels_without_a_known_white_are_refused(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0.5]], dtype=np.float32)).save(tmp_path / "float.tif")
    Image.fromarray(np.array([[70000]], dtype=np.int32)).save(tmp_path / "int.tif")
    for name in ("float.tif", "int.tif"):
        with pytest.raises(UnreadableImageError, match=rf"{name}: .*no known white"):
            load_image(tmp_path / name)


@pytest.mark.parametrize("suffix", ["png", "jpg", "bmp", "gif", "webp", "tif"])
def test_a_truncated_file_is_refused_with_path_and_reason(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"cut.{suffix}"
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UnreadableImageError, match=rf"could not read the picture {re.escape(str(path))}: \w+"):
        load_image(path)


def test_text_an_empty_file_a_folder_and_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    (tmp_path / "empty.png").write_bytes(b"")
    for name in ("text.png", "empty.png", "."):
        with pytest.raises(UnreadableImageError, match="could not read the picture"):
            load_image(tmp_path / name)
    with pytest.raises(UnreadableImageError, match=r"nothing\.png, there is no such file"):
        load_image(tmp_path / "nothing.png")


def test_a_decompression_bomb_is_refused_before_it_is_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Image.new("1", (200, 100)).save(tmp_path / "bomb.png")
    with pytest.raises(UnreadableImageError, match=r"at most 19,999 pixels in .*bomb\.png, its header says 200 x 100"):
        load_image(tmp_path / "bomb.png", max_pixels=19_999)
    assert load_image(tmp_path / "bomb.png", max_pixels=20_000).size == (200, 100)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 9_999)
    with pytest.raises(UnreadableImageError, match=r"bomb\.png: .*decompression bomb"):
        load_image(tmp_path / "bomb.png")


@settings(max_examples=30)
@given(arrays(np.uint8, st.tuples(st.integers(1, 5), st.integers(1, 5), st.just(3))))
def test_the_same_pixels_have_one_hash_in_png_bmp_and_memory(values: NDArray[np.uint8]) -> None:
    image = Image.fromarray(values)
    expected = hashlib.sha256(f"{image.width}x{image.height}:".encode() + values.tobytes()).hexdigest()
    with tempfile.TemporaryDirectory() as folder:
        save_png(image, Path(folder) / "a.png")
        image.save(Path(folder) / "a.bmp")
        found = {content_hash(Path(folder) / "a.png"), content_hash(str(Path(folder) / "a.bmp")), content_hash(image)}
    assert found == {expected}


def test_the_bytes_of_a_file_give_the_same_picture_as_the_file(tmp_path: Path) -> None:
    colours = bytes.fromhex("00123456789abc123456789abd")  # the filter, and a transparent colour with a neighbour
    files = {"deep.png": png(2, 16, 2, colours, (0x1234, 0x5678, 0x9ABC)), "grey.png": png(8, 1, 0, b"\0\xaa", (1,))}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        assert pixels(decode_image(data, name)) == pixels(load_image(tmp_path / name))


@pytest.mark.parametrize("data", [b"", b"no picture", png(4, 8, 0, b"\0\1\2\3\4")[:42]])
def test_bytes_that_are_no_picture_are_refused_by_name(data: bytes) -> None:
    with pytest.raises(UnreadableImageError, match=r"could not read the picture shard\.tar#7: [^<]*$"):
        decode_image(data, "shard.tar#7")
    with pytest.raises(UnreadableImageError, match=r"at most 3 pixels in shard\.tar#7"):
        decode_image(png(4, 8, 0, b"\0\1\2\3\4"), "shard.tar#7", max_pixels=3)


def test_the_hash_knows_the_size() -> None:
    assert content_hash(Image.new("RGB", (2, 3))) != content_hash(Image.new("RGB", (3, 2)))


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P"])
def test_a_picture_in_memory_is_copied_and_left_as_it_is(mode: str) -> None:
    image = Image.new(mode, (2, 1))
    image.info["comment"] = "mine"

    rgb = to_rgb(image)
    rgb.putpixel((0, 0), RED)

    assert rgb is not image
    assert rgb.info == {}
    assert image.info == {"comment": "mine"}
    assert to_rgb(image).getpixel((0, 0)) != RED


def test_a_quickly_written_picture_has_the_same_pixels(tmp_path: Path) -> None:
    picture = Image.linear_gradient("L").convert("RGB")
    paths = {level: tmp_path / f"{level}.png" for level in (0, 1, 9)}
    for level, path in paths.items():
        save_png(picture, path, compress_level=level)

    assert {content_hash(path) for path in paths.values()} == {content_hash(picture)}
    assert paths[0].stat().st_size > paths[9].stat().st_size


def test_a_saved_picture_comes_back(tmp_path: Path) -> None:
    save_png(two_pixels(RED, BLUE), tmp_path / "new" / "folder" / "a.png")
    assert pixels(load_image(tmp_path / "new" / "folder" / "a.png")) == [list(RED), list(BLUE)]
    save_png(two_pixels(BLUE, RED), tmp_path / "new" / "folder" / "a.png")
    assert pixels(load_image(tmp_path / "new" / "folder" / "a.png")) == [list(BLUE), list(RED)]
