"""Section 3.4, weak supervision: correlation entropies of positive and negative pairs, eq. (4).

B pairs  N, N' source and target cells  n a coarser grid's cells
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..model.correlation import Grid

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


def weak_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """L_match of eq. (4): mean entropy of the positive pairs over that of the negative ones."""
    return positive.mean() / negative.mean()


def _entropies(distributions: Tensor, grid: Grid) -> Tensor:
    """Entropy of each row, (B, N), after shrinking it over its grid and making its sum one."""
    coarse = grid[0] // COARSER, grid[1] // COARSER
    maps = distributions.reshape(*distributions.shape[:2], *grid)
    small = F.interpolate(maps, coarse, mode="bilinear", align_corners=True).flatten(2)  # (B, N, n)
    total = small.sum(2, keepdim=True)
    share = small / torch.where(total == 0, 1.0, total)
    share = torch.where(share == 0, TINY, share)
    return -(share * share.log2()).sum(2)
