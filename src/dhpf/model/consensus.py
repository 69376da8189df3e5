"""Neighbourhood consensus (NC-Net): a match is right where its neighbours match alike.

All matches of two images are a 4-D array. Small 4-D convolutions see a match together with those of nearby
source cells to nearby target cells, and learn which patterns of them are consistent.

H, W source grid  H', W' target grid  N = H*W  N' = H'*W'  C, O channels in and out  k side of a kernel
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .mutual import mutual_filter


def cosines(a: Tensor, b: Tensor) -> Tensor:
    """Of all cells of two blocks (H, W, C) and (H', W', C), negative ones as 0: (N, N')."""
    unit_a, unit_b = (F.normalize(block.flatten(0, 1), dim=1) for block in (a, b))
    return (unit_a @ unit_b.T).relu()


def soft_mutual_filter(correlation: Tensor) -> Tensor:
    """Keep what both images agree on, of all matches (N, N')."""
    return mutual_filter(correlation, correlation.amax(1), correlation.amax(0))


def conv4d(matches: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A 4-D convolution that keeps the size, (H, W, H', W', C) -> (H, W, H', W', O).

    The sum of 3-D convolutions of the source's rows, each shifted by another row of the kernel.

    Parameters
    ----------
    weight
        (O, C, k, k, k, k), k odd; the last four axes are those of ``matches``.
    bias
        (O,)
    """
    rows, side = matches.shape[0], weight.shape[-1]
    reach = side // 2
    padded = F.pad(matches, (0, 0) * 4 + (reach, reach)).movedim(-1, 1)  # (H + k - 1, C, W, H', W')
    total = F.conv3d(padded[:rows], weight[:, :, 0], bias, padding=reach)
    for shift in range(1, side):
        total = total + F.conv3d(padded[shift : shift + rows], weight[:, :, shift], padding=reach)
    return total.movedim(1, -1)


class Conv4d(nn.Module):
    """A 4-D convolution with its weights."""

    def __init__(self, channels: int, outputs: int, side: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, channels, *[side] * 4))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, matches: Tensor) -> Tensor:
        return conv4d(matches, self.weight, self.bias)


class Consensus(nn.Module):
    """4-D convolutions, each with a ReLU, that do not depend on which image is called the source.

    Parameters
    ----------
    channels
        Between the convolutions.
    sides
        Of their kernels, in cells.
    """

    def __init__(self, channels: int, sides: Sequence[int]) -> None:
        super().__init__()
        widths = [1, *[channels] * (len(sides) - 1), 1]
        kinds = zip(widths[:-1], widths[1:], sides, strict=True)
        self.convolutions = nn.ModuleList(Conv4d(*kind) for kind in kinds)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator) -> None:
        """Begin as the sum of each match and some random mixtures of its neighbours."""
        for conv in self.convolutions:
            weight = conv.get_parameter("weight")
            middle, bound = weight.shape[-1] // 2, weight[0].numel() ** -0.5
            weight.copy_((2 * torch.rand(weight.shape, generator=generator) - 1) * bound)
            weight[:, :, middle, middle, middle, middle] += 1 / weight.shape[1]
            conv.get_parameter("bias").zero_()

    def forward(self, correlation: Tensor) -> Tensor:
        """(H, W, H', W') -> the same shape, none negative."""
        back = (2, 3, 0, 1)
        return self._one_way(correlation) + self._one_way(correlation.permute(back)).permute(back)

    def _one_way(self, correlation: Tensor) -> Tensor:
        matches = correlation[..., None]
        for conv in self.convolutions:
            matches = conv(matches).relu()
        return matches[..., 0]


def consensus_filter(a: Tensor, b: Tensor, consensus: Consensus) -> Tensor:
    """Cosines, mutual filter, consensus, mutual filter: blocks (H, W, C), (H', W', C) -> (N, N')."""
    correlation = soft_mutual_filter(cosines(a, b))
    agreed = consensus(correlation.view(*a.shape[:2], *b.shape[:2]))
    return soft_mutual_filter(agreed.reshape(correlation.shape))


def matching_score(scores: Tensor) -> Tensor:
    """How clearly the cells of a pair choose: the highest probability of each, on average over the cells of
    both images; (N, N') -> a scalar in [0, 1]."""
    return (scores.softmax(1).amax(1).mean() + scores.softmax(0).amax(0).mean()) / 2
