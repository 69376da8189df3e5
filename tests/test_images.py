"""Every way in which people store photos ends as the same upright RGB; anything else is one clear error."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from dhpf import InputError
from dhpf.images import decode_image, read_image, read_size, to_input
from tests.conftest import texture

SMALLER = "make it smaller first"
UPRIGHT = texture(60, 40)
GREY = UPRIGHT[..., 0]
# What the camera stored, if this EXIF orientation turns it upright.
STORED: dict[int, NDArray[np.uint8]] = {
    1: UPRIGHT,
    2: UPRIGHT[:, ::-1],
    3: np.rot90(UPRIGHT, 2),
    4: UPRIGHT[::-1],
    5: UPRIGHT.transpose(1, 0, 2),
    6: np.rot90(UPRIGHT),
    7: np.rot90(UPRIGHT, 2).transpose(1, 0, 2),
    8: np.rot90(UPRIGHT, -1),
}


def saved(folder: Path, name: str, image: Image.Image | NDArray[Any], **options: Any) -> Path:
    path = folder / name
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


def exif(orientation: int) -> Image.Exif:
    data = Image.Exif()
    data[0x0112] = orientation
    return data


def read(image: Any) -> NDArray[np.uint8]:
    photo = read_image(image)
    assert photo.mode == "RGB"
    return np.asarray(photo)


@pytest.mark.parametrize("ending", ["png", "tiff", "webp"])
@pytest.mark.parametrize("orientation", STORED)
def test_exif_orientation_is_undone(tmp_path: Path, orientation: int, ending: str) -> None:
    lossless = {"lossless": True} if ending == "webp" else {}
    stored = np.ascontiguousarray(STORED[orientation])
    path = saved(tmp_path, f"turned.{ending}", stored, exif=exif(orientation), **lossless)
    np.testing.assert_array_equal(read(path), UPRIGHT)
    np.testing.assert_array_equal(np.asarray(decode_image(path.read_bytes(), "upload")), UPRIGHT)


@pytest.mark.parametrize("ending", ["jpg", "png", "tiff", "webp"])
@pytest.mark.parametrize("orientation", STORED)
def test_the_size_is_that_of_the_upright_image(tmp_path: Path, orientation: int, ending: str) -> None:
    stored = np.ascontiguousarray(STORED[orientation])
    path = saved(tmp_path, f"turned.{ending}", stored, exif=exif(orientation))
    assert read_size(path) == read_image(path).size == (60, 40)


def test_orientation_that_a_png_states_behind_its_pixels(tmp_path: Path) -> None:
    path = saved(tmp_path, "late.png", np.ascontiguousarray(STORED[6]), exif=exif(6))
    content = path.read_bytes()
    start = content.index(b"eXIf") - 4
    stop = start + 12 + int.from_bytes(content[start : start + 4], "big")
    path.write_bytes(content[:start] + content[stop:-12] + content[start:stop] + content[-12:])
    assert path.read_bytes().index(b"eXIf") > path.read_bytes().index(b"IDAT")
    np.testing.assert_array_equal(read(path), UPRIGHT)
    assert read_size(path) == (60, 40)


def test_a_file_that_changes_has_its_new_size(tmp_path: Path) -> None:
    for side in (20, 30, 40):
        assert read_size(saved(tmp_path, "photo.png", texture(side, 50))) == (side, 50)


def test_the_first_of_several_pictures_of_a_camera(tmp_path: Path) -> None:
    first, second = Image.fromarray(UPRIGHT), Image.new("RGB", (60, 40))
    path = saved(tmp_path, "stereo.jpg", first, format="MPO", save_all=True, append_images=[second])
    assert np.abs(read(path).astype(int) - UPRIGHT).mean() < 5


@pytest.mark.parametrize("ending", ["ppm", "pgm", "bmp", "gif"])
def test_formats_of_programs(tmp_path: Path, ending: str) -> None:
    path = saved(tmp_path, f"photo.{ending}", GREY)
    np.testing.assert_array_equal(read(path)[..., 0], GREY)
    assert read_size(path) == (60, 40)


def test_threads_that_read_leave_the_filters_of_warnings_as_they_were(tmp_path: Path) -> None:
    """An image just below Pillow's limit of 2 x 89 million pixels makes it warn, which is an error here."""
    large, small = saved(tmp_path, "large.png", Image.new("1", (15_000, 10_000))), tmp_path / "small.png"
    saved(tmp_path, "small.png", UPRIGHT)

    def attempt(number: int) -> str:
        try:
            return str(read_image(large if number % 4 == 0 else small).size)
        except InputError as error:
            return str(error)

    before = list(warnings.filters)
    with ThreadPoolExecutor(8) as pool:
        answers = set(pool.map(attempt, range(200)))
    assert warnings.filters == before
    assert answers == {
        "(60, 40)",
        f"{large} is too large: 15000 x 10000, at most 64,000,000 pixels; {SMALLER}",
    }


