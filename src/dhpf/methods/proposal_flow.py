"""Proposal flow (Ham et al. 2016): object proposals, HOG, local offset matching. Nothing is learned.

H, W the image  N boxes  O orientations
"""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbones.base import Features, Regions
from ..grid import Grid
from ..model.proposals import appearance, local_offset_matching, pool_boxes, region_flow, to_boxes
from ..model.selective_search import propose_boxes
from .base import Matches, Method

ORIENTATIONS = 9  # of edges, in half a circle
BINS = 8  # a box has 8 x 8 of them, whatever its size
CLIPPED = 0.2  # no orientation of a bin counts for more


class ProposalFlow(Method):
    """Boxes by selective search, matched by their edges."""

    name = "proposal_flow"
    keeps_scores = False

    @torch.no_grad()
    def features(self, image: Tensor) -> Features:
        """The image, its proposals and their descriptors."""
        found = super().features(image)
        return replace(found, regions=self._regions(found))

    @torch.no_grad()
    def match(self, a: Features, b: Features, *, matrix_bytes: int | None = None) -> Matches:
        """Match two images."""
        height, width = a.blocks[0].shape[:2]
        one, other = (side.regions or self._regions(side) for side in (a, b))
        scores = local_offset_matching(appearance(one, other), one.boxes, other.boxes, (width, height))
        return Matches(region_flow(scores, one.boxes, other.boxes, a.grid))

    def _regions(self, features: Features) -> Regions:
        image = features.blocks[0].float()
        boxes = to_boxes(propose_boxes(image.double().cpu().numpy()), image)
        return Regions(boxes, hog(image, boxes))


def hog(image: Tensor, boxes: Tensor) -> Tensor:
    """Histograms of oriented gradients of boxes, less their mean: (H, W, 3), (N, 4) -> (N, BINS^2 O)."""
    pooled = pool_boxes(
        orientations(image), Grid(image.shape[0], image.shape[1], 1.0), boxes, BINS
    )  # (N, 8, 8, O)
    energy = pooled.square().sum(3)[:, None]
    around = F.avg_pool2d(energy, 3, 1, 1, count_include_pad=False)[:, 0].sqrt()
    histograms = (pooled / (around[..., None] + 1e-3)).clamp_max(CLIPPED).flatten(1)
    return F.normalize(histograms - histograms.mean(0), dim=1)


def orientations(image: Tensor) -> Tensor:
    """How strong the edges of each orientation are at each pixel: (H, W, 3) -> (H, W, O).

    Of the channel with the strongest edge; shared between the two nearest orientations.
    """
    padded = F.pad(image.permute(2, 0, 1), (1, 1, 1, 1), mode="replicate")
    x, y = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2], padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    strength, channel = torch.hypot(x, y).max(0, keepdim=True)
    angle = torch.atan2(y, x).gather(0, channel)[0] % torch.pi  # a dark and a light side are the same
    place = angle / torch.pi * ORIENTATIONS
    low = place.floor()
    both = torch.stack([low, low + 1], 2).long() % ORIENTATIONS
    shares = torch.stack([low + 1 - place, place - low], 2) * strength[0, ..., None]
    return image.new_zeros(*image.shape[:2], ORIENTATIONS).scatter_add(2, both, shares)
