"""Regions in place of cells: what boxes hold, how boxes match, and the flow that their matches make.

A match of two boxes has an offset, of their centres and of their sizes (in octaves). Right matches agree on
it.

N, M boxes of source and target  K cells of the source grid  S bins a side  C channels  h, w one block's grid
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from ..backbones.base import Regions
from ..grid import Grid, Size
from .readout import INTERPOLATED, Flow

BINS = 16  # of the Hough space, for a shift by the image's longer side
OCTAVE = 2  # bins of the Hough space, for twice the size
OCTAVES = 3  # larger or smaller: beyond, offsets count as that
KERNEL = (0.25, 0.5, 0.25)  # votes also count for the next bins
MEDIAN_STEPS = 5
SPREAD = 1.0  # bins: how far a match may be from what its neighbours agree on
FADING = 4.0  # pixels outside a box within which it still moves points
FIRST = 32  # matches that move a cell together, the strongest ones


def grid_boxes(size: Size, sides: Sequence[float], step: float) -> Tensor:
    """Boxes (N, 4) on regular grids over an image, also across its edges: left, top, right, bottom.

    Parameters
    ----------
    sides
        Of the boxes, as fractions of the image's.
    step
        Between two boxes, as a fraction of theirs.
    """
    found = []
    for side in sides:
        count = round(1 / (side * step))
        place = (torch.arange(count) + 0.5) / count
        y, x = (axis.flatten() for axis in torch.meshgrid(place, place, indexing="ij"))
        found.append(torch.stack([x - side / 2, y - side / 2, x + side / 2, y + side / 2], 1))
    width, height = size
    return torch.cat(found) * torch.tensor([width, height, width, height]) - 0.5


def pool_boxes(block: Tensor, grid: Grid, boxes: Tensor, side: int) -> Tensor:
    """Means over side x side bins of each box: (h, w, C), (N, 4) -> (N, S, S, C). Differentiable.

    A cell is a square of one value, beyond the edge it is 0; means are exact, by a summed-area table.
    """
    rows, columns, channels = block.shape
    table = F.pad(block.double().cumsum(0).cumsum(1), (0, 0, 1, 0, 1, 0)).flatten(0, 1)
    fraction = torch.linspace(0, 1, side + 1, dtype=torch.float64, device=boxes.device)[:, None]
    corner, extent = boxes[:, None, :2].double(), (boxes[:, None, 2:] - boxes[:, None, :2]).double()
    x, y = (grid.coordinates(corner + fraction * extent) + 0.5).unbind(2)  # (N, S + 1), cells from the edge
    (left, t_x), (top, t_y) = _below(x, columns), _below(y, rows)
    cells, weights = [], []
    for down, weight_y in ((0, 1 - t_y), (1, t_y)):
        for across, weight_x in ((0, 1 - t_x), (1, t_x)):
            cells.append((top + down)[:, :, None] * (columns + 1) + (left + across)[:, None])
            weights.append(weight_y[:, :, None] * weight_x[:, None])
    places, weight = torch.stack(cells, -1).view(-1, 4), torch.stack(weights, -1).view(-1, 4)
    sums = F.embedding_bag(places, table, per_sample_weights=weight, mode="sum")
    sums = sums.view(len(boxes), side + 1, side + 1, channels)
    area = (extent / (side * grid.stride)).prod(2)[:, :, None, None]
    return (sums.diff(dim=1).diff(dim=2) / area).to(block.dtype)


def _below(place: Tensor, cells: int) -> tuple[Tensor, Tensor]:
    """Whole cells before a place, and the fraction of the next."""
    inside = place.clamp(0, cells)
    whole = inside.floor().clamp_max(cells - 1)
    return whole.long(), inside - whole


def offsets(boxes_a: Tensor, boxes_b: Tensor, size: Size) -> Tensor:
    """Of all matches, (N, M, 3), in bins of the Hough space: along x, along y, of their sizes."""
    a, b = (_located(boxes, size) for boxes in (boxes_a, boxes_b))
    return b - a[:, None]


def _located(boxes: Tensor, size: Size) -> Tensor:
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2 * (BINS / max(size))
    octaves = (boxes[:, 2:] - boxes[:, :2]).prod(1).log2() / 2
    return torch.cat([centres, OCTAVE * octaves[:, None]], 1)


def hough_votes(appearance: Tensor, offset: Tensor) -> Tensor:
    """How much all matches together speak for each one's offset: (N, M), (N, M, 3) -> (N, M)."""
    limit = torch.tensor([BINS, BINS, OCTAVE * OCTAVES], device=offset.device)
    shape = (2 * limit + 1).tolist()
    x, y, octave = (offset.round().long().clamp(-limit, limit) + limit).unbind(2)
    places = ((x * shape[1] + y) * shape[2] + octave).flatten()
    table = appearance.new_zeros(shape).view(-1).index_add(0, places, appearance.flatten())
    votes = table.view(1, 1, *shape)
    for axis in range(3):
        kernel = votes.new_tensor(KERNEL).view([-1 if axis == other else 1 for other in range(-2, 3)])
        votes = F.conv3d(votes, kernel, padding=[int(axis == other) for other in range(3)])
    return votes.flatten()[places].view_as(appearance)


