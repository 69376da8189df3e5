"""Transformations in training: all pairs' blocks of a layer at once, with frozen or batch statistics.

n photos  h, w one layer's grid  C its channels  C' its reduced channels
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..model.transform import Transform


def transformed(transform: Transform, blocks: Tensor, batch_statistics: bool) -> Tensor:
    """The function of a transformation, channels last: (n, h, w, C) -> (n, h, w, C').

    Parameters
    ----------
    batch_statistics
        Normalise by the batch's own mean and variance over all processes, and follow them, as published. Else
        by those that the batch norm holds: then a step does not depend on which pairs share a batch, and the
        whole is one matrix product.
    """
    convolution, norm = transform[0], transform[1]
    if not isinstance(convolution, nn.Conv2d) or not isinstance(norm, nn.BatchNorm2d):
        raise TypeError("a transformation is a convolution and a batch norm")
    weight = convolution.weight.flatten(1)  # (C', C)
    if not batch_statistics:
        scale = norm.weight * torch.rsqrt(_known(norm.running_var) + norm.eps)
        shift = norm.bias - _known(norm.running_mean) * scale
        return F.linear(blocks, scale[:, None] * weight, shift).relu()
    reduced = F.linear(blocks, weight)
    mean, variance = _moments(reduced, norm)
    return ((reduced - mean) * (norm.weight * torch.rsqrt(variance + norm.eps)) + norm.bias).relu()


def _moments(values: Tensor, norm: nn.BatchNorm2d) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel over all processes' values; the running ones follow them."""
    flat = values.flatten(0, -2)
    sums, count = sum_over_processes(torch.stack([flat.sum(0), torch.full_like(flat[0], len(flat))]))
    mean = sums / count
    variance = sum_over_processes((flat - mean).square().sum(0)) / count
    with torch.no_grad():
        follow = 0.1 if norm.momentum is None else norm.momentum
        _known(norm.running_mean).lerp_(mean, follow)
        _known(norm.running_var).lerp_(variance * count / (count - 1).clamp_min(1), follow)  # unbiased
    return mean, variance


def sum_over_processes(values: Tensor) -> Tensor:
    """The sum over all processes, with its gradient; the values themselves in a single one."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return values
    from torch.distributed.nn.functional import all_reduce

    total: Tensor = all_reduce(values)  # type: ignore[no-untyped-call]
    return total


def _known(statistic: Tensor | None) -> Tensor:
    if statistic is None:
        raise TypeError("a transformation's batch norm keeps running statistics")
    return statistic
