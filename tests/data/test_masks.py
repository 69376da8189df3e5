"""Class maps, and polygons against examples and a literal implementation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dhpf.data.masks import fill_polygon, read_class_mask
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
    # Shifted by numbers of no common measure, so that no edge passes through a pixel's centre: which side
    # that is on would be a matter of rounding.
    polygon = np.array(corners) / 7 + np.sqrt([2, 3]) / 100
    width, height = size
    literal = [[literally_inside(x, y, polygon) for x in range(width)] for y in range(height)]
    assert np.array_equal(fill_polygon(polygon, size), literal)


def class_map() -> Image.Image:
    """A palette image of 9 x 8 pixels whose values are 0, 5, 6 and 255."""
    values = np.random.default_rng(0).choice(np.array([0, 5, 6, 255], np.uint8), (8, 9))
    image = Image.fromarray(values)
    image.putpalette(bytes(range(256)) * 3)
    return image


def test_class_map_of_a_palette_image(tmp_path):
    class_map().save(tmp_path / "map.png")
    assert np.array_equal(read_class_mask(tmp_path / "map.png", 5), np.asarray(class_map()) == 5)


def test_class_maps_are_turned_upright_as_images_are(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    class_map().save(tmp_path / "map.png", exif=exif)
    assert np.array_equal(
        read_class_mask(tmp_path / "map.png", 5), np.rot90(np.asarray(class_map()) == 5, -1)
    )


def test_colour_image_is_no_class_map(tmp_path):
    Image.new("RGB", (9, 8)).save(tmp_path / "map.png")
    with pytest.raises(InputError, match=r"map\.png: .* this image is RGB"):
        read_class_mask(tmp_path / "map.png", 1)


def test_missing_and_damaged_class_maps_are_named(tmp_path):
    with pytest.raises(InputError, match=r"no such image: .*gone\.png"):
        read_class_mask(tmp_path / "gone.png", 1)
    class_map().save(tmp_path / "map.png")
    (tmp_path / "map.png").write_bytes((tmp_path / "map.png").read_bytes()[:-30])
    with pytest.raises(InputError, match=r"map\.png is damaged or cut off"):
        read_class_mask(tmp_path / "map.png", 1)
