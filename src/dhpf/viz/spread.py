"""Which points to show when nobody said: confident, on what both images show, and spread over it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points

LATTICE = 60  # points to choose from, along the longer side of the image
FEWEST = 6  # along the shorter side
SURE = 3  # one of so many of them, the most confident, may be chosen
ON_OBJECTS = 0.7  # so likely must a point and its match lie on objects
NOT_ALIKE = 0.15  # a pair whose points are all less sure shows nothing alike


def steering_points(match: Match, count: int) -> Points:
    """What steers a warp: the same, or where too few qualify, confident points anywhere."""
    points = match.keypoints(count)
    return points if len(points) >= FEWEST else spread_points(match, count, anywhere=True)


def spread_points(match: Match, count: int, anywhere: bool = False) -> Points:
    """Pixels in order of confidence, each at least a fair distance from those before it.

    The distance is what a square lattice of ``count`` points over half of what qualifies would have; it
    shrinks until enough points are found.
    """
    size = np.array(match.source.size)
    steps = np.clip(np.rint(LATTICE * size / size.max()), FEWEST, size).astype(int)
    x, y = (((np.arange(n) + 0.5) * side / n).astype(int) for n, side in zip(steps, size, strict=True))
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2).astype(np.float64)
    on_objects, sure = match.on_objects(points), match.confidence_at(points)
    good = (on_objects >= ON_OBJECTS) | anywhere
    if match.foreground is not None and not anywhere:
        good &= sure >= NOT_ALIKE
    area = size.prod() * good.mean()
    points = points[good][np.argsort(-(sure * on_objects)[good], kind="stable")]
    points = points[: max(count, len(points) // SURE)]
    distance = np.sqrt(area / (2 * max(count, 1)))
    chosen: list[int] = []
    while len(chosen) < min(count, len(points)):
        chosen = _far_apart(points, count, distance)
        distance *= 0.8
    return points[chosen]


def _far_apart(points: NDArray[np.float64], count: int, distance: float) -> list[int]:
    """Indices of the first ``count`` points that keep the distance to all chosen before."""
    chosen: list[int] = []
    free = np.ones(len(points), bool)
    while free.any() and len(chosen) < count:
        index = int(np.argmax(free))
        chosen.append(index)
        free &= np.square(points - points[index]).sum(1) >= distance**2
        free[index] = False
    return chosen
