"""Points of the source image, x then y, in pixels: given as an array, or as a JSON or CSV file."""

from __future__ import annotations

import csv
import math
import reprlib
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError
from .files import read_json, read_text

Points: TypeAlias = NDArray[np.float64]  # (K, 2), x then y


def as_points(points: ArrayLike, name: str = "point") -> Points:
    """Points (K, 2) as an array, or an error: malformed or not finite. It calls one of them ``name``."""
    try:
        array = np.asarray(points, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name}s must be numbers: a list of [x, y] pairs") from None
    if array.size == 0:
        return array.reshape(0, 2)
    if array.ndim != 2 or array.shape[1] != 2:
        raise InputError(f"{name}s have shape {array.shape}; wanted (K, 2): a list of [x, y] pairs")
    if not np.isfinite(array).all():
        row = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
        raise InputError(
            f"{name} {row + 1} is ({array[row, 0]}, {array[row, 1]}); coordinates must be finite"
        )
    return array


def check_points(points: ArrayLike, size: tuple[int, int]) -> Points:
    """Points as by :func:`as_points`, or an error also if one lies outside a source image of that size.

    An image covers x from -0.5 to width - 0.5; tools that count corners put the last one at the width.
    """
    array = as_points(points)
    outside = ((array < -0.5) | (array > np.array(size))).any(axis=1)
    if outside.any():
        row = int(np.flatnonzero(outside)[0])
        where = f"({array[row, 0]:g}, {array[row, 1]:g})"
        photo = f"the source photo of {size[0]} x {size[1]} pixels"
        raise InputError(f"point {row + 1} at {where} lies outside {photo}")
    return array


def read_points(path: Path, key: str = "source_points") -> list[list[float]]:
    """Read points from a file.

    Parameters
    ----------
    path
        ``.json``: a list of [x, y], or an object with such a list under "points" or ``key`` (so what
        ``dhpf match --json`` writes can be read again). ``.csv``: two columns x, y, with or without a header.
    key
        "target_points" for locations in the target image.
    """
    rows = _from_csv(path) if path.suffix.lower() == ".csv" else _from_json(path, key)
    if not rows:
        raise InputError(f"{path} holds no points; wanted at least one [x, y]")
    return [_point(row, f"{path}: point {index}") for index, row in enumerate(rows, start=1)]


def _point(row: Any, name: str) -> list[float]:
    """Two finite numbers; a row of CSV has them as text."""
    try:
        if isinstance(row, list) and len(row) == 2 and not any(isinstance(value, bool) for value in row):
            point = [float(value) for value in row]
            if all(math.isfinite(value) for value in point):
                return point
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{name} is {reprlib.repr(row)}; wanted two finite numbers, x and y")


def _from_json(path: Path, key: str) -> list[Any]:
    content = read_json(path, "points file")
    if isinstance(content, dict):
        content = content.get("points", content.get(key))
    if not isinstance(content, list):
        raise InputError(f"{path}: wanted a list of [x, y], or an object with one under 'points'")
    return content


def _from_csv(path: Path) -> list[Any]:
    lines = read_text(path, "points file").splitlines()
    try:
        rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise InputError(f"{path} is not valid CSV ({error}); wanted two columns, x and y") from None
    return rows[1:] if rows and [cell.strip().lower() for cell in rows[0]] == ["x", "y"] else rows
