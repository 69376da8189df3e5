"""One pixel convention: a mark lies on the centre of its pixel, whatever the image is scaled to.

Where a pixel lies in the drawing is not taken from the package: a pixel is painted, the image is resized as
images are, and the centre of what became of the paint is measured.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from dhpf.grid import Grid, mirror_points, resize_points
from dhpf.viz.canvas import GAP, Pen, drawing_size, shrunk
from dhpf.viz.heat import over_panel
from dhpf.viz.spread import spread_points
from dhpf.viz.warp import warp_to_target
from tests.viz.scenes import HandMade, as_match, blank, draw, small_and_wordless

EDGE = 4
FAINT = 24  # of 765 levels: traces of the edge
# Marks are drawn twice as large, to the nearest pixel: they may be off by a quarter of a pixel after. A tenth
# more for the measurement.
OFF = 0.25 + 0.1
NAMED: dict[str, dict[str, Any]] = {"lines": {}, "truth": {"threshold": 1e-6}, "flow": {}, "heat": {}}


class Painted(NamedTuple):
    """An image of which one pixel is marked."""

    size: tuple[int, int]
    pixel: tuple[int, int]


@st.composite
def painted(draw_value: st.DrawFn, widest: int = 300) -> Painted:
    """Neither so long nor the pixel so far from the middle that an edge of the drawing cuts its mark."""
    width = draw_value(st.integers(3, widest))
    size = width, draw_value(st.integers(max(3, width // 2), 2 * width))
    inner = (st.integers(ceil(0.3 * side - 0.5), floor(0.7 * side - 0.5)) for side in size)
    return Painted(size, (draw_value(next(inner)), draw_value(next(inner))))


def seen_at(image: Painted, size: tuple[int, int]) -> NDArray[np.float64]:
    """The centre, x and y, of the marked pixel after the image is resized."""
    paint = np.zeros(image.size[::-1], np.float32)
    paint[image.pixel[1], image.pixel[0]] = 1
    resized = np.asarray(Image.fromarray(paint).resize(size, Image.Resampling.BILINEAR), np.float64)
    y, x = np.indices(resized.shape)
    return np.asarray([(x * resized).sum(), (y * resized).sum()] / resized.sum())


def centre(panel: NDArray[np.int64]) -> NDArray[np.float64]:
    """The centre of mass of all that differs from the panel's ground, x and y; the edges mix with others."""
    mass = np.abs(panel - panel[EDGE, EDGE]).sum(axis=-1)
    mass[mass < FAINT] = 0
    mass[:EDGE], mass[-EDGE:], mass[:, :EDGE], mass[:, -EDGE:] = 0, 0, 0, 0
    y, x = np.indices(mass.shape)
    return np.asarray([(x * mass).sum(), (y * mass).sum()] / mass.sum())


def panels(picture: Image.Image, sizes: list[tuple[int, int]]) -> list[NDArray[np.int64]]:
    pixels, left, found = np.asarray(picture).astype(np.int64), 0, []
    for width, height in sizes:
        found.append(pixels[:height, left : left + width])
        left += width + GAP
    return found


def marks(style: str, source: Painted, target: Painted, height: int) -> list[NDArray[np.float64]]:
    """The middles of the marks in both panels; the source's pixel belongs to the target's."""
    move = np.subtract(target.pixel, source.pixel).tolist()
    match = HandMade(blank(*source.size), blank(*target.size), shift=move)
    truth = {"truth": [target.pixel]} if style == "truth" else {}
    with small_and_wordless(height), patch.object(Pen, "line"):
        picture = draw(match, [source.pixel], style, **truth, **NAMED[style])
        second = source.size if style == "flow" else target.size
        sizes = [drawing_size(source.size), drawing_size(second)]
    return [centre(panel) for panel in panels(picture, sizes)]


@pytest.mark.parametrize("style", NAMED)
@settings(max_examples=15)
@given(source=painted(), target=painted(), height=st.integers(120, 200))
def test_a_marked_pixel_stays_under_its_mark(
    style: str, source: Painted, target: Painted, height: int
) -> None:
    images = [source, source if style == "flow" else target]
    with small_and_wordless(height):
        sizes = [drawing_size(image.size) for image in images]
    expected = [seen_at(image, size) for image, size in zip(images, sizes, strict=True)]
    for found, where in zip(marks(style, source, target, height), expected, strict=True):
        assert np.abs(found - where).max() < OFF


