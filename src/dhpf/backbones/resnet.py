"""ResNet-50 and ResNet-101. The modules carry torchvision's key names, so its checkpoints load as they are.

B batch  L layers (feature blocks)  C channels  H, W pixels  h, w cells of one block
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from ..grid import Grid, Size
from .base import Backbone

BOTTLENECKS = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3)}


class Bottleneck(nn.Module):
    """1x1 reduce, 3x3, 1x1 expand, plus the shortcut; returns the sum *before* its ReLU."""

    def __init__(self, inputs: int, width: int, stride: int, stride_in_1x1: bool) -> None:
        super().__init__()
        first, second = (stride, 1) if stride_in_1x1 else (1, stride)
        self.conv1 = nn.Conv2d(inputs, width, 1, stride=first, bias=False)
        self.bn1: nn.Module = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride=second, padding=1, bias=False)
        self.bn2: nn.Module = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3: nn.Module = nn.BatchNorm2d(4 * width)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, activated: Tensor) -> Tensor:
        shortcut = activated if self.downsample is None else self.downsample(activated)
        x = F.relu(self.bn1(self.conv1(activated)), inplace=True)
        x = F.relu(self.bn2(self.conv2(x)), inplace=True)
        x = self.bn3(self.conv3(x))
        total: Tensor = x.add_(shortcut)
        return total


class ResNet(Backbone):
    """ResNet-50 or ResNet-101 without its classifier.

    Parameters
    ----------
    depth
        50 (17 feature blocks) or 101 (34).
    stride_in_1x1
        Where the first bottleneck of stages 2 to 4 halves the resolution: in its 1x1 convolution (the
        original MSRA release) or in its 3x3 convolution (torchvision, the default).
    """

    unused = ("fc.",)  # the classifier

    def __init__(self, depth: int, stride_in_1x1: bool = False) -> None:
        super().__init__()
        self.title = f"ResNet-{depth}"
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1: nn.Module = nn.BatchNorm2d(64)
        channels, inputs = [64], 64
        for stage, count in enumerate(BOTTLENECKS[depth], start=1):
            width = 32 * 2**stage
            blocks = []
            for index in range(count):
                stride = 2 if index == 0 and stage > 1 else 1
                blocks.append(Bottleneck(inputs, width, stride, stride_in_1x1))
                inputs = 4 * width
                channels.append(inputs)
            self.add_module(f"layer{stage}", nn.Sequential(*blocks))
        self.channels = tuple(channels)  # of each of the L feature blocks
        self.requires_grad_(False)
        self.eval()

    def grid(self, size: Size) -> Grid:
        """Cells 4 pixels apart, the first at the first pixel: the 7 x 7 convolution and the pooling, both of
        stride 2, look at every fourth pixel and as far to each side of it."""
        columns, rows = ((((pixels + 1) // 2) + 1) // 2 for pixels in size)
        return Grid(rows, columns, stride=4.0)

    def bottlenecks(self) -> list[Bottleneck]:
        """The residual blocks in order; the l-th of them makes feature block l + 1."""
        return [block for stage in range(1, 5) for block in getattr(self, f"layer{stage}")]

    def for_inference(self) -> ResNet:
        """Fold each batch norm into its convolution (same function, fewer passes) and lay out for the CPU."""
        _fold(self, "conv1", "bn1")
        for block in self.bottlenecks():
            for index in (1, 2, 3):
                _fold(block, f"conv{index}", f"bn{index}")
            if block.downsample is not None:
                _fold(block.downsample, "0", "1")
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                module.weight.data = module.weight.data.contiguous(memory_format=torch.channels_last)
        return self

    @torch.no_grad()
    def forward(self, images: Tensor, layers: Sequence[int] | None = None) -> dict[int, Tensor]:
        """Layer 0 is the max-pool output, layer l the sum of the l-th bottleneck before its ReLU."""
        wanted = range(len(self.channels)) if layers is None else layers
        x = images.contiguous(memory_format=torch.channels_last)
        x = F.relu(self.bn1(self.conv1(x)), inplace=True)
        x = F.max_pool2d(x, 3, stride=2, padding=1)  # (B, 64, H/4, W/4)
        blocks = {0: x}
        for layer, block in enumerate(self.bottlenecks()[: max(wanted)], start=1):
            x = block(F.relu(x))
            blocks[layer] = x
        return {layer: blocks[layer] for layer in wanted}


def _fold(parent: nn.Module, conv: str, norm: str) -> None:
    """Put a batch norm into the convolution before it, and nothing in its place."""
    convolution, batch_norm = parent.get_submodule(conv), parent.get_submodule(norm)
    if isinstance(convolution, nn.Conv2d) and isinstance(batch_norm, nn.BatchNorm2d):
        setattr(parent, conv, fuse_conv_bn_eval(convolution, batch_norm))
        setattr(parent, norm, nn.Identity())
