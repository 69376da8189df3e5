"""NC-Net: the cosines of one layer, filtered by learned neighbourhood consensus.

Trained from image pairs alone: the cells of two images of one category should each choose clearly, those of
different categories should not.

N, N' cells of the source's and the target's grid
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..backbones.base import Backbone, Features
from ..errors import InputError
from ..model.consensus import Consensus, consensus_filter, matching_score
from ..model.scores import Probabilities
from ..model.soft_matching import soft_flow
from .base import Batch, Matches, Method, check_layer, drawn_features

INTERPOLATED = 0.0  # cells are large: a point moves as the four around it do


@dataclass(frozen=True)
class NCNetConfig:
    """Which layer, and what its matches go through."""

    layer: int = -1  # the last
    channels: int = 16  # between the 4-D convolutions
    kernels: tuple[int, ...] = (3, 3, 3)  # their sides
    sigma: float = 1.0  # of the kernel about the best target cell, in cells

    def __post_init__(self) -> None:
        if not 1 <= self.channels <= 256:
            raise InputError(f"channels = {self.channels}; wanted from 1 to 256")
        if not self.kernels or not set(self.kernels) <= {1, 3, 5, 7}:
            raise InputError(f"kernels = {list(self.kernels)}; wanted some of the sides 1, 3, 5 and 7")
        if not 0.1 <= self.sigma <= 100:
            raise InputError(f"sigma = {self.sigma:g}; wanted from 0.1 to 100")


@dataclass(frozen=True)
class WeakObjective:
    """Clear choices in pairs of one category, none in pairs of different ones."""

    @property
    def needs_points(self) -> bool:
        """Whether pairs need keypoints."""
        return False

    @property
    def negatives(self) -> bool:
        """Whether pairs of different categories are needed as well."""
        return True


class NCNet(Method):
    """Neighbourhood consensus."""

    name = "ncnet"
    Config = NCNetConfig
    Objective = WeakObjective
    config: NCNetConfig

    def __init__(self, backbone: Backbone, config: NCNetConfig | None = None) -> None:
        super().__init__(backbone, config)
        self.layer = check_layer(backbone, self.config.layer)
        self.consensus = Consensus(self.config.channels, self.config.kernels)

    @property
    def layers(self) -> Sequence[int]:
        """The one."""
        return (self.layer,)

    def prepare(self, samples: Sequence[Features], generator: torch.Generator, init: str = "random") -> None:
        """Set initial weights."""
        self.consensus.initialise(generator)

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Of all scores."""
        drawn = drawn_features(self.backbone, self.layers)
        return bool(self.scores(drawn, drawn).isfinite().all())

    def scores(self, a: Features, b: Features) -> Tensor:
        """Of every match, (N, N'); a cell's probabilities are their softmax."""
        return consensus_filter(self.block(a), self.block(b), self.consensus)

    def block(self, features: Features) -> Tensor:
        """The layer of an image, (H, W, C)."""
        return features.blocks[self.layer].to(next(self.consensus.parameters()))

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images."""
        scores = self.scores(a, b)
        grid_a, grid_b = (side.layer_grid(self.layer) for side in (a, b))
        flow = soft_flow(scores, grid_a, grid_b, self.config.sigma, INTERPOLATED)
        return Matches(flow, scores=Probabilities(scores.softmax(1), grid_b))

    def losses(self, batch: Batch, objective: Any) -> dict[str, Tensor]:
        """The mean matching score of negative pairs less that of positive ones."""
        clarity = torch.stack([matching_score(self.scores(pair.source, pair.target)) for pair in batch.pairs])
        return weak_loss(clarity, batch)


def weak_loss(clarity: Tensor, batch: Batch, name: str = "match") -> dict[str, Tensor]:
    """From the matching scores of this process's pairs, positive ones first; and both means, to be shown."""
    # Processes are averaged, and may have different numbers of pairs.
    positive, negative = (half.sum() * (2 * batch.world_size / batch.total) for half in clarity.chunk(2))
    shown = {"_positive": positive.detach(), "_negative": negative.detach()}
    return {name: negative - positive, **shown}
