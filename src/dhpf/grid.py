"""Where pixels lie: the one convention of the package.

Pixel centres lie at whole numbers: the pixel in column 3 and row 5 has its centre at (3, 5), and an image of
width W covers x from -1/2 to W - 1/2. Hence

    resizing from W to V    x' = (x + 1/2) V / W - 1/2
    mirroring               x' = W - 1 - x
    cropping from column c  x' = x - c

and lengths scale by V / W alone. Points are x, then y; sizes are width, then height.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Size = tuple[int, int]  # width, height in pixels
Points = NDArray[np.float64]  # (K, 2), x then y


def resize_points(points: ArrayLike, old: Size, new: Size) -> Points:
    """Where points of an image of size ``old`` lie after it is resized to ``new``."""
    resized: Points = (np.asarray(points, np.float64) + 0.5) * (np.asarray(new) / np.asarray(old)) - 0.5
    return resized


def mirror_points(points: ArrayLike, width: int) -> Points:
    """Where points of an image lie after left and right are exchanged."""
    array = np.asarray(points, np.float64)
    return np.stack([width - 1 - array[..., 0], array[..., 1]], axis=-1)
