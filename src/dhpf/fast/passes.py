"""The passes of ``model/matching.py`` over tiles of the correlation matrix, compiled.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  k source grid rows of one tile
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.correlation import Correlation, Resizing, resizing
from ..model.hough import Votes, Windows
from ..model.matching import Passes, Tile
from ..model.mutual import TINY
from ..model.revoting import Direction
from . import kernels
from .memory import empty_matrix
from .threads import Floats, Integers, in_threads


class CompiledPasses(Passes):
    """The same for float32 on the CPU. Threads take ranges of a tile's source grid rows side by side."""

    def __init__(self, correlation: Correlation) -> None:
        super().__init__(correlation)
        self.base = _base_arrays(correlation)

    def appearance(self, tile: Tile, out: Tensor, table: Tensor) -> None:
        (height, width), (height_b, width_b) = self.correlation.grid_a.shape, self.correlation.grid_b.shape
        by_dx = torch.empty(tile.stop - tile.first, height_b, width + width_b - 1)
        arrays: tuple[Any, ...] = (
            self._array(tile, out),
            *self.base,
            *_coarse_arrays(self.correlation, tile),
            self.correlation.norm_a.numpy(),
            self.correlation.norm_b.numpy(),
            self.correlation.epsilon,
            by_dx.numpy(),
        )
        self._in_threads(tile, lambda start, stop: kernels.appearance_rows(start, stop, tile.first, *arrays))
        for row in range(tile.first, tile.stop):
            table[height - 1 - row :][:height_b] += by_dx[row - tile.first]

    def sums(self, tile: Tile, values: Tensor, windows: Windows, table: Tensor) -> None:
        # Each grid row has its own table, added up in order: the same for any number of threads.
        of_rows = np.zeros((tile.stop - tile.first, *table.shape), np.float32)
        inputs = self._array(tile, values), *self._windows(windows), self.correlation.grid_b.columns, of_rows
        self._in_threads(tile, lambda start, stop: kernels.sum_rows(start, stop, tile.first, *inputs))
        table += torch.from_numpy(of_rows.sum(0))

    def maxima(self, tile: Tile, values: Tensor, votes: Votes) -> tuple[Tensor, Tensor]:
        # Of the rows in parts, of each source cell with each target grid row (k, W, H'): `best` skips some.
        count, shape = tile.stop - tile.first, self.correlation.grid_b.shape
        lines = torch.empty(count, tile.columns, shape[0])
        columns = np.zeros((count, *shape), np.float32)
        inputs = self._array(tile, values), *self._votes(votes), lines.numpy()
        # Each range has its own column maxima: those at the index of its first row.
        self._in_threads(
            tile,
            lambda start, stop: kernels.maxima_rows(start, stop, tile.first, *inputs, columns[start]),
        )
        return lines, torch.from_numpy(columns.max(axis=0).reshape(-1))

    def best(self, tile: Tile, values: Tensor, votes: Votes, maxima: Tensor, columns: Tensor) -> Direction:
        shape = tile.stop - tile.first, tile.columns
        index, value = torch.empty(shape, dtype=torch.long), torch.empty(shape)
        arrays = (
            self._array(tile, values),
            *self._votes(votes),
            maxima.numpy(),
            columns.view(self.correlation.grid_b.shape).numpy(),
            TINY,
            index.numpy(),
            value.numpy(),
        )
        self._in_threads(tile, lambda start, stop: kernels.best_rows(start, stop, tile.first, *arrays))
        return Direction(index.flatten(), value.flatten())

    def best_of_columns(
        self, tile: Tile, values: Tensor, votes: Votes, maxima: Tensor, columns: Tensor
    ) -> Direction:
        shape = tile.stop - tile.first, *self.correlation.grid_b.shape
        index, value = np.zeros(shape, np.int64), np.full(shape, -1, np.float32)
        inputs = self._array(tile, values), *self._votes(votes), maxima.numpy(), TINY
        # Each range has its own best: at the index of its first row.
        self._in_threads(
            tile,
            lambda start, stop: kernels.best_columns(
                start, stop, tile.first, *inputs, index[start], value[start]
            ),
        )
        highest, row = torch.from_numpy(value).flatten(1).max(0)
        best = torch.from_numpy(index).flatten(1).gather(0, row[None])[0]
        return Direction(best, highest / columns.clamp_min(TINY))

    def _array(self, tile: Tile, values: Tensor) -> Floats:
        array: Floats = values.view(tile.stop - tile.first, tile.columns, -1).numpy()
        return array

    def _votes(self, votes: Votes) -> tuple[Floats, Integers, Integers]:
        return votes.table.numpy(), *self._windows(votes.windows)

    def _windows(self, windows: Windows) -> tuple[Integers, Integers]:
        top, left = (part.view(self.correlation.grid_a.shape).numpy() for part in windows[:2])
        return top, left

    def _in_threads(self, tile: Tile, work: Callable[[int, int], None]) -> None:
        """Several ranges a thread: torch's own threads may still be spinning on a processor, and small ranges
        even that out."""
        count = tile.stop - tile.first
        in_threads(count, work, step=max(1, count // (6 * torch.get_num_threads())))


def _base_arrays(correlation: Correlation) -> tuple[np.ndarray, np.ndarray]:
    """Features of the base resolution, (N, C) and (C, N'), with C padded to a multiple of 8 by zeros."""
    if correlation.base is None:
        cells = correlation.grid_a.cells, correlation.grid_b.cells
        return np.zeros((cells[0], 0), np.float32), np.zeros((0, cells[1]), np.float32)
    a, b = (F.pad(side, (0, -side.shape[1] % 8)) for side in correlation.base.flat)
    return a.contiguous().numpy(), b.T.contiguous().numpy()


def _coarse_arrays(correlation: Correlation, tile: Tile) -> tuple[np.ndarray, ...]:
    """The coarse resolutions as far as a tile needs them, one below the other, resized on the target's side
    only; their grids; and the tables by which the kernel resizes them on the source's side."""
    kind = correlation.norm_a.dtype, correlation.norm_a.device
    parts, grids, vertical, horizontal = [], [], [], []
    for level in correlation.coarse:
        (rows, columns), _ = level.shapes
        y = resizing(rows, correlation.grid_a.rows, *kind)
        top, bottom = int(y.low[tile.first]), int(y.high[tile.stop - 1]) + 1
        parts.append((level.a[top:bottom].flatten(0, 1), level.b))
        grids.append((bottom - top, columns))
        vertical.append(Resizing(y.low[tile.first : tile.stop] - top, y.high, y.t[tile.first : tile.stop]))
        horizontal.append(resizing(columns, correlation.grid_a.columns, *kind))
    lengths = [len(a) for a, _ in parts]
    values = empty_matrix(sum(lengths), correlation.grid_b.cells, like=correlation.norm_a)
    for (a, b), out in zip(parts, torch.split(values, lengths), strict=True):
        _resize_columns(a @ b.flatten(0, 1).T, (b.shape[0], b.shape[1]), correlation.grid_b.shape, out)
    tables = [
        table for axis in (vertical, horizontal) for table in (_stacked(axis, 0, np.int64), _stacked(axis, 2))
    ]
    return values.numpy(), np.array(grids, np.int64).reshape(-1, 2), *tables


def _stacked(axis: list[Resizing], field: int, dtype: type = np.float32) -> np.ndarray:
    rows = [resized[field].numpy() for resized in axis]
    return np.stack(rows).astype(dtype) if rows else np.zeros((0, 0), dtype)


def _resize_columns(small: Tensor, size: tuple[int, int], grid: tuple[int, int], out: Tensor) -> None:
    """Resize every row of ``small`` (n, h'*w') over the target's grid, into ``out`` (n, N')."""
    vertical, horizontal = (
        resizing(inputs, outputs, small.dtype, small.device).matrix(inputs)
        for inputs, outputs in zip(size, grid, strict=True)
    )
    wide = small.view(-1, size[1]) @ horizontal.T  # (n*h', W')
    torch.matmul(vertical, wide.view(len(small), size[0], grid[1]), out=out.view(len(small), *grid))
