"""Points of the source image, x then y, in pixels: given as an array, or as a JSON or CSV file."""

from __future__ import annotations

import csv
import math
import re
import reprlib
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError
from .files import read_json, read_text

Points: TypeAlias = NDArray[np.float64]  # (K, 2), x then y
INLINE = re.compile(r"\s*[\d.+-][\d.eE+-]*,[\d.eE+-]+([;\s]+[\d.eE+-]+,[\d.eE+-]+)*\s*")  # 76,136 90,140


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


class NamedPoints(NamedTuple):
    """Points as a person gave them, and their names, if they have any."""

    points: list[list[float]]  # [x, y] each
    names: tuple[str, ...] | None = None


def read_points(path: Path, key: str = "source_points") -> list[list[float]]:
    """The points of a file, without names; see :func:`read_named_points`."""
    return read_named_points(path, key).points


def read_named_points(path: Path, key: str = "source_points") -> NamedPoints:
    """Read points from a file.

    Parameters
    ----------
    path
        ``.json``: a list of [x, y] or of {"name": "nose", "x": 76, "y": 136}; an object of such points by
        name; or an object with any of these under "points" or ``key`` and perhaps "names" beside it (so what
        ``dhpf match --json`` writes can be read again). ``.csv``: columns x and y, with or without a header;
        with one, also a column name.
    key
        "target_points" for locations in the target image.
    """
    rows, names = _from_csv(path) if path.suffix.lower() == ".csv" else _from_json(path, key)
    if not rows:
        raise InputError(f"{path} holds no points; wanted at least one [x, y]")
    points = [_point(row, f"{path}: point {index}") for index, row in enumerate(rows, start=1)]
    if names is None:
        return NamedPoints(points)
    if not isinstance(names, list) or len(names) != len(points) or not all(map(_is_name, names)):
        raise InputError(f"{path}: wanted a name of one line for each of its {len(points)} points")
    return NamedPoints(points, tuple(names))


def parse_points(text: str) -> NamedPoints | None:
    """Points as they are typed, '76,136' or '76,136 90,140'; None for what looks like a file's name."""
    if not INLINE.fullmatch(text):
        return None
    pairs = [pair.split(",") for pair in text.replace(";", " ").split()]
    return NamedPoints([_point(pair, f"'{text[:40]}': point {n}") for n, pair in enumerate(pairs, start=1)])


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


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value.isprintable() and value.strip() != ""


def _is_pair(value: object) -> bool:
    """Two of something, but no lists: perhaps a point."""
    return isinstance(value, list) and len(value) == 2 and not any(isinstance(one, list) for one in value)


def _from_json(path: Path, key: str) -> tuple[list[Any], Any]:
    """Rows and names."""
    content = read_json(path, "points file")
    names = None
    if isinstance(content, dict) and ("points" in content or key in content):
        names = content.get("names")
        content = content.get("points", content.get(key))
    elif isinstance(content, dict) and not all(map(_is_pair, content.values())):
        content = None  # no points by name
    if isinstance(content, dict):
        return list(content.values()), list(content)
    if not isinstance(content, list):
        raise InputError(f"{path}: wanted a list of [x, y], or an object with one under 'points'")
    if content and all(isinstance(one, dict) and {"name", "x", "y"} <= one.keys() for one in content):
        return [[one["x"], one["y"]] for one in content], [one["name"] for one in content]
    return content, names


def _from_csv(path: Path) -> tuple[list[Any], Any]:
    """Rows and names."""
    lines = read_text(path, "points file").splitlines()
    try:
        rows = [[cell.strip() for cell in row] for row in csv.reader(lines) if any(map(str.strip, row))]
    except csv.Error as error:
        raise InputError(f"{path} is not valid CSV ({error}); wanted two columns, x and y") from None
    header = [cell.lower() for cell in rows[0]] if rows else []
    if not {"x", "y"} <= set(header):
        return rows, None
    columns = [header.index(title) for title in ("x", "y")]
    short = next((row for row in rows[1:] if len(row) != len(header)), None)
    if short is not None:
        raise InputError(f"{path}: a row has {len(short)} cells; its header has {len(header)}")
    names = [row[header.index("name")] for row in rows[1:]] if "name" in header else None
    return [[row[column] for column in columns] for row in rows[1:]], names
