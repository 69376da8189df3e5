"""The hyperimage itself, all layers side by side on one grid: to train soft matching.

A step compares few cells of an image with all cells of several others. Then it is cheapest to build each
hyperimage once; matching two images never builds one (see `correlation`).

N cells of the grid  L layers  C channels of all layers  K some cells
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..grid import Grid
from .correlation import corners

TINY = 1e-8  # of a squared length, whose root has a gradient


class Hyperimage(NamedTuple):
    """Of one image; differentiable."""

    values: Tensor  # (N, C)
    squares: Tensor  # (N, L) squared length of each layer's feature
    grid: Grid  # the cells
    channels: tuple[int, ...]  # of each layer

    def at(self, cells: Tensor, grid: Grid) -> Hyperimage:
        """At some cells (K,) of a finer grid, between its own by interpolation."""
        values = corners(cells, self.grid.shape, grid, self.values.dtype).read(self.values)
        return Hyperimage(values, _squares(values, self.channels), grid, self.channels)

    def split(self, counts: Sequence[int]) -> list[Hyperimage]:
        """Its cells in parts."""
        values, squares = (torch.split(part, list(counts)) for part in (self.values, self.squares))
        return [Hyperimage(*both, self.grid, self.channels) for both in zip(values, squares, strict=True)]


def build_hyperimage(blocks: Sequence[Tensor], grid: Grid) -> Hyperimage:
    """From blocks (h, w, C'), resized to the grid where they are smaller."""
    parts = []
    for block in blocks:
        shape, flat = (block.shape[0], block.shape[1]), block.flatten(0, 1)
        if shape != grid.shape:
            every = torch.arange(grid.cells, device=block.device)
            flat = corners(every, shape, grid, flat.dtype).read(flat)
        parts.append(flat)
    values, channels = torch.cat(parts, 1), tuple(part.shape[1] for part in parts)
    return Hyperimage(values, _squares(values, channels), grid, channels)


def _squares(values: Tensor, channels: tuple[int, ...]) -> Tensor:
    return torch.stack([part.square().sum(1) for part in torch.split(values, list(channels), 1)], 1)


def cosines(a: Hyperimage, b: Hyperimage, weights: Tensor) -> Tensor:
    """Of the cells of one with those of the other, (K, N'); ``weights`` (L,) of the layers."""
    each = weights.repeat_interleave(torch.tensor(a.channels, device=weights.device))  # (C,)
    length_a, length_b = ((side.squares @ weights).clamp_min(TINY).sqrt() for side in (a, b))
    return (a.values * each) @ b.values.T / (length_a[:, None] * length_b)
