"""Which points to show when nobody said: confident, and spread over the photo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..model.backbone import BASE_STRIDE

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points


def spread_points(match: Match, count: int) -> Points:
    """Cells in order of confidence, each at least a fair distance from those before it.

    The distance is what a square lattice of ``count`` points over half the photo would have; it shrinks
    until enough points are found.
    """
    (rows, columns), _ = match.grids
    confidence = match.cell_confidence.reshape(rows, columns)
    cells = np.stack(np.unravel_index(np.argsort(-confidence, axis=None, kind="stable"), confidence.shape), 1)
    cells = cells[: max(count, len(cells) // 3)]
    distance = np.sqrt(rows * columns / (2 * count))
    chosen: list[int] = []
    while len(chosen) < min(count, len(cells)):
        chosen = _far_apart(cells, count, distance)
        distance *= 0.8
    x = cells[chosen, 1] * BASE_STRIDE * match.source.width / match.size[0]
    y = cells[chosen, 0] * BASE_STRIDE * match.source.height / match.size[1]
    return np.stack([x, y], axis=1).astype(np.float64)


def _far_apart(cells: np.ndarray, count: int, distance: float) -> list[int]:
    """Indices of the first ``count`` cells that keep the distance to all chosen before."""
    chosen: list[int] = []
    free = np.ones(len(cells), bool)
    while free.any() and len(chosen) < count:
        index = int(np.argmax(free))
        chosen.append(index)
        free &= np.square(cells - cells[index]).sum(1) >= distance**2
        free[index] = False
    return chosen
