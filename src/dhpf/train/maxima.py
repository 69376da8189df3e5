"""Where the largest confidence of each row and each column is: what the weak loss's gradient passes through.

H, W source grid  N = H*W  N' target cells
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..model.correlation import FactoredCorrelation, empty_matrix
from ..model.hough import HoughSpace, Votes, offset_windows, spread_votes
from ..model.kernels import Floats, Integers, compiled
from ..model.passes import Block, CompiledPasses, TorchPasses


class BestMatches(NamedTuple):
    """The votes of a pair, and the largest p(m_a) times votes, before the mutual filter."""

    votes: Tensor  # (H + H' - 1, W + W' - 1) by offset
    of_rows: Tensor  # (N,) target cell
    of_columns: Tensor  # (N',) source cell


def best_matches(correlation: FactoredCorrelation, space: HoughSpace) -> BestMatches:
    """Vote, then find the largest confidence of every row and column."""
    (height, width), cells_b = correlation.grid_a, len(correlation.norm_b)
    whole = Block(0, height, width)
    matrix = empty_matrix(height * width, cells_b, like=correlation.norm_a)
    if matrix.device.type != "cpu":
        votes = space.votes(TorchPasses(correlation).appearance(whole, matrix))
        confidence = matrix * spread_votes(votes, 0, height, correlation.grid_a, correlation.grid_b)
        return BestMatches(votes, confidence.argmax(1), confidence.argmax(0))
    threads = torch.get_num_threads()
    with ThreadPoolExecutor(threads) as pool:
        passes = CompiledPasses(correlation, pool, threads)
        votes = space.votes(passes.appearance(whole, matrix))
        windows = offset_windows(correlation.grid_a, correlation.grid_b, votes.device)
        lines, columns = passes.maxima(whole, matrix, Votes(votes, windows))
    of_rows = np.zeros(height * width, np.int64)
    of_columns = np.zeros(cells_b, np.int64)
    _find(
        matrix.view(height, width, cells_b).numpy(),
        votes.numpy(),
        lines.numpy(),
        columns.view(correlation.grid_b).numpy(),
        of_rows,
        of_columns,
    )
    return BestMatches(votes, torch.from_numpy(of_rows), torch.from_numpy(of_columns))


@compiled
def _find(
    matrix: Floats,
    votes: Floats,
    line_maxima: Floats,
    column_maxima: Floats,
    of_rows: Integers,
    of_columns: Integers,
) -> None:
    """Where the maxima are: of rows (N,) and of columns (N'); of equal ones, the first."""
    height, width = matrix.shape[0], matrix.shape[1]
    height_b, width_b = column_maxima.shape
    for row in range(height - 1, -1, -1):
        for x in range(width - 1, -1, -1):
            shift = width - 1 - x
            largest = line_maxima[row, x].max()
            for ty in range(height_b - 1, -1, -1):
                line = matrix[row, x, ty * width_b : (ty + 1) * width_b]
                vote = votes[ty - row + height - 1, shift : shift + width_b]
                columns = column_maxima[ty]
                hits = 0
                for tx in range(width_b):
                    hits += line[tx] * vote[tx] >= columns[tx]
                if hits or line_maxima[row, x, ty] == largest:
                    for tx in range(width_b - 1, -1, -1):
                        confidence = line[tx] * vote[tx]
                        if confidence >= columns[tx]:
                            of_columns[ty * width_b + tx] = row * width + x
                        if confidence == largest:
                            of_rows[row * width + x] = ty * width_b + tx
