"""A2Net: correlation by offset, and attention over what each location says of the transformation.

CNNGeo's regressor tells matches by where they lead. Here they are told by how far: the same kernels, aware of
offsets, read every source cell. What they find is encoded as a local transformation, with the location; and
attention decides which locations make the transformation of the whole.

B pairs  n cells along each side of a lattice, N = n * n  C channels  A attention maps
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..model.geometric import lattice, maps_by_offset, match_strengths
from .cnngeo import CNNGeo

REACH = 10  # cells, along x and y: the longest offset
ATTENTION = 4  # maps


class AttentiveRegressor(nn.Module):
    """Cosines of all cells -> numbers."""

    def __init__(self, channels: int, outputs: int) -> None:
        super().__init__()
        self.kernels = nn.Conv2d((2 * REACH + 1) ** 2, channels, 1)  # aware of offsets
        self.encode = nn.Sequential(*_convolution(channels + 2, channels), *_convolution(channels, channels))
        self.attention = nn.Conv2d(channels, ATTENTION, 1)
        self.out = nn.Linear(ATTENTION * channels, outputs)

    def forward(self, maps: Tensor) -> Tensor:
        """(B, N, n, n) -> (B, outputs)."""
        size = maps.shape[2]
        offsets = self.kernels(maps_by_offset(match_strengths(maps), REACH)).relu()  # (B, C, n, n)
        where = lattice(size, size).to(maps).T.view(1, 2, size, size).expand(len(maps), -1, -1, -1)
        local = self.encode(torch.cat([offsets, where], dim=1))
        weights = self.attention(local).flatten(2).softmax(dim=2)  # (B, A, N)
        numbers: Tensor = self.out((weights @ local.flatten(2).mT).flatten(1))
        return numbers


def _convolution(inputs: int, outputs: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(8, outputs), nn.ReLU()]


class A2Net(CNNGeo):
    """CNNGeo's two steps and loss, with attentive regressors."""

    name = "a2net"

    def regressor(self, outputs: int) -> nn.Module:
        """From cosines (B, N, n, n) to (B, outputs)."""
        return AttentiveRegressor(self.config.channels, outputs)
