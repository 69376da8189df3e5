"""Section 3.3: chosen blocks -> p(m_a) = ReLU(cosine)^2, without ever building the hyperimage.

The hyperimage H stacks every chosen block b_r, resized to the base grid by a linear map U_r. So
H^T H' = sum_r U_r (b_r^T b'_r) U_r'^T: correlate each resolution at its own size, where it is up to 3000
times smaller, resize that on both sides, and add. Exact, since resizing is linear.

H, W source grid  N = H*W  N' target cells  h, w one resolution's grid  n = h*w  C channels
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

PUBLISHED_EPSILON = 1e-3  # the published code adds it to the product of norms; in the paper it is 0
SMALLEST_NORM = 1e-15  # keeps 0 / 0 away where a hyperpixel is zero and so is epsilon

Grid = tuple[int, int]  # rows, columns


class Resizing(NamedTuple):
    """Bilinear resizing with aligned corners along one axis: out[i] = (1 - t) in[low] + t in[high]."""

    low: Tensor  # (outputs,) int64
    high: Tensor  # (outputs,) int64, low + 1 where that exists
    t: Tensor  # (outputs,) in [0, 1]

    def matrix(self, inputs: int) -> Tensor:
        """The same as a dense (outputs, inputs) matrix."""
        identity = torch.eye(inputs, dtype=self.t.dtype, device=self.t.device)
        return torch.lerp(identity[self.low], identity[self.high], self.t[:, None])


@lru_cache(maxsize=256)
def resizing(inputs: int, outputs: int, dtype: torch.dtype, device: torch.device) -> Resizing:
    """The resizing of ``inputs`` positions to ``outputs``, computed in float64."""
    step = (inputs - 1) / (outputs - 1) if outputs > 1 else 0.0
    position = torch.arange(outputs, dtype=torch.float64) * step
    low = position.floor().long().clamp(0, max(inputs - 2, 0))
    high = (low + 1).clamp_max(inputs - 1)
    return Resizing(low.to(device), high.to(device), (position - low).to(device, dtype))


class Slab(NamedTuple):
    """The coarse resolutions as far as some source grid rows need them."""

    values: Tensor  # (sum of rows, N'): one resolution below the other, resized on the target's side only
    grids: tuple[Grid, ...]  # (rows in the slab, columns) of each resolution
    vertical: tuple[Resizing, ...]  # per resolution: slab rows -> the k source grid rows
    horizontal: tuple[Resizing, ...]  # per resolution: its columns -> the W source grid columns


@dataclass(frozen=True)
class FactoredCorrelation:
    """The N x N' inner products of two hyperimages, kept as factors that are cheap to multiply out."""

    grid_a: Grid
    grid_b: Grid
    base: tuple[Tensor, Tensor] | None  # (N, C), (N', C): the blocks that have the grid's own size
    coarse: tuple[tuple[Tensor, Tensor], ...]  # (h, w, C), (h', w', C): every other resolution
    norm_a: Tensor  # (N,) lengths of the hyperpixels
    norm_b: Tensor  # (N',)
    epsilon: float  # added to the product of norms

    def base_products(self, rows: slice, out: Tensor) -> Tensor:
        """The base resolution's part of the given matrix rows, written to ``out`` (rows, N')."""
        if self.base is None:
            return out.zero_()
        return torch.mm(self.base[0][rows], self.base[1].T, out=out)

    def slab(self, first: int, stop: int) -> Slab:
        """The coarse resolutions' part for source grid rows ``first`` to ``stop``."""
        height, width = self.grid_a
        kind = self.norm_a.dtype, self.norm_a.device
        parts, grids, vertical, horizontal = [], [], [], []
        for level_a, level_b in self.coarse:
            y = resizing(level_a.shape[0], height, *kind)
            top, bottom = int(y.low[first]), int(y.high[stop - 1]) + 1
            parts.append((level_a[top:bottom].flatten(0, 1), level_b))
            grids.append((bottom - top, level_a.shape[1]))
            vertical.append(Resizing(y.low[first:stop] - top, y.high[first:stop] - top, y.t[first:stop]))
            horizontal.append(resizing(level_a.shape[1], width, *kind))
        values = empty_matrix(sum(len(a) for a, _ in parts), len(self.norm_b), like=self.norm_a)
        for (a, b), out in zip(parts, torch.split(values, [len(a) for a, _ in parts]), strict=True):
            _resize_columns(a @ b.flatten(0, 1).T, (b.shape[0], b.shape[1]), self.grid_b, out)
        return Slab(values, tuple(grids), tuple(vertical), tuple(horizontal))

    def appearance(self, first: int, stop: int, out: Tensor) -> Tensor:
        """p(m_a) of source grid rows ``first`` to ``stop``, written to ``out`` (k*W, N')."""
        width = self.grid_a[1]
        rows = slice(first * width, stop * width)
        products = self.base_products(rows, out).view(stop - first, width, -1)  # (k, W, N')
        slab = self.slab(first, stop)
        sizes = [h * w for h, w in slab.grids]
        for part, (h, w), y, x in zip(torch.split(slab.values, sizes), *slab[1:], strict=True):
            lines = part.view(h, w, -1)
            lines = torch.lerp(lines[y.low], lines[y.high], y.t[:, None, None])  # (k, w, N')
            products += x.matrix(w) @ lines
        return out.div_(self.norm_a[rows, None] * self.norm_b + self.epsilon).relu_().square_()


