"""Nearest neighbour: the cosine of one layer, and nothing else. The floor that every method must beat."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ..backbones.base import Backbone, Features
from ..model.correlation import correlate
from ..model.readout import NEAREST, argmax_flow
from ..model.scores import CorrelationScores
from .base import Matches, Method, check_layer


@dataclass(frozen=True)
class NearestConfig:
    """Which layer; -1 is the last."""

    layer: int = -1


class Nearest(Method):
    """Each cell goes to the cell with the most similar feature."""

    name = "nearest"
    Config = NearestConfig

    def __init__(self, backbone: Backbone, config: NearestConfig | None = None) -> None:
        super().__init__(backbone, config)
        self.layer = check_layer(backbone, self.config.layer)

    @property
    def layers(self) -> Sequence[int]:
        """The one."""
        return (self.layer,)

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images."""
        blocks_a, blocks_b = ([side.blocks[layer].float() for layer in self.layers] for side in (a, b))
        correlation = correlate(blocks_a, blocks_b, a.grid, b.grid, epsilon=0.0)
        value, best = correlation.dense().max(1)
        flow = argmax_flow(best, value, a.grid, b.grid, reach=NEAREST)
        return Matches(flow, scores=CorrelationScores(correlation))
