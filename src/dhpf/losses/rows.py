"""Some rows of the correlation, with gradients: all that the losses need of it.

A row belongs to one source cell. Its hyperpixel is read from the source's blocks by interpolation; its
products with the target are taken at each resolution's own size and then resized, as in
``model/correlation.py``.

B pairs  L layers  K source cells of a pair  N' target cells  h, w one layer's grid  C its channels
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..model.correlation import PUBLISHED_EPSILON, Grid, resizing, squared_lengths

ZERO_NORM = 1e-4  # what the published code puts in place of a squared norm of zero in training


def appearance_rows(
    blocks_a: Sequence[Tensor],
    blocks_b: Sequence[Tensor],
    weights: Tensor,
    cells: Tensor,
    grid_a: Grid,
    grid_b: Grid,
) -> Tensor:
    """p(m_a) = ReLU(cosine)^2 of the given source cells with all target cells, (B, K, N').

    Parameters
    ----------
    blocks_a, blocks_b
        The transformed blocks of the layers, each (B, C_l, h_l, w_l).
    weights
        (B, L): how much each layer counts in products and squared norms; 1 or 0 for hard gates.
    cells
        (B, K) indices of source cells.
    """
    products = weights.new_zeros(*cells.shape, grid_b[0] * grid_b[1])
    squares_a = weights.new_zeros(cells.shape)
    for layers in _alike([(*a.shape[2:], *b.shape[2:]) for a, b in zip(blocks_a, blocks_b, strict=True)]):
        source, target = (
            torch.cat([blocks[n].permute(0, 2, 3, 1) for n in layers], 3) for blocks in (blocks_a, blocks_b)
        )  # (B, h, w, C), as the transformations leave them
        channels = torch.tensor([blocks_a[n].shape[1] for n in layers], device=weights.device)
        pixels = read_at(source, cells, grid_a)  # (B, K, C)
        weighted = weights[:, layers].repeat_interleave(channels, 1)[:, None] * pixels
        size = target.shape[1], target.shape[2]
        products = products + resize_rows(weighted @ target.flatten(1, 2).mT, size, grid_b)
        squares_a = squares_a + (weighted * pixels).sum(2)
    lengths = norm(squares_a)[:, :, None] * norm(squared_norms(blocks_b, weights, grid_b))[:, None]
    return (products / (lengths + PUBLISHED_EPSILON)).relu().square()


def squared_norms(blocks: Sequence[Tensor], weights: Tensor, grid: Grid) -> Tensor:
    """Weighted squared lengths of all hyperpixels, (B, N)."""
    squares = weights.new_zeros(len(weights), grid[0] * grid[1])
    for layers in _alike([tuple(block.shape) for block in blocks]):
        level = torch.stack([blocks[n].permute(0, 2, 3, 1) for n in layers], 1)  # (B, layers, h, w, C)
        lengths = squared_lengths(level, grid).flatten(2)
        squares = squares + (weights[:, None, layers] @ lengths)[:, 0]
    return squares


def _alike(shapes: Sequence[tuple[int, ...]]) -> list[list[int]]:
    """The layers of each shape: few operations on many layers are faster than many on one."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for layer, shape in enumerate(shapes):
        groups.setdefault(shape, []).append(layer)
    return list(groups.values())


def read_at(pixels: Tensor, cells: Tensor, grid: Grid) -> Tensor:
    """A block, as it would be resized to the grid, at some cells: (B, h, w, C), (B, K) -> (B, K, C)."""
    kind = pixels.dtype, pixels.device
    if pixels.shape[1:3] == grid:
        return _gather(pixels, cells // grid[1], cells % grid[1])
    y, x = resizing(pixels.shape[1], grid[0], *kind), resizing(pixels.shape[2], grid[1], *kind)
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
