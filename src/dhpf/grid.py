"""Where pixels and cells lie: the one convention of the package.

Pixel centres lie at whole numbers: the pixel in column 3 and row 5 has its centre at (3, 5), and an image of
width W covers x from -1/2 to W - 1/2. Hence

    resizing from W to V    x' = (x + 1/2) V / W - 1/2
    mirroring               x' = W - 1 - x
    cropping from column c  x' = x - c

and lengths scale by V / W alone. Points are x, then y; sizes are width, then height.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from torch import Tensor

Size = tuple[int, int]  # width, height in pixels
Points = NDArray[np.float64]  # (K, 2), x then y


class Grid(NamedTuple):
    """The cells of a feature map: a cell's centre is offset + stride * (column, row), in input pixels."""

    rows: int
    columns: int
    stride: float
    offset: float = 0.0

    @property
    def shape(self) -> tuple[int, int]:
        """Rows, columns."""
        return self.rows, self.columns

    @property
    def cells(self) -> int:
        """How many there are; they are numbered row by row."""
        return self.rows * self.columns

    def centres(self) -> Points:
        """(rows, columns, 2): x and y of every cell."""
        rows, columns = np.indices(self.shape, np.float64)
        centres: Points = self.offset + self.stride * np.stack([columns, rows], axis=-1)
        return centres

    def coordinates(self, points: Tensor) -> Tensor:
        """Points (..., 2) in input pixels -> fractional column and row (..., 2)."""
        return (points - self.offset) / self.stride

    def with_shape(self, rows: int, columns: int) -> Grid:
        """Other numbers of cells over the same extent: the first and the last ones stay where they are."""
        ratio = max((self.rows - 1) / max(rows - 1, 1), (self.columns - 1) / max(columns - 1, 1)) or 1.0
        return Grid(rows, columns, self.stride * ratio, self.offset)

    def nearest(self, points: Tensor) -> Tensor:
        """The number of the cell nearest to each point, (..., 2) in input pixels -> (...)."""
        # A half rounds down: of two cells at the same distance, the first is taken.
        column, row = (self.coordinates(points) - 0.5).ceil().long().unbind(-1)
        return row.clamp(0, self.rows - 1) * self.columns + column.clamp(0, self.columns - 1)


def resize_points(points: ArrayLike, old: Size, new: Size) -> Points:
    """Where points of an image of size ``old`` lie after it is resized to ``new``."""
    scale = np.asarray(new, np.float64) / np.asarray(old, np.float64)
    resized: Points = (np.asarray(points, np.float64) + 0.5) * scale - 0.5
    return resized


def mirror_points(points: ArrayLike, width: int) -> Points:
    """Where points of an image lie after left and right are exchanged."""
    array = np.asarray(points, np.float64)
    return np.stack([width - 1 - array[..., 0], array[..., 1]], axis=-1)
