"""The method as it is written down, as directly as possible: slow, obvious, the measure of the fast path.

Resize every chosen block to the base grid, concatenate, take cosines; give every pair of cells its Hough bin
(or, at other sizes than the published, its offset), add up, smooth, read back; filter; take the best. Used by
the tests, and by the benchmark as "literal".

N = H*W source cells  N' target cells
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class LiteralMatch(NamedTuple):
    appearance: Tensor  # (N, N')
    votes: Tensor
    confidence: Tensor
    filtered: Tensor
    best: Tensor  # (N,)


def hyperimage(blocks: Sequence[Tensor], grid: tuple[int, int]) -> Tensor:
    """Blocks (C_l, h_l, w_l) -> (sum of C_l, N)."""
    resized = [
        F.interpolate(block[None], grid, mode="bilinear", align_corners=True)[0].flatten(1)
        for block in blocks
    ]
    return torch.cat(resized)


def appearance(a: Tensor, b: Tensor) -> Tensor:
    """ReLU(cosine)^2 of hyperimages (C, N), (C, N'), with the published 0.001 in the denominator."""
    cosine = (a.T @ b) / (a.norm(dim=0)[:, None] * b.norm(dim=0) + 0.001)
    p: Tensor = cosine.relu().square()
    return p


def centres(grid: tuple[int, int]) -> Tensor:
    """x, y of every cell, (N, 2): 4 pixels apart."""
    y, x = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
    return 4.0 * torch.stack([x.flatten(), y.flatten()], 1)


def bin_side(size_a: tuple[int, int], size_b: tuple[int, int]) -> float:
    """Side in pixels of one of about 8192 square bins over the sum of both (height, width)."""
    return math.sqrt((size_a[1] + size_b[1]) * (size_a[0] + size_b[0]) / 8192)


def gaussian(y: float, x: float) -> float:
    """Unscaled smoothing by distance in bins."""
    sigma = 7 / 2 / 2.354
    return math.exp(-(x * x + y * y) / (2 * sigma * sigma)) if max(abs(x), abs(y)) <= 3.5 else 0.0


def gaussian_7x7() -> Tensor:
    weights = torch.tensor(
        [[gaussian(y, x) for x in range(-3, 4)] for y in range(-3, 4)], dtype=torch.float64
    )
    return weights / weights.sum()


def published_votes(
    p: Tensor, grid_a: tuple[int, int], grid_b: tuple[int, int], size: tuple[int, int]
) -> Tensor:
    """Every match votes for its bin; every match reads the smoothed bin: (N, N')."""
    side = bin_side(size, size)
    bins_x, bins_y = int(2 * size[1] / side) + 1, int(2 * size[0] / side) + 1
    a, b = centres(grid_a).double(), centres(grid_b).double()
    x = ((size[1] - a[:, None, 0] + b[:, 0]) / side).floor().long()
    y = ((size[0] - a[:, None, 1] + b[:, 1]) / side).floor().long()
    bins = y * bins_x + x
    space = torch.zeros(bins_x * bins_y, dtype=p.dtype).index_add(0, bins.flatten(), p.flatten())
    space = F.conv2d(space.view(1, 1, bins_y, bins_x), gaussian_7x7().to(p)[None, None], padding=3)
    return space.flatten()[bins]


def exact_votes(p: Tensor, grid_a: tuple[int, int], grid_b: tuple[int, int], side: float) -> Tensor:
    """The same without rounding: every match hears every other by the distance of their offsets, (N, N')."""
    (height, width), (height_b, width_b) = grid_a, grid_b
    a, b = centres(grid_a).long() // 4, centres(grid_b).long() // 4
    x, y = (b[:, i] - a[:, None, i] + (width, height)[i] - 1 for i in (0, 1))  # offsets in cells, from 0
    shape = height + height_b - 1, width + width_b - 1
    offsets = (y * shape[1] + x).flatten()
    table = (
        torch.zeros(shape[0] * shape[1], dtype=p.dtype).index_add(0, offsets, p.flatten()).view(1, 1, *shape)
    )
    reach = int(3.5 * side / 4)
    span = range(-reach, reach + 1)
    kernel = torch.tensor(
        [[gaussian(4 * i / side, 4 * j / side) for j in span] for i in span], dtype=torch.float64
    )
    kernel = kernel / sum(gaussian(i, j) for i in range(-3, 4) for j in range(-3, 4))
    smooth = F.conv2d(table, kernel.to(p)[None, None], padding=reach)
    return smooth.flatten()[offsets].view_as(p)


def mutual(confidence: Tensor) -> Tensor:
    rows = confidence.amax(1, keepdim=True)
    columns = confidence.amax(0, keepdim=True)
    rows = torch.where(rows == 0, 1e-30, rows)
    columns = torch.where(columns == 0, 1e-30, columns)
    return confidence * ((confidence / rows) * (confidence / columns))


def match(
    blocks_a: Sequence[Tensor],
    blocks_b: Sequence[Tensor],
    grid_a: tuple[int, int],
    grid_b: tuple[int, int],
    size_a: tuple[int, int],
    size_b: tuple[int, int],
) -> LiteralMatch:
    """The whole of section 3.3 for one pair; sizes are height, width of the network's input."""
    p = appearance(hyperimage(blocks_a, grid_a), hyperimage(blocks_b, grid_b))
    if size_a == size_b == (240, 240):
        voted = published_votes(p, grid_a, grid_b, size_a)
    else:
        voted = exact_votes(p, grid_a, grid_b, bin_side(size_a, size_b))
    confidence = p * voted
    filtered = mutual(confidence)
    return LiteralMatch(p, voted, confidence, filtered, filtered.argmax(1))


def transfer(points: Tensor, best: Tensor, grid_a: tuple[int, int], grid_b: tuple[int, int]) -> Tensor:
    """Mean of the transfers by all cells whose 10 x 10 box covers the point; points (K, 2)."""
    a, b = centres(grid_a), centres(grid_b)
    moved = []
    for point in points:
        near = ((point - a).abs() <= 5).all(1)
        moved.append((b[best[near]] + (point - a[near])).mean(0))
    return torch.stack(moved)
