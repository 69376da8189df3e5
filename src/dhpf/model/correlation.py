"""Section 3.3: chosen blocks -> p(m_a) = ReLU(cosine)^2, without ever building the hyperimage.

The hyperimage H stacks every chosen block b_r, resized to the base grid by a linear map U_r. So
H^T H' = sum_r U_r (b_r^T b'_r) U_r'^T: correlate each resolution at its own size, where it is up to 3000
times smaller, resize that on both sides, and add. Exact, since resizing is linear.

Here the rows and single entries of that matrix are computed by torch on any device, with gradients: for the
losses, for the scores of a point, and for matching where there is no compiled path (``fast/``).

N, N' cells of the source's and the target's grid  h, w one resolution's grid  C channels  K some cells
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..fast.resize import add_resized
from ..grid import Grid

PUBLISHED_EPSILON = 1e-3  # the published code adds it to the product of norms; in the paper it is 0
ZERO_SQUARE = 1e-4  # the published code puts it in place of a squared norm of zero

Shape = tuple[int, int]  # rows, columns


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


class Corners(NamedTuple):
    """Of which cells of a small grid some cells of a large one are made."""

    cells: Tensor  # (K, 4)
    weight: Tensor  # (K, 4), summing to 1

    def read(self, values: Tensor) -> Tensor:
        """Values on the small grid (h*w, M) at the cells: (K, M)."""
        return F.embedding_bag(self.cells, values, per_sample_weights=self.weight, mode="sum")


def corners(cells: Tensor, small: Shape, grid: Grid, dtype: torch.dtype) -> Corners:
    """How a block of size ``small``, resized to the grid, is read at some cells (K,)."""
    axes = []
    for inputs, outputs, place in zip(small, grid.shape, _rows_and_columns(cells, grid), strict=True):
        low, high, t = resizing(inputs, outputs, dtype, cells.device)
        t = t[place]
        axes.append((torch.stack([low[place], high[place]], 1), torch.stack([1 - t, t], 1)))
    (rows, weight_y), (columns, weight_x) = axes
    index = rows[:, :, None] * small[1] + columns[:, None]
    return Corners(index.flatten(1), (weight_y[:, :, None] * weight_x[:, None]).flatten(1))


def _rows_and_columns(cells: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    return cells // grid.columns, cells % grid.columns


class Level(NamedTuple):
    """All chosen blocks of one resolution, their channels side by side."""

    a: Tensor  # (h, w, C), times the layers' weights
    b: Tensor  # (h', w', C)

    @property
    def flat(self) -> tuple[Tensor, Tensor]:
        """(h*w, C), (h'*w', C)."""
        return self.a.flatten(0, 1), self.b.flatten(0, 1)

    @property
    def shapes(self) -> tuple[Shape, Shape]:
        """Rows and columns of both sides."""
        return (self.a.shape[0], self.a.shape[1]), (self.b.shape[0], self.b.shape[1])


@dataclass(frozen=True, eq=False)
class Correlation:
    """The N x N' matrix p(m_a) of two hyperimages, kept as factors that are cheap to multiply out."""

    grid_a: Grid
    grid_b: Grid
    base: Level | None  # the blocks that have the grids' own size
    coarse: tuple[Level, ...]  # every other resolution
    norm_a: Tensor  # (N,) lengths of the hyperpixels
    norm_b: Tensor  # (N',)
    epsilon: float  # added to the product of norms

    @property
    def tensors(self) -> list[Tensor]:
        """All that is held."""
        levels = (*((self.base,) if self.base else ()), *self.coarse)
        return [*(side for level in levels for side in level), self.norm_a, self.norm_b]

    def detach(self) -> Correlation:
        """The same without gradients."""
        base = None if self.base is None else Level(*(side.detach() for side in self.base))
        coarse = tuple(Level(level.a.detach(), level.b.detach()) for level in self.coarse)
        norm_a, norm_b = self.norm_a.detach(), self.norm_b.detach()
        return replace(self, base=base, coarse=coarse, norm_a=norm_a, norm_b=norm_b)

    def swap(self) -> Correlation:
        """From the target to the source."""
        base = None if self.base is None else Level(self.base.b, self.base.a)
        coarse = tuple(Level(level.b, level.a) for level in self.coarse)
        swapped = Correlation(self.grid_b, self.grid_a, base, coarse, self.norm_b, self.norm_a, self.epsilon)
        if "_products" in self.__dict__:  # need not be taken again
            swapped.__dict__["_products"] = [product.T for product in self._products]
        return swapped

    @cached_property
    def _products(self) -> list[Tensor]:
        """Of each coarse resolution at its own size, (h*w, h'*w')."""
        return [a @ b.T for a, b in (level.flat for level in self.coarse)]

    def products(self, cells: Tensor) -> Tensor:
        """Inner products of some source hyperpixels (K,) with all target ones: (K, N')."""
        total: Tensor | None = None
        if self.base is not None:
            a, b = self.base.flat
            total = a.index_select(0, cells) @ b.T
        for number, level in enumerate(self.coarse):
            small, small_b = level.shapes
            at = corners(cells, small, self.grid_a, self.norm_a.dtype)
            # Few cells: read their features, then multiply. Many: multiply at the small size, then read.
            few = len(cells) < small[0] * small[1] // 2
            a, b = level.flat
            rows = at.read(a) @ b.T if few else at.read(self._products[number])
            if small_b == self.grid_b.shape:
                total = rows if total is None else total + rows
            else:
                if total is None:
                    total = rows.new_zeros(len(cells), self.grid_b.cells)
                total = add_resized(total, rows.view(len(cells), *small_b), *self._to_grid_b(small_b))
        if total is None:
            raise ValueError("no block to correlate")
        return total

    def rows(self, cells: Tensor) -> Tensor:
        """p(m_a) of some source cells (K,) with all target cells: (K, N')."""
        lengths = self.norm_a[cells, None] * self.norm_b + self.epsilon
        return (self.products(cells) / lengths).relu().square()

    def dense(self) -> Tensor:
        """All of it, (N, N')."""
        return self.rows(torch.arange(self.grid_a.cells, device=self.norm_a.device))

    def entries(self, cells_a: Tensor, cells_b: Tensor) -> Tensor:
        """p(m_a) of single matches, (K,): of each source cell with the target cell of the same place."""
        total = self.norm_a.new_zeros(len(cells_a))
        if self.base is not None:
            a, b = self.base.flat
            total = (a.index_select(0, cells_a) * b.index_select(0, cells_b)).sum(1)
        for level, product in zip(self.coarse, self._products, strict=True):
            small_a, small_b = level.shapes
            at_a = corners(cells_a, small_a, self.grid_a, total.dtype)
            at_b = corners(cells_b, small_b, self.grid_b, total.dtype)
            index = at_a.cells[:, :, None] * product.shape[1] + at_b.cells[:, None]  # (K, 4, 4)
            weight = at_a.weight[:, :, None] * at_b.weight[:, None]
            values = product.reshape(-1).index_select(0, index.flatten()).view_as(weight)
            total = total + (weight * values).sum((1, 2))
        return (total / (self.norm_a[cells_a] * self.norm_b[cells_b] + self.epsilon)).relu().square()

    def _to_grid_b(self, small: Shape) -> tuple[Resizing, Tensor]:
        """How a small block is resized to the target's grid: vertically, and horizontally as a matrix."""
        kind = self.norm_b.dtype, self.norm_b.device
        vertical = resizing(small[0], self.grid_b.rows, *kind)
        return vertical, resizing(small[1], self.grid_b.columns, *kind).matrix(small[1])


