"""Section 3.3, put together: factored correlation -> best target of every source cell.

Voting needs all of p(m_a) before any vote is known, and the mutual filter needs all votes before any
column maximum is known: three passes over the matrix, in blocks of source grid rows. Each vote about a motion
(``motion.py``) has four more. The matrix is kept between passes where it fits the memory bound, otherwise
its blocks are computed anew in each pass.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  k source grid rows of one block
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor

from .correlation import FactoredCorrelation, empty_matrix
from .hough import HoughSpace, Votes, offset_windows
from .motion import BOLDNESS, Direction, moved_windows, shared_motion
from .mutual import TINY
from .passes import Block, CompiledPasses, Passes, TorchPasses

MATRIX_BYTES = 192 * 2**20  # the largest correlation matrix that is kept; beyond, blocks are recomputed
BLOCK_BYTES = 64 * 2**20  # of one block; switching between torch's threads and ours costs, so: few


class CellMatches(NamedTuple):
    """The dense result on the source grid."""

    best: Tensor  # (N,) index of the best target cell
    confidence: Tensor  # (N,) in [0, 1]: filtered confidence C of that match / the highest vote
    votes: Votes
    column_maxima: Tensor  # (N',) of p(m_a) times votes


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

    def maxima(votes: Votes) -> tuple[list[Tensor], Tensor]:
        """Of p(m_a) times votes: of the rows of each block, and of all columns."""
        row_maxima, column_maxima = [], zeros(cells_b)
        for block in blocks:
            rows, columns = passes.maxima(block, values(block), votes)
            row_maxima.append(rows)
            column_maxima = torch.maximum(column_maxima, columns)
        return row_maxima, column_maxima

    def both_directions(votes: Votes) -> tuple[Direction, Direction]:
        """The best matches of all source cells and of all target cells, after the mutual filter."""
        row_maxima, column_maxima = maxima(votes)
        forward, backward = [], []
        for block, rows in zip(blocks, row_maxima, strict=True):
            known = block, values(block), votes, rows, column_maxima
            forward.append(passes.best(*known))
            backward.append(passes.best_of_columns(*known))
        best, confidence = (torch.stack(parts) for parts in zip(*backward, strict=True))  # (blocks, N')
        highest, block_of = confidence.max(0)
        back = Direction(best.gather(0, block_of[None])[0], highest)
        return Direction(*(torch.cat(parts) for parts in zip(*forward, strict=True))), back

    def filtered(votes: Votes) -> CellMatches:
        """The second and third pass: maxima, then the mutual filter and the best."""
        row_maxima, column_maxima = maxima(votes)
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
    votes = Votes(space.votes(by_offset), offset_windows(*grids, matrix.device))
    if space.second is None:
        return filtered(votes)
    for boldness in BOLDNESS:
        windows = moved_windows(shared_motion(*both_directions(votes), *grids, boldness), grids[1])
        table = zeros(len(space.second.vertical), len(space.second.horizontal))
        for block in blocks:
            passes.sums(block, values(block), windows, table)
        votes = Votes(space.second.votes(table), windows)
    return filtered(votes)


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
