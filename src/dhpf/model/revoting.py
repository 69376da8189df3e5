"""Beyond the paper: affine-conditioned Hough re-voting.

Two objects of one category rarely differ by a shift alone: one is larger, wider or tilted. Then the true
matches have many offsets, and votes for a single one punish most of them. So an affine map is fitted to the
matches that voting found, by iteratively reweighted least squares with Cauchy weights; in the next vote an
offset is counted from where that map puts a cell instead of from the cell itself, and true matches vote
together. What they find gives a better map, about which they vote a last time. Locations are rounded to whole
cells, so that a cell's matches are still a window of one table.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..grid import Grid
from .hough import HoughSpace, Windows, bin_side, gaussian
from .mutual import TINY

# How far to extrapolate from a shift through the fitted map, in each vote. Votes for a single offset draw the
# first matches towards a shift, and re-voted matches less so.
EXTRAPOLATION = (1.5, 1.0)
CONFIDENT = 0.5  # fraction of the cells whose matches are fitted
ITERATIONS = 10  # of reweighted least squares
CAUCHY_SCALE = 1 / 15  # of the target's side: a match that is so far from the map has half its weight
RIDGE = 0.026**2  # towards a pure shift; as a variance, in fractions of the image


class Direction(NamedTuple):
    """The matches of every cell of one image."""

    best: Tensor  # (N,) the best cell of the other image
    confidence: Tensor  # (N,)


def fit_affine(
    forward: Direction, backward: Direction | None, grid_a: Grid, grid_b: Grid, extrapolation: float = 1.0
) -> Tensor:
    """Where the affine map that most matches share puts every source cell.

    Parameters
    ----------
    forward, backward
        From source to target, (N,), and from target to source, (N',), if they are known.
    extrapolation
        1 for the map as it was fitted, 0 for the shift in it.

    Returns
    -------
    (N, 2) row and column of the target's grid, not rounded, perhaps outside of it.
    """
    source, target, confidence = _confident(forward, grid_a, grid_b)
    if backward is not None:
        from_b, to_a, confidence_b = _confident(backward, grid_b, grid_a)
        source, target = torch.cat([source, to_a]), torch.cat([target, from_b])
        confidence = torch.cat([confidence, confidence_b])
    ridge = RIDGE * torch.eye(2, dtype=torch.float64, device=source.device)
    weight = confidence
    for _ in range(ITERATIONS):
        share = (weight / weight.sum().clamp_min(TINY))[:, None]
        centre, centre_b = (share * source).sum(0), (share * target).sum(0)
        around, around_b = source - centre, target - centre_b
        weighted = (share * around).T
        linear = torch.linalg.solve(weighted @ around + ridge, weighted @ around_b + ridge)
        residual = (around @ linear - around_b).norm(dim=1)
        weight = confidence / (1 + (residual / CAUCHY_SCALE).square())
    identity = torch.eye(2, dtype=torch.float64, device=source.device)
    linear = identity + extrapolation * (linear - identity)
    every = _locations(torch.arange(grid_a.cells, device=source.device), grid_a)
    moved: Tensor = ((every - centre) @ linear + centre_b) * torch.tensor(grid_b.shape, device=source.device)
    return moved


def affine_windows(locations: Tensor, grid_b: Grid) -> Windows:
    """For offsets from given locations (N, 2) in the target's grid, those far outside drawn nearer."""
    starts = []
    for location, cells in zip(locations.unbind(1), grid_b.shape, strict=True):
        margin = cells // 2
        nearest = location.round().long().clamp(-margin, cells - 1 + margin)
        starts.append(cells - 1 + margin - nearest)
    return Windows(starts[0], starts[1], grid_b.shape)


@lru_cache(maxsize=16)
def affine_space(grid_a: Grid, grid_b: Grid, dtype: torch.dtype, device: torch.device) -> HoughSpace:
    """The Hough space of re-voting: bins as large as in the first vote, offsets at their exact places.

    It spans all offsets between the locations that :func:`affine_windows` allows and the target's cells.
    """
    axes = []
    for cells in grid_b.shape:
        offsets = 2 * cells - 1 + 2 * (cells // 2)
        place = torch.arange(offsets, dtype=torch.float64) * (grid_b.stride / bin_side(grid_a, grid_b))
        axes.append(gaussian(place[:, None] - place).to(device, dtype))
    return HoughSpace(axes[0], axes[1])


def _confident(matches: Direction, grid: Grid, other: Grid) -> tuple[Tensor, Tensor, Tensor]:
    """The more confident matches: locations of the cells, of their best, and the confidences."""
    confidence = matches.confidence.double()
    kept = (confidence >= confidence.quantile(1 - CONFIDENT)).nonzero().flatten()
    relative = confidence[kept] / confidence.max().clamp_min(TINY)
    return _locations(kept, grid), _locations(matches.best[kept], other), relative


def _locations(cells: Tensor, grid: Grid) -> Tensor:
    """Row and column of cells, (n, 2), as fractions of the image."""
    places = torch.stack([cells // grid.columns, cells % grid.columns], 1)
    return places.double() / torch.tensor(grid.shape, device=cells.device)
