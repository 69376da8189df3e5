"""The one pixel convention: pixel centres lie at whole numbers. An image of width W spans -0.5 to W - 0.5."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Size = tuple[int, int]  # width, height


def resize_points(points: NDArray[np.float64], old_size: Size, new_size: Size) -> NDArray[np.float64]:
    """Where points (K, 2), x then y, of an image lie after it is resized."""
    scale = np.array(new_size) / np.array(old_size)
    resized: NDArray[np.float64] = (points + 0.5) * scale - 0.5
    return resized


def mirror_points(points: NDArray[np.float64], width: int) -> NDArray[np.float64]:
    """Where points (K, 2), x then y, of an image lie after it is mirrored left to right."""
    return np.stack([width - 1 - points[..., 0], points[..., 1]], axis=-1)
