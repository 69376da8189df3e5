"""The passes of ``matching.py`` over blocks of the correlation matrix: compiled, or in torch operations.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  k source grid rows of one block
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from . import kernels
from .correlation import FactoredCorrelation, Resizing, Slab
from .hough import Votes, Windows, sum_by_offset
from .mutual import TINY, mutual_filter


class Block(NamedTuple):
    """k whole source grid rows of the matrix, from ``first`` to before ``stop``."""

    first: int
    stop: int
    width: int

    @property
    def rows(self) -> slice:
        """The matrix rows of the block."""
        return slice(self.first * self.width, self.stop * self.width)


class Passes(Protocol):
    """What each pass does with one block: compiled loops, or plain torch on any device."""

    def appearance(self, block: Block, out: Tensor) -> Tensor:
        """Write p(m_a) of the block to ``out`` (k*W, N') and return its sums by offset."""

    def sums(self, block: Block, values: Tensor, windows: Windows, table: Tensor) -> None:
        """Add p(m_a) of the block to a table by other offsets."""

    def maxima(self, block: Block, values: Tensor, votes: Votes) -> tuple[Tensor, Tensor]:
        """Maxima of p(m_a) times votes: of the block's rows, as ``best`` takes them, and of columns (N',)."""

    def best(
        self, block: Block, values: Tensor, votes: Votes, maxima: Tensor, column_maxima: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Best target (k*W,) after the mutual filter, and its filtered confidence."""

    def best_of_columns(
        self, block: Block, values: Tensor, votes: Votes, maxima: Tensor, column_maxima: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Best source in the block (N',) after the mutual filter, and its filtered confidence."""


class TorchPasses:
    """The passes in torch operations: any device, any floating type."""

    def __init__(self, correlation: FactoredCorrelation) -> None:
        self.correlation = correlation
        self.grids = correlation.grid_a, correlation.grid_b

    def appearance(self, block: Block, out: Tensor) -> Tensor:
        self.correlation.appearance(block.first, block.stop, out)
        return sum_by_offset(out, block.first, *self.grids)

    def sums(self, block: Block, values: Tensor, windows: Windows, table: Tensor) -> None:
        windows.add(table, self._cells(block), values)

    def maxima(self, block: Block, values: Tensor, votes: Votes) -> tuple[Tensor, Tensor]:
        confidence = self._confidence(block, values, votes)
        return confidence.amax(1), confidence.amax(0)

    def best(
        self, block: Block, values: Tensor, votes: Votes, maxima: Tensor, column_maxima: Tensor
    ) -> tuple[Tensor, Tensor]:
        value, index = self._filtered(block, values, votes, maxima, column_maxima).max(1)
        return index, value

    def best_of_columns(
        self, block: Block, values: Tensor, votes: Votes, maxima: Tensor, column_maxima: Tensor
    ) -> tuple[Tensor, Tensor]:
        value, index = self._filtered(block, values, votes, maxima, column_maxima).max(0)
        return index + block.rows.start, value

    def _filtered(
        self, block: Block, values: Tensor, votes: Votes, maxima: Tensor, column_maxima: Tensor
    ) -> Tensor:
        return mutual_filter(self._confidence(block, values, votes), maxima, column_maxima)

    def _confidence(self, block: Block, values: Tensor, votes: Votes) -> Tensor:
        return values * votes.of_cells(self._cells(block))

    def _cells(self, block: Block) -> Tensor:
        return torch.arange(block.rows.start, block.rows.stop, device=self.correlation.norm_a.device)


class CompiledPasses:
    """The passes in compiled loops: threads take ranges of source grid rows side by side."""

    def __init__(self, correlation: FactoredCorrelation, pool: ThreadPoolExecutor, threads: int) -> None:
        self.correlation = correlation
        self.pool, self.threads = pool, threads
        self.base = _base_arrays(correlation)

    def appearance(self, block: Block, out: Tensor) -> Tensor:
        (height, width), (height_b, width_b) = self.correlation.grid_a, self.correlation.grid_b
        by_dx = torch.empty(block.stop - block.first, height_b, width + width_b - 1)
        arrays: tuple[Any, ...] = (
            self._array(block, out),
            *self.base,
            *_slab_arrays(self.correlation.slab(block.first, block.stop)),
            self.correlation.norm_a.numpy(),
            self.correlation.norm_b.numpy(),
            self.correlation.epsilon,
            by_dx.numpy(),
        )
        self._in_threads(
            block, lambda start, stop, first: kernels.appearance_rows(start, stop, first, *arrays)
        )
        sums = by_dx.new_zeros(height + height_b - 1, width + width_b - 1)
        for row in range(block.first, block.stop):
            sums[height - 1 - row :][:height_b] += by_dx[row - block.first]
        return sums

    def sums(self, block: Block, values: Tensor, windows: Windows, table: Tensor) -> None:
        # Each grid row has its own table, added up in order: the same for any number of threads.
        of_rows = np.zeros((block.stop - block.first, *table.shape), np.float32)
        inputs = self._array(block, values), *self._windows(windows), self.correlation.grid_b[1], of_rows
        self._in_threads(block, lambda start, stop, first: kernels.sum_rows(start, stop, first, *inputs))
        table += torch.from_numpy(of_rows.sum(0))

    def maxima(self, block: Block, values: Tensor, votes: Votes) -> tuple[Tensor, Tensor]:
        count, grid_b = block.stop - block.first, self.correlation.grid_b
        lines = torch.empty(count, block.width, grid_b[0])
        columns = np.zeros((count, *grid_b), np.float32)
        inputs = self._array(block, values), *self._votes(votes), lines.numpy()
        # Each range has its own column maxima: those at the index of its first row.
        self._in_threads(
            block,
            lambda start, stop, first: kernels.maxima_rows(start, stop, first, *inputs, columns[start]),
        )
        return lines, torch.from_numpy(columns.max(axis=0).reshape(-1))

    def best(
        self, block: Block, values: Tensor, votes: Votes, maxima: Tensor, column_maxima: Tensor
    ) -> tuple[Tensor, Tensor]:
        shape = block.stop - block.first, block.width
        index, value = torch.empty(shape, dtype=torch.long), torch.empty(shape)
        arrays = (
            self._array(block, values),
            *self._votes(votes),
            maxima.numpy(),
            column_maxima.view(self.correlation.grid_b).numpy(),
            TINY,
            index.numpy(),
            value.numpy(),
        )
        self._in_threads(block, lambda start, stop, first: kernels.best_rows(start, stop, first, *arrays))
        return index.flatten(), value.flatten()

    def best_of_columns(
        self, block: Block, values: Tensor, votes: Votes, maxima: Tensor, column_maxima: Tensor
    ) -> tuple[Tensor, Tensor]:
        shape = block.stop - block.first, *self.correlation.grid_b
        index, value = np.zeros(shape, np.int64), np.full(shape, -1, np.float32)
        inputs = self._array(block, values), *self._votes(votes), maxima.numpy(), TINY
        # Each range has its own best: at the index of its first row.
        self._in_threads(
            block,
            lambda start, stop, first: kernels.best_columns(
                start, stop, first, *inputs, index[start], value[start]
            ),
        )
        highest, row = torch.from_numpy(value).flatten(1).max(0)
        best = torch.from_numpy(index).flatten(1).gather(0, row[None])[0]
        return best, highest / column_maxima.clamp_min(TINY)

    def _array(self, block: Block, values: Tensor) -> kernels.Floats:
        array: kernels.Floats = values.view(block.stop - block.first, block.width, -1).numpy()
        return array

    def _votes(self, votes: Votes) -> tuple[kernels.Floats, kernels.Integers, kernels.Integers]:
        return votes.table.numpy(), *self._windows(votes.windows)

    def _windows(self, windows: Windows) -> tuple[kernels.Integers, kernels.Integers]:
        top, left = (part.view(self.correlation.grid_a).numpy() for part in windows[:2])
        return top, left

    def _in_threads(self, block: Block, work: Callable[[int, int, int], None]) -> None:
        """Call ``work(start, stop, first)`` for shares of the block's rows, several a thread: torch's own
        threads may still be spinning on a processor, and small shares even that out."""
        count = block.stop - block.first
        step = max(1, count // (6 * self.threads))
        spans = [(start, min(start + step, count), block.first) for start in range(0, count, step)]
        list(self.pool.map(lambda span: work(*span), spans))


def _base_arrays(correlation: FactoredCorrelation) -> tuple[np.ndarray, np.ndarray]:
    """Features of the base resolution, (N, C) and (C, N'), with C padded to a multiple of 8 by zeros."""
    if correlation.base is None:
        return np.zeros((len(correlation.norm_a), 0), np.float32), np.zeros(
            (0, len(correlation.norm_b)), np.float32
        )
    a, b = (F.pad(side, (0, -side.shape[1] % 8)) for side in correlation.base)
    return a.contiguous().numpy(), b.T.contiguous().numpy()


def _slab_arrays(slab: Slab) -> tuple[np.ndarray, ...]:
    """Values, grids and the four resizing tables, as the kernel takes them."""

    def table(axis: tuple[Resizing, ...], field: int, dtype: type) -> np.ndarray:
        rows = [resized[field].numpy() for resized in axis]
        return np.stack(rows).astype(dtype) if rows else np.zeros((0, 0), dtype)

    tables = [
        table(axis, field, dtype)
        for axis in (slab.vertical, slab.horizontal)
        for field, dtype in ((0, np.int64), (2, np.float32))
    ]
    return slab.values.numpy(), np.array(slab.grids, np.int64).reshape(-1, 2), *tables
