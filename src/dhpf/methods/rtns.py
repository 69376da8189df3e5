"""RTNs: a field of local affine maps, refined again and again by one network.

Each source cell has an affine map of its own. The network looks at the cosines in a window about where that
leads, and says by how much to change it. Neighbours are averaged, so that the field stays smooth.

It learns from pairs of images alone. Which target cell a source cell belongs to is a classification by their
cosines; the field is to lead where that puts most probability.

B pairs  n cells along each side of a lattice, N = n * n  W cells of a window  C channels
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones.base import Backbone
from ..errors import InputError
from ..model.geometric import lattice, read_maps
from .base import Batch
from .geometric import GeometricConfig, GeometricMethod

NEAR = 4  # cells
LEAST = 0.01


@dataclass(frozen=True)
class RTNsConfig(GeometricConfig):
    """How the field is refined."""

    reach: int = 4  # of a window, in cells to each side
    iterations: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, (low, high) in {"reach": (1, 10), "iterations": (1, 20)}.items():
            if not low <= getattr(self, key) <= high:
                raise InputError(f"{key} = {getattr(self, key)}; wanted from {low} to {high}")


@dataclass(frozen=True)
class NeighbourObjective:
    """How the right neighbour is told from the others."""

    temperature: float = 0.05  # of cosines
    needs_points = False

    def __post_init__(self) -> None:
        if not 0.001 <= self.temperature <= 10:
            raise InputError(f"temperature = {self.temperature:g}; wanted from 0.001 to 10")


class Field(NamedTuple):
    """An affine map of each cell, by what it adds to the identity about the cell's own location."""

    matrix: Tensor  # (B, 4, n, n)
    shift: Tensor  # (B, 2, n, n), x then y

    def smoothed(self, cells: Tensor) -> Field:
        """Each cell takes the mean of what its own map and its neighbours' say; ``cells`` (2, n, n)."""
        origin = self.shift - _apply(self.matrix, cells)  # of the same maps, about location 0
        matrix, mean = (
            F.avg_pool2d(part, 3, stride=1, padding=1, count_include_pad=False)
            for part in (self.matrix, origin)
        )
        return Field(matrix, mean + _apply(matrix, cells))

    def window(self, offsets: Tensor, cells: Tensor) -> Tensor:
        """Where the offsets (W, 2) from each cell land: (B, N, W, 2)."""
        centres = (cells + self.shift).flatten(2).mT[:, :, None]  # (B, N, 1, 2)
        matrix = self.matrix.flatten(2).mT.reshape(*centres.shape[:2], 2, 2)
        landed: Tensor = centres + offsets + offsets @ matrix.mT
        return landed


def _apply(matrix: Tensor, locations: Tensor) -> Tensor:
    """(B, 4, n, n) to (2, n, n)."""
    return torch.einsum("brcyx,cyx->bryx", matrix.view(-1, 2, *locations.shape), locations)


class Refinement(nn.Module):
    """Strengths in windows -> changes of the field. An encoder and decoder: it sees all of the image."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.first = _convolution(inputs, channels)
        self.down = nn.Sequential(_convolution(channels, channels, 2), _convolution(channels, channels, 2))
        self.wide = nn.Sequential(_convolution(channels, channels), _convolution(channels, channels))
        self.last = _convolution(2 * channels, channels)
        self.out = nn.Conv2d(channels, 6, 1)

    def forward(self, strengths: Tensor) -> Field:
        """(B, W, n, n) -> changes."""
        fine = self.first(strengths)
        wide = F.interpolate(self.wide(self.down(fine)), fine.shape[2:], mode="bilinear", align_corners=True)
        changes = self.out(self.last(torch.cat([fine, wide], dim=1)))
        return Field(changes[:, :4], changes[:, 4:])


def _convolution(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride, padding=1), nn.GroupNorm(8, outputs), nn.ReLU()
    )


class RTNs(GeometricMethod):
    """Recurrent transformer networks."""

    name = "rtns"
    Config = RTNsConfig
    Objective = NeighbourObjective
    config: RTNsConfig

    def __init__(self, backbone: Backbone, config: RTNsConfig | None = None) -> None:
        super().__init__(backbone, config)
        self.refine = Refinement((2 * self.config.reach + 1) ** 2, self.config.channels)

    def estimates(self, maps: Tensor) -> Iterator[Tensor]:
        """Where cells land after each iteration, (B, N, 2)."""
        size = maps.shape[2]
        cells = lattice(size, size).T.view(2, size, size).to(maps)
        side = 2 * self.config.reach + 1
        offsets = lattice(side, side).to(maps) * (2 * self.config.reach / (size - 1))  # (W, 2)
        field = Field(maps.new_zeros(len(maps), 4, size, size), maps.new_zeros(len(maps), 2, size, size))
        for _ in range(self.config.iterations):
            seen = read_maps(maps, field.window(offsets, cells)).relu()
            strengths = F.normalize(seen, dim=2).mT.reshape(len(maps), -1, size, size)
            changes = self.refine(strengths)
            field = Field(field.matrix + changes.matrix, field.shift + changes.shift).smoothed(cells)
            yield (cells + field.shift).flatten(2).mT

    def landed(self, maps: Tensor) -> Tensor:
        """After the last iteration."""
        *_, last = self.estimates(maps)
        return last

    def losses(self, batch: Batch, objective: Any) -> dict[str, Tensor]:
        """The mean of all iterations."""
        maps = self.cosines(batch)
        scores = maps / objective.temperature
        terms = [neighbour_loss(scores, landed) for landed in self.estimates(maps)]
        # Processes are averaged, and may have different numbers of pairs.
        return {"match": torch.stack(terms).mean(0).sum() * (batch.world_size / batch.total)}


def neighbour_loss(scores: Tensor, landed: Tensor) -> Tensor:
    """How unlikely the target cells are about where each source cell lands, a mean over cells: (B,).

    Probabilities are spread over NEAR cells, falling linearly with the distance, so that an estimate feels a
    good match before it is there; LEAST bounds what a cell without any costs.

    Parameters
    ----------
    scores
        (B, N, n, n), whose softmax over the target is the probability.
    landed
        (B, N, 2), normalised.
    """
    probability = scores.flatten(2).softmax(dim=2).view_as(scores)
    box = NEAR + 1
    spread = F.avg_pool2d(F.avg_pool2d(F.pad(probability, (NEAR,) * 4), box, 1), box, 1) * box**2
    return -(read_maps(spread, landed[:, :, None]) + LEAST).log().mean((1, 2))
