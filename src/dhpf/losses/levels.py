"""All inner products of one pair, at every resolution's own size, with gradients: taken once, read often.

As in ``model/correlation.py``, the hyperimages' products are a sum over resolutions of small matrices that
are resized on both sides. The weak loss reads from them the rows of some source cells, the same of the
target, and the single matches that are largest in their row or column.

N, N' source and target cells  C channels of a resolution  h, w its grid  S, n some cells
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..model.correlation import Grid, Resizing, resizing
from ..model.kernels import Floats, Integers, compiled
from .threads import in_threads


class SomeCells(NamedTuple):
    """Cells of a grid: some of its rows times some of its columns."""

    rows: Tensor
    columns: Tensor
    grid: Grid

    @property
    def cells(self) -> Tensor:
        """Their indices, (S,)."""
        return (self.rows[:, None] * self.grid[1] + self.columns).flatten()


class LevelProducts(NamedTuple):
    """The factors of the N x N' matrix of inner products."""

    base: tuple[Tensor, Tensor] | None  # (N, C) times weights, (N', C): the blocks of the grids' own size
    coarse: tuple[Tensor, ...]  # (h, w, h', w') products of every other resolution
    grid_a: Grid
    grid_b: Grid

    def swap(self) -> LevelProducts:
        """From the target to the source."""
        base = None if self.base is None else (self.base[1], self.base[0])
        return LevelProducts(
            base, tuple(x.permute(2, 3, 0, 1) for x in self.coarse), self.grid_b, self.grid_a
        )

    def of_cells(self, some: SomeCells) -> Tensor:
        """Rows of the matrix, (S, N')."""
        cells, (height, width) = some.cells, self.grid_b
        like = self.coarse[0] if self.base is None else self.base[0]
        if self.base is None:
            products = like.new_zeros(len(cells), height * width)
        else:
            products = self.base[0][cells] @ self.base[1].T
        for level in self.coarse:
            h, w, h_b, w_b = level.shape
            vertical = resizing(h, self.grid_a[0], level.dtype, level.device).matrix(h)[some.rows]
            horizontal = resizing(w, self.grid_a[1], level.dtype, level.device).matrix(w)[some.columns]
            tall = (vertical @ level.reshape(h, -1)).view(len(some.rows), w, -1)
            own = (horizontal @ tall).view(-1, w_b)  # (S*h', w')
            wide = own @ resizing(w_b, width, level.dtype, level.device).matrix(w_b).T
            products = _add_stretched(products, wide.view(-1, h_b, width), height)
        return products

    def of_matches(self, cells_a: Tensor, cells_b: Tensor) -> Tensor:
        """Single entries of the matrix, (n,): of each source cell with the target cell of the same place."""
        products = torch.zeros((), device=cells_a.device)
        if self.base is not None:
            products = (self.base[0][cells_a] * self.base[1][cells_b]).sum(1)
        for level in self.coarse:
            h, w, h_b, w_b = level.shape
            # Four cells of each side, hence 16 entries, make one.
            index_a, share_a = _four_cells(cells_a, (h, w), self.grid_a, level)
            index_b, share_b = _four_cells(cells_b, (h_b, w_b), self.grid_b, level)
            index = index_a[:, :, None] * (h_b * w_b) + index_b[:, None]  # (n, 4, 4)
            entries = level.reshape(-1).index_select(0, index.flatten()).view(index.shape)
            products = products + (entries * (share_a[:, :, None] * share_b[:, None])).sum((1, 2))
        return products


