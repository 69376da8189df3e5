"""A marked pixel is found at its coordinates, whatever is done to the image and to the points.

Pixel centres lie at whole numbers; see `dhpf.grid`.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from dhpf.data.masks import fill_polygon
from dhpf.data.pairs import Photo
from dhpf.grid import mirror_points, resize_points
from dhpf.images import read_image, to_input

Size = tuple[int, int]  # width, height

BROADEST = 5.0  # standard deviation of a soft mark, which no resizing below makes undersampled
MARGIN = 24  # pixels around a mark in which it fades away
WITHIN = 0.05  # pixels; what rounding to 8 bits may move the centre of a soft mark


class Marked(NamedTuple):
    """A black image with one soft bright mark, and its centre."""

    image: Image.Image
    at: NDArray[np.float64]  # (1, 2)


@st.composite
def marked(draw: st.DrawFn) -> Marked:
    size = np.array(draw(st.tuples(st.integers(60, 120), st.integers(60, 120))))
    at = [draw(st.integers(MARGIN, side - 1 - MARGIN)) for side in size.tolist()]
    x, y = np.meshgrid(*(np.arange(side) for side in size))
    mark = 255 * np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * BROADEST**2))
    pixels = np.repeat(mark.round().astype(np.uint8)[..., None], 3, axis=2)
    return Marked(Image.fromarray(pixels), np.array([at], np.float64))


scales = st.tuples(st.floats(0.4, 2.5), st.floats(0.4, 2.5))


def scaled(size: Size, scale: tuple[float, float]) -> Size:
    return round(size[0] * scale[0]), round(size[1] * scale[1])


def centre(pixels: NDArray[np.floating]) -> NDArray[np.float64]:
    """(1, 2): where the brightness of (H, W) pixels is centred."""
    weight = np.asarray(pixels, np.float64)
    y, x = np.indices(weight.shape)
    return np.array([[(x * weight).sum(), (y * weight).sum()]]) / weight.sum()


def grey(image: Image.Image) -> NDArray[np.uint8]:
    return np.asarray(image)[..., 0]


def network_input(image: Image.Image, size: Size) -> NDArray[np.float32]:
    return to_input(image, size, (0, 0, 0), (1, 1, 1))[0, 0].numpy()


def stored(image: Image.Image, folder: Path, orientation: int = 1) -> Path:
    """A file that shows the image, if its EXIF orientation (1, 3, 6 or 8) is undone."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    quarters = {1: 0, 3: 2, 6: 1, 8: 3}[orientation]
    turned = Image.fromarray(np.ascontiguousarray(np.rot90(np.asarray(image), quarters)))
    turned.save(folder / "marked.png", exif=exif)
    return folder / "marked.png"


@given(marked(), st.sampled_from([1, 3, 6, 8]))
def test_reading(tmp_path_factory: pytest.TempPathFactory, mark: Marked, orientation: int) -> None:
    path = stored(mark.image, tmp_path_factory.getbasetemp(), orientation)
    assert centre(grey(read_image(path))) == pytest.approx(mark.at, abs=WITHIN)


@given(marked(), scales)
def test_resizing(mark: Marked, scale: tuple[float, float]) -> None:
    size = scaled(mark.image.size, scale)
    expected = resize_points(mark.at, mark.image.size, size)
    for method in (Image.Resampling.BILINEAR, Image.Resampling.BICUBIC):
        assert centre(grey(mark.image.resize(size, method))) == pytest.approx(expected, abs=WITHIN)
    assert centre(network_input(mark.image, size)) == pytest.approx(expected, abs=WITHIN)


@given(marked())
def test_mirroring(tmp_path_factory: pytest.TempPathFactory, mark: Marked) -> None:
    width = mark.image.width
    mirrored = mark.image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    assert centre(grey(mirrored)) == pytest.approx(mirror_points(mark.at, width), abs=WITHIN)
    photo = Photo(stored(mark.image, tmp_path_factory.getbasetemp()), mark.image.size, mark.at).mirror()
    assert np.array_equal(photo.points, mirror_points(mark.at, width))
    assert centre(photo.image()[..., 0]) == pytest.approx(photo.points, abs=WITHIN)


