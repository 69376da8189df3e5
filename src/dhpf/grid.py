"""Cells and pixels. Pixel centres lie at whole numbers: an image of width W covers x from -0.5 to W - 0.5."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def resize_points(
    points: ArrayLike, old_size: tuple[int, int], new_size: tuple[int, int]
) -> NDArray[np.float64]:
    """Where points (K, 2), x then y, lie after an image is resized from one (width, height) to another."""
    scale = np.asarray(new_size, np.float64) / np.asarray(old_size, np.float64)
    return (np.asarray(points, np.float64) + 0.5) * scale - 0.5


def mirror_points(points: ArrayLike, width: int) -> NDArray[np.float64]:
    """Where points (K, 2), x then y, lie after left and right of an image of that width are exchanged."""
    return np.asarray(points, np.float64) * (-1, 1) + (width - 1, 0)