def level_products(
    blocks_a: Sequence[Tensor], blocks_b: Sequence[Tensor], weights: Tensor, grid_a: Grid, grid_b: Grid
) -> LevelProducts:
    """Correlate the transformed blocks of two photos.

    Parameters
    ----------
    blocks_a, blocks_b
        The same layers of both, each (h, w, C).
    weights
        How much each of those layers counts.
    """
    groups: dict[tuple[int, ...], list[int]] = {}
    for n, (a, b) in enumerate(zip(blocks_a, blocks_b, strict=True)):
        groups.setdefault((*a.shape[:2], *b.shape[:2]), []).append(n)
    base, coarse = None, []
    for shape, group in groups.items():
        a = torch.cat([(weights[n] * blocks_a[n]).flatten(0, 1) for n in group], 1)
        b = torch.cat([blocks_b[n].flatten(0, 1) for n in group], 1)
        if shape == (*grid_a, *grid_b):
            base = a, b
        else:
            coarse.append((a @ b.T).view(shape))
    return LevelProducts(base, tuple(coarse), grid_a, grid_b)


def _four_cells(cells: Tensor, size: Grid, grid: Grid, like: Tensor) -> tuple[Tensor, Tensor]:
    """Which cells of a small grid a cell of the large one is made of, and their shares: (n, 4) both."""
    y, x = (resizing(s, g, like.dtype, like.device) for s, g in zip(size, grid, strict=True))
    row, column = cells // grid[1], cells % grid[1]

    def two(axis: Resizing, at: Tensor) -> tuple[Tensor, Tensor]:
        t = axis.t[at]
        return torch.stack([axis.low[at], axis.high[at]], 1), torch.stack([1 - t, t], 1)

    (rows, share_y), (columns, share_x) = two(y, row), two(x, column)
    index = rows[:, :, None] * size[1] + columns[:, None]
    return index.flatten(1), (share_y[:, :, None] * share_x[:, None]).flatten(1)


def _add_stretched(products: Tensor, wide: Tensor, height: int) -> Tensor:
    """products (S, H'*W') + wide (S, h', W') resized to H' rows."""
    y = resizing(wide.shape[1], height, wide.dtype, wide.device)
    if wide.device.type == "cpu" and wide.dtype == torch.float32:
        total: Tensor = _AddStretched.apply(products, wide, y)  # type: ignore[no-untyped-call]
        return total
    return products + (y.matrix(wide.shape[1]) @ wide).flatten(1)


class _AddStretched(torch.autograd.Function):
    """In place: two of ``wide``'s lines make one, which a matrix product would take ten times longer for."""

    @staticmethod
    def forward(ctx: Any, products: Tensor, wide: Tensor, y: Resizing) -> Tensor:
        ctx.mark_dirty(products)
        ctx.shape, ctx.tables = wide.shape, (y.low.numpy(), y.high.numpy(), y.t.numpy())
        lines = products.detach().view(len(wide), -1, wide.shape[2]).numpy()
        arrays = *ctx.tables, wide.detach().numpy(), lines
        in_threads(len(wide), lambda start, stop: _stretch(start, stop, *arrays))
        return products

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        of_products = gradients[0].contiguous()
        of_wide = torch.zeros(ctx.shape)
        lines = of_products.view(ctx.shape[0], -1, ctx.shape[2]).numpy()
        arrays = *ctx.tables, lines, of_wide.numpy()
        in_threads(len(of_wide), lambda start, stop: _gather(start, stop, *arrays))
        return of_products, of_wide, None


@compiled
def _stretch(
    start: int, stop: int, low: Integers, high: Integers, t: Floats, wide: Floats, lines: Floats
) -> None:
    for cell in range(start, stop):
        for y in range(len(low)):
            upper, lower, share = wide[cell, low[y]], wide[cell, high[y]], t[y]
            out = lines[cell, y]
            for x in range(len(out)):
                out[x] += upper[x] + share * (lower[x] - upper[x])


@compiled
def _gather(
    start: int, stop: int, low: Integers, high: Integers, t: Floats, lines: Floats, wide: Floats
) -> None:
    """The adjoint of stretching."""
    for cell in range(start, stop):
        for y in range(len(low)):
            upper, lower, share = wide[cell, low[y]], wide[cell, high[y]], t[y]
            line = lines[cell, y]
            for x in range(len(line)):
                part = share * line[x]
                upper[x] += line[x] - part
                lower[x] += part
