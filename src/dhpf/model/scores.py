"""Match scores: how well every target cell fits some source cells, asked for after matching.

The N x N' matrix is gone by then. A few of its rows follow at once from the factors that it was made of, the
Hough votes and the column maxima, which together take less room.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from ..grid import Grid
from .correlation import Correlation
from .hough import Votes
from .mutual import TINY, mutual_filter


class Scores(Protocol):
    """How well every target cell fits, in whatever way a method knows."""

    @property
    def grid(self) -> Grid:
        """The target's."""

    @property
    def nbytes(self) -> int:
        """Memory held."""

    def of_cells(self, cells: Tensor) -> Tensor:
        """How well each target cell fits some source cells (K,) on average: (H', W') in [0, 1]."""


@dataclass(frozen=True, eq=False)
class MirroredScores:
    """Those of a mirrored target, mirrored back: a cell reads where its mirror image lies."""

    mirrored: Scores
    width: int  # of the network's input

    @property
    def grid(self) -> Grid:
        """The target's."""
        return self.mirrored.grid

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.mirrored.nbytes

    def of_cells(self, cells: Tensor) -> Tensor:
        """How well each target cell fits some source cells (K,) on average: (H', W') in [0, 1]."""
        scores, last = self.mirrored.of_cells(cells), self.grid.columns - 1
        centres = self.grid.offset + self.grid.stride * torch.arange(last + 1, device=scores.device)
        place = self.grid.coordinates(self.width - 1 - centres).clamp(0, last)
        low = place.floor().long()
        return torch.lerp(scores[:, low], scores[:, (low + 1).clamp_max(last)], (place - low).to(scores))


@dataclass(frozen=True, eq=False)
class Probabilities:
    """Of every match, kept as they are: for methods whose grids are coarse."""

    values: Tensor  # (N, N'), rows that sum to 1
    grid: Grid  # the target's

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return self.values.numel() * self.values.element_size()

    def of_cells(self, cells: Tensor) -> Tensor:
        """The probability of each target cell for some source cells (K,), averaged: (H', W') in [0, 1]."""
        return self.values[cells.to(self.values.device)].mean(0).view(self.grid.shape)


@dataclass(frozen=True, eq=False)
class CorrelationScores:
    """The rows of p(m_a) = ReLU(cosine)^2 as they are: for methods without votes and filter."""

    correlation: Correlation

    @property
    def grid(self) -> Grid:
        """The target's."""
        return self.correlation.grid_b

    @property
    def nbytes(self) -> int:
        """Memory held."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.correlation.tensors)

    @torch.no_grad()
    def of_cells(self, cells: Tensor) -> Tensor:
        """How similar each target cell is to some source cells (K,) on average: (H', W') in [0, 1]."""
        rows = self.correlation.rows(cells.to(self.correlation.norm_a.device))
        return rows.mean(0).clamp_max(1).view(self.grid.shape)  # rounding may lift a cosine above 1


@dataclass(frozen=True, eq=False)
class MatchScores:
    """The rows of the filtered confidence C, computed when asked for."""

    correlation: Correlation
    votes: Votes
    column_maxima: Tensor  # (N',) of p(m_a) times votes

    @property
    def grid(self) -> Grid:
        """The target's."""
        return self.correlation.grid_b

    @property
    def nbytes(self) -> int:
        """Memory held."""
        votes = self.votes.table, self.votes.windows.top, self.votes.windows.left
        tensors = [*self.correlation.tensors, *votes, self.column_maxima]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @torch.no_grad()
    def of_cells(self, cells: Tensor) -> Tensor:
        """How well each target cell fits some source cells (K,) on average: (H', W') in [0, 1].

        It is the filtered confidence of each match divided by the highest vote: the scale of
        :attr:`dhpf.model.matching.CellMatches.confidence`.
        """
        cells = cells.to(self.column_maxima.device)
        confidence = self.correlation.rows(cells) * self.votes.of_cells(cells)
        filtered = mutual_filter(confidence, confidence.amax(1), self.column_maxima)
        score = filtered.mean(0) / self.votes.table.max().clamp_min(TINY)
        return score.clamp_max(1).view(self.correlation.grid_b.shape)  # rounding may lift a match above 1
