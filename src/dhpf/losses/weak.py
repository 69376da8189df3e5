"""Section 3.4, weak supervision: correlation entropies of positive and negative pairs, eq. (4).

The entropy is taken on a coarser grid, and resizing to that reads less than a quarter of the cells. So it needs
the correlation's rows at some source cells, its columns at some target cells, and the maxima of all rows and
columns for the mutual filter; the rest of the matrix has no gradient.

B pairs  N, N' source and target cells  n a coarser grid's cells  S the cells that resizing reads
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.correlation import Grid, resizing
from ..model.mutual import mutual_filter

COARSER = 4  # the published code takes entropies on a grid of a quarter of the side
TINY = 1e-30


def correlation_entropy(filtered: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """Mean entropy in bits of the cells' match distributions, over both directions: (B,).

    Parameters
    ----------
    filtered
        (B, N, N'), after the mutual filter.
    """
    forward = _entropies(filtered, grid_b)  # (B, N)
    backward = _entropies(filtered.mT, grid_a)  # (B, N')
    return (forward.mean(1) + backward.mean(1)) / 2


class CoarserGrid(NamedTuple):
    """Which cells of a grid matter to the coarser one, and how."""

    cells: Tensor  # (S,) their indices: some rows times some columns
    vertical: Tensor  # (h, rows)
    horizontal: Tensor  # (w, columns)

    def shrink(self, values: Tensor) -> Tensor:
        """Values at the cells (S, M), resized to the coarser grid: (n, M)."""
        rows, columns = self.vertical.shape[1], self.horizontal.shape[1]
        lines = self.vertical @ values.view(rows, -1)  # (h, columns*M)
        maps = self.horizontal @ lines.view(len(self.vertical), columns, -1)
        return maps.flatten(0, 1)


def coarser_grid(grid: Grid, like: Tensor) -> CoarserGrid:
    """The resizing of :func:`correlation_entropy` by the cells that it reads."""
    read, matrices = [], []
    for side in grid:
        matrix = resizing(side, max(1, side // COARSER), like.dtype, like.device).matrix(side)
        used = (matrix != 0).any(0).nonzero().flatten()
        read.append(used)
        matrices.append(matrix[:, used])
    cells = (read[0][:, None] * grid[1] + read[1]).flatten()
    return CoarserGrid(cells, matrices[0], matrices[1])


def sampled_entropy(
    rows: Tensor,
    columns: Tensor,
    row_maxima: Tensor,
    column_maxima: Tensor,
    coarse_a: CoarserGrid,
    coarse_b: CoarserGrid,
) -> Tensor:
    """:func:`correlation_entropy` of one pair, from what it depends on.

    Parameters
    ----------
    rows
        (S, N') the unfiltered confidences of the source cells ``coarse_a.cells``.
    columns
        (S', N) those of the target cells ``coarse_b.cells``.
    row_maxima, column_maxima
        (N,) and (N',) of the whole matrix.
    """
    to_target = mutual_filter(rows, row_maxima[coarse_a.cells], column_maxima)
    to_source = mutual_filter(columns, column_maxima[coarse_b.cells], row_maxima)
    backward = _bits(coarse_a.shrink(to_target), 0)  # (N',)
    forward = _bits(coarse_b.shrink(to_source), 0)  # (N,)
    return (forward.mean() + backward.mean()) / 2


def weak_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """L_match of eq. (4): mean entropy of the positive pairs over that of the negative ones."""
    return positive.mean() / negative.mean()


def _entropies(distributions: Tensor, grid: Grid) -> Tensor:
    """Entropy of each row, (B, N), after shrinking it over its grid and making its sum one."""
    coarse = max(1, grid[0] // COARSER), max(1, grid[1] // COARSER)
    maps = distributions.reshape(*distributions.shape[:2], *grid)
    small = F.interpolate(maps, coarse, mode="bilinear", align_corners=True).flatten(2)  # (B, N, n)
    return _bits(small, 2)


def _bits(values: Tensor, axis: int) -> Tensor:
    """Entropy along an axis after making sums one; 0 where all is 0."""
    total = values.sum(axis, keepdim=True)
    share = values / torch.where(total == 0, 1.0, total)
    share = torch.where(share == 0, TINY, share)
    return -(share * share.log2()).sum(axis)
