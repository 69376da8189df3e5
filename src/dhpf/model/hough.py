"""Section 3.3: appearance confidence -> geometric votes, in one Hough space shared by all matches.

A match between cells votes for its offset. On two regular grids there are only (H + H' - 1)(W + W' - 1)
different offsets, so the whole matrix is first summed by offset, D = (H + H' - 1, W + W' - 1). Putting
offsets into bins, the Gaussian p(m_g | x) over the bins and reading the votes back are all separable in y
and x: two small matrix products. Each source cell's matches are a window of the table of votes; where the
windows begin depends on what offsets are measured from (``motion.py`` has another choice).

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .backbone import BASE_STRIDE
from .correlation import Grid

CELLS = 8192  # of the Hough space, about
SMOOTHING = 7  # side of the Gaussian over the Hough space, in bins
PUBLISHED_SIZE = (240, 240)


class HoughSpace(NamedTuple):
    """How much a match with one offset hears of one with another: the Gaussian of their distance."""

    vertical: Tensor  # (H + H' - 1, H + H' - 1)
    horizontal: Tensor  # (W + W' - 1, W + W' - 1)
    second: HoughSpace | None = None  # if matches vote again, for offsets from the motion that they share

    def votes(self, by_offset: Tensor) -> Tensor:
        """Sums of p(m_a) by offset, (D) -> the Hough score of a match with that offset, (D)."""
        return self.vertical @ by_offset @ self.horizontal.T


class Windows(NamedTuple):
    """Where each source cell's matches, H' x W' of them, begin in a table by offset."""

    top: Tensor  # (N,)
    left: Tensor  # (N,)
    grid_b: Grid

    def read(self, table: Tensor, cells: Tensor) -> Tensor:
        """The entries of every match of some source cells (K,): (K, N')."""
        windows = table.unfold(0, self.grid_b[0], 1).unfold(1, self.grid_b[1], 1)
        return windows[self.top[cells], self.left[cells]].flatten(1)

    def add(self, table: Tensor, cells: Tensor, values: Tensor) -> None:
        """Add the values (K, N') of every match of some source cells (K,) to their entries."""
        rows = self.top[cells, None] + torch.arange(self.grid_b[0], device=table.device)  # (K, H')
        columns = self.left[cells, None] + torch.arange(self.grid_b[1], device=table.device)
        entries = rows[:, :, None] * table.shape[1] + columns[:, None]  # (K, H', W')
        table.view(-1).index_add_(0, entries.flatten(), values.flatten())


class Votes(NamedTuple):
    """The Hough scores of all matches."""

    table: Tensor  # by offset
    windows: Windows

    def of_cells(self, cells: Tensor) -> Tensor:
        """The votes of every match of some source cells (K,): (K, N')."""
        return self.windows.read(self.table, cells)


class EqualVotes(HoughSpace):
    """No geometry, for an ablation: every match has the same score."""

    def votes(self, by_offset: Tensor) -> Tensor:
        """Ones, (D)."""
        return torch.ones_like(by_offset)


@lru_cache(maxsize=16)
def hough_space(size_a: Grid, size_b: Grid, dtype: torch.dtype, device: torch.device) -> HoughSpace:
    """The Hough space of two images with the given (height, width) in pixels of the network's input.

    It spans the sum of both sizes, in about 8192 square bins. At the published size, offsets are rounded down
    to whole bins, as there. At other sizes that would alias with the cells' distance of 4 pixels (more
    offsets in some bins than in others, and a photo would not even match itself), so offsets keep their
    exact places.
    """
    side = bin_side(size_a, size_b)
    axes = []
    for a, b in zip(size_a, size_b, strict=True):
        offset = torch.arange(1 - grid_cells(a), grid_cells(b), dtype=torch.float64) * BASE_STRIDE
        place = (offset + a) / side  # in bins
        if size_a == size_b == PUBLISHED_SIZE:
            place = place.floor()
        axes.append(gaussian(place[:, None] - place).to(device, dtype))
    return HoughSpace(axes[0], axes[1])


def bin_side(size_a: Grid, size_b: Grid) -> float:
    """Of the square bins, in pixels of the network's input."""
    return math.sqrt((size_a[0] + size_b[0]) * (size_a[1] + size_b[1]) / CELLS)


def gaussian(distance: Tensor) -> Tensor:
    """The smoothing along one axis by distance in bins: over 7 bins, its half width at half maximum 1.75.

    Cut off at half of the 7 bins, and scaled so that whole bins add up to 1.
    """
    variance = (SMOOTHING / 2 / 2.354) ** 2
    whole = torch.arange(SMOOTHING, dtype=distance.dtype) - SMOOTHING // 2
    weights = torch.exp(-distance.square() / (2 * variance)) * (distance.abs() <= SMOOTHING / 2)
    return weights / torch.exp(-whole.square() / (2 * variance)).sum()


def grid_cells(pixels: int) -> int:
    """Cells of the base block along one axis of that many pixels: halved twice, rounded up."""
    return (((pixels + 1) // 2) + 1) // 2


def sum_by_offset(block: Tensor, first_row: int, grid_a: Grid, grid_b: Grid) -> Tensor:
    """Sum the matches of some source grid rows by offset.

    Parameters
    ----------
    block
        (k*W, N'): p(m_a) of k whole source grid rows, the first of which is ``first_row``.

    Returns
    -------
    (D): entry (dy + H - 1, dx + W - 1) is the sum over matches with that offset.
    """
    (height, width), (height_b, width_b) = grid_a, grid_b
    count = len(block) // width
    # Reverse the source columns and pad: in the flattened array, equal offsets then share a column.
    skewed = block.view(count, width, height_b, width_b).flip(1).transpose(1, 2)
    skewed = F.pad(skewed, (0, width)).flatten(2)[..., :-width]  # (k, H', W*(W + W' - 1))
    by_dx = skewed.reshape(count, height_b, width, -1).sum(2)  # (k, H', W + W' - 1)
    source_rows = torch.arange(first_row, first_row + count, device=block.device)
    dy = torch.arange(height_b, device=block.device) - source_rows[:, None] + height - 1  # (k, H')
    table = block.new_zeros(height + height_b - 1, width + width_b - 1)
    return table.index_add(0, dy.flatten(), by_dx.flatten(0, 1))


@lru_cache(maxsize=16)
def offset_windows(grid_a: Grid, grid_b: Grid, device: torch.device) -> Windows:
    """For offsets from each source cell's own place."""
    rows, columns = (torch.arange(n - 1, -1, -1, device=device) for n in grid_a)
    return Windows(rows.repeat_interleave(grid_a[1]), columns.repeat(grid_a[0]), grid_b)


def votes_of_cells(votes: Tensor, cells: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """The votes (D) of every match of some source cells (K,): (K, N')."""
    return offset_windows(grid_a, grid_b, votes.device).read(votes, cells)


def spread_votes(votes: Tensor, first_row: int, count: int, grid_a: Grid, grid_b: Grid) -> Tensor:
    """The votes (D) of every match of ``count`` source grid rows, (count*W, N')."""
    cells = torch.arange(first_row * grid_a[1], (first_row + count) * grid_a[1], device=votes.device)
    return votes_of_cells(votes, cells, grid_a, grid_b)
