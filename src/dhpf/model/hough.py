"""Section 3.3: appearance confidence -> geometric votes, in one Hough space shared by all matches.

A match between cells votes for its offset. On two regular grids there are only (H + H' - 1)(W + W' - 1)
different offsets, so the whole matrix is first summed by offset. Putting offsets into bins, the Gaussian
p(m_g | x) over the bins and reading the votes back are all separable in y and x: two small matrix products.
Each source cell's matches are a window of the table of votes; where the windows begin depends on what offsets
are measured from (``revoting.py`` has another choice).

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  D = (H + H' - 1, W + W' - 1)
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ..grid import Grid

BINS = 8192  # of the Hough space, about
SMOOTHING = 7  # side of the Gaussian over the Hough space, in bins
# How an offset finds its bin: at its exact place; or rounded down as in the published code, which puts more
# offsets into some bins than into others, at other input sizes so many that an image does not match itself.
BINNINGS = ("exact", "published")


class HoughSpace(NamedTuple):
    """How much a match with one offset hears of one with another: the Gaussian of their distance."""

    vertical: Tensor  # (D_y, D_y)
    horizontal: Tensor  # (D_x, D_x)

    def votes(self, by_offset: Tensor) -> Tensor:
        """Sums of p(m_a) by offset, (D) -> the Hough score of a match with that offset, (D)."""
        return self.vertical @ by_offset @ self.horizontal.T


class Windows(NamedTuple):
    """Where each source cell's matches, H' x W' of them, begin in a table by offset."""

    top: Tensor  # (N,)
    left: Tensor  # (N,)
    shape: tuple[int, int]  # H', W'

    def read(self, table: Tensor, cells: Tensor) -> Tensor:
        """The entries of every match of some source cells (K,): (K, N')."""
        windows = table.unfold(0, self.shape[0], 1).unfold(1, self.shape[1], 1)
        return windows[self.top[cells], self.left[cells]].flatten(1)

    def add(self, table: Tensor, cells: Tensor, values: Tensor) -> None:
        """Add the values (K, N') of every match of some source cells (K,) to their entries."""
        rows = self.top[cells, None] + torch.arange(self.shape[0], device=table.device)  # (K, H')
        columns = self.left[cells, None] + torch.arange(self.shape[1], device=table.device)
        entries = rows[:, :, None] * table.shape[1] + columns[:, None]  # (K, H', W')
        table.view(-1).index_add_(0, entries.flatten(), values.flatten())

    def entries(self, table: Tensor, cells_a: Tensor, cells_b: Tensor) -> Tensor:
        """Of single matches, (K,)."""
        return table[
            self.top[cells_a] + cells_b // self.shape[1], self.left[cells_a] + cells_b % self.shape[1]
        ]


class Votes(NamedTuple):
    """The Hough scores of all matches."""

    table: Tensor  # by offset
    windows: Windows

    def of_cells(self, cells: Tensor) -> Tensor:
        """The votes of every match of some source cells (K,): (K, N')."""
        return self.windows.read(self.table, cells)


@lru_cache(maxsize=16)
def hough_space(
    grid_a: Grid, grid_b: Grid, dtype: torch.dtype, device: torch.device, binning: str = BINNINGS[0]
) -> HoughSpace:
    """The Hough space of two grids: it spans the sum of their extents, in about 8192 square bins."""
    side = bin_side(grid_a, grid_b)
    axes = []
    for a, b in zip(grid_a.shape, grid_b.shape, strict=True):
        offset = torch.arange(1 - a, b, dtype=torch.float64) * grid_a.stride
        place = (offset + a * grid_a.stride) / side  # in bins
        if binning == "published":
            place = place.floor()
        axes.append(gaussian(place[:, None] - place).to(device, dtype))
    return HoughSpace(axes[0], axes[1])


def bin_side(grid_a: Grid, grid_b: Grid) -> float:
    """Of the square bins, in pixels of the network's input."""
    height, width = (a + b for a, b in zip(grid_a.shape, grid_b.shape, strict=True))
    return grid_a.stride * math.sqrt(height * width / BINS)


def gaussian(distance: Tensor) -> Tensor:
    """The smoothing along one axis by distance in bins: over 7 bins, its half width at half maximum 1.75.

    Cut off at half of the 7 bins, and scaled so that whole bins add up to 1.
    """
    variance = (SMOOTHING / 2 / 2.354) ** 2
    whole = torch.arange(SMOOTHING, dtype=distance.dtype) - SMOOTHING // 2
    weights = torch.exp(-distance.square() / (2 * variance)) * (distance.abs() <= SMOOTHING / 2)
    return weights / torch.exp(-whole.square() / (2 * variance)).sum()


@lru_cache(maxsize=16)
def offset_windows(grid_a: Grid, grid_b: Grid, device: torch.device) -> Windows:
    """For offsets from each source cell's own location."""
    rows, columns = (torch.arange(n - 1, -1, -1, device=device) for n in grid_a.shape)
    return Windows(rows.repeat_interleave(grid_a.columns), columns.repeat(grid_a.rows), grid_b.shape)
