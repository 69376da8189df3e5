"""The weak loss's entropy of one direction, compiled: two passes over the matrix instead of forty.

With x = ReLU(P / (|a| |b| + epsilon)), c = x^2 v and f = c^3 / (r s), the entropy H of the shrunken f has

    dH/dc = 3 (dH/df) f / c,   dH/dr = -sum (dH/df) f / r,   dH/dx = 2 x v dH/dc,

and dH/dq = -(log2 of q's share + H) / (sum of q) for the shrunken values q.

S cells that resizing reads  M cells of the side that chooses
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..model.correlation import PUBLISHED_EPSILON
from ..model.kernels import Floats, compiled
from ..model.mutual import TINY
from .rows import Products, norm
from .weak import CoarserGrid, bits, sampled_entropy


def direction_entropy(
    products: Products, votes: Tensor, maxima: Tensor, other_maxima: Tensor, coarse: CoarserGrid
) -> Tensor:
    """:func:`dhpf.losses.weak.sampled_entropy` of one pair, from inner products.

    Parameters
    ----------
    products
        (1, S, M) with their squared norms.
    votes
        (S, M), which have no gradient.
    """
    if products.products.device.type != "cpu" or products.products.dtype != torch.float32:
        return sampled_entropy(products.appearance()[0] * votes, maxima, other_maxima, coarse)
    lengths = norm(products.squares_a)[0, :, 0], norm(products.squares_b)[0, 0]
    value: Tensor = _Entropy.apply(  # type: ignore[no-untyped-call]
        products.products[0], *lengths, maxima, other_maxima, votes, coarse
    )
    return value


class _Entropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        products, a, b, r, s, votes, coarse = inputs
        filtered = torch.empty_like(products)
        arrays = (t.detach().numpy() for t in (products, a, b, r, s, votes, filtered))
        _filter(PUBLISHED_EPSILON, TINY, *arrays)
        small = coarse.shrink(filtered)  # (n, M)
        ctx.save_for_backward(products, a, b, r, s, votes, small)
        ctx.coarse = coarse
        return bits(small, 0).mean()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor | None, ...]:
        products, a, b, r, s, votes, small = ctx.saved_tensors
        total = small.sum(0)
        safe = torch.where(total == 0, 1.0, total)
        share = torch.where(small == 0, TINY, small / safe)
        of_small = -(share.log2() + bits(small, 0)) / safe * (gradients[0] / small.shape[1])
        of_filtered = ctx.coarse.spread(torch.where(small == 0, 0.0, of_small))  # (S, M)
        out = torch.empty_like(products), *(torch.zeros_like(t, dtype=torch.float64) for t in (a, b, r, s))
        arrays = (products, a, b, r, s, votes, of_filtered, *out)
        _filter_backward(PUBLISHED_EPSILON, TINY, *(t.numpy() for t in arrays))
        return out[0], *(t.float() for t in out[1:]), None, None


@compiled
def _filter(
    epsilon: float,
    tiny: float,
    products: Floats,
    a: Floats,
    b: Floats,
    r: Floats,
    s: Floats,
    votes: Floats,
    filtered: Floats,
) -> None:
    """f of every match."""
    zero, small, least = np.float32(0), np.float32(epsilon), np.float32(tiny)
    for i in range(products.shape[0]):
        of_row = np.float32(1) / max(r[i], least)
        for j in range(products.shape[1]):
            x = max(products[i, j] / (a[i] * b[j] + small), zero)
            c = x * x * votes[i, j]
            filtered[i, j] = c * ((c * of_row) * (c / max(s[j], least)))


@compiled
def _filter_backward(
    epsilon: float,
    tiny: float,
    products: Floats,
    a: Floats,
    b: Floats,
    r: Floats,
    s: Floats,
    votes: Floats,
    of_filtered: Floats,
    of_products: Floats,
    of_a: Floats,
    of_b: Floats,
    of_r: Floats,
    of_s: Floats,
) -> None:
    """Gradients of everything that f depends on, from the gradient of f."""
    zero, small, least = np.float32(0), np.float32(epsilon), np.float32(tiny)
    one, six = np.float32(1), np.float32(6)
    columns = products.shape[1]
    for i in range(products.shape[0]):
        of_row = one / max(r[i], least)
        sum_a, sum_r = 0.0, 0.0
        for j in range(columns):
            length = one / (a[i] * b[j] + small)
            x = max(products[i, j] * length, zero)
            c = x * x * votes[i, j]
            # dH/df * f, of which every other gradient is a multiple
            part = of_filtered[i, j] * (c * ((c * of_row) * (c / max(s[j], least))))
            of_x = six * part / x if x > zero else zero
            of_products[i, j] = of_x * length
            of_length = -of_x * x * length
            sum_a += of_length * b[j]
            of_b[j] += of_length * a[i]
            sum_r -= part * of_row
            of_s[j] -= part / max(s[j], least)
        of_a[i], of_r[i] = sum_a, sum_r
