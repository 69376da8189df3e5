"""Section 3.2: the 1x1 reduction of a chosen feature block, from c channels to c / rho.

n images  h, w one layer's grid  C its channels  C' its reduced channels
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..processes import sum_over_processes

RHO = 8
EPSILON, MOMENTUM = 1e-5, 0.1  # of the batch norm: torch's own


class Transform(nn.Sequential):
    """1x1 convolution, batch norm, ReLU, on blocks with their channels last: (n, h, w, C) -> (n, h, w, C').

    In training mode, blocks are normalised by the batch's own mean and variance over all processes, as
    published, and the running ones follow. Else by those that the batch norm holds: then a step does not
    depend on which pairs share a batch, and the whole is one matrix product.
    """

    def __init__(self, channels: int) -> None:
        reduced = max(1, channels // RHO)
        super().__init__(nn.Conv2d(channels, reduced, 1, bias=False), nn.BatchNorm2d(reduced))

    def forward(self, blocks: Tensor) -> Tensor:
        if not self.training:
            return F.linear(blocks, *self._folded()).relu()
        # Moments take the precision of the blocks, whatever the product is computed in.
        reduced = F.linear(blocks, self.get_parameter("0.weight").flatten(1)).to(blocks)
        mean, variance, count = _moments(reduced)
        with torch.no_grad():
            self.get_buffer("1.running_mean").lerp_(mean, MOMENTUM)
            unbiased = variance * count / (count - 1).clamp_min(1)
            self.get_buffer("1.running_var").lerp_(unbiased, MOMENTUM)
        scale = self.get_parameter("1.weight") * torch.rsqrt(variance + EPSILON)
        return ((reduced - mean) * scale + self.get_parameter("1.bias")).relu()

    def folded(self) -> FoldedTransform:
        """The same function for inference, its batch norm folded into its convolution once and for all."""
        return FoldedTransform(*self._folded())

    def _folded(self) -> tuple[Tensor, Tensor]:
        """(C', C) and (C',) of the one matrix product that convolution and batch norm are."""
        scale = self.get_parameter("1.weight") * torch.rsqrt(self.get_buffer("1.running_var") + EPSILON)
        bias = self.get_parameter("1.bias") - self.get_buffer("1.running_mean") * scale
        return scale[:, None] * self.get_parameter("0.weight").flatten(1), bias


class Perceptron(nn.Module):
    """Blocks standardised, then a linear map plus a two-layer perceptron: (..., C) -> (..., C').

    For features of a vision transformer, which have a sign and need more than to be reduced.
    """

    def __init__(self, channels: int, reduced: int) -> None:
        super().__init__()
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.zeros(channels))  # of training images
        self.register_buffer("deviation", torch.ones(channels))
        self.linear = nn.Linear(channels, reduced)
        self.hidden = nn.Linear(channels, reduced)
        self.out = nn.Linear(reduced, reduced, bias=False)

    def forward(self, blocks: Tensor) -> Tensor:
        # Standardising is linear, so the matrices take it over: one pass over the blocks instead of four.
        weight = torch.cat([self.linear.weight, self.hidden.weight]) / self.deviation
        bias = torch.cat([self.linear.bias, self.hidden.bias]) - weight @ self.mean
        linear, hidden = F.linear(blocks, weight, bias).chunk(2, -1)
        added: Tensor = linear + self.out(F.gelu(hidden))
        return added


class Temperature(nn.Module):
    """What cosines are divided by before a softmax: learned, and always positive."""

    def __init__(self, initial: float) -> None:
        super().__init__()
        self.log = nn.Parameter(torch.tensor(initial).log())

    def forward(self) -> Tensor:
        return self.log.exp()


class FoldedTransform(nn.Module):
    """One matrix product."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.weight: Tensor
        self.bias: Tensor
        self.register_buffer("weight", weight.detach())  # (C', C)
        self.register_buffer("bias", bias.detach())

    def forward(self, blocks: Tensor) -> Tensor:
        return F.relu(F.linear(blocks, self.weight, self.bias), inplace=True)


def _moments(values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of each channel over all processes' values, and how many values there are."""
    flat = values.flatten(0, -2)
    sums, count = sum_over_processes(torch.stack([flat.sum(0), torch.full_like(flat[0], len(flat))]))
    mean = sums / count
    return mean, sum_over_processes((flat - mean).square().sum(0)) / count, count
