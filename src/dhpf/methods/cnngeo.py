"""CNNGeo: the cosines of two feature maps -> an affine map, and after aligning by it, a thin-plate spline.

It learns from images and warped copies of themselves, whose true transformation is known.

B pairs  n cells along each side of a lattice, N = n * n
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..backbones.base import Backbone
from ..errors import InputError
from ..model.geometric import (
    CONTROL,
    Regressor,
    Transformation,
    affine,
    grid_loss,
    lattice,
    normalised,
    undo_affine,
    warp_maps,
)
from .base import Batch
from .geometric import GeometricConfig, GeometricMethod

NEARLY_RIGHT = 0.2  # of the training PCK: a tenth of a side, which is 2 long


@dataclass(frozen=True)
class GridObjective:
    """How far transformed points lie from where they belong."""

    jitter: float = 0.2  # targets are warped once more, by random affine maps that differ so much from none

    def __post_init__(self) -> None:
        if not 0 <= self.jitter <= 0.4:  # beyond, a map may have no inverse
            raise InputError(f"jitter = {self.jitter:g}; wanted from 0 to 0.4")


class CNNGeo(GeometricMethod):
    """One smooth transformation of the whole image."""

    name = "cnngeo"
    Objective: ClassVar[type[Any]] = GridObjective

    def __init__(self, backbone: Backbone, config: GeometricConfig | None = None) -> None:
        super().__init__(backbone, config)
        self.affine = self.regressor(6)
        self.thin_plate = self.regressor(2 * CONTROL**2)

    def regressor(self, outputs: int) -> nn.Module:
        """From cosines (B, N, n, n) to (B, outputs)."""
        return Regressor(self.config.cells, self.config.channels, outputs)

    def transformation(self, maps: Tensor) -> Transformation:
        """Of each pair; the spline is found after the target is aligned by the affine map.

        The affine map learns from where the two lead together, not from what the second regressor sees.
        """
        first = self.affine(maps).view(-1, 2, 3)
        aligned = warp_maps(maps, affine(first.detach(), lattice(*maps.shape[2:]).to(maps)))
        return Transformation(first, self.thin_plate(aligned).view(-1, CONTROL**2, 2))

    def landed(self, maps: Tensor) -> Tensor:
        """By the transformation."""
        return self.transformation(maps)(lattice(*maps.shape[2:]).to(maps)[None])

    def losses(self, batch: Batch, objective: Any) -> dict[str, Tensor]:
        """The grid loss, at the points of each pair, of the affine map alone and of both."""
        maps = self.cosines(batch)
        drawn = 2 * torch.rand(batch.total, 2, 3, generator=batch.generator) - 1
        jitter = (objective.jitter * drawn[list(batch.slots)]).to(maps)
        maps = warp_maps(maps, affine(jitter, lattice(*maps.shape[2:]).to(maps)))
        alone, both, right = [], [], []
        for pair, one, *found in zip(batch.pairs, jitter, *self.transformation(maps), strict=True):
            points = normalised(pair.source_points, pair.source.grid).to(maps)
            truth = undo_affine(one, normalised(pair.target_points, pair.target.grid).to(maps))
            landed = Transformation(*found)(points)
            alone.append(grid_loss(affine(found[0], points), truth))
            both.append(grid_loss(landed, truth))
            right.append(((landed.detach() - truth).norm(dim=1) <= NEARLY_RIGHT).float().mean())
        # Processes are averaged, and may have different numbers of pairs.
        fraction = batch.world_size / batch.total
        terms = {"affine": fraction * torch.stack(alone).sum(), "match": fraction * torch.stack(both).sum()}
        return {**terms, "_pck": 100 * torch.stack(right).mean()}
