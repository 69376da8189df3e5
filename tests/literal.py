"""The method as it is written down, as directly as possible: slow, obvious, the measure of the fast path.

Resize every chosen block to the base grid, concatenate, take cosines; give every pair of cells its Hough bin
(or, without rounding, its offset), add up, smooth, read back; filter; take the best. Used by the tests, and
by the benchmark as "literal".

N = H*W source cells  N' target cells
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from dhpf.grid import Grid


class LiteralMatch(NamedTuple):
    appearance: Tensor  # (N, N')
    votes: Tensor
    confidence: Tensor
    filtered: Tensor
    best: Tensor  # (N,)


def hyperimage(blocks: Sequence[Tensor], grid: Grid) -> Tensor:
    """Blocks (h_l, w_l, C_l) -> (sum of C_l, N)."""
    images = [block.permute(2, 0, 1)[None] for block in blocks]
    resized = [
        F.interpolate(x, grid.shape, mode="bilinear", align_corners=True)[0].flatten(1) for x in images
    ]
    return torch.cat(resized)


def appearance(a: Tensor, b: Tensor) -> Tensor:
    """ReLU(cosine)^2 of hyperimages (C, N), (C, N'), with the published 0.001 in the denominator."""
    cosine = (a.T @ b) / (a.norm(dim=0)[:, None] * b.norm(dim=0) + 0.001)
    p: Tensor = cosine.relu().square()
    return p


def centres(grid: Grid) -> Tensor:
    """x, y of every cell in input pixels, (N, 2)."""
    y, x = torch.meshgrid(torch.arange(grid.rows), torch.arange(grid.columns), indexing="ij")
    return grid.offset + grid.stride * torch.stack([x.flatten(), y.flatten()], 1).double()


def bin_side(grid_a: Grid, grid_b: Grid) -> float:
    """Side in pixels of one of about 8192 square bins over the sum of both extents."""
    width = grid_a.stride * grid_a.columns + grid_b.stride * grid_b.columns
    height = grid_a.stride * grid_a.rows + grid_b.stride * grid_b.rows
    return math.sqrt(width * height / 8192)


def gaussian(y: float, x: float) -> float:
    """Unscaled smoothing by distance in bins."""
    sigma = 7 / 2 / 2.354
    return math.exp(-(x * x + y * y) / (2 * sigma * sigma)) if max(abs(x), abs(y)) <= 3.5 else 0.0


def gaussian_7x7() -> Tensor:
    weights = torch.tensor(
        [[gaussian(y, x) for x in range(-3, 4)] for y in range(-3, 4)], dtype=torch.float64
    )
    return weights / weights.sum()


def published_votes(p: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """Every match votes for its bin; every match reads the smoothed bin: (N, N')."""
    side = bin_side(grid_a, grid_b)
    a, b = centres(grid_a), centres(grid_b)
    width, height = grid_a.stride * grid_a.columns, grid_a.stride * grid_a.rows
    x = ((width - a[:, None, 0] + b[:, 0]) / side).floor().long()
    y = ((height - a[:, None, 1] + b[:, 1]) / side).floor().long()
    bins_x, bins_y = int(x.max()) + 1, int(y.max()) + 1
    bins = y * bins_x + x
    space = torch.zeros(bins_x * bins_y, dtype=p.dtype).index_add(0, bins.flatten(), p.flatten())
    space = F.conv2d(space.view(1, 1, bins_y, bins_x), gaussian_7x7().to(p)[None, None], padding=3)
    return space.flatten()[bins]


def exact_votes(p: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """The same without rounding: every match hears every other by the distance of their offsets, (N, N')."""
    (height, width), (height_b, width_b) = grid_a.shape, grid_b.shape
    cells = [torch.stack(torch.unravel_index(torch.arange(g.cells), g.shape), 1) for g in (grid_a, grid_b)]
    y, x = (cells[1][:, i] - cells[0][:, None, i] + (height, width)[i] - 1 for i in (0, 1))  # from 0
    shape = height + height_b - 1, width + width_b - 1
    offsets = (y * shape[1] + x).flatten()
    table = torch.zeros(shape[0] * shape[1], dtype=p.dtype).index_add(0, offsets, p.flatten())
    ratio = grid_a.stride / bin_side(grid_a, grid_b)
    reach = int(3.5 / ratio)
    span = range(-reach, reach + 1)
    kernel = torch.tensor([[gaussian(i * ratio, j * ratio) for j in span] for i in span], dtype=torch.float64)
    kernel = kernel / sum(gaussian(i, j) for i in range(-3, 4) for j in range(-3, 4))
    smooth = F.conv2d(table.view(1, 1, *shape), kernel.to(p)[None, None], padding=reach)
    return smooth.flatten()[offsets].view_as(p)


def mutual(confidence: Tensor) -> Tensor:
    rows = confidence.amax(1, keepdim=True)
    columns = confidence.amax(0, keepdim=True)
    rows = torch.where(rows == 0, 1e-30, rows)
    columns = torch.where(columns == 0, 1e-30, columns)
    return confidence * ((confidence / rows) * (confidence / columns))


def match(
    blocks_a: Sequence[Tensor], blocks_b: Sequence[Tensor], grid_a: Grid, grid_b: Grid, hough: str = "exact"
) -> LiteralMatch:
    """The whole of section 3.3 for one pair; blocks are (h, w, C)."""
    p = appearance(hyperimage(blocks_a, grid_a), hyperimage(blocks_b, grid_b))
    voted = {"exact": exact_votes, "published": published_votes}[hough](p, grid_a, grid_b)
    confidence = p * voted
    filtered = mutual(confidence)
    return LiteralMatch(p, voted, confidence, filtered, filtered.argmax(1))


def transfer(points: Tensor, best: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """Mean of the transfers by all cells whose box of 2.5 strides covers the point; points (K, 2)."""
    a, b = centres(grid_a), centres(grid_b)
    moved = []
    for point in points.double():
        near = ((point - a).abs() <= 1.25 * grid_a.stride).all(1)
        moved.append((b[best[near]] + (point - a[near])).mean(0))
    return torch.stack(moved)


def correlation_entropy(filtered: Tensor, grid_a: Grid, grid_b: Grid) -> Tensor:
    """Mean entropy in bits of the cells' match distributions (B, N, N'), over both directions: (B,).

    They are those after the filter, on grids of a quarter of the side.
    """
    means = []
    for distributions, grid in ((filtered, grid_b), (filtered.mT, grid_a)):
        coarse = max(1, grid.rows // 4), max(1, grid.columns // 4)
        maps = distributions.reshape(*distributions.shape[:2], *grid.shape)
        small = F.interpolate(maps, coarse, mode="bilinear", align_corners=True).flatten(2)
        total = small.sum(2, keepdim=True)
        share = small / torch.where(total == 0, 1.0, total)  # 0 where all is 0
        bits = -(share * torch.where(share == 0, 1.0, share).log2()).sum(2)
        means.append(bits.mean(1))
    return (means[0] + means[1]) / 2
