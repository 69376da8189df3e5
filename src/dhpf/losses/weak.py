"""Section 3.4, weak supervision: correlation entropies of positive and negative pairs, eq. (4).

The entropy is taken on a coarser grid, and resizing to that reads less than a quarter of the cells. So it
needs the correlation's rows at some source cells, its columns at some target cells, and the maxima of all
rows and columns for the mutual filter; the rest of the matrix has no gradient.

B pairs  N, N' source and target cells  n a coarser grid's cells  S the cells that resizing reads
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.correlation import Grid, resizing
from ..model.mutual import mutual_filter
from .levels import SomeCells

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

    read: SomeCells  # S of them
    vertical: Tensor  # (h, rows)
    horizontal: Tensor  # (w, columns)

    def shrink(self, values: Tensor) -> Tensor:
        """Values at the cells (S, M), resized to the coarser grid: (n, M)."""
        rows, columns = self.vertical.shape[1], self.horizontal.shape[1]
        lines = self.vertical @ values.view(rows, -1)  # (h, columns*M)
        maps = self.horizontal @ lines.view(len(self.vertical), columns, -1)
        return maps.flatten(0, 1)

    def spread(self, values: Tensor) -> Tensor:
        """The adjoint of shrinking: (n, M) -> (S, M)."""
        height, width = len(self.vertical), len(self.horizontal)
        lines = self.horizontal.T @ values.view(height, width, -1)  # (h, columns, M)
        return (self.vertical.T @ lines.view(height, -1)).view(-1, values.shape[1])


def coarser_grid(grid: Grid, like: Tensor) -> CoarserGrid:
    """The resizing of :func:`correlation_entropy` by the cells that it reads."""
    read, matrices = [], []
    for side in grid:
        matrix = resizing(side, max(1, side // COARSER), like.dtype, like.device).matrix(side)
        used = (matrix != 0).any(0).nonzero().flatten()
        read.append(used)
        matrices.append(matrix[:, used])
    return CoarserGrid(SomeCells(read[0], read[1], grid), matrices[0], matrices[1])


def sampled_entropy(confidence: Tensor, maxima: Tensor, other_maxima: Tensor, coarse: CoarserGrid) -> Tensor:
    """Mean entropy of one direction of one pair, from the confidences that it depends on: a scalar.

    Parameters
    ----------
    confidence
        (S, M) unfiltered, of the cells ``coarse.read`` of the side that is chosen from with all M cells of
        the side that chooses.
    maxima
        (S,) the largest confidence of each of those cells over the whole matrix.
    other_maxima
        (M,) the same of the side that chooses.
    """
    return bits(coarse.shrink(mutual_filter(confidence, maxima, other_maxima)), 0).mean()


def weak_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """L_match of eq. (4): mean entropy of the positive pairs over that of the negative ones."""
    return positive.mean() / negative.mean()


def _entropies(distributions: Tensor, grid: Grid) -> Tensor:
    """Entropy of each row, (B, N), after shrinking it over its grid and making its sum one."""
    coarse = max(1, grid[0] // COARSER), max(1, grid[1] // COARSER)
    maps = distributions.reshape(*distributions.shape[:2], *grid)
    small = F.interpolate(maps, coarse, mode="bilinear", align_corners=True).flatten(2)  # (B, N, n)
    return bits(small, 2)


def bits(values: Tensor, axis: int) -> Tensor:
    """Entropy along an axis after making sums one; 0 where all is 0."""
    total = values.sum(axis, keepdim=True)
    share = values / torch.where(total == 0, 1.0, total)
    share = torch.where(share == 0, TINY, share)
    return -(share * share.log2()).sum(axis)
