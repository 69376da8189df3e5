"""Warps whose answer is known: shifts, other sizes; the same on every CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from dhpf import InputError
from dhpf.points import Points
from dhpf.viz.spread import spread_points
from dhpf.viz.warp import warp_to_target
from tests.conftest import texture
from tests.viz.scenes import HandMade, as_match, blank

LEVEL = 1  # what is sampled is rounded, and may lie between two levels


def warp(match: HandMade, points: Any) -> NDArray[np.int64]:
    return np.asarray(warp_to_target(as_match(match), np.asarray(points, np.float64))).astype(np.int64)


INNER = [[x, y] for x in range(8, 50, 6) for y in range(10, 60, 6)]


@pytest.mark.parametrize("last_bits", [0.0, 1e-9, -1e-9])
def test_warp_by_an_affine_map(last_bits: float) -> None:
    """Where x' = x + 8, y' = y - 4 everywhere, the warped image is the shifted image.

    The spline's solution differs in its last bits from CPU to CPU. No pixel may depend on them: whole pixels
    come from whole pixels, half a pixel from the image's border.
    """
    image = texture(64, 64)
    moved = HandMade(Image.fromarray(image), blank(64, 64), shift=(8 + last_bits, -4 + last_bits))
    warped = warp(moved, INNER)
    assert np.abs(warped[:60, 8:] - image[4:, :-8]).max() <= LEVEL
    assert (warped[:, :8] == 0).all()
    assert (warped[60:] == 0).all()


@pytest.mark.parametrize("mirrored", [False, True])
def test_warp_between_images_of_other_sizes(mirrored: bool) -> None:
    """A ramp of 96 x 48 pixels onto 192 x 60: each pixel has the ramp's value at its centre."""
    ramp = np.broadcast_to(2 * np.arange(96)[None, :, None], (48, 96, 3)).astype(np.uint8)
    side = -1 if mirrored else 1
    # x' = 2 x + 0.5 and y' = 1.25 y + 0.125 take centres to centres; mirrored, x' = 191 - that.
    shift = (190.5 if mirrored else 0.5, 0.125)
    match = HandMade(Image.fromarray(ramp), blank(192, 60), ((2 * side, 0), (0, 1.25)), shift)
    warped = warp(match, [[x, y] for x in range(4, 92, 8) for y in range(4, 44, 8)])
    assert warped.shape == (60, 192, 3)
    # Between the first and the last centre of the ramp it rises by 1 a pixel, beyond it stays.
    expected = np.clip(np.arange(192) - 0.5, 0, 190)[::side]
    assert np.abs(warped - expected[None, :, None]).max() <= LEVEL


def test_warp_in_strips_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    moved = HandMade(Image.fromarray(texture(64, 64)), blank(50, 70), shift=(4, 4))
    points = moved.keypoints(80)
    whole = warp(moved, points)
    monkeypatch.setattr("dhpf.viz.warp.STRIP", 333)
    np.testing.assert_array_equal(warp(moved, points), whole)


@pytest.mark.parametrize("points", [[[10, 10], [20, 20]], [[10, 10], [20, 20], [30, 30]], [[5, 5]] * 4])
def test_warp_needs_three_points_off_a_line(points: list[list[int]]) -> None:
    with pytest.raises(InputError, match=r"3 points whose matches do not lie on one line"):
        warp(HandMade(blank(64, 64), blank(64, 64)), points)


def chosen(confidence: NDArray[np.float64], count: int) -> Points:
    """Automatic points where the confidence of every pixel is given."""
    height, width = confidence.shape
    match = HandMade(
        blank(width, height),
        blank(width, height),
        confident=lambda x, y: confidence[y.astype(int), x.astype(int)],
    )
    return spread_points(as_match(match), count)


def test_automatic_points_are_the_most_confident_that_are_apart() -> None:
    confidence = np.zeros((40, 60))
    confidence[10, 20], confidence[10, 22], confidence[33, 50] = 1.0, 0.9, 0.8  # the second is near the first
    np.testing.assert_array_equal(chosen(confidence, 2), [[20, 10], [50, 33]])
    assert len(chosen(np.full((40, 60), 0.5), 40)) == 40
