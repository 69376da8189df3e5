"""One training pair: its whole correlation without gradients, and the parts of it that have them.

L layers  K points  N, N' source and target cells  h, w one layer's grid  C' its channels
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..losses.rows import appearance_of_matches, appearance_rows
from ..losses.weak import coarser_grid, sampled_entropy
from ..model.correlation import FactoredCorrelation, Grid, correlate
from ..model.gating import NEGLIGIBLE
from ..model.hough import HoughSpace, votes_of_cells
from .maxima import best_matches


class Blocks(NamedTuple):
    """The transformed blocks of one pair that take part: layer -> (h, w, C')."""

    source: dict[int, Tensor]
    target: dict[int, Tensor]

    def swap(self) -> Blocks:
        """From the target to the source."""
        return Blocks(self.target, self.source)


@dataclass(frozen=True)
class GatedPair:
    """A pair with its gates."""

    blocks: Blocks
    weights: Tensor  # (L,) what multiplies each layer's products and squared norms, with its gradient
    grid_a: Grid
    grid_b: Grid

    def swap(self) -> GatedPair:
        """From the target to the source."""
        return GatedPair(self.blocks.swap(), self.weights, self.grid_b, self.grid_a)

    @torch.no_grad()
    def correlation(self) -> FactoredCorrelation:
        """Of the layers that are on; the base block if none is."""
        weights = self.weights.detach()
        layers = [layer for layer in self.blocks.source if weights[layer] > NEGLIGIBLE**2] or [0]
        soft = bool(((weights != 0) & (weights != 1)).any())
        sides = []
        for side in self.blocks:
            blocks = [side[layer].detach().permute(2, 0, 1) for layer in layers]
            if soft:  # a weight on products and squared norms is its root on the features
                blocks = [weights[n].sqrt() * block for n, block in zip(layers, blocks, strict=True)]
            sides.append(blocks)
        return correlate(sides[0], sides[1], self.grid_a, self.grid_b)

    def rows(self, cells: Tensor) -> Tensor:
        """p(m_a) of some source cells (K,), with gradients: (K, N')."""
        return appearance_rows(*self._learning(), cells[None], self.grid_a, self.grid_b)[0]

    def entropy(self, space: HoughSpace) -> Tensor:
        """The correlation entropy of eq. (5), both directions, after voting and the mutual filter."""
        found = best_matches(self.correlation(), space)
        coarse_a, coarse_b = coarser_grid(self.grid_a, found.votes), coarser_grid(self.grid_b, found.votes)
        back = found.votes.flip((0, 1))  # an offset from the target to the source is the negative one
        grids = self.grid_a, self.grid_b
        rows = self.rows(coarse_a.cells) * votes_of_cells(found.votes, coarse_a.cells, *grids)
        columns = self.swap().rows(coarse_b.cells) * votes_of_cells(back, coarse_b.cells, *grids[::-1])
        everywhere_a = torch.arange(len(found.of_rows), device=rows.device)
        everywhere_b = torch.arange(len(found.of_columns), device=rows.device)
        row_maxima = self._confidence_of(everywhere_a, found.of_rows, found.votes)
        column_maxima = self._confidence_of(found.of_columns, everywhere_b, found.votes)
        return sampled_entropy(rows, columns, row_maxima, column_maxima, coarse_a, coarse_b)

    def _confidence_of(self, cells_a: Tensor, cells_b: Tensor, votes: Tensor) -> Tensor:
        """p(m_a) times votes of single matches, with gradients."""
        grids = self.grid_a, self.grid_b
        values = appearance_of_matches(*self._learning(), cells_a[None], cells_b[None], *grids)[0]
        (height, width), columns_b = self.grid_a, self.grid_b[1]
        dy = cells_b // columns_b - cells_a // width + height - 1
        dx = cells_b % columns_b - cells_a % width + width - 1
        return values * votes[dy, dx]

    def _learning(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Blocks as (1, C', h, w), and the weights (1, layers) of those."""
        layers = sorted(self.blocks.source)
        first, second = ([side[n].permute(2, 0, 1)[None] for n in layers] for side in self.blocks)
        return first, second, self.weights[layers][None]