def test_a_turned_jpeg_is_turned_once(tmp_path: Path) -> None:
    plain = read(saved(tmp_path, "plain.jpg", STORED[6]))
    turned = read_image(saved(tmp_path, "turned.jpg", STORED[6], exif=exif(6)))
    np.testing.assert_array_equal(np.asarray(turned), np.rot90(plain, -1))
    np.testing.assert_array_equal(read(turned), np.asarray(turned))  # and not again, when it is passed on


def test_unreadable_exif_does_not_matter(tmp_path: Path) -> None:
    path = saved(tmp_path, "photo.png", UPRIGHT, exif=b"Exif\0\0MM\0*\xff\xff\xff\xff garbage")
    np.testing.assert_array_equal(read(path), UPRIGHT)


@pytest.mark.parametrize("ending", ["png", "jpg", "tiff", "bmp", "gif", "webp"])
def test_greyscale(tmp_path: Path, ending: str) -> None:
    lossless = {"lossless": True} if ending == "webp" else {}
    shown = read(saved(tmp_path, f"grey.{ending}", GREY, **lossless))
    assert (shown == shown[..., :1]).all()
    assert np.abs(shown[..., 0].astype(int) - GREY).max() <= (30 if ending == "jpg" else 0)


def test_one_bit(tmp_path: Path) -> None:
    image = Image.fromarray(GREY).convert("1")
    shown = read(saved(tmp_path, "bits.png", image))
    np.testing.assert_array_equal(shown[..., 1], np.asarray(image) * 255)


@pytest.mark.parametrize("ending", ["png", "tiff", "webp"])
def test_what_is_transparent_becomes_white(tmp_path: Path, ending: str) -> None:
    alpha = texture(60, 40, seed=1)[..., 0]
    lossless = {"lossless": True, "exact": True} if ending == "webp" else {}
    path = saved(tmp_path, f"clear.{ending}", np.dstack([UPRIGHT, alpha]), **lossless)
    opacity = alpha[..., None] / 255
    np.testing.assert_allclose(read(path), UPRIGHT * opacity + 255 * (1 - opacity), atol=1)


def test_grey_with_alpha(tmp_path: Path) -> None:
    image = Image.merge("LA", [Image.fromarray(GREY), Image.new("L", (60, 40), 128)])
    expected = GREY * (128 / 255) + 255 * (127 / 255)
    np.testing.assert_allclose(read(saved(tmp_path, "la.png", image))[..., 2], expected, atol=1)


@pytest.mark.parametrize(("ending", "transparency"), [("png", 1), ("png", bytes([255, 0])), ("gif", 1)])
def test_palette_with_transparency(tmp_path: Path, ending: str, transparency: int | bytes) -> None:
    indices = np.indices((40, 60)).sum(0).astype(np.uint8) % 2
    image = Image.frombytes("P", (60, 40), indices.tobytes())
    image.putpalette([200, 10, 30, 0, 0, 255])
    shown = read(saved(tmp_path, f"palette.{ending}", image, transparency=transparency))
    np.testing.assert_array_equal(shown[indices == 0], np.broadcast_to([200, 10, 30], (1200, 3)))
    np.testing.assert_array_equal(shown[indices == 1], np.full((1200, 3), 255))


def test_transparent_colour(tmp_path: Path) -> None:
    coloured = np.full((40, 60, 3), (9, 8, 7), np.uint8)
    coloured[:, :30] = (1, 2, 3)
    shown = read(saved(tmp_path, "key.png", coloured, transparency=(1, 2, 3)))
    assert (shown[:, :30] == 255).all()
    assert (shown[:, 30:] == (9, 8, 7)).all()


