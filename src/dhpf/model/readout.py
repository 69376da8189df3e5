"""Section 3.3: matches of cells -> a flow, which moves any points.

Each cell of the source grid moves by the offset to its best target. As in the paper, a point moves by the
mean offset of the cells whose receptive-field box covers it. On a regular grid those cells form a rectangle,
so a summed-area table gives the mean for any number of points at once: a few keypoints or every pixel.

H, W source grid
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.ndimage import map_coordinates
from torch import Tensor

from ..grid import Grid

Floats = NDArray[np.float64]

INTERPOLATED = 0.0  # a point moves as interpolated between the cells around it
NEAREST = 0.5  # a point moves as its nearest cell: neighbours may belong to other objects
REACH = 1.25  # half the side of a receptive-field box over the stride: 5 pixels over 4, as published


@dataclass(frozen=True, eq=False)
class Flow:
    """Displacement and confidence of every cell of the source grid, in pixels of the network's input.

    ``reach`` says how a point between cells moves: by the mean of all cells that are so many strides away
    or less, along x and y; or, if it is 0, by bilinear interpolation.
    """

    displacement: Floats = field(repr=False)  # (H, W, 2), x then y
    confidence: Floats = field(repr=False)  # (H, W) in [0, 1]
    grid: Grid
    reach: float = REACH

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.displacement.nbytes + self.confidence.nbytes

    def transfer(self, points: Floats) -> Floats:
        """Where points (..., 2) of the source land, both in pixels of the network's input."""
        return points + self.displacement_at(points[..., 0], points[..., 1])

    def displacement_at(self, x: Floats, y: Floats) -> Floats:
        """Of points, (..., 2); ``x`` and ``y`` are of shapes that broadcast together."""
        return self._read(self.displacement, "_summed_displacement", x, y)

    def confidence_at(self, x: Floats, y: Floats) -> Floats:
        """Of points, (...), in [0, 1]."""
        mean: Floats = self._read(self.confidence[..., None], "_summed_confidence", x, y)[..., 0]
        return mean.clip(0, 1)  # differences of sums round, also to what no mean can be

    def cells_at(self, x: float, y: float) -> NDArray[np.int64]:
        """The numbers of the cells by which a point moves; the nearest one where it is interpolated."""
        ranges = []
        for position, cells in ((y, self.grid.rows), (x, self.grid.columns)):
            first, last = self._covering(np.asarray(position), cells, max(self.reach, 0.5))
            ranges.append(np.arange(int(first), int(last)))
        rows, columns = ranges if self.reach else [axis[:1] for axis in ranges]
        numbers: NDArray[np.int64] = (rows[:, None] * self.grid.columns + columns).ravel()
        return numbers

    def _read(self, values: Floats, table: str, x: Floats, y: Floats) -> Floats:
        if not self.reach:
            x, y = np.broadcast_arrays(x, y)
            places = [(y - self.grid.offset) / self.grid.stride, (x - self.grid.offset) / self.grid.stride]
            channels = np.moveaxis(values, -1, 0)
            return np.stack([map_coordinates(c, places, order=1, mode="nearest") for c in channels], axis=-1)
        left, right = self._covering(x, self.grid.columns, self.reach)
        top, bottom = self._covering(y, self.grid.rows, self.reach)
        summed: Floats = getattr(self, table)
        total = summed[bottom, right] - summed[top, right] - summed[bottom, left] + summed[top, left]
        mean: Floats = total / ((right - left) * (bottom - top))[..., None]
        return mean

    def _covering(
        self, position: ArrayLike, cells: int, reach: float
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """First and one-past-last cell within reach of each position; beyond the edge, the edge's cell."""
        place = (np.asarray(position, np.float64) - self.grid.offset) / self.grid.stride
        first = np.clip(np.ceil(place - reach).astype(np.int64), 0, cells - 1)
        last = np.clip(np.floor(place + reach).astype(np.int64), 0, cells - 1)
        return first, np.maximum(last, first) + 1

    @cached_property
    def _summed_displacement(self) -> Floats:
        return _summed_area(self.displacement)

    @cached_property
    def _summed_confidence(self) -> Floats:
        return _summed_area(self.confidence[..., None])


def argmax_flow(best: Tensor, confidence: Tensor, grid_a: Grid, grid_b: Grid, reach: float = REACH) -> Flow:
    """The flow from every source cell to its best target.

    Parameters
    ----------
    best
        (N,) the number of the best target cell.
    confidence
        (N,) in [0, 1], but for rounding.
    """
    landed = grid_b.centres().reshape(-1, 2)[best.cpu().numpy()].reshape(*grid_a.shape, 2)
    values = confidence.detach().cpu().double().clamp(0, 1).numpy().reshape(grid_a.shape)
    return Flow(landed - grid_a.centres(), values, grid_a, reach)


def _summed_area(values: Floats) -> Floats:
    table = np.zeros((values.shape[0] + 1, values.shape[1] + 1, values.shape[2]))
    table[1:, 1:] = values.cumsum(0).cumsum(1)
    return table
