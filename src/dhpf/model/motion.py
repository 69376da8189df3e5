"""Beyond the paper: matches -> the affine motion that they share, about which they vote a second time.

Two things of one kind rarely differ by a shift alone: one is larger, wider or tilted. Then the true matches
have many offsets, and votes for a single one punish most of them. So the first matches, confident ones
before others, say which affine motion carries the source to the target; in the second vote, an offset is
counted from where that motion puts a cell instead of from the cell itself, and true matches vote together.
Places are rounded to whole cells, so that a cell's matches are still a window of one table.

H, W source grid  H', W' target grid  N = H*W
"""

from __future__ import annotations

from functools import lru_cache

import torch
from torch import Tensor

from .backbone import BASE_STRIDE
from .correlation import Grid
from .hough import HoughSpace, Windows, bin_side, gaussian, grid_cells
from .mutual import TINY

CONFIDENT = 0.5  # share of the source cells whose matches are asked
ROUNDS = 10  # of least squares, each with the weights that the last one gives
TOLERANCE = 1 / 15  # of the target: a match that is so far from the motion counts half
STIFFNESS = 0.026**2  # variance of imagined matches, in shares of the photos, that do nothing but shift


def shared_motion(best: Tensor, confidence: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """Where the affine motion that most matches share puts every source cell.

    Parameters
    ----------
    best, confidence
        (N,) the best target of every source cell, and how sure it is.

    Returns
    -------
    (N, 2) row and column of the target's grid, not rounded, perhaps outside of it.
    """
    size_a, size_b = (torch.tensor(grid, device=best.device).double() for grid in (grid_a, grid_b))
    every = _places(torch.arange(len(best), device=best.device), grid_a) / size_a  # in shares of the photo
    asked = confidence >= confidence.double().quantile(1 - CONFIDENT)
    source, target = every[asked], _places(best[asked], grid_b) / size_b
    sure = confidence[asked].double() / confidence.max().clamp_min(TINY)
    stiffness = STIFFNESS * torch.eye(2, dtype=torch.float64, device=best.device)
    weight = sure
    for _ in range(ROUNDS):
        share = (weight / weight.sum().clamp_min(TINY))[:, None]
        centre, centre_b = (share * source).sum(0), (share * target).sum(0)
        around, around_b = source - centre, target - centre_b
        spread = (share * around).T
        linear = torch.linalg.solve(spread @ around + stiffness, spread @ around_b + stiffness)
        error = (around @ linear - around_b).norm(dim=1)
        weight = sure / (1 + (error / TOLERANCE).square())
    moved: Tensor = ((every - centre) @ linear + centre_b) * size_b
    return moved


def moved_windows(places: Tensor, grid_b: Grid) -> Windows:
    """For offsets from given places (N, 2) in the target's grid, those far outside drawn nearer."""
    starts = []
    for place, cells in zip(places.unbind(1), grid_b, strict=True):
        margin = cells // 2
        nearest = place.round().long().clamp(-margin, cells - 1 + margin)
        starts.append(cells - 1 + margin - nearest)
    return Windows(starts[0], starts[1], grid_b)


@lru_cache(maxsize=16)
def motion_space(size_a: Grid, size_b: Grid, dtype: torch.dtype, device: torch.device) -> HoughSpace:
    """The Hough space of the second vote: bins as large as in the first, offsets at their exact places.

    It spans all offsets between the places that :func:`moved_windows` allows and the target's cells.
    """
    axes = []
    for size in size_b:
        cells = grid_cells(size)
        offsets = 2 * cells - 1 + 2 * (cells // 2)
        place = torch.arange(offsets, dtype=torch.float64) * (BASE_STRIDE / bin_side(size_a, size_b))
        axes.append(gaussian(place[:, None] - place).to(device, dtype))
    return HoughSpace(axes[0], axes[1])


def _places(cells: Tensor, grid: Grid) -> Tensor:
    """Row and column of cells, (n, 2)."""
    return torch.stack([cells // grid[1], cells % grid[1]], 1).double()