@pytest.mark.parametrize("ending", ["jpg", "tiff"])
def test_cmyk(tmp_path: Path, ending: str) -> None:
    path = saved(tmp_path, f"cyan.{ending}", Image.new("CMYK", (60, 40), (255, 0, 0, 0)))
    assert np.abs(read(path).astype(int) - (0, 255, 255)).max() <= 3


@pytest.mark.parametrize("brightness", [1.0, 0.003], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["deep.png", "deep.tiff"])
def test_sixteen_bits(tmp_path: Path, name: str, brightness: float) -> None:
    deep = (GREY.astype(float) * 257 * brightness).astype(np.uint16)
    shown = read(saved(tmp_path, name, Image.fromarray(deep)))
    np.testing.assert_array_equal(shown[..., 0], np.rint(deep / 257))


def test_sixteen_bits_most_significant_byte_first() -> None:
    np.testing.assert_array_equal(read(np.full((40, 60), 200, ">u2")), np.ones((40, 60, 3)))


def test_an_animation_is_its_first_frame(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (60, 40), colour) for colour in ("red", "blue")]
    path = saved(tmp_path, "moving.gif", frames[0], save_all=True, append_images=frames[1:])
    assert (read(path) == (255, 0, 0)).all()


def test_floats_in_a_file_are_stretched(tmp_path: Path) -> None:
    ramp = np.linspace(-3, 5, 60 * 40, dtype=np.float32).reshape(40, 60)
    shown = read(saved(tmp_path, "floats.tiff", ramp))
    assert (shown[0, 0].tolist(), shown[-1, -1].tolist()) == ([0, 0, 0], [255, 255, 255])


ARRAYS: dict[str, Any] = {
    "uint8": UPRIGHT,
    "int64": UPRIGHT.astype(np.int64),
    "uint16": UPRIGHT.astype(np.uint16) * 257,
    "float16": (UPRIGHT / 255).astype(np.float16),
    "float32": (UPRIGHT / 255).astype(np.float32),
    "float64": UPRIGHT / 255,
    "a hair outside": UPRIGHT / 255 * 1.0009 - 0.0004,
    "opaque": np.dstack([UPRIGHT, np.full_like(GREY, 255)]),
    "mirrored view": np.ascontiguousarray(UPRIGHT[:, ::-1])[:, ::-1],
    "tensor": torch.from_numpy(UPRIGHT.copy()).permute(2, 0, 1),
    "float tensor": torch.from_numpy(UPRIGHT / 255).permute(2, 0, 1).requires_grad_(),
    "view of another": torch.from_numpy(UPRIGHT / 255j).conj().permute(2, 0, 1).imag,
    "PIL": Image.fromarray(UPRIGHT),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_tensors_and_pil_images(name: str) -> None:
    np.testing.assert_allclose(read(ARRAYS[name]).astype(int), UPRIGHT, atol=0 if "hair" not in name else 1)


def test_half_precision_tensor() -> None:
    assert (read(torch.full((3, 10, 10), 0.5, dtype=torch.bfloat16)) == 128).all()


@pytest.mark.parametrize(
    "grey", [GREY, GREY[..., None], torch.from_numpy(GREY.copy()), torch.from_numpy(GREY.copy())[None]]
)
def test_grey_arrays(grey: Any) -> None:
    np.testing.assert_array_equal(read(grey), np.dstack([GREY] * 3))


def test_boolean_array() -> None:
    np.testing.assert_array_equal(read(GREY > 99)[..., 0], np.where(GREY > 99, 255, 0))


def test_network_input() -> None:
    mean, std = (0.5, 0.1, 0.4), (0.2, 0.25, 0.3)
    made = to_input(Image.new("RGB", (50, 30), (255, 0, 51)), (40, 24), mean, std)
    assert made.shape == (1, 3, 24, 40)
    torch.testing.assert_close(made[0, :, 5, 5], torch.tensor([2.5, -0.4, -2 / 3]))
    assert (made == made[:, :, :1, :1]).all()
