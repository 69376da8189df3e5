"""A pair's entropy with its gradient taken at once: what it took to compute it need not wait for the batch.

The loss is a ratio of sums over the batch, so a pair's gradient is its own times a factor that is known only
at the end. Kept until then are the gradients of the transformed blocks, a few MB, in place of half a GB.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ..model.hough import HoughSpace
from .gated_pair import Blocks, GatedPair


def entropy_at_once(pair: GatedPair, space: HoughSpace) -> Tensor:
    """``pair.entropy(space)``, with the same gradient."""
    if not torch.is_grad_enabled():
        return pair.entropy(space)
    layers = list(pair.blocks.source)
    inputs = [*(side[layer] for side in pair.blocks for layer in layers), pair.weights]
    leaves = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in inputs]
    sides = leaves[: len(layers)], leaves[len(layers) : -1]
    blocks = Blocks(*(dict(zip(layers, side, strict=True)) for side in sides))
    value = replace(pair, blocks=blocks, weights=leaves[-1]).entropy(space)
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
