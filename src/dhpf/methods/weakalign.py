"""WeakAlign: CNNGeo, trained on pairs of images alone. What it maximises is the soft inlier count.

A transformation is right where the cells that it joins choose each other. The strengths of their matches,
summed over all cells, are a count of inliers that has gradients: no keypoint is needed.

B pairs  n cells along each side of a lattice, N = n * n
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch.nn.functional as F
from torch import Tensor

from ..errors import InputError
from ..model.geometric import read_maps
from .base import Batch
from .cnngeo import CNNGeo


@dataclass(frozen=True)
class InlierObjective:
    """What counts as an inlier."""

    radius: int = 1  # cells, along x and y, between a match and where the transformation leads
    temperature: float = 0.05  # of cosines
    needs_points = False

    def __post_init__(self) -> None:
        if not 0.001 <= self.temperature <= 10:
            raise InputError(f"temperature = {self.temperature:g}; wanted from 0.001 to 10")
        if not 0 <= self.radius <= 5:
            raise InputError(f"radius = {self.radius}; wanted from 0 to 5")


class WeakAlign(CNNGeo):
    """The same network; it begins as a head of CNNGeo (``model.start``)."""

    name = "weakalign"
    Objective: ClassVar[type[Any]] = InlierObjective

    def losses(self, batch: Batch, objective: Any) -> dict[str, Tensor]:
        """The negative soft inlier count, for each source cell."""
        maps = self.cosines(batch)
        strengths = mutual_strengths(maps / objective.temperature)
        counts = soft_inliers(strengths, self.landed(maps), objective.radius)
        # Processes are averaged, and may have different numbers of pairs.
        return {"match": -counts.mean(1).sum() * (batch.world_size / batch.total)}


def mutual_strengths(scores: Tensor) -> Tensor:
    """How much two cells choose each other, (B, N, n, n): the geometric mean of the probability of a target
    cell for a source cell, and of that source cell for the target cell.

    By strengths of one direction alone, a few target cells that resemble everything gather all cells.
    """
    flat = scores.flatten(2)
    return ((flat.log_softmax(dim=2) + flat.log_softmax(dim=1)) / 2).exp().view_as(scores)


def soft_inliers(strengths: Tensor, landed: Tensor, radius: int) -> Tensor:
    """The strengths of each source cell's matches (B, N, n, n) that end near where it lands, summed: (B, N).

    Parameters
    ----------
    landed
        (B, N, 2), normalised.
    radius
        In cells, along x and y.
    """
    side = 2 * radius + 1
    near = side**2 * F.avg_pool2d(strengths, side, stride=1, padding=radius)
    return read_maps(near, landed[:, :, None])[..., 0]
