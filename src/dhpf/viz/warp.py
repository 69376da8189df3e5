"""The source photo warped onto the target, as in figures 5 and 6 of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from scipy.interpolate import RBFInterpolator
from scipy.ndimage import map_coordinates, zoom

from ..errors import InputError

if TYPE_CHECKING:
    from ..match import Match, Points

LATTICE = 64  # the spline is evaluated at that many places a side, and interpolated between them
SMOOTHING = 1e-3  # lets single wrong matches give way


def warp_to_target(match: Match, points: Points) -> Image.Image:
    """Fit a thin-plate spline from matched target points back to ``points``, and sample the source there.

    Parameters
    ----------
    points
        (K, 2), x then y, in pixels of the source photo; at least three that do not lie on a line.
    """
    source_size, target_size = np.array(match.source.size), np.array(match.target.size)
    arrived = match.transfer(points) / target_size
    arrived, first = np.unique(np.round(arrived, 6), axis=0, return_index=True)
    if len(arrived) < 3 or np.linalg.matrix_rank(arrived - arrived[0], tol=1e-6) < 2:
        raise InputError(f"a warp needs at least 3 different points not on one line; got {len(arrived)}")
    spline = RBFInterpolator(
        arrived, (points / source_size)[first], kernel="thin_plate_spline", smoothing=SMOOTHING * len(arrived)
    )
    side = np.linspace(0, 1, LATTICE)
    lattice = np.stack(np.meshgrid(side, side), axis=-1)  # (rows, columns, 2), x then y
    origin = spline(lattice.reshape(-1, 2)).reshape(lattice.shape)
    width, height = match.target.size
    scale = (height / LATTICE, width / LATTICE)
    x, y = (zoom(origin[..., axis], scale, order=1, grid_mode=False) for axis in (0, 1))
    where = [y * (source_size[1] - 1), x * (source_size[0] - 1)]
    photo = np.asarray(match.source)
    channels = [map_coordinates(photo[..., c], where, order=1, mode="constant") for c in range(3)]
    return Image.fromarray(np.stack(channels, axis=-1))
