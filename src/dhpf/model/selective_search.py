"""Selective search: boxes around what may be an object, from a hierarchy of segments (Uijlings et al. 2013).

The image falls into segments by its edges (Felzenszwalb and Huttenlocher 2004); then, again and again, the
two neighbours that are most alike become one. The box of every segment that ever was is a proposal.

H, W the image  E edges between neighbouring pixels  S segments  N boxes
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import find_objects, gaussian_filter

from ..fast.threads import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COARSENESS = (0.1, 0.2, 0.4, 0.8, 1.6)  # of the first segments: each makes proposals of its own
SMOOTHING = 0.8  # of the image before it is segmented, in pixels
SMALLEST = 20  # pixels of a segment
COLOURS = 16  # bins of each channel's histogram
NARROWEST = 16  # pixels of a proposal's shorter side


def propose_boxes(image: Floats) -> Floats:
    """Boxes (N, 4) of an image (H, W, 3) in [0, 1]: left, top, right, bottom edges in pixels.

    The whole image is one of them. The same image always has the same ones.
    """
    height, width = image.shape[:2]
    found = [np.array([[-0.5, -0.5, width - 0.5, height - 0.5]])]
    for coarseness in COARSENESS:
        boxes = grouped(segments(image, coarseness), image)
        found.append(boxes[(boxes[:, 2:] - boxes[:, :2]).min(1) >= NARROWEST])
    return np.unique(np.concatenate(found), axis=0)


def segments(image: Floats, coarseness: float, smallest: int = SMALLEST) -> Integers:
    """The number of each pixel's segment, (H, W), from 0.

    Two segments become one if the weakest edge between them is not much stronger than the strongest one
    that either has inside: by ``coarseness`` over its number of pixels.
    """
    smooth = gaussian_filter(image, (SMOOTHING, SMOOTHING, 0))
    number = np.arange(smooth[..., 0].size).reshape(smooth.shape[:2])
    starts, ends, weights = [], [], []
    for y, x in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = slice(None, -y or None), slice(max(-x, 0), -x if x > 0 else None)
        there = slice(y, None), slice(max(x, 0), x if x < 0 else None)
        starts.append(number[here].ravel())
        ends.append(number[there].ravel())
        weights.append(np.linalg.norm(smooth[here] - smooth[there], axis=-1).ravel())
    a, b, weight = (np.concatenate(parts) for parts in (starts, ends, weights))
    order = np.argsort(weight, kind="stable")
    parent = np.arange(number.size)
    _join(a[order], b[order], weight[order], float(coarseness), smallest, parent)
    labels: Integers = np.unique(parent, return_inverse=True)[1].reshape(number.shape)
    return labels


@compiled
def _join(
    a: Integers, b: Integers, weight: Floats, coarseness: float, smallest: int, parent: Integers
) -> None:
    """Join pixels along edges, the weakest first; in the end each ``parent`` is its segment's root."""
    size = np.ones(len(parent), np.int64)
    limit = np.full(len(parent), coarseness)
    for strictly in (True, False):  # then what is too small joins the most similar neighbour
        for edge in range(len(a)):
            one, other = a[edge], b[edge]
            while parent[one] != one:
                parent[one] = parent[parent[one]]
                one = parent[one]
            while parent[other] != other:
                parent[other] = parent[parent[other]]
                other = parent[other]
            if one == other:
                continue
            if strictly:
                joins = weight[edge] <= min(limit[one], limit[other])
            else:
                joins = min(size[one], size[other]) < smallest
            if joins:
                parent[other] = one
                size[one] += size[other]
                limit[one] = weight[edge] + coarseness / size[one]
    for pixel in range(len(parent)):
        root = pixel
        while parent[root] != root:
            root = parent[root]
        parent[pixel] = root


@dataclass(frozen=True, eq=False)
class Segment:
    """What is needed of one to join it with others."""

    pixels: int
    box: Floats  # (4,)
    colours: Floats  # histograms that sum to 1
    neighbours: set[int]


def grouped(labels: Integers, image: Floats) -> Floats:
    """The boxes (2 S - 1, 4) of all segments, and of all that become one until one is left."""
    alive = dict(enumerate(_first(labels, image)))
    total = labels.size
    boxes = [segment.box for segment in alive.values()]
    queue: list[tuple[float, int, int]] = []

    def compare(one: int, other: int) -> None:
        heapq.heappush(queue, (-_similarity(alive[one], alive[other], total), one, other))

    for number, segment in alive.items():
        for other in sorted(segment.neighbours):
            if number < other:
                compare(number, other)
    while queue:
        _, one, other = heapq.heappop(queue)
        if one not in alive or other not in alive:
            continue
        a, b = alive.pop(one), alive.pop(other)
        number = len(boxes)
        alive[number] = _joined(a, b, (a.neighbours | b.neighbours) - {one, other})
        boxes.append(alive[number].box)
        for near in sorted(alive[number].neighbours):
            alive[near].neighbours.difference_update((one, other))
            alive[near].neighbours.add(number)
            compare(near, number)
    return np.stack(boxes)


def _first(labels: Integers, image: Floats) -> list[Segment]:
    count = int(labels.max()) + 1
    bins = np.minimum((image * COLOURS).astype(np.int64), COLOURS - 1) + COLOURS * np.arange(3)
    places = (labels[..., None] * 3 * COLOURS + bins).ravel()
    colours = np.bincount(places, minlength=count * 3 * COLOURS).reshape(count, -1).astype(np.float64)
    neighbours: list[set[int]] = [set() for _ in range(count)]
    for a, b in ((labels[:, :-1], labels[:, 1:]), (labels[:-1], labels[1:])):
        apart = a != b
        for one, other in np.unique(np.stack([a[apart], b[apart]], 1), axis=0).tolist():
            neighbours[one].add(other)
            neighbours[other].add(one)
    extents: Any = find_objects(labels + 1)
    return [
        Segment(
            pixels=int(histogram.sum()) // 3,
            box=np.array([x.start, y.start, x.stop, y.stop]) - 0.5,
            colours=histogram / histogram.sum(),
            neighbours=near,
        )
        for (y, x), histogram, near in zip(extents, colours, neighbours, strict=True)
    ]


def _similarity(a: Segment, b: Segment, total: int) -> float:
    """Of colours; more for small segments, and for those that fill their common box."""
    left, top, right, bottom = _around(a.box, b.box)
    common = float((right - left) * (bottom - top))
    alike = float(np.minimum(a.colours, b.colours).sum())
    return alike + (1 - (a.pixels + b.pixels) / total) + (1 - (common - a.pixels - b.pixels) / total)


def _joined(a: Segment, b: Segment, neighbours: set[int]) -> Segment:
    pixels = a.pixels + b.pixels
    colours = (a.pixels * a.colours + b.pixels * b.colours) / pixels
    return Segment(pixels, _around(a.box, b.box), colours, neighbours)


def _around(a: Floats, b: Floats) -> Floats:
    return np.concatenate([np.minimum(a[:2], b[:2]), np.maximum(a[2:], b[2:])])
