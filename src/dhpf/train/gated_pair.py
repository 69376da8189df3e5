"""One training pair: its whole correlation without gradients, and the parts of it that have them.

L layers  K points  N, N' source and target cells  h, w one layer's grid  C' its channels
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..losses.levels import LevelProducts, level_products
from ..losses.rows import appearance_rows, norm, squared_norms
from ..losses.weak_fused import Side, direction_entropy
from ..model.correlation import PUBLISHED_EPSILON, FactoredCorrelation, Grid, correlate
from ..model.gating import NEGLIGIBLE
from ..model.hough import HoughSpace
from .maxima import BestMatches, best_matches


class Blocks(NamedTuple):
    """The transformed blocks of one pair that take part: layer -> (h, w, C')."""

    source: dict[int, Tensor]
    target: dict[int, Tensor]


@dataclass(frozen=True)
class GatedPair:
    """A pair with its gates."""

    blocks: Blocks
    weights: Tensor  # (L,) what multiplies each layer's products and squared norms, with its gradient
    grid_a: Grid
    grid_b: Grid

    @torch.no_grad()
    def correlation(self) -> FactoredCorrelation:
        """Of the layers that take part."""
        weights = self.weights.detach()
        layers = [layer for layer in self.blocks.source if weights[layer] > NEGLIGIBLE**2]
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
        lengths_a = norm(squared_norms(blocks_a, weights, self.grid_a)[0])
        lengths_b = norm(squared_norms(blocks_b, weights, self.grid_b)[0])
        layers = sorted(self.blocks.source)
        first, second = ([side[n] for n in layers] for side in self.blocks)
        products = level_products(first, second, weights[0], self.grid_a, self.grid_b)
        maxima_a, maxima_b = self._maxima(found, products, lengths_a, lengths_b)
        a, b = Side(lengths_a, maxima_a), Side(lengths_b, maxima_b)
        backward = direction_entropy(products, a, b, found.votes)
        forward = direction_entropy(products.swap(), b, a, found.votes.flip((0, 1)))
        return (forward + backward) / 2

    def _maxima(
        self, found: BestMatches, products: LevelProducts, lengths_a: Tensor, lengths_b: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The largest confidences of all rows and of all columns, with gradients."""
        every_a, every_b = (torch.arange(len(side), device=side.device) for side in (lengths_a, lengths_b))
        a, b = torch.cat([every_a, found.of_columns]), torch.cat([found.of_rows, every_b])
        cosine = products.of_matches(a, b) / (lengths_a[a] * lengths_b[b] + PUBLISHED_EPSILON)
        confidence = cosine.relu().square() * self._votes(found.votes, a, b)
        return confidence[: len(every_a)], confidence[len(every_a) :]

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
