"""Reading images, and filling polygons, against examples and a literal implementation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dhpf.data.images import fill_polygon, read_class_mask, read_rgb, read_size
from dhpf.errors import InputError


def literally_inside(x: float, y: float, polygon: np.ndarray) -> bool:
    """A ray to the right crosses the outline an odd number of times."""
    crossings = 0
    for (x1, y1), (x2, y2) in zip(polygon, [*polygon[1:], polygon[0]], strict=True):
        if (y1 <= y < y2) or (y2 <= y < y1):
            crossings += x1 + (y - y1) / (y2 - y1) * (x2 - x1) > x
    return crossings % 2 == 1


def test_rectangle_covers_the_pixels_whose_centres_it_holds():
    polygon = np.array([[0.5, 0.5], [2.5, 0.5], [2.5, 1.5], [0.5, 1.5]])
    expected = np.zeros((3, 4), bool)
    expected[1, 1:3] = True
    assert np.array_equal(fill_polygon(polygon, (4, 3)), expected)


@given(
    st.lists(st.tuples(st.integers(-20, 60), st.integers(-20, 60)), min_size=3, max_size=8),
    st.tuples(st.integers(1, 9), st.integers(1, 9)),
)
def test_any_polygon_agrees_with_the_literal_rule(corners, size):
    polygon = np.array(corners) / 7 + 0.01  # a corner on a pixel centre is a matter of rounding
    width, height = size
    literal = [[literally_inside(x, y, polygon) for x in range(width)] for y in range(height)]
    assert np.array_equal(fill_polygon(polygon, size), literal)


def test_grey_images_are_read_as_rgb(tmp_path):
    Image.new("L", (3, 2), 7).save(tmp_path / "grey.png")
    assert read_size(tmp_path / "grey.png") == (3, 2)
    assert np.array_equal(read_rgb(tmp_path / "grey.png"), np.full((2, 3, 3), 7))


def test_class_map_of_a_palette_image(tmp_path):
    image = Image.fromarray(np.array([[0, 5, 255], [5, 6, 0]], np.uint8))
    image.putpalette(bytes(range(256)) * 3)
    image.save(tmp_path / "map.png")
    assert read_class_mask(tmp_path / "map.png", 5).tolist() == [[False, True, False], [True, False, False]]


def test_colour_image_is_no_class_map(tmp_path):
    Image.new("RGB", (3, 2)).save(tmp_path / "map.png")
    with pytest.raises(InputError, match=r"map\.png: .* this image is RGB"):
        read_class_mask(tmp_path / "map.png", 1)


def test_missing_image_is_named(tmp_path):
    for read in (read_size, read_rgb):
        with pytest.raises(InputError, match=r"gone\.jpg: the image is missing"):
            read(tmp_path / "gone.jpg")


@pytest.mark.parametrize("ending", ["jpg", "png"])
def test_cut_images_are_named_wherever_they_are_cut(tmp_path: Path, ending: str):
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), np.uint8)
    path = tmp_path / f"photo.{ending}"
    Image.fromarray(noise).save(path)
    whole = path.read_bytes()
    for length in range(0, len(whole) * 9 // 10, len(whole) // 60):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=rf"photo\.{ending}: not a readable image"):
            read_rgb(path)
