"""Which pixels are the object's: from class maps and from outlines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..images import load_upright, open_image


def read_class_mask(path: Path, label: int) -> NDArray[np.bool_]:
    """Where a class map (palette or grey, one class number per pixel) says ``label``, (H, W)."""
    with open_image(path) as image:
        if image.mode not in ("P", "L", "1"):
            raise InputError(f"{path}: a class map has one number per pixel, but this image is {image.mode}")
        mask: NDArray[np.bool_] = np.asarray(load_upright(image, str(path))) == label
        return mask


def fill_polygon(polygon: NDArray[np.float64], size: tuple[int, int]) -> NDArray[np.bool_]:
    """The pixels whose centres lie inside a closed polygon, by the even-odd rule.

    Parameters
    ----------
    polygon
        (P, 2), x then y, in pixels.
    size
        Width and height of the result.

    Returns
    -------
    (H, W)
    """
    width, height = size
    columns = np.arange(width)
    inside = np.zeros((height, width), np.bool_)
    for (x1, y1), (x2, y2) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        if y1 == y2:
            continue  # a horizontal edge crosses no row
        low, high = sorted((y1, y2))
        rows = np.arange(max(0, int(np.ceil(low))), min(height, int(np.ceil(high))))
        crossings = x1 + (rows - y1) * (x2 - x1) / (y2 - y1)
        inside[rows] ^= columns < crossings[:, None]
    return inside