def correlate(
    blocks_a: Sequence[Tensor],
    blocks_b: Sequence[Tensor],
    grid_a: Grid,
    grid_b: Grid,
    epsilon: float = PUBLISHED_EPSILON,
    weights: Tensor | None = None,
) -> Correlation:
    """Correlate the chosen blocks of two images.

    Parameters
    ----------
    blocks_a, blocks_b
        The same layers of both images, each (h, w, C), in the order of the network.
    epsilon
        Added to the product of norms: as published by default, 0 for the paper's plain cosine.
    weights
        How much each of those layers counts in products and squared norms; all the same by default.
    """
    base, coarse = None, []
    squares_a = blocks_a[0].new_zeros(grid_a.shape)
    squares_b = blocks_b[0].new_zeros(grid_b.shape)
    for members in _by_resolution(blocks_a, blocks_b):
        a, b = (_side_by_side([blocks[n] for n in members]) for blocks in (blocks_a, blocks_b))
        weighted_a, weighted_b = a, b
        if weights is not None:
            channels = torch.tensor([blocks_a[n].shape[2] for n in members], device=a.device)
            each = weights[members].repeat_interleave(channels)  # (C,)
            weighted_a, weighted_b = each * a, each * b
        squares_a = squares_a + squared_lengths(a, weighted_a, grid_a)
        squares_b = squares_b + squared_lengths(b, weighted_b, grid_b)
        level = Level(weighted_a, b)
        if level.shapes == (grid_a.shape, grid_b.shape):
            base = level
        else:
            coarse.append(level)
    norm_a, norm_b = (
        torch.where(squares <= 0, ZERO_SQUARE, squares).sqrt().flatten() for squares in (squares_a, squares_b)
    )
    return Correlation(grid_a, grid_b, base, tuple(coarse), norm_a, norm_b, epsilon)


