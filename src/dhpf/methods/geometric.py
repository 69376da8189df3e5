"""What methods share that find a smooth transformation from the cosines of two feature maps.

B pairs  n cells along each side of a lattice, N = n * n
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..backbones.base import Backbone, Features
from ..errors import InputError
from ..model.geometric import cosine_maps, flow_to, initialise, read_maps, unit_features
from .base import Batch, Matches, Method, check_layer


@dataclass(frozen=True)
class GeometricConfig:
    """What a transformation is found from."""

    layer: int = -1  # of the backbone; negative: from the last
    cells: int = 15  # along each side of the lattice that features are resized to
    channels: int = 64  # of the learned layers

    def __post_init__(self) -> None:
        for key, (low, high) in {"cells": (12, 64), "channels": (8, 1024)}.items():
            if not low <= getattr(self, key) <= high:
                raise InputError(f"{key} = {getattr(self, key)}; wanted from {low} to {high}")
        if self.channels % 8:
            raise InputError(f"channels = {self.channels}; wanted a multiple of 8")


class GeometricMethod(Method):
    """A method says where the cells of a lattice land."""

    Config = GeometricConfig
    keeps_scores = False
    config: GeometricConfig

    def __init__(self, backbone: Backbone, config: GeometricConfig | None = None) -> None:
        super().__init__(backbone, config)
        check_layer(backbone, self.config.layer)

    @abstractmethod
    def landed(self, maps: Tensor) -> Tensor:
        """Where source cells land, (B, N, 2), normalised, by their cosines over the target, (B, N, n, n)."""

    @property
    def layers(self) -> Sequence[int]:
        """The one."""
        return (check_layer(self.backbone, self.config.layer),)

    def prepare(self, samples: Sequence[Features], generator: torch.Generator, init: str = "random") -> None:
        """Begin with the identity."""
        initialise(self.head(), generator)

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Where cells land, for random cosines."""
        cells = self.config.cells
        maps = 2 * torch.rand(1, cells**2, cells, cells, generator=torch.Generator().manual_seed(0)) - 1
        return bool(self.landed(maps).isfinite().all())

    def cosines(self, batch: Batch) -> Tensor:
        """Of all source cells with all target cells, for all pairs: (B, N, n, n)."""
        return self._cosines([(pair.source, pair.target) for pair in batch.pairs])

    def _cosines(self, pairs: Sequence[tuple[Features, Features]]) -> Tensor:
        layer, device = self.layers[0], self.backbone.device
        a, b = (
            torch.stack([unit_features(pair[side], layer, self.config.cells) for pair in pairs]).to(device)
            for side in (0, 1)
        )
        return cosine_maps(a, b)

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images; a match is as sure as its features agree."""
        maps = self._cosines([(a, b)])
        landed = self.landed(maps)
        agreement = read_maps(maps, landed[:, :, None])[0, :, 0]
        return Matches(flow_to(landed[0], agreement, a.grid, b.grid))
