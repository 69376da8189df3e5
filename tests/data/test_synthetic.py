"""Synthetic pairs: painted dots are found where the points say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dhpf import InputError
from dhpf.data.augment import Augmented
from dhpf.data.pairs import Pair, Photo
from dhpf.data.synthetic import POINTS, SyntheticPairs, Warp, WarpedPhoto
from dhpf.grid import resize_points

from ..conftest import texture

SIZE = (120, 90)  # width, height


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a/one.png", "b/one.png", "two.JPG"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(texture(*SIZE, seed=len(name))).save(path)
    (tmp_path / "photos" / "notes.txt").touch()
    (tmp_path / "photos" / "folder.jpg").mkdir()
    return tmp_path / "photos"


def dotted(path: Path, at: np.ndarray) -> None:
    """Black, with one bright Gaussian dot."""
    y, x = np.indices(SIZE[::-1])
    dot = 255 * np.exp(-((x - at[0]) ** 2 + (y - at[1]) ** 2) / (2 * 2.0**2))
    Image.fromarray(np.repeat(dot.round().astype(np.uint8)[..., None], 3, 2)).save(path)


def bright(photo: Photo) -> np.ndarray:
    weight = photo.image()[..., 0].astype(np.float64)
    y, x = np.indices(weight.shape)
    return np.array([(x * weight).sum(), (y * weight).sum()]) / weight.sum()


def is_right(pair: Pair, point: int) -> bool:
    """The dot is where both photos' points say."""
    return all(np.abs(bright(p) - p.points[point]).max() < 1.0 for p in (pair.source, pair.target))


@pytest.mark.parametrize("index", [0, 1, 2])
def test_points_are_true_correspondences(folder, index):
    pairs = SyntheticPairs(folder)
    first = pairs[index]
    margin = np.array([9, 9])
    for point in range(0, POINTS, 5):
        inner = [p.points[point] for p in (first.source, first.target)]
        if not all((p > margin).all() and (p < np.array(SIZE) - margin).all() for p in inner):
            continue  # a dot at the edge is cut off, or repeated
        dotted(first.source.path, first.source.points[point])
        pair = pairs[index]
        for one in (pair, pair.mirror(), pair.swap(), pair.mirror().swap().mirror()):
            assert is_right(one, point)
        assert not is_right(pair.swap(), (point + 1) % POINTS)


def test_augmented_pairs_stay_right(folder):
    pairs = SyntheticPairs(folder)
    point = 3
    for index in range(3):
        dotted(pairs.entries[index].source, pairs[index].source.points[point])
    seen = set()
    for epoch in range(6):
        for index in range(3):
            pair = Augmented(pairs, seed=1, epoch=epoch)[index]
            seen.add((pair.source.mirrored, isinstance(pair.source, WarpedPhoto)))
            assert np.abs(bright(pair.source) - pair.source.points[point]).max() < 1.5
            assert np.abs(bright(pair.target) - pair.target.points[point]).max() < 1.5
    assert len(seen) == 4


def test_all_points_lie_inside_both(folder):
    for pair in (SyntheticPairs(folder, seed)[index] for seed in range(8) for index in range(3)):
        assert len(pair.source.points) == len(pair.target.points) == POINTS
        for photo in (pair.source, pair.target):
            assert (photo.points > 0).all()
            assert (photo.points < np.array(photo.size) - 1).all()


def test_photos_are_listed_with_their_folders_and_kept_apart(folder):
    pairs = SyntheticPairs(folder)
    assert [entry.id for entry in pairs.entries] == ["a/one.png", "b/one.png", "two.JPG"]
    assert [entry.category for entry in pairs.entries] == ["a", "b", "photos"]
    assert all(entry.source == entry.target for entry in pairs.entries)
    assert len({pairs[k].target.appearance for k in range(3)}) == 3  # each its own warp


def test_the_same_seed_gives_the_same_pairs(folder):
    one, again, other = (SyntheticPairs(folder, seed)[1] for seed in (3, 3, 4))
    assert np.array_equal(one.target.image(), again.target.image())
    assert np.array_equal(one.target.points, again.target.points)
    assert not np.array_equal(one.target.image(), other.target.image())
    assert one.target.appearance != other.target.appearance
    assert np.array_equal(SyntheticPairs(folder, 3)[-2].target.points, one.target.points)


@pytest.mark.parametrize("seed", range(4))
def test_a_resized_image_has_the_same_warp(folder, seed):
    """Also from odd to even sizes: where a point comes from does not depend on the number of pixels."""
    small = SyntheticPairs(folder, seed).annotation(0)
    path = SyntheticPairs(folder).entries[0].source
    larger = (SIZE[0] * 2 + 1, SIZE[1] * 3)
    Image.open(path).resize(larger).save(path)
    large = SyntheticPairs(folder, seed).annotation(0)
    for before, after in ((small.source, large.source), (small.target, large.target)):
        np.testing.assert_allclose(after.points, resize_points(before.points, SIZE, larger), atol=1e-9)


def test_a_warp_turns_about_the_centre_of_the_image():
    """Without shift and bend, the centre, (W - 1) / 2, stays; a corner turns about it."""
    warp = Warp(0)
    warp.matrix, warp.shift, warp.bend = np.array([[0.0, -1.0], [1.0, 0.0]]), np.zeros(2), warp.bend * 0
    points = warp.origin(np.array([[4.0, 4.0], [0.0, 0.0]]), (9, 9))
    np.testing.assert_allclose(points, [[4, 4], [8, 0]], atol=1e-12)


def test_photos_that_a_camera_turned_are_upright(folder):
    """The EXIF orientation is undone, in the image, its warp and its points."""
    pairs = SyntheticPairs(folder)
    first = pairs[0]
    upright = first.source.image()
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.ascontiguousarray(np.rot90(upright))).save(first.source.path, exif=exif)
    again = pairs[0]
    assert again.source.size == again.target.size == SIZE
    assert np.array_equal(again.source.image(), upright)
    assert np.array_equal(again.target.image(), first.target.image())
    assert np.array_equal(again.target.points, first.target.points)


def test_the_warp_moves_things_and_keeps_the_size(folder):
    pair = SyntheticPairs(folder)[0]
    assert pair.target.image().shape == pair.source.image().shape
    assert np.abs(pair.source.points - pair.target.points).max() > 3


def test_folders_that_will_not_do(tmp_path):
    with pytest.raises(InputError, match="no such folder of photos"):
        SyntheticPairs(tmp_path / "absent")
    with pytest.raises(InputError, match="holds no photo"):
        SyntheticPairs(tmp_path)
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    with pytest.raises(InputError, match=r"broken\.jpg is not an image"):
        SyntheticPairs(tmp_path)[0]
