"""Matching by probabilities: cosines over a temperature, dual softmax, votes as a prior, kernel soft-argmax.

A vision transformer's features tell right from wrong far better than a ReLU and a square do, but their cells
are large: 14 pixels. So a match is a distribution over the target's cells, and a point goes to its mean.

    s        cosine / temperature
    score    2 s - logsumexp of its column + power * log(votes): both images choose each other, and most agree
    match    the mean of softmax(score) times a Gaussian about the highest cell

The source's cells may be finer than its blocks, for the price of an interpolation; the target's cells are
those of its finest block.

N source cells  M cells of the source at the target's stride  N' target cells  K some source cells
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from ..grid import Grid
from .correlation import Correlation, corners
from .hough import Votes, hough_space, offset_windows
from .readout import NEAREST, Flow

LEAST_VOTE = 1e-6  # of the highest: what no match votes for is not ruled out
WINDOW = 2.5  # deviations of the kernel, beyond which it is nothing


@dataclass(frozen=True)
class SoftMatching:
    """How probabilities are made and read."""

    temperature: float  # of cosines
    vote_power: float = 0.5  # how much the Hough votes count; 0: not at all
    sigma: float = 2.0  # of the kernel, in cells of the target


@dataclass(frozen=True, eq=False)
class SoftScores:
    """The score of every match, computed when it is asked for; probabilities are its softmax over a row."""

    correlation: Correlation
    matching: SoftMatching
    columns: Tensor  # (N',) logsumexp of s
    votes: Votes | None  # at the target's stride
    small: Grid  # the source at the target's stride

    @property
    def grid(self) -> Grid:
        """The target's."""
        return self.correlation.grid_b

    @property
    def nbytes(self) -> int:
        """Memory held."""
        tensors = [*self.correlation.tensors, self.columns, *([self.votes.table] if self.votes else [])]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @torch.no_grad()
    def rows(self, cells: Tensor) -> Tensor:
        """Of some source cells (K,) with all target cells: (K, N')."""
        score = self.correlation.products(cells)  # the largest matrix here: each pass over it counts
        added = -self.columns
        if self.votes is not None:
            every = torch.arange(self.small.cells, device=cells.device)
            heard = self.votes.of_cells(every) / self.votes.table.max().clamp_min(1e-30)  # (M, N')
            prior = self.matching.vote_power * heard.clamp_min(LEAST_VOTE).log() - self.columns
            added = corners(cells, self.small.shape, self.correlation.grid_a, prior.dtype).read(prior)
        score *= 2 / (self.correlation.norm_b * self.matching.temperature)
        return score.div_(self.correlation.norm_a[cells, None]).add_(added)

    @torch.no_grad()
    def of_cells(self, cells: Tensor) -> Tensor:
        """The probability of each target cell for some source cells (K,), averaged: (H', W') in [0, 1]."""
        rows = self.rows(cells.to(self.columns.device)).softmax(1)
        return rows.mean(0).view(self.grid.shape)


def similarities(correlation: Correlation, cells: Tensor, temperature: float | Tensor) -> Tensor:
    """s of some source cells (K,) with all target cells: (K, N'). Differentiable."""
    lengths = correlation.norm_a[cells, None] * correlation.norm_b
    return correlation.products(cells) / (lengths * temperature)


@torch.no_grad()
def soft_match(correlation: Correlation, small: Grid, matching: SoftMatching) -> tuple[Flow, SoftScores]:
    """The flow from every source cell, and what it was read from; ``small`` is the source's grid at the
    target's stride."""
    grid_a, grid_b = correlation.grid_a, correlation.grid_b
    device = correlation.norm_a.device
    own = grid_a.nearest(torch.from_numpy(small.centres()).reshape(-1, 2)).to(device)
    similar = similarities(correlation, own, matching.temperature)  # (M, N')
    columns = similar.logsumexp(0)
    votes = None
    if matching.vote_power:
        windows = offset_windows(small, grid_b, device)
        table = similar.new_zeros([a + b - 1 for a, b in zip(small.shape, grid_b.shape, strict=True)])
        windows.add(table, torch.arange(small.cells, device=device), similar.softmax(1) * similar.softmax(0))
        votes = Votes(hough_space(small, grid_b, table.dtype, device).votes(table), windows)
    scores = SoftScores(correlation, matching, columns, votes, small)
    rows = scores.rows(torch.arange(grid_a.cells, device=device))
    return soft_flow(rows, grid_a, grid_b, matching.sigma, NEAREST), scores


def soft_flow(scores: Tensor, grid_a: Grid, grid_b: Grid, sigma: float, reach: float) -> Flow:
    """The flow from every source cell by :func:`kernel_soft_argmax` of its scores (N, N')."""
    landed, confidence = kernel_soft_argmax(scores, grid_b, sigma)
    where = landed.double().cpu().numpy().reshape(*grid_a.shape, 2)
    sure = confidence.double().cpu().clamp(0, 1).numpy().reshape(grid_a.shape)
    return Flow(where - grid_a.centres(), sure, grid_a, reach)


def kernel_soft_argmax(scores: Tensor, grid: Grid, sigma: float) -> tuple[Tensor, Tensor]:
    """Scores (K, N') -> locations (K, 2) in pixels of the network's input, and confidences (K,).

    A location is the mean of the probabilities times a Gaussian about the highest one; its confidence is how
    much of all probability that is.
    """
    best = scores.argmax(1)
    rows, columns, kernel = _window(sigma, scores.dtype, scores.device)  # (w,)
    y = torch.div(best, grid.columns, rounding_mode="floor")[:, None] + rows
    x = (best % grid.columns)[:, None] + columns
    inside = (y >= 0) & (y < grid.rows) & (x >= 0) & (x < grid.columns)
    cells = y.clamp(0, grid.rows - 1) * grid.columns + x.clamp(0, grid.columns - 1)
    weight = scores.softmax(1).gather(1, cells) * kernel * inside  # (K, w)
    confidence = weight.sum(1)
    place = torch.stack([(weight * x).sum(1), (weight * y).sum(1)], 1) / confidence[:, None]
    return grid.offset + grid.stride * place, confidence


@lru_cache(maxsize=8)
def _window(sigma: float, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Offsets of the cells in the kernel's window, and its values there."""
    reach = math.ceil(WINDOW * sigma)
    rows, columns = (
        part.flatten() for part in torch.meshgrid([torch.arange(-reach, reach + 1)] * 2, indexing="ij")
    )
    kernel = (-(rows.square() + columns.square()).double() / (2 * sigma**2)).exp()
    return rows.to(device), columns.to(device), kernel.to(device, dtype)
