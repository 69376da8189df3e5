"""Which points to show when nobody said: confident, and spread over the photo."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..grid import resize_points

if TYPE_CHECKING:
    from ..match import Match
    from ..points import Points


def spread_points(match: Match, count: int) -> Points:
    """Cells in order of confidence, each at least a fair distance from those before it.

    The distance is what a square lattice of ``count`` points over half the photo would have; it shrinks
    until enough points are found.
    """
    grid, confidence = match.cells.grid, match.cells.confidence
    cells = np.stack(np.unravel_index(np.argsort(-confidence, axis=None, kind="stable"), confidence.shape), 1)
    cells = cells[: max(count, len(cells) // 3)]
    distance = np.sqrt(grid.cells / (2 * count))
    chosen: list[int] = []
    while len(chosen) < min(count, len(cells)):
        chosen = _far_apart(cells, count, distance)
        distance *= 0.8
    centres = grid.centres()[tuple(cells[chosen].T)]
    return resize_points(centres, match.size, match.source.size).clip(0, np.array(match.source.size) - 1)


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
