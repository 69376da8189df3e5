"""The weak loss's entropy of one direction, compiled: two passes over the matrix instead of forty.

With x = ReLU(P / (|a| |b| + epsilon)), c = x^2 v and f = c^3 / (r s), the entropy H of the shrunken f has

    dH/dc = 3 (dH/df) f / c,   dH/dr = -sum (dH/df) f / r,   dH/dx = 2 x v dH/dc,

and dH/dq = -(log2 of q's share + H) / (sum of q) for the shrunken values q.

S cells that resizing reads  M = H'*W' cells of the side that chooses
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..model.correlation import PUBLISHED_EPSILON
from ..model.hough import votes_of_cells
from ..model.kernels import Floats, Integers, compiled
from .levels import LevelProducts
from .threads import in_threads, parts
from .weak import TINY, CoarserGrid, coarser_grid, sampled_entropy

NO_MATCH = 1e-18  # a largest confidence that counts as zero


class Side(NamedTuple):
    """What is known of all cells of one photo; with gradients."""

    lengths: Tensor  # of the hyperpixels
    maxima: Tensor  # the largest confidence of each cell


def direction_entropy(products: LevelProducts, a: Side, b: Side, votes: Tensor) -> Tensor:
    """Mean entropy in bits of the target cells' distributions over the source: a scalar.

    Parameters
    ----------
    products, a, b
        Of one pair: of source and target.
    votes
        (H + H' - 1, W + W' - 1) by offset, which have no gradient.
    """
    coarse = coarser_grid(products.grid_a, votes)
    cells = coarse.read.cells
    matrix = products.of_cells(coarse.read)
    if matrix.device.type != "cpu" or matrix.dtype != torch.float32:
        cosine = matrix / (a.lengths[cells][:, None] * b.lengths + PUBLISHED_EPSILON)
        confidence = cosine.relu().square() * votes_of_cells(votes, cells, products.grid_a, products.grid_b)
        return sampled_entropy(confidence, a.maxima[cells], b.maxima, coarse)
    inputs = matrix, a.lengths[cells], b.lengths, a.maxima[cells], b.maxima
    value: Tensor = _Entropy.apply(  # type: ignore[no-untyped-call]
        *inputs, votes, coarse, products.grid_b
    )
    return value


class _Entropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, votes, coarse, grid_b = inputs
        filtered = torch.empty_like(tensors[0])
        arrays = *_arrays(tensors, votes, coarse, grid_b), filtered.view(-1, *grid_b).numpy()
        in_threads(len(filtered), lambda start, stop: _filter(start, stop, *arrays))
        small = coarse.shrink(filtered)  # (n, M)
        total = small.sum(0)
        safe = torch.where(total == 0, 1.0, total)
        share = torch.where(small == 0, TINY, small / safe)
        logarithms = share.log2()
        entropy = -(share * logarithms).sum(0)
        of_small = torch.where(small == 0, 0.0, -(logarithms + entropy) / (safe * small.shape[1]))
        ctx.save_for_backward(*tensors, votes, of_small)
        ctx.coarse, ctx.grid_b = coarse, grid_b
        return entropy.mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        *tensors, votes, of_small = ctx.saved_tensors
        of_filtered = ctx.coarse.spread(gradients[0] * of_small)  # (S, M)
        of_products = torch.empty_like(of_filtered)
        of_a, of_r = (torch.empty(len(of_filtered)) for _ in range(2))
        spans = parts(len(of_filtered))  # each of which has its own sums over its cells
        of_b, of_s = (torch.zeros(len(spans), *ctx.grid_b, dtype=torch.float64) for _ in range(2))
        arrays = _arrays(tensors, votes, ctx.coarse, ctx.grid_b)
        arrays = *arrays, *(t.view(-1, *ctx.grid_b).numpy() for t in (of_filtered, of_products))
        arrays = *arrays, of_a.numpy(), of_r.numpy()

        def work(start: int, stop: int) -> None:
            part = spans.index((start, stop))
            _filter_backward(start, stop, *(*arrays, of_b[part].numpy(), of_s[part].numpy()))

        in_threads(len(of_filtered), work)
        of_b, of_s = (t.sum(0).flatten().float() for t in (of_b, of_s))
        return of_products, of_a, of_b, of_r, of_s, None, None, None


def _arrays(tensors: Any, votes: Tensor, coarse: CoarserGrid, grid_b: tuple[int, int]) -> tuple[Any, ...]:
    """Cells, their grid, products, |a|, |b|, 1 / r, 1 / s and votes, as the kernels take them."""
    products, a, b, r, s = (t.detach() for t in tensors)
    # A cell without a match: not a large number, because two of those could overflow before they meet a zero.
    of_r, of_s = (torch.where(t > NO_MATCH, 1 / t, 0.0) for t in (r, s))
    views = products.view(-1, *grid_b), a, b.view(grid_b), of_r, of_s.view(grid_b), votes
    return coarse.read.cells.numpy(), *coarse.read.grid, PUBLISHED_EPSILON, *(t.numpy() for t in views)


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
