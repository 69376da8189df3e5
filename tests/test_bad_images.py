"""What is no photo, or not a whole one, or too large a one, is one clear error."""

from __future__ import annotations

import io
import os
import struct
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import EpsImagePlugin, Image

from dhpf import InputError
from dhpf.data.masks import read_class_mask
from dhpf.data.pairs import Photo
from dhpf.images import MOST_BYTES, MOST_PIXELS, decode_image, read_image, read_size
from tests.conftest import texture


@pytest.mark.parametrize(
    ("image", "complaint"),
    [
        (np.zeros((1, 1, 3), np.uint8), "too small: 1 x 1, at least 8"),
        (np.zeros((0, 0)), "too small: 0 x 0"),
        (np.zeros((20, 20, 2), np.uint8), r"shape \(20, 20, 2\); wanted \(H, W\)"),
        (np.zeros(20), r"shape \(20,\)"),
        (torch.zeros(20, 20, 3), r"shape \(20, 20, 3\); wanted \(H, W\), \(3, H, W\)"),
        (torch.zeros(1, 3, 20, 20), r"shape \(1, 3, 20, 20\)"),
        (np.full((20, 20), np.nan), "NaN or infinity"),
        (np.full((20, 20), np.inf), "NaN or infinity"),
        (np.full((20, 20), 255.0), r"floats from 255 to 255; wanted \[0, 1\]"),
        (np.full((20, 20), -1), "values from -1 to -1; wanted 8 or 16 bits"),
        (np.full((20, 20), 70000), "70000; wanted 8 or 16 bits"),
        (np.zeros((20, 20), complex), "complex128; wanted"),
        (np.full((20, 20), "a"), "wanted 8-bit"),
        (Image.new("RGB", (1, 1)), "too small"),
        (Image.new("La", (20, 20)), "colour mode La"),
        (None, "NoneType; give a path"),
        (7, "int; give a path"),
        (torch.zeros(20, 20).to_sparse(), r"tensor without plain values \(torch.sparse_coo, .*dense"),
        (torch.zeros(3, 20, 20).to_sparse(), r"tensor without plain values \(torch.sparse_coo"),
        (torch.zeros(3, 20, 20, device="meta"), r"tensor without plain values .* on meta"),
        (torch.zeros(20, 20, dtype=torch.complex64), "complex64; wanted"),
    ],
)
def test_what_is_no_image_is_named(image: Any, complaint: str) -> None:
    with pytest.raises(InputError, match=f"^thing .*{complaint}"):
        read_image(image, "thing")


def png_header(width: int, height: int) -> bytes:
    """A PNG that says it has this size; no pixels follow."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


def encoded(ending: str, **options: Any) -> bytes:
    content = io.BytesIO()
    Image.fromarray(texture(60, 40)).save(content, ending, **options)
    return content.getvalue()


TURNED = Image.Exif()
TURNED[0x0112] = 6  # an orientation

FILES = {
    "empty.jpg": (b"", "is empty"),
    "text.jpg": (b"these are words", "not an image"),
    "cut.jpg": (encoded("jpeg")[:-200], "damaged or cut off"),
    "cut.png": (encoded("png")[:-200], "damaged or cut off"),
    "tiny.png": (png_header(1, 1), "too small: 1 x 1, at least 8 pixels"),
    "large.png": (png_header(10_000, 10_000), f"too large: 10000 x 10000, at most {MOST_PIXELS:,} pixels"),
    "bomb.png": (png_header(60_000, 60_000), f"too large: at most {MOST_PIXELS:,} pixels"),
    "program.eps": (encoded("eps"), "not an image"),
    "program.jpg": (encoded("eps"), "not an image"),
    "program.png": (encoded("pdf"), "not an image"),
    "drawing.jpg": (encoded("tga"), "not an image"),
    "ihdr.png": (b"\x89PNG\r\n\x1a\n\x00\x00\x00\x02IHDR\x00\x00" + bytes(50), "damaged or cut off"),
}
PHONES = {
    "phone.heic": (b"\0\0\0\x18ftypheic" + bytes(40), "HEIC or AVIF image that cannot be read; save it as"),
    "phone.jpg": (b"\0\0\0\x18ftypmif1" + bytes(40), "HEIC or AVIF image that cannot be read; save it as"),
    "cut.avif": (b"\0\0\0\x18ftypavif" + bytes(40), "save it as JPEG or PNG first"),
}


@pytest.mark.parametrize("name", FILES | PHONES)
def test_bad_files_are_named(tmp_path: Path, name: str) -> None:
    content, complaint = (FILES | PHONES)[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        read_image(path)
    assert str(raised.value).startswith(str(path))
    assert complaint in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", FILES)
def test_data_sets_read_by_the_same_rules(tmp_path: Path, name: str) -> None:
    content, complaint = FILES[name]
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        Photo(path, (60, 40), np.zeros((0, 2))).image()
    assert complaint in str(raised.value)


def test_no_file_starts_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_: pytest.fail("started"))
    path = tmp_path / "photo.jpg"
    path.write_bytes(encoded("eps"))
    for read in (read_image, read_size, lambda path: read_class_mask(path, 1)):
        with pytest.raises(InputError, match="not an image"):
            read(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on this system")
def test_pipes_and_devices_are_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    for path in (tmp_path / "pipe.jpg", Path("/dev/zero")):
        for read in (read_image, read_size, lambda path: read_class_mask(path, 1)):
            with pytest.raises(InputError, match="is a device or a pipe; give an image file"):
                read(path)


@pytest.mark.parametrize("given", ["https://example.org/cat.jpg", Path("https://example.org/cat.jpg")])
def test_web_addresses_are_to_be_downloaded(given: Any) -> None:
    with pytest.raises(
        InputError,
        match=r"^https://example\.org/cat\.jpg is a web address; download the image and give the file",
    ):
        read_image(given)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "huge.tiff"
    with path.open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    with pytest.raises(InputError, match=r"huge\.tiff is too large: 1,000,000,001 bytes"):
        read_image(path)


def test_empty_uploads_are_named() -> None:
    with pytest.raises(InputError, match="is empty"):
        decode_image(b"", "cat.jpg")
    with pytest.raises(InputError, match="not an image"):
        decode_image(b"words", "cat.jpg")


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no such image: .*nothing"):
        read_image(tmp_path / "nothing.jpg")
    with pytest.raises(InputError, match=r"is a folder"):
        read_image(str(tmp_path))
    with pytest.raises(InputError, match=r"File name too long"):
        read_image(tmp_path / ("x" * 300))


def test_a_large_photo_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.png"
    Image.new("1", (10_000, 10_000)).save(path)
    assert path.stat().st_size < 20_000
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    started = time.perf_counter()
    with pytest.raises(InputError, match=r"too large"):
        read_image(path)
    assert time.perf_counter() - started < 0.5


@given(
    content=st.sampled_from(
        [encoded("jpeg", exif=TURNED), encoded("png", exif=TURNED), encoded("webp"), encoded("gif")]
    ),
    cut=st.floats(0, 1) | st.just(1.0),
    changes=st.lists(st.tuples(st.floats(0, 0.999), st.integers(0, 255)), max_size=8),
)
def test_damaged_files_give_a_photo_or_the_one_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, cut: float, changes: list[tuple[float, int]]
) -> None:
    damaged = bytearray(content)
    for place, value in changes:
        damaged[int(place * len(damaged))] = value
    path = tmp_path_factory.getbasetemp() / "damaged.img"
    path.write_bytes(damaged[: int(len(damaged) * cut)])
    try:
        assert read_image(path).mode == "RGB"
        assert read_size(path) == read_image(path).size
    except InputError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
