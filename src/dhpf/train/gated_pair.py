"""One training pair: its whole correlation without gradients, and the parts of it that have them.

L layers  K points  N, N' source and target cells  h, w one layer's grid  C' its channels
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..losses.rows import appearance_rows, hyperimage, norm, product_rows, squared_norms
from ..losses.weak import coarser_grid
from ..losses.weak_fused import direction_entropy
from ..model.correlation import PUBLISHED_EPSILON, FactoredCorrelation, Grid, correlate
from ..model.gating import NEGLIGIBLE
from ..model.hough import HoughSpace, votes_of_cells
from .maxima import BestMatches, best_matches


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
        """The correlation entropy of eq. (4), both directions, after voting and the mutual filter."""
        found = best_matches(self.correlation(), space)
        blocks_a, blocks_b, weights = self._learning()
        squares = squared_norms(blocks_a, weights, self.grid_a), squared_norms(blocks_b, weights, self.grid_b)
        row_maxima, column_maxima = self._maxima(found, norm(squares[0][0]), norm(squares[1][0]))
        forward = self.swap()._direction(found.votes.flip((0, 1)), squares[0], column_maxima, row_maxima)
        backward = self._direction(found.votes, squares[1], row_maxima, column_maxima)
        return (forward + backward) / 2

    def _direction(self, votes: Tensor, squares_b: Tensor, maxima_a: Tensor, maxima_b: Tensor) -> Tensor:
        """Mean entropy of the target cells' distributions over the source."""
        coarse = coarser_grid(self.grid_a, votes)
        grids = self.grid_a, self.grid_b
        products = product_rows(*self._learning(), coarse.cells[None], *grids, squares_b)
        votes = votes_of_cells(votes, coarse.cells, *grids)
        return direction_entropy(products, votes, maxima_a[coarse.cells], maxima_b, coarse)

    def _maxima(self, found: BestMatches, lengths_a: Tensor, lengths_b: Tensor) -> tuple[Tensor, Tensor]:
        """The largest confidences of all rows and of all columns, with gradients."""
        blocks_a, blocks_b, weights = self._learning()
        images = (
            hyperimage([block[0] for block in blocks], grid)
            for blocks, grid in ((blocks_a, self.grid_a), (blocks_b, self.grid_b))
        )
        channels = torch.tensor([block.shape[1] for block in blocks_a], device=weights.device)
        first, second = images
        first = first * weights[0].repeat_interleave(channels)
        rows = (first * second[found.of_rows]).sum(1) / (
            lengths_a * lengths_b[found.of_rows] + PUBLISHED_EPSILON
        )
        columns = (first[found.of_columns] * second).sum(1) / (
            lengths_a[found.of_columns] * lengths_b + PUBLISHED_EPSILON
        )
        cells_a, cells_b = (torch.arange(len(side), device=weights.device) for side in (rows, columns))
        return (
            rows.relu().square() * self._votes(found.votes, cells_a, found.of_rows),
            columns.relu().square() * self._votes(found.votes, found.of_columns, cells_b),
        )

    def _votes(self, votes: Tensor, cells_a: Tensor, cells_b: Tensor) -> Tensor:
        """Of single matches."""
        (height, width), columns_b = self.grid_a, self.grid_b[1]
        dy = cells_b // columns_b - cells_a // width + height - 1
        return votes[dy, cells_b % columns_b - cells_a % width + width - 1]

    def _learning(self) -> tuple[list[Tensor], list[Tensor], Tensor]:
        """Blocks as (1, C', h, w), and the weights (1, layers) of those."""
        layers = sorted(self.blocks.source)
        first, second = ([side[n].permute(2, 0, 1)[None] for n in layers] for side in self.blocks)
        return first, second, self.weights[layers][None]
