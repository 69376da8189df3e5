"""Image files -> arrays, with one-line errors that name the file.

Coordinates count pixel centres: the centre of the top left pixel is (0, 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ..errors import InputError


def read_size(path: Path) -> tuple[int, int]:
    """Width and height, from the file's header alone."""
    with _opened(path) as image:
        return image.size


def read_rgb(path: Path) -> NDArray[np.uint8]:
    """The image, (H, W, 3)."""
    with _opened(path) as image:
        return np.array(image.convert("RGB"))


def read_class_mask(path: Path, label: int) -> NDArray[np.bool_]:
    """Where a class map (palette or grey, one class number per pixel) says ``label``, (H, W)."""
    with _opened(path) as image:
        if image.mode not in ("P", "L", "1"):
            raise InputError(f"{path}: a class map has one number per pixel, but this image is {image.mode}")
        mask: NDArray[np.bool_] = np.asarray(image) == label
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


@contextmanager
def _opened(path: Path) -> Iterator[Image.Image]:
    try:
        with Image.open(path) as image:
            yield image
    except FileNotFoundError:
        raise InputError(f"{path}: the image is missing") from None
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{path}: not a readable image ({_one_line(error)})") from error


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