@pytest.mark.parametrize("style", NAMED)
@settings(max_examples=10)
@given(image=painted(), factor=st.sampled_from([1, 2, 3, 5]))
def test_mirrored_and_resized_images_agree(style: str, image: Painted, factor: int) -> None:
    """The drawing of a mirrored pair is mirrored; that of an enlarged pair is the same."""
    with small_and_wordless(120):
        size = drawing_size(image.size)
    width = image.size[0]
    mirrored = Painted(image.size, (width - 1 - image.pixel[0], image.pixel[1]))
    plain, other = (marks(style, each, each, 120) for each in (image, mirrored))
    for one, two in zip(plain, other, strict=True):
        np.testing.assert_allclose(mirror_points(one, size[0]), two, atol=2 * OFF)
    large = factor * width, factor * image.size[1]
    point = resize_points(np.array([image.pixel], np.float64), image.size, large)
    match = HandMade(blank(*large), blank(*large))
    truth = {"truth": point} if style == "truth" else {}
    with small_and_wordless(120), patch.object(Pen, "line"):
        picture = draw(match, point, style, **truth, **NAMED[style])
    for one, panel in zip(plain, panels(picture, [size, size]), strict=True):
        np.testing.assert_allclose(one, centre(panel), atol=2 * OFF)


@given(x=st.floats(20, 40), y=st.floats(20, 40))
@pytest.mark.parametrize("mark", ["dot", "diamond", "ring"])
def test_marks_have_their_middle_where_they_are_put(mark: str, x: float, y: float) -> None:
    picture = blank(120, 120)
    pen = Pen(picture)
    {
        "dot": lambda: pen.dot((x, y), (0, 0, 0)),
        "diamond": lambda: pen.diamond((x, y), (0, 0, 0)),
        "ring": lambda: pen.ring((x, y), 9),
    }[mark]()
    found = centre(np.asarray(shrunk(picture)).astype(np.int64))
    assert np.abs(found - [x, y]).max() < OFF


@settings(max_examples=15)
@given(image=painted(widest=40))
def test_flow_is_drawn_over_the_pixels_that_move(image: Painted) -> None:
    class OnePixelMoves(HandMade):
        def transfer(self, points: ArrayLike) -> NDArray[np.float64]:
            given = np.asarray(points, np.float64)
            inside = (np.abs(given - image.pixel) < 0.5).all(axis=1)
            return given + np.outer(inside, [5.0, 0.0])

    match = OnePixelMoves(blank(*image.size), blank(*image.size))
    with small_and_wordless(160):
        size = drawing_size(image.size)
        moved = panels(draw(match, style="flow"), [size, size])[1]
    where = seen_at(image, size)
    # A pixel of the drawing has the colour of its centre: the square's sides are drawn to the nearest pixel.
    assert np.abs(centre(moved) - where).max() < 0.5 + 0.1


@settings(max_examples=30)
@given(
    image=painted(widest=60), shift=st.tuples(st.integers(-1, 1), st.integers(-1, 1)), mirrored=st.booleans()
)
def test_a_warped_pixel_is_where_its_match_is(image: Painted, shift: tuple[int, int], mirrored: bool) -> None:
    """Shifted by whole pixels, mirrored or not, every pixel is one of the source."""
    width, height = image.size
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[image.pixel[1], image.pixel[0]] = 255
    linear, across = ((-1, 0), (0, 1)) if mirrored else ((1, 0), (0, 1)), width - 1 if mirrored else 0
    match = HandMade(Image.fromarray(pixels), blank(width, height), linear, (shift[0] + across, shift[1]))
    corners = np.array([[0, 0], [width - 1, 0], [0, height - 1], [width - 1, height - 1]], np.float64)
    found = np.asarray(warp_to_target(as_match(match), corners)).astype(int)
    ((x, y),) = match.transfer([image.pixel]).astype(int)
    expected = np.zeros_like(found)
    expected[y, x] = 255
    assert np.abs(found - expected).max() <= 1


@given(
    stride=st.sampled_from([4.0, 8.0, 14.0]),
    offset=st.sampled_from([0.0, 3.5, 6.5]),
    cell=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    enlarged=st.integers(2, 5),
)
def test_heat_is_highest_over_the_centre_of_its_cell(
    stride: float, offset: float, cell: tuple[int, int], enlarged: int
) -> None:
    on_grid = np.zeros((6, 6))
    on_grid[cell[1], cell[0]] = 1
    size = int(6 * stride), int(6 * stride)
    panel_size = size[0] * enlarged, size[1] * enlarged
    heat = over_panel(on_grid, Grid(6, 6, stride, offset), size, panel_size)
    y, x = np.indices(heat.shape)
    found = np.array([(x * heat).sum(), (y * heat).sum()]) / heat.sum()
    cell_centre = offset + stride * np.array(cell)
    # A pixel of the panel counts by its centre; the centre of the input's pixel c is that of the panel's
    # pixels enlarged c to enlarged c + enlarged - 1.
    expected = enlarged * cell_centre + (enlarged - 1) / 2
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_automatic_points_are_whole_pixels_of_the_image() -> None:
    for size in ((64, 48), (7, 300), (1, 1)):
        points = spread_points(as_match(HandMade(blank(*size), blank(*size))), 40)
        assert (points == np.rint(points)).all() and len(points) == min(40, size[0] * size[1])
        assert (points >= 0).all() and (points <= np.array(size) - 1).all()
        assert len(np.unique(points, axis=0)) == len(points)
