"""The weak loss's entropy of one direction, compiled: two passes over the matrix instead of forty.

With x = ReLU(P / (|a| |b| + epsilon)), c = x^2 v and f = c^3 / (r s), the entropy H of the shrunken f has

    dH/dc = 3 (dH/df) f / c,   dH/dr = -sum (dH/df) f / r,   dH/dx = 2 x v dH/dc,

and dH/dq = -(log2 of q's share + H) / (sum of q) for the shrunken values q.

S cells that resizing reads  M = H'*W' cells of the side that chooses  n cells of the coarser grid
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .threads import Floats, Integers, compiled, in_threads, parts

if TYPE_CHECKING:
    from ..model.correlation import Correlation

TINY = 1e-30
NO_MATCH = 1e-18  # a largest confidence that counts as zero


class CoarserGrid(NamedTuple):
    """Which cells of a grid matter to a coarser one, and how."""

    cells: Tensor  # (S,) some rows times some columns
    vertical: Tensor  # (h, rows)
    horizontal: Tensor  # (w, columns)

    def shrink(self, values: Tensor) -> Tensor:
        """Values at the cells (S, M), resized to the coarser grid: (n, M)."""
        lines = self.vertical @ values.view(self.vertical.shape[1], -1)  # (h, columns*M)
        maps = self.horizontal @ lines.view(len(self.vertical), self.horizontal.shape[1], -1)
        return maps.flatten(0, 1)

    def spread(self, values: Tensor) -> Tensor:
        """The adjoint of shrinking: (n, M) -> (S, M)."""
        lines = self.horizontal.T @ values.view(len(self.vertical), len(self.horizontal), -1)
        return (self.vertical.T @ lines.view(len(self.vertical), -1)).view(-1, values.shape[1])


def compiled_entropy(
    correlation: Correlation, coarse: CoarserGrid, maxima_a: Tensor, maxima_b: Tensor, table: Tensor
) -> Tensor:
    """Mean entropy in bits of the target cells' distributions over the source: a scalar.

    Parameters
    ----------
    maxima_a, maxima_b
        (S,), (M,) the largest confidence of each cell.
    table
        Votes by offset, which have no gradient.
    """
    inputs = (
        correlation.products(coarse.cells),
        correlation.norm_a[coarse.cells],
        correlation.norm_b,
        maxima_a,
        maxima_b,
    )
    settings = correlation.grid_a.shape, correlation.grid_b.shape, correlation.epsilon
    value: Tensor = _Entropy.apply(*inputs, table, coarse, settings)  # type: ignore[no-untyped-call]
    return value


class _Entropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, table, coarse, settings = inputs
        filtered = torch.empty_like(tensors[0])
        arrays = *_arrays(tensors, table, coarse, settings), filtered.view(-1, *settings[1]).numpy()
        in_threads(len(filtered), lambda start, stop: _filter(start, stop, *arrays))
        small = coarse.shrink(filtered)  # (n, M)
        total = small.sum(0)
        safe = torch.where(total == 0, 1.0, total)
        share = torch.where(small == 0, TINY, small / safe)
        logarithms = share.log2()
        entropy = -(share * logarithms).sum(0)
        of_small = torch.where(small == 0, 0.0, -(logarithms + entropy) / (safe * small.shape[1]))
        ctx.save_for_backward(*tensors, table, of_small)
        ctx.coarse, ctx.settings = coarse, settings
        return entropy.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        *tensors, table, of_small = ctx.saved_tensors
        shape = ctx.settings[1]
        of_filtered = ctx.coarse.spread(gradients[0] * of_small)  # (S, M)
        of_products = torch.empty_like(of_filtered)
        of_a, of_r = (torch.empty(len(of_filtered)) for _ in range(2))
        spans = parts(len(of_filtered))  # each of which has its own sums over its cells
        of_b, of_s = (torch.zeros(len(spans), *shape, dtype=torch.float64) for _ in range(2))
        arrays = _arrays(tensors, table, ctx.coarse, ctx.settings)
        arrays = *arrays, *(t.view(-1, *shape).numpy() for t in (of_filtered, of_products))
        arrays = *arrays, of_a.numpy(), of_r.numpy()

        def work(start: int, stop: int) -> None:
            part = spans.index((start, stop))
            _filter_backward(start, stop, *(*arrays, of_b[part].numpy(), of_s[part].numpy()))

        in_threads(len(of_filtered), work)
        of_b, of_s = (t.sum(0).flatten().float() for t in (of_b, of_s))
        return of_products, of_a, of_b, of_r, of_s, None, None, None


def _arrays(tensors: Any, table: Tensor, coarse: CoarserGrid, settings: Any) -> tuple[Any, ...]:
    """Cells, their grid, epsilon, products, |a|, |b|, 1 / r, 1 / s and votes, as the kernels take them."""
    grid, shape, epsilon = settings
    products, a, b, r, s = (t.detach() for t in tensors)
    # A cell without a match: not a large number, because two of those could overflow before they meet a zero.
    of_r, of_s = (torch.where(t > NO_MATCH, 1 / t, 0.0) for t in (r, s))
    views = products.view(-1, *shape), a, b.view(shape), of_r, of_s.view(shape), table.contiguous()
    return coarse.cells.numpy(), *grid, epsilon, *(t.numpy() for t in views)


@compiled
def _filter(
    start: int,
    stop: int,
    cells: Integers,
    height: int,
    width: int,
    epsilon: float,
    products: Floats,
    a: Floats,
    b: Floats,
    of_rows: Floats,
    of_columns: Floats,
    votes: Floats,
    filtered: Floats,
) -> None:
    """f of every match."""
    zero, small = np.float32(0), np.float32(epsilon)
    for i in range(start, stop):
        y, x = cells[i] // width, cells[i] % width
        length, of_row = a[i], of_rows[i]
        for ty in range(b.shape[0]):
            vote = votes[ty - y + height - 1, width - 1 - x : width - 1 - x + b.shape[1]]
            lengths, of_column, line, out = b[ty], of_columns[ty], products[i, ty], filtered[i, ty]
            for tx in range(b.shape[1]):
                cosine = max(line[tx], zero) / (length * lengths[tx] + small)
                c = cosine * cosine * vote[tx]
                out[tx] = c * ((c * of_row) * (c * of_column[tx]))


@compiled
def _filter_backward(
    start: int,
    stop: int,
    cells: Integers,
    height: int,
    width: int,
    epsilon: float,
    products: Floats,
    a: Floats,
    b: Floats,
    of_rows: Floats,
    of_columns: Floats,
    votes: Floats,
    of_filtered: Floats,
    of_products: Floats,
    of_a: Floats,
    of_r: Floats,
    of_b: Floats,
    of_s: Floats,
) -> None:
    """Gradients of everything that f depends on, from the gradient of f."""
    zero, small = np.float32(0), np.float32(epsilon)
    one, six = np.float32(1), np.float32(6)
    for i in range(start, stop):
        y, x = cells[i] // width, cells[i] % width
        own, of_row = a[i], of_rows[i]
        sum_a, sum_r = 0.0, 0.0
        for ty in range(b.shape[0]):
            vote = votes[ty - y + height - 1, width - 1 - x : width - 1 - x + b.shape[1]]
            lengths, of_column, line = b[ty], of_columns[ty], products[i, ty]
            given, out, sums_b, sums_s = of_filtered[i, ty], of_products[i, ty], of_b[ty], of_s[ty]
            for tx in range(b.shape[1]):
                length = one / (own * lengths[tx] + small)
                cosine = max(line[tx], zero) * length
                c = cosine * cosine * vote[tx]
                # dH/df * f, of which every other gradient is a multiple
                part = given[tx] * (c * ((c * of_row) * (c * of_column[tx])))
                of_cosine = six * part / cosine if cosine > zero else zero
                out[tx] = of_cosine * length
                of_length = -six * part * length
                sum_a += of_length * lengths[tx]
                sums_b[tx] += of_length * own
                sum_r -= part
                sums_s[tx] -= part * of_column[tx]
        of_a[i], of_r[i] = sum_a, sum_r * of_row
