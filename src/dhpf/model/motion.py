"""Beyond the paper: matches -> the affine motion that they share, about which they vote again.

Two things of one kind rarely differ by a shift alone: one is larger, wider or tilted. Then the true matches
have many offsets, and votes for a single one punish most of them. So the first matches, confident ones
before others, say which affine motion carries the source to the target; in the next vote, an offset is
counted from where that motion puts a cell instead of from the cell itself, and true matches vote together.
What they find gives a better motion, about which they vote a last time. Places are rounded to whole cells, so
that a cell's matches are still a window of one table.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from .backbone import BASE_STRIDE
from .correlation import Grid
from .hough import HoughSpace, Windows, bin_side, gaussian, grid_cells
from .mutual import TINY

# How far to go from a shift towards the fitted motion, in each vote about one. Votes for a single offset draw
# the first matches towards a shift, and matches found about a motion have less of that.
BOLDNESS = (1.5, 1.0)
CONFIDENT = 0.5  # share of the cells whose matches are asked
ROUNDS = 10  # of least squares, each with the weights that the last one gives
TOLERANCE = 1 / 15  # of the target: a match that is so far from the motion counts half
STIFFNESS = 0.026**2  # variance of imagined matches, in shares of the photos, that do nothing but shift


class Direction(NamedTuple):
    """The matches of every cell of one photo."""

    best: Tensor  # (N,) the best cell of the other photo
    confidence: Tensor  # (N,) how sure it is


def shared_motion(
    forward: Direction, backward: Direction | None, grid_a: Grid, grid_b: Grid, boldness: float = 1.0
) -> Tensor:
    """Where the affine motion that most matches share puts every source cell.

    Parameters
    ----------
    forward, backward
        From source to target, (N,), and from target to source, (N',), if they are known.
    boldness
        1 for the motion as it was fitted, 0 for the shift in it.

    Returns
    -------
    (N, 2) row and column of the target's grid, not rounded, perhaps outside of it.
    """
    source, target, sure = _asked(forward, grid_a, grid_b)
    if backward is not None:
        from_b, to_a, sure_b = _asked(backward, grid_b, grid_a)
        source, target, sure = (torch.cat(p) for p in ((source, to_a), (target, from_b), (sure, sure_b)))
    stiffness = STIFFNESS * torch.eye(2, dtype=torch.float64, device=source.device)
    weight = sure
    for _ in range(ROUNDS):
        share = (weight / weight.sum().clamp_min(TINY))[:, None]
        centre, centre_b = (share * source).sum(0), (share * target).sum(0)
        around, around_b = source - centre, target - centre_b
        spread = (share * around).T
        linear = torch.linalg.solve(spread @ around + stiffness, spread @ around_b + stiffness)
        error = (around @ linear - around_b).norm(dim=1)
        weight = sure / (1 + (error / TOLERANCE).square())
    identity = torch.eye(2, dtype=torch.float64, device=source.device)
    linear = identity + boldness * (linear - identity)
    every = _places(torch.arange(len(forward.best), device=source.device), grid_a)
    moved: Tensor = ((every - centre) @ linear + centre_b) * torch.tensor(grid_b, device=source.device)
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
    """The Hough space of votes about a motion: bins as large as in the first, offsets at their exact places.

    It spans all offsets between the places that :func:`moved_windows` allows and the target's cells.
    """
    axes = []
    for size in size_b:
        cells = grid_cells(size)
        offsets = 2 * cells - 1 + 2 * (cells // 2)
        place = torch.arange(offsets, dtype=torch.float64) * (BASE_STRIDE / bin_side(size_a, size_b))
        axes.append(gaussian(place[:, None] - place).to(device, dtype))
    return HoughSpace(axes[0], axes[1])


def _asked(matches: Direction, grid: Grid, other: Grid) -> tuple[Tensor, Tensor, Tensor]:
    """The more confident matches: places of the cells, places of their best, how sure they are."""
    confidence = matches.confidence.double()
    asked = (confidence >= confidence.quantile(1 - CONFIDENT)).nonzero().flatten()
    sure = confidence[asked] / confidence.max().clamp_min(TINY)
    return _places(asked, grid), _places(matches.best[asked], other), sure


def _places(cells: Tensor, grid: Grid) -> Tensor:
    """Row and column of cells, (n, 2), in shares of the photo."""
    places = torch.stack([cells // grid[1], cells % grid[1]], 1)
    return places.double() / torch.tensor(grid, device=cells.device)
