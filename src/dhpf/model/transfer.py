"""Section 3.3: best targets of cells + points -> points, by the average over the neighbouring cells.

Each cell of the source grid moves by the offset to its best target. A point moves by the mean offset of
the cells whose receptive-field box covers it. On a regular grid those cells form a rectangle, so a
summed-area table gives the mean for any number of points at once: a few key points or every pixel.

H, W source grid  W' columns of the target grid  K points
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .backbone import BASE_STRIDE
from .correlation import Grid

REACH = 5.0  # half the side of a receptive-field box, in pixels of the network's input


def cell_offsets(best: NDArray[np.int64], grid_a: Grid, columns_b: int) -> NDArray[np.float64]:
    """Displacement (x, y) of each source cell to its best target (N,): (H, W, 2), in input pixels."""
    rows, columns = np.divmod(best.reshape(grid_a), columns_b)
    own_rows, own_columns = np.indices(grid_a)
    offsets = np.stack([columns - own_columns, rows - own_rows], axis=-1)
    return offsets.astype(np.float64) * BASE_STRIDE


class Neighbourhoods:
    """Means of a quantity on the grid over the neighbouring cells of points."""

    def __init__(self, on_grid: NDArray[np.float64]) -> None:
        """``on_grid``: (H, W, ...) one value, or several, per source cell."""
        table = np.zeros((on_grid.shape[0] + 1, on_grid.shape[1] + 1, *on_grid.shape[2:]))
        table[1:, 1:] = on_grid.cumsum(0).cumsum(1)
        self._summed_area = table

    def mean(self, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
        """Mean over the cells around each point.

        Parameters
        ----------
        x, y
            Coordinates in pixels of the network's input, of shapes that broadcast together.
        """
        rows, columns = self._summed_area.shape[0] - 1, self._summed_area.shape[1] - 1
        left, right = covering_cells(x, columns)
        top, bottom = covering_cells(y, rows)
        table = self._summed_area
        total = table[bottom, right] - table[top, right] - table[bottom, left] + table[top, left]
        count = (right - left) * (bottom - top)
        return total / count.reshape(count.shape + (1,) * (total.ndim - count.ndim))


def covering_cells(position: ArrayLike, cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and one-past-last cell whose box covers each position; beyond the edge, the edge's cell."""
    position = np.asarray(position, np.float64)
    first = np.ceil((position - REACH) / BASE_STRIDE).astype(np.int64)
    last = np.floor((position + REACH) / BASE_STRIDE).astype(np.int64)
    first = np.clip(first, 0, cells - 1)
    return first, np.maximum(np.clip(last, 0, cells - 1), first) + 1