@given(marked(), st.tuples(*[st.integers(0, 6)] * 4))
def test_cropping(mark: Marked, cut: tuple[int, int, int, int]) -> None:
    left, top, right, bottom = cut
    cropped = mark.image.crop((left, top, mark.image.width - right, mark.image.height - bottom))
    assert centre(grey(cropped)) == pytest.approx(mark.at - (left, top), abs=WITHIN)


@given(marked(), st.sampled_from([1, 3, 6, 8]), st.booleans(), st.tuples(*[st.integers(0, 6)] * 4), scales)
def test_all_of_them_together(
    tmp_path_factory: pytest.TempPathFactory,
    mark: Marked,
    orientation: int,
    mirror: bool,
    cut: tuple[int, int, int, int],
    scale: tuple[float, float],
) -> None:
    path = stored(mark.image, tmp_path_factory.getbasetemp(), orientation)
    photo = Photo(path, mark.image.size, mark.at)
    photo = photo.mirror() if mirror else photo
    left, top, right, bottom = cut
    cropped = Image.fromarray(photo.image()).crop(
        (left, top, mark.image.width - right, mark.image.height - bottom)
    )
    size = scaled(cropped.size, scale)
    expected = resize_points(photo.points - (left, top), cropped.size, size)
    assert centre(network_input(cropped, size)) == pytest.approx(expected, abs=WITHIN)


coordinates = st.lists(st.tuples(*[st.floats(-0.5, 4000)] * 2), max_size=5)
sides = st.tuples(st.integers(1, 4000), st.integers(1, 4000))


@given(coordinates, sides, sides)
def test_there_and_back_is_the_identity(points: list[tuple[float, float]], old: Size, new: Size) -> None:
    given = np.array(points, np.float64).reshape(-1, 2)
    assert mirror_points(mirror_points(given, old[0]), old[0]) == pytest.approx(given, abs=1e-9)
    assert resize_points(resize_points(given, old, new), new, old) == pytest.approx(given, abs=1e-8)
    edges = np.array([[-0.5, -0.5], np.array(old) - 0.5])
    assert resize_points(edges, old, new) == pytest.approx(np.array([[-0.5] * 2, np.array(new) - 0.5]))
    assert np.array_equal(mirror_points(edges, old[0])[:, 0], edges[::-1, 0])


def test_by_hand() -> None:
    """One bright pixel, column 3 of 5 and row 1 of 4: three times as large, it is columns 9 to 11."""
    pixels = np.zeros((4, 5, 3), np.uint8)
    pixels[1, 3] = 255
    larger = grey(Image.fromarray(pixels).resize((15, 12), Image.Resampling.BILINEAR))
    assert np.argwhere(larger == 255).tolist() == [[4, 10]]
    assert resize_points([[3, 1]], (5, 4), (15, 12)).tolist() == [[10, 4]]
    assert resize_points([[10, 4]], (15, 12), (5, 4)) == pytest.approx(np.array([[3, 1]]))
    assert mirror_points([[3, 1]], 5).tolist() == [[1, 1]]


@given(
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.data(),
    st.tuples(st.integers(1, 5), st.integers(1, 5)),
)
def test_an_outline_along_pixel_edges_fills_these_pixels(size: Size, data: st.DataObject, by: Size) -> None:
    """Of any image, of its mirror image, and of the image enlarged by whole factors."""
    left, right = sorted(data.draw(st.tuples(*[st.integers(0, size[0])] * 2)))
    top, bottom = sorted(data.draw(st.tuples(*[st.integers(0, size[1])] * 2)))
    corners = np.array([[left, top], [right, top], [right, bottom], [left, bottom]]) - 0.5
    mask = np.zeros(size[::-1], np.bool_)
    mask[top:bottom, left:right] = True
    assert np.array_equal(fill_polygon(corners, size), mask)
    assert np.array_equal(fill_polygon(mirror_points(corners, size[0]), size), mask[:, ::-1])
    larger = size[0] * by[0], size[1] * by[1]
    enlarged = mask.repeat(by[1], axis=0).repeat(by[0], axis=1)
    assert np.array_equal(fill_polygon(resize_points(corners, size, larger), larger), enlarged)
