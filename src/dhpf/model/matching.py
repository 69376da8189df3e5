"""Section 3.3, put together: factored correlation -> best target of every source cell.

Voting needs all of p(m_a) before any vote is known, and the mutual filter needs all votes before any
column maximum is known: three passes over the matrix, in blocks of source grid rows. Where matches vote
twice (``motion.py``), three more follow. The matrix is kept between passes where it fits the memory bound,
otherwise its blocks are computed anew in each pass.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  k source grid rows of one block
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from . import kernels
from .correlation import FactoredCorrelation, Resizing, Slab, empty_matrix
from .hough import HoughSpace, Votes, Windows, offset_windows, sum_by_offset
from .motion import moved_windows, shared_motion
from .mutual import TINY, mutual_filter

MATRIX_BYTES = 192 * 2**20  # the largest correlation matrix that is kept; beyond, blocks are recomputed
BLOCK_BYTES = 64 * 2**20  # of one block; switching between torch's threads and ours costs, so: few


class CellMatches(NamedTuple):
    """The dense result on the source grid."""

    best: Tensor  # (N,) index of the best target cell
    confidence: Tensor  # (N,) in [0, 1]: filtered confidence C of that match / the highest vote
    votes: Votes
    column_maxima: Tensor  # (N',) of p(m_a) times votes


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


def match_cells(
    correlation: FactoredCorrelation,
    space: HoughSpace,
    matrix_bytes: int = MATRIX_BYTES,
    compiled: bool | None = None,
) -> CellMatches:
    """Vote, filter and take the best target of every source cell.

    Parameters
    ----------
    matrix_bytes
        Bound on the memory for the correlation matrix.
    compiled
        Use the compiled CPU passes; by default where the data is float32 on the CPU.
    """
    if compiled is None:
        compiled = correlation.norm_a.device.type == "cpu" and correlation.norm_a.dtype == torch.float32
    if not compiled:
        return _all_passes(TorchPasses(correlation), correlation, space, matrix_bytes)
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        return _all_passes(CompiledPasses(correlation, pool, threads), correlation, space, matrix_bytes)


def _all_passes(
    passes: Passes, correlation: FactoredCorrelation, space: HoughSpace, matrix_bytes: int
) -> CellMatches:
    (height, width), cells_b = correlation.grid_a, len(correlation.norm_b)
    zeros = correlation.norm_a.new_zeros
    row_bytes = width * cells_b * correlation.norm_a.element_size()
    step = max(1, BLOCK_BYTES // row_bytes)
    blocks = [Block(y, min(y + step, height), width) for y in range(0, height, step)]
    keep = height * row_bytes <= matrix_bytes
    matrix = _scratch_matrix((height if keep else step) * width, cells_b, like=correlation.norm_a)

    def place(block: Block) -> Tensor:
        """Where the block's values go: their own rows, or the start of the one shared buffer."""
        return matrix[block.rows] if keep else matrix[: (block.stop - block.first) * width]

    def values(block: Block) -> Tensor:
        if not keep:
            passes.appearance(block, place(block))
        return place(block)

    def filtered(votes: Votes) -> CellMatches:
        """The second and third pass: maxima, then the mutual filter and the best."""
        row_maxima, column_maxima = [], zeros(cells_b)
        for block in blocks:
            rows, columns = passes.maxima(block, values(block), votes)
            row_maxima.append(rows)
            column_maxima = torch.maximum(column_maxima, columns)
        results = [
            passes.best(block, values(block), votes, rows, column_maxima)
            for block, rows in zip(blocks, row_maxima, strict=True)
        ]
        best, confidence = (torch.cat(parts) for parts in zip(*results, strict=True))
        return CellMatches(best, confidence / votes.table.max().clamp_min(TINY), votes, column_maxima)

    grids = correlation.grid_a, correlation.grid_b
    by_offset = zeros(len(space.vertical), len(space.horizontal))
    for block in blocks:
        by_offset += passes.appearance(block, place(block))
    found = filtered(Votes(space.votes(by_offset), offset_windows(*grids, matrix.device)))
    if space.second is None:
        return found
    windows = moved_windows(shared_motion(found.best, found.confidence, *grids), grids[1])
    table = zeros(len(space.second.vertical), len(space.second.horizontal))
    for block in blocks:
        passes.sums(block, values(block), windows, table)
    return filtered(Votes(space.second.votes(table), windows))


_scratch = threading.local()


def _scratch_matrix(rows: int, columns: int, like: Tensor) -> Tensor:
    """An uninitialised matrix. Each thread keeps one of up to 64 MB for its next match: to get that much from
    the system anew costs as much as a pass over it."""
    kept: Tensor | None = getattr(_scratch, "matrix", None)
    fits = kept is not None and kept.numel() >= rows * columns
    if kept is None or not fits or (kept.dtype, kept.device) != (like.dtype, like.device):
        kept = empty_matrix(rows, columns, like)
        _scratch.matrix = kept if kept.numel() * kept.element_size() <= BLOCK_BYTES else None
    return kept.view(-1)[: rows * columns].view(rows, columns)


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
        filtered = mutual_filter(self._confidence(block, values, votes), maxima, column_maxima)
        value, index = filtered.max(1)
        return index, value

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