def _by_resolution(blocks_a: Sequence[Tensor], blocks_b: Sequence[Tensor]) -> list[list[int]]:
    """The places of blocks that are equally large in both images."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for n, (a, b) in enumerate(zip(blocks_a, blocks_b, strict=True)):
        groups.setdefault((*a.shape[:2], *b.shape[:2]), []).append(n)
    return list(groups.values())


def _side_by_side(blocks: Sequence[Tensor]) -> Tensor:
    return torch.cat(tuple(blocks), dim=2) if len(blocks) > 1 else blocks[0].contiguous()


def squared_lengths(level: Tensor, weighted: Tensor, grid: Grid) -> Tensor:
    """|resized feature|^2 on the grid, (H, W), of one resolution (h, w, C), its channels weighted.

    Resizing mixes four neighbouring cells, so the squared length is a quadratic form in their inner
    products: of each cell with itself and with its neighbours to the right, below and across.

    Parameters
    ----------
    weighted
        ``level`` times the channels' weights.
    """
    rows, columns = level.shape[:2]
    if (rows, columns) == grid.shape:
        return (weighted * level).sum(-1)
    kind = level.dtype, level.device
    y, x = resizing(rows, grid.rows, *kind), resizing(columns, grid.columns, *kind)

    def along(axis: Resizing, same: Tensor, next_one: Tensor) -> Tensor:
        """(1 - t)^2 <f, f> + 2 t (1 - t) <f, g> + t^2 <g, g> along the last axis; g is f's neighbour."""
        t = axis.t
        cross = F.pad(next_one, (0, 1))[..., axis.low]
        return (1 - t) ** 2 * same[..., axis.low] + 2 * t * (1 - t) * cross + t**2 * same[..., axis.high]

    upper, lower = weighted[:-1], level[1:]
    straight = (upper * lower).sum(-1)  # (h - 1, w)
    falling = (upper[:, :-1] * lower[:, 1:]).sum(-1)
    rising = (upper[:, 1:] * lower[:, :-1]).sum(-1)
    to_right = (weighted[:, :-1] * level[:, 1:]).sum(-1)  # (h, w - 1)
    within = along(x, (weighted * level).sum(-1), to_right)  # (h, W)
    between = along(x, straight, (falling + rising) / 2)  # (h - 1, W)
    return along(y, within.mT, between.mT).mT
