"""A closer look: boxes by hand, a photo and a known part of it, and what becomes of a match."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from PIL import Image

import dhpf
from dhpf.closer import shared_parts

GRID = (10, 20)


def places(scale: tuple[float, float], shift: tuple[float, float]) -> torch.Tensor:
    """Source cells of the grid, scaled and shifted: rows, then columns."""
    rows, columns = torch.meshgrid(*(torch.arange(n, dtype=torch.float64) for n in GRID), indexing="ij")
    return torch.stack([scale[0] * rows.flatten() + shift[0], scale[1] * columns.flatten() + shift[1]], 1)


@pytest.mark.parametrize(
    ("scale", "shift", "own", "theirs"),
    [
        ((1.0, 1.0), (0.0, 0.0), (0, 0, 1, 1), (0, 0, 1, 1)),
        # Rows move down by 2 of 10, columns left by 5 of 20: each photo loses a fifth and a quarter.
        ((1.0, 1.0), (2.0, -5.0), (0.25, 0, 1, 0.8), (0, 0.2, 0.75, 1)),
        # Twice as wide, from the left edge: the left half of the source fills the target.
        ((1.0, 2.0), (0.0, 0.0), (0, 0, 0.5, 1), (0, 0, 1, 1)),
        # Half as high, 3 of 10 cells further down: all of the source, in the target from 0.3 to 0.8.
        ((0.5, 1.0), (3.0, 0.0), (0, 0, 1, 1), (0, 0.3, 1, 0.8)),
        # Columns share less than the smallest part: that side is left whole.
        ((1.0, 1.0), (2.0, 15.0), (0, 0, 1, 0.8), (0, 0.2, 1, 1)),
    ],
)
def test_shared_parts_by_hand(
    scale: tuple[float, float],
    shift: tuple[float, float],
    own: tuple[float, ...],
    theirs: tuple[float, ...],
) -> None:
    found = shared_parts(places(scale, shift), GRID, GRID)
    assert found[0] == pytest.approx(own, abs=1e-9)
    assert found[1] == pytest.approx(theirs, abs=1e-9)


def test_a_motion_that_shrinks_all_to_a_point_is_not_believed() -> None:
    own, theirs = shared_parts(places((0.0, 0.0), (5.0, 10.0)), GRID, GRID)
    assert own == pytest.approx((0, 0, 1, 1), abs=1e-9)
    assert theirs[2] - theirs[0] == pytest.approx(0.5) and theirs[3] - theirs[1] == pytest.approx(0.5)


@pytest.mark.parametrize("name", ["cheetah", "cheetah_cub"])
def test_points_of_a_real_photo_are_found_nearer_in_a_part_of_it(name: str) -> None:
    photo = Image.open(dhpf.sample(name)).convert("RGB")
    left, top, right, bottom = (
        round(share * side)
        for share, side in zip((0.2, 0.1, 0.75, 0.7), (*photo.size, *photo.size), strict=True)
    )
    part = photo.crop((left, top, right, bottom))
    inner = np.linspace(0, 1, 12)[1:-1]
    wanted = np.stack(np.meshgrid(inner * part.width, inner * part.height), axis=-1).reshape(-1, 2)
    matcher = dhpf.load("resnet50-strong")
    errors = []
    for closer in (False, True):
        matcher.network.closer = closer
        found = matcher.match(photo, part).transfer(wanted + np.array([left, top]))
        errors.append(float(np.linalg.norm((found - wanted) / part.size, axis=1).mean()))
    assert errors[1] < 0.75 * errors[0] and errors[1] < 1 / 60, errors  # less than a cell


def test_all_of_a_match_follows_the_closer_look() -> None:
    matcher = dhpf.load("resnet50-strong")
    matcher.network.closer = True
    match = matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    assert match.closer is not None and match.closer.shape == (*match.grids[0], 2)
    assert np.abs(match.closer).max() > 1  # something changed
    points = np.array([[60.0, 90.0], [90.0, 91.0], [140.0, 120.0]])
    column, row = points.astype(int).T
    np.testing.assert_allclose(match.transfer(points), points + match.flow[row, column], atol=1e-3)
    again = pickle.loads(pickle.dumps(match))
    np.testing.assert_array_equal(again.transfer(points), match.transfer(points))

    matcher.network.closer = False
    once = matcher.match(dhpf.sample("cheetah"), dhpf.sample("cheetah_cub"))
    np.testing.assert_array_equal(once.best, match.best)  # the first look is the same
    assert once.closer is None and np.abs(once.transfer(points) - match.transfer(points)).max() > 0.1


@pytest.mark.parametrize("size", [(8, 8), (8, 300), (300, 8)])
def test_the_smallest_and_narrow_photos_have_a_closer_look_too(size: tuple[int, int]) -> None:
    matcher = dhpf.load("resnet50-strong", size=64)
    matcher.network.closer = True
    photo = Image.open(dhpf.sample("lion")).convert("RGB")
    found = matcher.match(photo.resize(size), photo).transfer([[0.5, 0.5]])
    assert np.isfinite(found).all()
    assert (found >= -0.1 * np.array(photo.size)).all() and (found <= 1.1 * np.array(photo.size)).all()
