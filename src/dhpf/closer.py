"""Beyond the paper: a closer look at what both photos show.

A thing that is large in one photo and small in the other looks different to a network. Once two photos are
matched, it is known which part of each shows what the other shows too. These parts are cut out, enlarged to
the network's input, in which the thing is now about equally large, and matched once more. A cell moves by the
mean of both.

h, w source grid  N = h*w
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from .images import to_input
from .model.backbone import BASE_STRIDE, DEVIATION, MEAN
from .model.correlation import Grid
from .model.motion import Direction, shared_motion
from .model.network import HyperpixelFlow, PairMatches
from .model.transfer import Neighbourhoods, cell_offsets

LARGEST_SCALE = 2.0  # a motion that enlarges or shrinks more is not believed
SMALLEST_SHARE = 0.3  # of the target's side that both must show; with less, the whole side is kept

Floats = NDArray[np.float64]
Box = tuple[float, float, float, float]  # left, top, right, bottom, in shares of a photo


@torch.no_grad()
def look_closer(
    network: HyperpixelFlow,
    photos: Sequence[Image.Image],
    size: tuple[int, int],
    first: PairMatches,
    grids: tuple[Grid, Grid],
    matrix_bytes: int,
) -> Floats:
    """What a closer look adds to the displacements of the source cells, (h, w, 2), in pixels of the input.

    Parameters
    ----------
    photos
        Source and target.
    size
        Width and height of the network's input.
    first
        The matches of the whole photos, one pair.
    """
    best, sure = first.best[0], first.confidence[0]
    boxes = shared_parts(shared_motion(Direction(best, sure), None, *grids), *grids)
    parts, places = [], []
    for photo, box in zip(photos, boxes, strict=True):
        pixels = _whole_pixels(box, photo.size)
        parts.append(to_input(photo.crop(pixels), size, MEAN, DEVIATION).to(best.device))
        places.append(np.array(pixels).reshape(2, 2) * (np.array(size) / photo.size))  # in the whole input
    again = network.match(*network.both_features(*parts), matrix_bytes).best[0].cpu().numpy()

    (start, stop), (start_b, stop_b) = places
    rows, columns = np.indices(grids[0]) * float(BASE_STRIDE)
    whole = np.stack([columns, rows], axis=-1)
    near = (whole - start) / (stop - start) * size  # where the cells are in the enlarged part
    inside = ((near >= 0) & (near < size)).all(axis=-1, keepdims=True)
    moved = near + Neighbourhoods(cell_offsets(again, grids[0], grids[1][1])).mean(near[..., 0], near[..., 1])
    closer = start_b + moved / size * (stop_b - start_b) - whole
    return np.where(inside, closer - cell_offsets(best.cpu().numpy(), grids[0], grids[1][1]), 0.0) / 2


def shared_parts(places: Tensor, grid_a: Grid, grid_b: Grid) -> tuple[Box, Box]:
    """The parts of source and target that show the same, if a motion puts the source cells at ``places``.

    Parameters
    ----------
    places
        (N, 2) row and column of the target's grid, an affine function of the source cell; of it, only how far
        rows and columns are moved and stretched counts.
    """
    own, theirs = [], []
    for axis, (cells, cells_b) in enumerate(zip(grid_a, grid_b, strict=True)):
        line = places.view(*grid_a, 2)[..., axis].mean(1 - axis) / cells_b  # of each source row or column
        scale = float(line[-1] - line[0]) * cells / (cells - 1)
        scale = min(max(scale, 1 / LARGEST_SCALE), LARGEST_SCALE)
        shift = float(line.mean()) - scale * (cells - 1) / (2 * cells)
        low, high = max(0.0, shift), min(1.0, scale + shift)
        if high - low < SMALLEST_SHARE:
            low, high, scale, shift = 0.0, 1.0, 1.0, 0.0
        own.append(((low - shift) / scale, (high - shift) / scale))
        theirs.append((low, high))
    return _box(own), _box(theirs)


def _box(ranges: Sequence[tuple[float, float]]) -> Box:
    (top, bottom), (left, right) = ranges
    return left, top, right, bottom


def _whole_pixels(box: Box, size: tuple[int, int]) -> tuple[int, int, int, int]:
    """The pixels of a photo in a box; at least one, as a box has more than an eighth of each side."""
    left, top, right, bottom = (round(share * side) for share, side in zip(box, size * 2, strict=True))
    return left, top, right, bottom
