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
        convolution = nn.Conv2d(channels, reduced, 1, bias=False)
        super().__init__(convolution, nn.BatchNorm2d(reduced), nn.ReLU(inplace=True))

    def folded(self) -> FoldedTransform:
        """The same function for inference, its batch norm folded into its convolution."""
        convolution, norm = self[0], self[1]
        if not isinstance(convolution, nn.Conv2d) or not isinstance(norm, nn.BatchNorm2d):
            raise TypeError("a transformation is a convolution and a batch norm")
        fused = fuse_conv_bn_eval(convolution.eval(), norm.eval())
        return FoldedTransform(fused.weight.flatten(1), fused.bias)


class FoldedTransform(nn.Module):
    """One matrix product over channels-last data, which on the CPU is faster than a 1x1 convolution."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.register_buffer("weight", weight.detach())  # (C / rho, C)
        self.register_buffer("bias", None if bias is None else bias.detach())
        self.weight: Tensor
        self.bias: Tensor | None

    def forward(self, block: Tensor) -> Tensor:
        reduced = F.linear(block.permute(0, 2, 3, 1), self.weight, self.bias)  # (B, h, w, C / rho)
        return F.relu(reduced, inplace=True).permute(0, 3, 1, 2)
