"""Section 3.4, weak supervision: correlation entropies of positive and negative pairs, eq. (4).

The entropy is taken on a coarser grid, and resizing to that reads less than a quarter of the cells. So it
needs the correlation's rows at some source cells, its columns at some target cells, and the maxima of all
rows and columns for the mutual filter; the rest of the matrix has no gradient.

B pairs  N, N' source and target cells  n a coarser grid's cells  S the cells that resizing reads
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ..fast.entropy import CoarserGrid, compiled_entropy
from ..grid import Grid
from ..model.correlation import Correlation, resizing
from ..model.hough import offset_windows
from ..model.matching import Strongest
from ..model.mutual import mutual_filter

COARSER = 4  # the published code takes entropies on a grid of a quarter of the side
TINY = 1e-30


def weak_loss(positive: Tensor, negative: Tensor) -> Tensor:
    """L_match of eq. (4): mean entropy of the positive pairs over that of the negative ones."""
    return positive.mean() / negative.mean()


def pair_entropy(correlation: Correlation, found: Strongest) -> Tensor:
    """The entropy of one pair after voting and the mutual filter, over both directions, with gradients."""
    table, windows = found.votes
    every_a, every_b = (torch.arange(len(side), device=side.device) for side in found[1:])
    a, b = torch.cat([every_a, found.of_columns]), torch.cat([found.of_rows, every_b])
    maxima = correlation.entries(a, b) * windows.entries(table, a, b)
    maxima_a, maxima_b = maxima[: len(every_a)], maxima[len(every_a) :]
    backward = _direction_entropy(correlation, maxima_a, maxima_b, table)
    forward = _direction_entropy(correlation.swap(), maxima_b, maxima_a, table.flip((0, 1)))
    return (forward + backward) / 2


def _direction_entropy(correlation: Correlation, maxima_a: Tensor, maxima_b: Tensor, table: Tensor) -> Tensor:
    """Mean entropy in bits of the target cells' distributions over the source: a scalar.

    Parameters
    ----------
    maxima_a, maxima_b
        (N,), (N',) the largest confidence of each cell.
    table
        Votes by offset, which have no gradient.
    """
    coarse = coarser_grid(correlation.grid_a, table)
    cells = coarse.cells
    if table.device.type == "cpu" and table.dtype == torch.float32:
        return compiled_entropy(correlation, coarse, maxima_a[cells], maxima_b, table)
    votes = offset_windows(correlation.grid_a, correlation.grid_b, table.device).read(table, cells)
    filtered = mutual_filter(correlation.rows(cells) * votes, maxima_a[cells], maxima_b)
    return _bits(coarse.shrink(filtered)).mean()


def coarser_grid(grid: Grid, like: Tensor) -> CoarserGrid:
    """The resizing to the coarser grid by the cells that it reads."""
    read, matrices = [], []
    for side in grid.shape:
        matrix = resizing(side, max(1, side // COARSER), like.dtype, like.device).matrix(side)
        used = (matrix != 0).any(0).nonzero().flatten()
        read.append(used)
        matrices.append(matrix[:, used])
    cells = (read[0][:, None] * grid.columns + read[1]).flatten()
    return CoarserGrid(cells, matrices[0], matrices[1])


def _bits(values: Tensor) -> Tensor:
    """The entropy of each column after making its sum one; 0 where all is 0."""
    total = values.sum(0)
    share = values / torch.where(total == 0, 1.0, total)
    share = torch.where(share == 0, TINY, share)
    return -(share * share.log2()).sum(0)


def gradient_at_once(function: Callable[[list[Tensor]], Tensor], inputs: Sequence[Tensor]) -> Tensor:
    """``function(inputs)``, a scalar, whose gradient is taken now instead of in the backward pass.

    The loss is a ratio of sums over the batch, so a pair's gradient is its own times a factor that is known
    only at the end. What it took to compute the pair, half a GB, need not wait for that: only the gradients
    of its inputs do, a few MB.
    """
    if not torch.is_grad_enabled():
        return function(list(inputs))
    leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in inputs]
    value = function(leaves)
    learning = [k for k, leaf in enumerate(leaves) if leaf.requires_grad]
    if not learning:
        return value
    gradients = torch.autograd.grad(value, [leaves[k] for k in learning], materialize_grads=True)
    known: Tensor = _Known.apply(value.detach(), gradients, *(inputs[k] for k in learning))  # type: ignore[no-untyped-call]
    return known


class _Known(torch.autograd.Function):
    """A value whose gradients are known already."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, gradients: tuple[Tensor, ...], *inputs: Tensor) -> Tensor:
        ctx.gradients = gradients
        return value.clone()

    @staticmethod
    def backward(ctx: Any, *factors: Any) -> tuple[Tensor | None, ...]:
        return None, None, *(factors[0] * gradient for gradient in ctx.gradients)
