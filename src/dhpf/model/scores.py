"""Match scores: how well every target cell fits some source cells, asked for after matching.

The N x N' matrix is gone by then. A few of its rows follow at once from the factors that it was made of, the
Hough votes and the column maxima, which together take less room.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..grid import Grid
from .correlation import Correlation
from .hough import Votes
from .mutual import TINY, mutual_filter


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
