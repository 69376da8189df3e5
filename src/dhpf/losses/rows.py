"""Some rows of the correlation, with gradients: all that the losses need of it.

A row belongs to one source cell. Its hyperpixel is read from the source's blocks by interpolation; its
products with the target are taken at each resolution's own size and then resized, as in
``model/correlation.py``.

B pairs  L layers  K source cells of a pair  N' target cells  h, w one layer's grid  C its channels
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..model.correlation import PUBLISHED_EPSILON, Grid, resizing, squared_lengths

ZERO_NORM = 1e-4  # what the published code puts in place of a squared norm of zero in training


class Products(NamedTuple):
    """Inner products of hyperpixels, and the squared lengths of both sides; all with gradients."""

    products: Tensor  # (B, K, N')
    squares_a: Tensor  # (B, K, 1)
    squares_b: Tensor  # (B, 1, N')

    def appearance(self, epsilon: float = PUBLISHED_EPSILON) -> Tensor:
        """p(m_a) = ReLU(cosine)^2."""
        lengths = norm(self.squares_a) * norm(self.squares_b)
        return (self.products / (lengths + epsilon)).relu().square()


def appearance_rows(
    blocks_a: Sequence[Tensor],
    blocks_b: Sequence[Tensor],
    weights: Tensor,
    cells: Tensor,
    grid_a: Grid,
    grid_b: Grid,
) -> Tensor:
    """p(m_a) of the given source cells with all target cells: see :func:`product_rows`. (B, K, N')."""
    squares = squared_norms(blocks_b, weights, grid_b)
    return product_rows(blocks_a, blocks_b, weights, cells, grid_a, grid_b, squares).appearance()


def product_rows(
    blocks_a: Sequence[Tensor],
    blocks_b: Sequence[Tensor],
    weights: Tensor,
    cells: Tensor,
    grid_a: Grid,
    grid_b: Grid,
    squares_b: Tensor,
) -> Products:
    """The correlation of the given source cells with all target cells.

    Parameters
    ----------
    blocks_a, blocks_b
        The transformed blocks of the layers, each (B, C_l, h_l, w_l).
    weights
        (B, L): how much each layer counts in products and squared norms; 1 or 0 for hard gates.
    cells
        (B, K) indices of source cells.
    squares_b
        (B, N') the target's :func:`squared_norms`.
    """
    products = weights.new_zeros(*cells.shape, grid_b[0] * grid_b[1])
    levels: dict[tuple[int, ...], list[int]] = {}
    for layer, (a, b) in enumerate(zip(blocks_a, blocks_b, strict=True)):
        levels.setdefault((*a.shape[2:], *b.shape[2:]), []).append(layer)
    squares_a = weights.new_zeros(cells.shape)
    for (_, _, *size_b), layers in levels.items():
        pixels = [read_at(blocks_a[layer], cells, grid_a) for layer in layers]  # each (B, K, C)
        weighted = [weights[:, n, None, None] * pixel for n, pixel in zip(layers, pixels, strict=True)]
        targets = torch.cat([blocks_b[layer] for layer in layers], 1).flatten(2)  # (B, C, h'*w')
        products = products + resize_rows(torch.cat(weighted, 2) @ targets, (size_b[0], size_b[1]), grid_b)
        for layer, pixel in zip(layers, pixels, strict=True):
            squares_a = squares_a + weights[:, layer, None] * pixel.square().sum(2)
    return Products(products, squares_a[:, :, None], squares_b[:, None])


def squared_norms(blocks: Sequence[Tensor], weights: Tensor, grid: Grid) -> Tensor:
    """Weighted squared lengths of all hyperpixels, (B, N)."""
    squares = weights.new_zeros(len(weights), grid[0] * grid[1])
    for layer, block in enumerate(blocks):
        lengths = squared_lengths(block.permute(0, 2, 3, 1), grid)
        squares = squares + weights[:, layer, None] * lengths.flatten(1)
    return squares


def hyperimage(blocks: Sequence[Tensor], grid: Grid) -> Tensor:
    """All blocks, each (C, h, w), resized to the grid and joined, channels last: (N, sum of C)."""
    resized = []
    for block in blocks:
        kind = block.dtype, block.device
        lines = block.permute(1, 2, 0)  # (h, w, C)
        if lines.shape[:2] != grid:
            vertical = resizing(lines.shape[0], grid[0], *kind).matrix(lines.shape[0])
            horizontal = resizing(lines.shape[1], grid[1], *kind).matrix(lines.shape[1])
            tall = (vertical @ lines.flatten(1)).view(grid[0], *lines.shape[1:])
            lines = horizontal @ tall  # (H, W, C)
        resized.append(lines.flatten(0, 1))
    return torch.cat(resized, 1)


def read_at(block: Tensor, cells: Tensor, grid: Grid) -> Tensor:
    """The block, as it would be resized to the grid, at some cells: (B, C, h, w), (B, K) -> (B, K, C)."""
    kind = block.dtype, block.device
    pixels = block.permute(0, 2, 3, 1)  # (B, h, w, C)
    if pixels.shape[1:3] == grid:
        return _gather(pixels, cells // grid[1], cells % grid[1])
    y, x = resizing(block.shape[2], grid[0], *kind), resizing(block.shape[3], grid[1], *kind)
    row, column = cells // grid[1], cells % grid[1]
    t_y, t_x = y.t[row][..., None], x.t[column][..., None]

    def line(rows: Tensor) -> Tensor:
        left, right = _gather(pixels, rows, x.low[column]), _gather(pixels, rows, x.high[column])
        return (1 - t_x) * left + t_x * right

    return (1 - t_y) * line(y.low[row]) + t_y * line(y.high[row])


def resize_rows(small: Tensor, size: Grid, grid: Grid) -> Tensor:
    """Resize (B, K, h*w) over the target's grid: (B, K, N')."""
    kind = small.dtype, small.device
    vertical = resizing(size[0], grid[0], *kind).matrix(size[0])
    horizontal = resizing(size[1], grid[1], *kind).matrix(size[1])
    maps: Tensor = vertical @ small.view(*small.shape[:2], *size) @ horizontal.T
    return maps.flatten(2)


def _gather(pixels: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    batch = torch.arange(len(pixels), device=pixels.device)[:, None]
    return pixels[batch, rows, columns]


def norm(squares: Tensor) -> Tensor:
    """Lengths; where the square is zero, a small one."""
    return torch.where(squares <= 0, ZERO_NORM, squares).sqrt()
