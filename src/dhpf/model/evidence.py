"""What is kept of a matched pair, to ask later how well every target cell fits one source cell.

The N x N' matrix is gone by then. A few of its rows follow at once from the factors that it was made of, the
Hough votes and the column maxima, which together take less room.

H, W source grid  H', W' target grid  N' = H'*W'  K a few source cells  C channels of one resolution
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .correlation import FactoredCorrelation, resizing
from .hough import Votes
from .mutual import TINY, mutual_filter


@dataclass(frozen=True, eq=False)
class Evidence:
    """The rows of the filtered confidence C, computed when asked for."""

    correlation: FactoredCorrelation
    votes: Votes
    column_maxima: Tensor  # (N',) of p(m_a) times votes

    @property
    def nbytes(self) -> int:
        """Memory held."""
        kept = self.correlation
        factors = [tensor for level in (kept.base or (), *kept.coarse) for tensor in level]
        votes = self.votes.table, self.votes.windows.top, self.votes.windows.left
        tensors = [*factors, kept.norm_a, kept.norm_b, *votes, self.column_maxima]
        return sum(tensor.numel() * tensor.element_size() for tensor in tensors)

    @torch.no_grad()
    def scores(self, rows: slice, columns: slice) -> Tensor:
        """How well each target cell fits a rectangle of source cells, (H', W'), in [0, 1].

        It is the filtered confidence of each match, averaged over the source cells and divided by the highest
        vote: the scale of :attr:`dhpf.model.matching.CellMatches.confidence`.

        Parameters
        ----------
        rows, columns
            The rectangle in the source grid; not empty.
        """
        kept = self.correlation
        cells = torch.arange(len(kept.norm_a), device=kept.norm_a.device).view(kept.grid_a)[rows, columns]
        confidence = self._appearance(rows, columns) * self.votes.of_cells(cells.flatten())
        filtered = mutual_filter(confidence, confidence.amax(1), self.column_maxima)
        score = filtered.mean(0) / self.votes.table.max().clamp_min(TINY)
        return score.clamp_max(1).view(kept.grid_b)  # rounding may lift a perfect match above 1

    def _appearance(self, rows: slice, columns: slice) -> Tensor:
        """p(m_a) of the source cells with all target cells, (K, N').

        Few features are resized before they are multiplied, not the products after: for single cells that
        is less work.
        """
        kept = self.correlation
        width = kept.grid_a[1]
        cells = torch.arange(kept.grid_a[0] * width).view(kept.grid_a)[rows, columns].flatten()
        cells = cells.to(kept.norm_a.device)
        products = kept.norm_a.new_zeros(len(cells), len(kept.norm_b))
        if kept.base is not None:
            products += kept.base[0][cells] @ kept.base[1].T
        kind = kept.norm_a.dtype, kept.norm_a.device
        for level_a, level_b in kept.coarse:
            y = resizing(level_a.shape[0], kept.grid_a[0], *kind)
            x = resizing(level_a.shape[1], width, *kind)
            lines = torch.lerp(level_a[y.low[rows]], level_a[y.high[rows]], y.t[rows, None, None])
            low, high = lines[:, x.low[columns]], lines[:, x.high[columns]]
            features = torch.lerp(low, high, x.t[columns, None]).flatten(0, 1)  # (K, C)
            small = (features @ level_b.flatten(0, 1).T).view(1, len(cells), *level_b.shape[:2])
            products += F.interpolate(small, kept.grid_b, mode="bilinear", align_corners=True)[0].flatten(1)
        return (products / (kept.norm_a[cells, None] * kept.norm_b + kept.epsilon)).relu().square()