def local_offset_matching(appearance: Tensor, boxes_a: Tensor, boxes_b: Tensor, size: Size) -> Tensor:
    """Matches that agree with those of overlapping boxes, (N, M) -> (N, M); Ham et al. 2016.

    Each box's best match by votes has an offset. The geometric median of the offsets of the boxes that
    overlap it says what its own should be: a match counts by how near to that it is.
    """
    offset = offsets(boxes_a, boxes_b, size)
    best = (appearance * hough_votes(appearance, offset)).argmax(1)
    own = offset[torch.arange(len(best)), best]  # (N, 3)
    agreed = geometric_medians(own, overlaps(boxes_a))
    distance = (offset - agreed[:, None]).square().sum(2)
    return appearance * (distance / (-2 * SPREAD**2)).exp()


def geometric_medians(points: Tensor, weights: Tensor) -> Tensor:
    """Of points (N, D), once for each row of weights (N, N): (N, D). A few wrong points change little."""
    medians = weights @ points / weights.sum(1, keepdim=True)
    for _ in range(MEDIAN_STEPS):  # of Weiszfeld's algorithm
        near = weights / torch.cdist(medians, points).clamp_min(1e-3)
        medians = near @ points / near.sum(1, keepdim=True)
    return medians


def overlaps(boxes: Tensor) -> Tensor:
    """Intersection over union of any two boxes, (N, N)."""
    start = torch.maximum(boxes[:, None, :2], boxes[:, :2])
    stop = torch.minimum(boxes[:, None, 2:], boxes[:, 2:])
    common = (stop - start).clamp_min(0).prod(2)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    return common / (areas[:, None] + areas - common)


def region_flow(scores: Tensor, boxes_a: Tensor, boxes_b: Tensor, grid: Grid) -> Flow:
    """The flow of a source's grid by the best matches of boxes, of scores (N, M) in [0, 1].

    A box moves what is in it to the same place in its match. A cell moves by the mean of the strongest boxes
    that it is in, or that it is nearest to.
    """
    value, best = scores.max(1)
    centres = torch.from_numpy(grid.centres()).reshape(-1, 1, 2).to(boxes_a)  # (K, 1, 2)
    start, extent = boxes_a[:, :2], boxes_a[:, 2:] - boxes_a[:, :2]
    beside = (centres - start - extent / 2).abs() - extent / 2  # (K, N, 2)
    outside = beside.clamp_min(0).norm(dim=2)
    weight, chosen = (value * (-outside / FADING).exp()).topk(min(FIRST, len(value)), dim=1)  # (K, F)
    there = boxes_b[best[chosen]]
    fraction = (centres - start[chosen]) / extent[chosen]
    landed = there[..., :2] + fraction * (there[..., 2:] - there[..., :2])  # (K, F, 2)
    share = weight / weight.sum(1, keepdim=True).clamp_min(1e-30)
    moved = (share[..., None] * (landed - centres)).sum(1).double().cpu().numpy()
    confidence = (share * weight).sum(1).double().clamp(0, 1).cpu().numpy()
    return Flow(moved.reshape(*grid.shape, 2), confidence.reshape(grid.shape), grid, INTERPOLATED)


def appearance(a: Regions, b: Regions) -> Tensor:
    """ReLU(cosine)^2 of all matches of regions, (N, M)."""
    return (a.descriptors @ b.descriptors.T).relu().square()


def to_boxes(boxes: np.ndarray, like: Tensor) -> Tensor:
    """Boxes (N, 4) as a tensor of the kind and on the device of another."""
    return torch.from_numpy(boxes).to(like)
