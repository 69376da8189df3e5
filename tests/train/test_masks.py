"""Where objects are: masks before boxes before keypoints, on the grid, under augmentation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dhpf import InputError
from dhpf.data.pairs import Annotation, ClassMap, Labels, Photo
from dhpf.grid import Grid
from dhpf.train.augmentation import Augmentation
from dhpf.train.masks import mask_on_grid, object_mask, shows_objects

NONE = np.zeros((0, 2))
SIZE = (10, 8)  # width, height


def inside(columns: range, rows: range) -> np.ndarray:
    mask = np.zeros(SIZE[::-1], bool)
    mask[rows.start : rows.stop, columns.start : columns.stop] = True
    return mask


def photo(tmp_path: Path, label: int) -> Photo:
    """A class map that says 3 in the two leftmost columns, a box and two keypoints."""
    path = tmp_path / "map.png"
    Image.fromarray(3 * inside(range(2), range(8)).astype(np.uint8)).save(path)
    points = np.array([(5.0, 1.0), (9.0, 3.0)])
    return Photo(
        tmp_path / "a.jpg", SIZE, points, np.array([2.0, 1.0, 4.0, 3.0]), None, ClassMap(path, label)
    )


def test_a_mask_before_a_box_before_keypoints(tmp_path: Path) -> None:
    masked = photo(tmp_path, label=3)
    np.testing.assert_array_equal(object_mask(masked), inside(range(2), range(8)))
    np.testing.assert_array_equal(object_mask(masked.mirror()), inside(range(8, 10), range(8)))
    boxed = inside(range(2, 5), range(1, 4))
    np.testing.assert_array_equal(object_mask(photo(tmp_path, label=4)), boxed)  # a map without this class
    np.testing.assert_array_equal(object_mask(replace(masked, class_map=None)), boxed)
    pointed = object_mask(replace(masked, class_map=None, box=None))
    # From 5 to 9 and from 1 to 3, a tenth wider on each side: 4.6 to 9.4 and 0.8 to 3.2.
    np.testing.assert_array_equal(pointed, inside(range(5, 10), range(1, 4)))
    with pytest.raises(InputError, match=r"a.jpg has no mask, box or keypoints"):
        object_mask(Photo(masked.path, SIZE, NONE))


def test_cells_lie_on_the_object_or_not(tmp_path: Path) -> None:
    half = replace(photo(tmp_path, 3), class_map=None, box=np.array([0.0, 0.0, 4.0, 7.0]))  # the left half
    grid = Grid(4, 5, stride=4.0, offset=1.5)  # of an input that is twice as large, 20 x 16
    whole = mask_on_grid(half, Augmentation(), (20, 16), grid)
    assert whole.tolist() == [[1, 1, 1, 0, 0]] * 4  # centres at 0.5, 2.5, 4.5 (to 4), 6.5 and 8.5
    right = mask_on_grid(half, Augmentation((0.4, 0.0, 1.0, 1.0)), (12, 16), Grid(4, 3, 4.0, 1.5))
    assert right.tolist() == [[1, 0, 0]] * 4  # from column 4 on: 4.25, 6.25 and 8.25


@pytest.mark.parametrize(
    ("labels", "known"),
    [
        (Labels(NONE), False),
        (Labels(np.ones((1, 2))), False),
        (Labels(np.ones((2, 2))), True),
        (Labels(NONE, np.ones(4)), True),
        (Labels(NONE, None, np.ones((3, 2))), True),
        (Labels(NONE, class_map=ClassMap(Path("map.png"), 1)), True),
    ],
)
def test_what_says_where_objects_are(labels: Labels, known: bool) -> None:
    sure = Labels(NONE, np.ones(4))
    assert shows_objects(Annotation(labels, sure)) == shows_objects(Annotation(sure, labels)) == known
