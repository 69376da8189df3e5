"""SCNet (Han et al. 2017): learned descriptors of regions, and a score that knows geometry.

A region is a box of a regular grid of several sizes, so that the same image always has the same ones (the
paper takes object proposals). Its descriptor is the embedding of a late layer, pooled in 3 x 3 bins.

    appearance   exp((cosine - 1) / temperature)
    score        appearance times the votes of all matches for its offset, by their appearance

N, M boxes of source and target  K keypoints  Z sizes of boxes  h, w the layer's grid  C channels, C' embedded
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..backbones.base import Backbone, Features, Regions
from ..errors import InputError
from ..grid import Size
from ..model.proposals import grid_boxes, hough_votes, offsets, pool_boxes, region_flow
from ..model.transform import Temperature
from .base import Batch, Matches, Method, NoSettings, check_layer
from .initial_weights import unit_projection

SIDES = (0.15, 0.25, 0.4)  # of the boxes, as fractions of the image's
STEP = 0.25  # between two boxes, as a fraction of theirs
BINS = 3  # a side of a box
TEMPERATURE = 0.1  # of cosines, before it is learned
LEAST_VOTE = 1e-4  # of the highest: what no match votes for is not ruled out


@dataclass(frozen=True)
class SCNetConfig:
    """What a descriptor is made of."""

    layer: int = 12  # of the backbone; -1 is the last
    channels: int = 64  # of the embedding

    def __post_init__(self) -> None:
        if not 1 <= self.channels <= 4096:
            raise InputError(f"channels = {self.channels}; wanted from 1 to 4096")


class SCNet(Method):
    """Regions by their embedding and by what the others agree on."""

    name = "scnet"
    Config = SCNetConfig
    keeps_scores = False
    inits = ("principal",)
    config: SCNetConfig

    def __init__(self, backbone: Backbone, config: SCNetConfig | None = None) -> None:
        super().__init__(backbone, config)
        self.layer = check_layer(backbone, self.config.layer)
        self.embedding = nn.Linear(backbone.channels[self.layer], self.config.channels)
        self.temperature = Temperature(TEMPERATURE)

    @property
    def layers(self) -> Sequence[int]:
        """The one."""
        return (self.layer,)

    @torch.no_grad()
    def prepare(
        self, samples: Sequence[Features], generator: torch.Generator, init: str = "principal"
    ) -> None:
        """Begin with the principal directions of the layer's features."""
        cells = torch.cat([one.blocks[self.layer].flatten(0, 1) for one in samples])
        cells = cells.to(self.embedding.weight)
        mean = cells.mean(0)
        first = unit_projection(cells - mean, self.config.channels)
        self.embedding.weight.zero_()[: len(first)] = first
        self.embedding.bias.copy_(-self.embedding.weight @ mean)

    @torch.no_grad()
    def is_finite(self) -> bool:
        """Of the embedding, for features that are larger than those of any image."""
        weight = self.embedding.weight
        cells = 1e3 * torch.randn(8, weight.shape[1], generator=torch.Generator().manual_seed(0))
        found = self.embedding(cells.to(weight)).square().sum(), 1 / self.temperature()
        return all(bool(value.isfinite()) for value in found)

    @torch.no_grad()
    def features(self, image: Tensor) -> Features:
        """The layer's features, and the regions made of them."""
        found = super().features(image)
        return replace(found, regions=self.regions(found))

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images."""
        one, other = (side.regions or self.regions(side) for side in (a, b))
        scores = self.similar(one.descriptors, other.descriptors) + self.prior(one, other, _size(a))
        return Matches(region_flow(scores.exp(), one.boxes, other.boxes, a.grid))

    def regions(self, features: Features) -> Regions:
        """The boxes of an image with their descriptors."""
        block = self.embedding(features.blocks[self.layer].to(self.embedding.weight))  # (h, w, C')
        boxes = grid_boxes(_size(features), SIDES, STEP).to(block)
        pooled = pool_boxes(block, features.grid.with_shape(*block.shape[:2]), boxes, BINS)
        return Regions(boxes, F.normalize(pooled.flatten(1), dim=1))

    def similar(self, a: Tensor, b: Tensor) -> Tensor:
        """Logarithms of the appearance of all matches of descriptors (N, D) and (M, D): (N, M)."""
        similar: Tensor = (a @ b.T - 1) / self.temperature()
        return similar

    @torch.no_grad()
    def prior(self, a: Regions, b: Regions, size: Size) -> Tensor:
        """Logarithms of the votes for all matches, (N, M), at most 0; losses take them as given."""
        votes = hough_votes(self.similar(a.descriptors, b.descriptors).exp(), offsets(a.boxes, b.boxes, size))
        return (votes / votes.max()).clamp_min(LEAST_VOTE).log()

    def losses(self, batch: Batch, objective: NoSettings) -> dict[str, Tensor]:
        """Cross-entropy: a box around a keypoint belongs to the box of its size around the true place."""
        terms = []
        for source, target, points, truth in batch.pairs:
            a, b = self.regions(source), self.regions(target)
            chosen = around(points, a.boxes).flatten()
            scores = (
                self.similar(a.descriptors[chosen], b.descriptors) + self.prior(a, b, _size(source))[chosen]
            )
            terms.append(F.cross_entropy(scores, around(truth, b.boxes).flatten()))
        # Processes are averaged, and may have different numbers of pairs.
        return {"match": torch.stack(terms).sum() * (batch.world_size / batch.total)}


def around(points: Tensor, boxes: Tensor) -> Tensor:
    """Of each size, the number of the box whose centre is nearest to each point: (K, 2), (N, 4) -> (K, Z)."""
    distance = torch.cdist(points.to(boxes), (boxes[:, :2] + boxes[:, 2:]) / 2)  # (K, N)
    width = (boxes[:, 2] - boxes[:, 0]).round(decimals=2)  # the same for all of a size, but for rounding
    sizes = sorted({*width.tolist()})
    found = [distance.masked_fill(width != one, torch.inf).argmin(1) for one in sizes]
    return torch.stack(found, 1)


def _size(features: Features) -> Size:
    """Width and height of the network's input, but for what lies beyond the last cells."""
    grid = features.grid
    return round(grid.columns * grid.stride), round(grid.rows * grid.stride)
