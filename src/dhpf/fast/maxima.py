"""Where the maxima of a matrix are, compiled: the weak loss's gradient of a maximum goes there.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..model.correlation import Correlation
from ..model.hough import Votes
from .threads import Floats, Integers, compiled


def find_maxima(
    correlation: Correlation, matrix: Tensor, votes: Votes, line_maxima: Tensor, columns: Tensor
) -> tuple[Tensor, Tensor]:
    """Where the maxima of p(m_a) times votes are: of rows (N,) and of columns (N'); of equal ones, the first.

    Parameters
    ----------
    matrix
        All of p(m_a); the votes are those for offsets from each cell's own location.
    line_maxima, columns
        Of :meth:`~dhpf.fast.passes.CompiledPasses.maxima`, for the whole matrix.
    """
    of_rows = np.zeros(correlation.grid_a.cells, np.int64)
    of_columns = np.zeros(correlation.grid_b.cells, np.int64)
    _find_rows_and_columns(
        matrix.view(*correlation.grid_a.shape, -1).numpy(),
        votes.table.numpy(),
        line_maxima.numpy(),
        columns.view(correlation.grid_b.shape).numpy(),
        of_rows,
        of_columns,
    )
    return torch.from_numpy(of_rows), torch.from_numpy(of_columns)


@compiled
def _find_rows_and_columns(
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
