"""Section 3.2: the 1x1 reduction of a chosen feature block, from c channels to c / rho."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

RHO = 8


class Transform(nn.Sequential):
    """1x1 convolution, batch norm, ReLU: (B, C, h, w) -> (B, C / rho, h, w)."""

    def __init__(self, channels: int) -> None:
        reduced = channels // RHO
        super().__init__(
            nn.Conv2d(channels, reduced, 1, bias=False), nn.BatchNorm2d(reduced), nn.ReLU(inplace=True)
        )


class FoldedTransform(nn.Module):
    """The same function for inference: batch norm folded in, and one matrix product over channels-last data,
    which on the CPU is about twice as fast as a 1x1 convolution."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        fused = fuse_conv_bn_eval(transform[0].eval(), transform[1].eval())
        self.linear = nn.Linear(fused.in_channels, fused.out_channels)
        self.linear.weight = nn.Parameter(fused.weight.flatten(1), requires_grad=False)
        self.linear.bias = nn.Parameter(fused.bias, requires_grad=False)

    def forward(self, block: Tensor) -> Tensor:
        reduced: Tensor = self.linear(block.permute(0, 2, 3, 1))  # (B, h, w, C / rho)
        return F.relu(reduced, inplace=True).permute(0, 3, 1, 2)
