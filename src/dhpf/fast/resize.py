"""Rows of small matrices resized over the target's grid and added up: the inner loop of training.

K rows  h', w' one resolution's grid  H', W' the target's grid
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .threads import Floats, Integers, compiled, in_threads

if TYPE_CHECKING:
    from ..model.correlation import Resizing


def add_resized(total: Tensor, small: Tensor, vertical: Resizing, horizontal: Tensor) -> Tensor:
    """total (K, H'*W') + small (K, h', w') resized to the grid; ``horizontal`` is (W', w').

    On the CPU ``total`` is changed in place, by a compiled loop: two lines of ``small`` make one, for which a
    matrix product takes ten times as long.
    """
    wide = small @ horizontal.T  # (K, h', W')
    if wide.device.type == "cpu" and wide.dtype == torch.float32:
        added: Tensor = _AddStretched.apply(total, wide, vertical)  # type: ignore[no-untyped-call]
        return added
    return total + (vertical.matrix(small.shape[1]) @ wide).flatten(1)


class _AddStretched(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, total: Tensor, wide: Tensor, y: Resizing) -> Tensor:
        ctx.mark_dirty(total)
        ctx.shape, ctx.tables = wide.shape, (y.low.numpy(), y.high.numpy(), y.t.numpy())
        lines = total.detach().view(len(wide), -1, wide.shape[2]).numpy()
        arrays = *ctx.tables, wide.detach().numpy(), lines
        in_threads(len(wide), lambda start, stop: _stretch(start, stop, *arrays))
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        of_total = gradients[0].contiguous()
        of_wide = torch.zeros(ctx.shape)
        lines = of_total.view(ctx.shape[0], -1, ctx.shape[2]).numpy()
        arrays = *ctx.tables, lines, of_wide.numpy()
        in_threads(len(of_wide), lambda start, stop: _gather(start, stop, *arrays))
        return of_total, of_wide, None


@compiled
def _stretch(
    start: int, stop: int, low: Integers, high: Integers, t: Floats, wide: Floats, lines: Floats
) -> None:
    for cell in range(start, stop):
        for y in range(len(low)):
            upper, lower, weight = wide[cell, low[y]], wide[cell, high[y]], t[y]
            out = lines[cell, y]
            for x in range(len(out)):
                out[x] += upper[x] + weight * (lower[x] - upper[x])


@compiled
def _gather(
    start: int, stop: int, low: Integers, high: Integers, t: Floats, lines: Floats, wide: Floats
) -> None:
    """The adjoint of stretching."""
    for cell in range(start, stop):
        for y in range(len(low)):
            upper, lower, weight = wide[cell, low[y]], wide[cell, high[y]], t[y]
            line = lines[cell, y]
            for x in range(len(line)):
                part = weight * line[x]
                upper[x] += line[x] - part
                lower[x] += part