@torch.no_grad()
def correlate(
    blocks_a: Sequence[Tensor],
    blocks_b: Sequence[Tensor],
    grid_a: Grid,
    grid_b: Grid,
    epsilon: float = PUBLISHED_EPSILON,
) -> FactoredCorrelation:
    """Correlate the chosen blocks of two images.

    Parameters
    ----------
    blocks_a, blocks_b
        The same layers of both images, each (C_l, h_l, w_l), in the order of the network.
    grid_a, grid_b
        Rows and columns of the base blocks, to which the hyperimages would be resized.
    epsilon
        Added to the product of norms: as published by default, 0 for the paper's plain cosine.
    """
    levels = _by_resolution(blocks_a, blocks_b)
    base = None
    coarse = []
    for level_a, level_b in levels:
        if level_a.shape[:2] == grid_a and level_b.shape[:2] == grid_b:
            base = level_a.flatten(0, 1), level_b.flatten(0, 1)
        else:
            coarse.append((level_a, level_b))
    norms = _norms([a for a, _ in levels], grid_a), _norms([b for _, b in levels], grid_b)
    return FactoredCorrelation(grid_a, grid_b, base, tuple(coarse), *norms, epsilon)


def empty_matrix(rows: int, columns: int, like: Tensor) -> Tensor:
    """An uninitialised matrix of the type and on the device of ``like``.

    NumPy asks the system for huge pages, which torch does not: on the CPU that makes the first touch of
    a large matrix about four times cheaper.
    """
    if like.device.type == "cpu" and like.dtype == torch.float32:
        return torch.from_numpy(np.empty((rows, columns), np.float32))
    return like.new_empty(rows, columns)


def _by_resolution(blocks_a: Sequence[Tensor], blocks_b: Sequence[Tensor]) -> list[tuple[Tensor, Tensor]]:
    """Concatenate the channels of equally large blocks; channels last: (h, w, C), (h', w', C)."""
    levels: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = {}
    for a, b in zip(blocks_a, blocks_b, strict=True):
        levels.setdefault((*a.shape[1:], *b.shape[1:]), []).append((a.permute(1, 2, 0), b.permute(1, 2, 0)))
    sides = [tuple(zip(*level, strict=True)) for level in levels.values()]
    return [(_joined(a), _joined(b)) for a, b in sides]


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return torch.cat(parts, dim=2) if len(parts) > 1 else parts[0].contiguous()


def _resize_columns(small: Tensor, size: Grid, grid: Grid, out: Tensor) -> None:
    """Resize every row of ``small`` (n, h'*w') over the target's grid, into ``out`` (n, N')."""
    kind = small.dtype, small.device
    vertical = resizing(size[0], grid[0], *kind).matrix(size[0])
    horizontal = resizing(size[1], grid[1], *kind).matrix(size[1])
    wide = small.view(-1, size[1]) @ horizontal.T  # (n*h', W')
    torch.matmul(vertical, wide.view(len(small), size[0], grid[1]), out=out.view(len(small), *grid))


def _norms(levels: Sequence[Tensor], grid: Grid) -> Tensor:
    """Lengths of the hyperpixels, (N,)."""
    squares = torch.stack([squared_lengths(level, grid) for level in levels])
    return squares.sum(0).clamp_min(0).sqrt().clamp_min(SMALLEST_NORM).flatten()


def squared_lengths(level: Tensor, grid: Grid) -> Tensor:
    """|resized feature|^2 on the grid, (..., H, W), of one resolution (..., h, w, C).

    Resizing mixes four neighbouring cells, so the squared length is a quadratic form in their inner
    products: of each cell with itself and with its neighbours to the right, below and across.
    """
    rows, columns = level.shape[-3:-1]
    if (rows, columns) == grid:
        return level.square().sum(-1)
    kind = level.dtype, level.device
    y, x = resizing(rows, grid[0], *kind), resizing(columns, grid[1], *kind)

    def along(axis: Resizing, same: Tensor, next_one: Tensor) -> Tensor:
        """(1 - t)^2 <f, f> + 2 t (1 - t) <f, g> + t^2 <g, g> along the last axis; g is f's neighbour."""
        t = axis.t
        cross = F.pad(next_one, (0, 1))[..., axis.low]
        return (1 - t) ** 2 * same[..., axis.low] + 2 * t * (1 - t) * cross + t**2 * same[..., axis.high]

    upper, lower = level[..., :-1, :, :], level[..., 1:, :, :]
    straight = (upper * lower).sum(-1)  # (..., h - 1, w)
    falling = (upper[..., :-1, :] * lower[..., 1:, :]).sum(-1)
    rising = (upper[..., 1:, :] * lower[..., :-1, :]).sum(-1)
    to_right = (level[..., :-1, :] * level[..., 1:, :]).sum(-1)  # (..., h, w - 1)
    within = along(x, level.square().sum(-1), to_right)  # (..., h, W)
    between = along(x, straight, (falling + rising) / 2)  # (..., h - 1, W)
    return along(y, within.mT, between.mT).mT
