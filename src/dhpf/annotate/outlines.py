"""Masks as run lengths, as COCO stores them -> the outlines of their parts, as polygons.

H, W pixels of the image  P corners of a polygon
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..images import MOST_PIXELS
from .annotations import Floats

SMALLEST = 4  # pixels of area; less is noise of the mask


def decode_runs(counts: object, size: object) -> NDArray[np.bool_]:
    """A mask (H, W) from COCO's run lengths, column by column: a list, or the text that packs it."""
    if not (isinstance(size, list) and len(size) == 2 and all(type(side) is int for side in size)):
        raise InputError("the mask's size is not [height, width]")
    height, width = size
    if not (height > 0 and width > 0 and height * width <= MOST_PIXELS):
        raise InputError(f"a mask of {width} x {height} pixels; at most {MOST_PIXELS:,} are wanted")
    runs = _unpack(counts) if isinstance(counts, str) else counts
    if not isinstance(runs, list) or not all(type(run) is int and run >= 0 for run in runs):
        raise InputError("the mask's counts are not run lengths")
    if sum(runs) != height * width:
        raise InputError("the mask's run lengths do not add up to its size")
    flat = np.repeat(np.arange(len(runs)) % 2 == 1, runs)
    return flat.reshape(width, height).T


def _unpack(text: str) -> list[int]:
    """Five bits a character, lowest first, from "0"; each number from the third on is a difference to the
    one before the last."""
    runs: list[int] = []
    value = shift = 0
    for character in text:
        bits = ord(character) - 48
        if not 0 <= bits < 64:
            raise InputError("the mask's counts are not run lengths")
        value |= (bits & 31) << shift
        shift += 5
        if shift > 60:
            raise InputError("the mask's counts are not run lengths")
        if not bits & 32:
            if bits & 16:
                value -= 1 << shift
            runs.append(value + (runs[-2] if len(runs) > 2 else 0))
            value = shift = 0
    return runs


def outlines(mask: NDArray[np.bool_]) -> tuple[tuple[Floats, ...], int]:
    """The outlines of a mask's parts, (P, 2) each, along the edges of pixels; and how many holes it has."""
    found = [loop for loop in _loops(mask) if abs(_area(loop)) >= SMALLEST]
    parts = tuple(loop - 0.5 for loop in found if _area(loop) > 0)
    return parts, len(found) - len(parts)


def _loops(mask: NDArray[np.bool_]) -> Iterator[Floats]:
    """Closed ways along the pixels' edges, the object on the right hand; only corners where they turn."""
    padded = np.pad(mask, 1).astype(np.int8)
    across, down = np.diff(padded, axis=0)[:, 1:-1], np.diff(padded, axis=1)[1:-1]
    leaving: dict[tuple[int, int], list[tuple[int, int]]] = {}  # corner -> directions of edges
    edges = (
        (across == 1, 0, 0, 1, 0),
        (across == -1, 1, 0, -1, 0),
        (down == 1, 0, 1, 0, -1),
        (down == -1, 0, 0, 0, 1),
    )
    for where, right, below, dx, dy in edges:
        for y, x in np.argwhere(where).tolist():
            leaving.setdefault((x + right, y + below), []).append((dx, dy))
    while leaving:
        start = x, y = next(iter(leaving))
        corners, before = [], (0, 0)
        while True:
            ways = leaving[x, y]
            # Where two parts touch at a corner, turn right: they stay apart.
            way = min(ways, key=lambda w: -(before[0] * w[1] - before[1] * w[0]))
            ways.remove(way)
            if not ways:
                del leaving[x, y]
            if way != before:
                corners.append((x, y))
            before, x, y = way, x + way[0], y + way[1]
            if (x, y) == start:
                break
        yield np.array(corners, np.float64)


def _area(loop: Floats) -> float:
    """Positive where the object is inside."""
    x, y = loop.T
    return float(x @ np.roll(y, -1) - y @ np.roll(x, -1)) / 2
