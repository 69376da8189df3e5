"""Style "warp": the source image warped onto the target, as in figures 5 and 6 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.interpolate import RBFInterpolator
from scipy.ndimage import map_coordinates

from ..errors import InputError
from .canvas import Entry, panel, sheet, shrunk
from .flow import faded
from .lines import describe

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points

STEERING = 80  # confident points steer the warp, when nobody said which
LATTICE = 64  # the spline is evaluated at that many locations a side, and interpolated between them
OUTSIDE = 225  # light grey
SMOOTHING = 1e-3  # lets single wrong matches give way
STRIP = 2**20  # pixels that are sampled at a time, so that a large image needs little more than its result


def warp_to_target(match: Match, points: Points) -> Image.Image:
    """Fit a thin-plate spline from matched target points back to ``points``, and sample the source there.

    What lies outside the source stays black.

    Parameters
    ----------
    points
        (K, 2), x then y, in pixels of the source image; at least three whose matches do not lie on a line.
    """
    return Image.fromarray(_warped(match, points)[0])


def draw_warp(match: Match, points: Points) -> Image.Image:
    """Draw the warped source, the target, and half of each; ``points`` as for :func:`warp_to_target`.

    What is not matched fades: to light grey in the first panel, to the target in the last.
    """
    pixels, seen = _warped(match, points)
    sure = _confidence(match, points) * seen
    warped, target = panel(Image.fromarray(faded(pixels, sure, OUTSIDE))), panel(match.target)
    strength = Image.fromarray(faded(np.full_like(pixels, 255), sure, 0)[..., 0])
    half = Image.composite(Image.blend(panel(Image.fromarray(pixels)), target, 0.5), target, panel(strength))
    facts = f"thin-plate splines through {len(points)} matches   {describe(match)}"
    captions = ["source, warped", "target", "half of each"]
    return shrunk(sheet([warped, target, half], [[Entry(facts)]], captions))


def _warped(match: Match, points: Points) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
    """The warped source (H', W', 3), and where it lies within its image (H', W'); black elsewhere."""
    origin = _origins(match, points)
    image = np.asarray(match.source)
    width, height = match.target.size
    columns = np.linspace(0, LATTICE - 1, width)
    rows = np.linspace(0, LATTICE - 1, height)
    warped, inside = np.zeros((height, width, 3), np.uint8), np.zeros((height, width), np.bool_)
    step = max(1, STRIP // width)
    for top in range(0, height, step):
        strip = slice(top, top + step)
        location = np.meshgrid(rows[strip], columns, indexing="ij")
        x, y = (map_coordinates(origin[..., axis], location, order=1) for axis in (0, 1))
        seen = (x >= -0.5) & (x <= image.shape[1] - 0.5) & (y >= -0.5) & (y <= image.shape[0] - 0.5)
        inside[strip] = seen
        for channel in range(3):
            sampled = map_coordinates(image[..., channel], [y, x], np.float64, order=1, mode="nearest")
            warped[strip, :, channel] = np.rint(sampled) * seen
    return warped, inside


def _confidence(match: Match, points: Points) -> NDArray[np.float64]:
    """Of what lies at each pixel of the target, on objects: (H', W')."""
    origin = _origins(match, points).reshape(-1, 2)
    inside = origin.clip(-0.5, np.array(match.source.size) - 0.5)
    sure = match.confidence_at(inside) * match.on_objects(inside)
    lattice = Image.fromarray(sure.reshape(LATTICE, LATTICE).astype(np.float32))
    return np.asarray(lattice.resize(match.target.size, Image.Resampling.BILINEAR), np.float64)


def _origins(match: Match, points: Points) -> NDArray[np.float64]:
    """Where each location of a lattice over the target comes from: (LATTICE, LATTICE, 2), in source pixels.

    The lattice spans the centres of the target's first and last pixels.
    """
    arrived = _of_sides(match.transfer(points), match.target.size)
    _, first = np.unique(np.round(arrived, 6), axis=0, return_index=True)  # a spline takes each location once
    arrived = arrived[first]
    if len(arrived) < 3 or np.linalg.matrix_rank(arrived - arrived[0], tol=1e-6) < 2:
        raise InputError(
            "a warp needs at least 3 points whose matches do not lie on one line; give more points"
        )
    spline = RBFInterpolator(
        arrived,
        _of_sides(points[first], match.source.size),
        kernel="thin_plate_spline",
        smoothing=SMOOTHING * len(arrived),
    )
    sides = (np.linspace(0, side - 1, LATTICE) for side in match.target.size)
    lattice = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)  # x then y
    origin: NDArray[np.float64] = spline(_of_sides(lattice, match.target.size)) * match.source.size - 0.5
    return origin.reshape(LATTICE, LATTICE, 2)


def _of_sides(points: Points, size: tuple[int, int]) -> Points:
    """Pixels as fractions of the image's sides: all images are to be smoothed alike."""
    fractions: Points = (points + 0.5) / size
    return fractions
