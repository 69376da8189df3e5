"""Annotation files (CSV, MATLAB, JSON) -> values, with one-line errors that name the file.

They are files of strangers: only regular files of a bounded size are read, and names in them stay below the
data set's folder.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files import read_bytes, read_json, read_text

SEPARATOR = ";"  # between numbers in one cell, as we write them; official lists have , as well
MOST_BYTES = 200_000_000  # of a list
MOST_BYTES_MATRIX = 100_000  # of a MATLAB file, which is compressed: it may grow a thousandfold
MOST_BYTES_JSON = 2_000_000_000
SHOWN = 40  # characters of a bad cell

Record = Mapping[str, Any]  # an object of a JSON file


class Row(NamedTuple):
    """One row of a pair list."""

    file: Path
    line: int
    values: Mapping[str, str]

    @property
    def place(self) -> str:
        """For error messages."""
        return f"{self.file}, line {self.line}"

    def text(self, column: str) -> str:
        """One cell."""
        if column not in self.values:
            raise InputError(f"{self.place}: there is no column {column!r}")
        return self.values[column].strip()

    def integer(self, column: str) -> int:
        """One cell as a whole number."""
        try:
            return int(self.text(column))
        except ValueError:
            raise self._wrong(column, "a whole number") from None

    def number(self, column: str) -> float:
        """One cell as a number."""
        try:
            return float(self.text(column))
        except ValueError:
            raise self._wrong(column, "a number") from None

    def numbers(self, column: str) -> NDArray[np.float64]:
        """One cell that holds numbers between ; or , signs; an empty cell holds none."""
        text = self.text(column)
        try:
            return np.array([float(part) for part in re.split("[;,]", text)] if text else [], np.float64)
        except ValueError:
            raise self._wrong(column, "numbers between ';' or ','") from None

    def points(self, x_column: str, y_column: str) -> NDArray[np.float64]:
        """Two cells of coordinates as (K, 2)."""
        x, y = self.numbers(x_column), self.numbers(y_column)
        if len(x) != len(y):
            raise InputError(
                f"{self.place}: {len(x)} values in {x_column}, but {len(y)} in {y_column}; as many are wanted"
            )
        return np.stack([x, y], axis=1)

    def box(self, column: str) -> NDArray[np.float64]:
        """One cell with a box: x1, y1, x2, y2."""
        return as_box(self.numbers(column), self.place, column)

    def path(self, column: str, parts: int) -> Path:
        """One cell's last parts as a path; published lists differ in the folders that they write before."""
        last = PureWindowsPath(self.text(column)).parts[-parts:]
        if len(last) < parts:
            raise self._wrong(column, "folder/image")
        return inner_path("/".join(last), f"{self.place}: {column}")

    def _wrong(self, column: str, wanted: str) -> InputError:
        text = self.text(column)
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."
        return InputError(f"{self.place}: {column} is {shown!r}, but {wanted} is wanted")


def read_rows(path: Path, columns: tuple[str, ...] | None = None) -> list[Row]:
    """Read a pair list: a CSV file with a header line.

    Parameters
    ----------
    columns
        Names by position, for lists whose header varies; by default the file's own.
    """
    text = read_text(path, "pair list", MOST_BYTES)
    rows = []
    try:
        reader = csv.reader(io.StringIO(text, newline=""))
        header = [name.strip() for name in next(reader, [])]
        names = list(columns) if columns is not None else header
        for cells in reader:
            if cells and len(cells) != len(names):
                raise InputError(
                    f"{path}, line {reader.line_num}: {len(cells)} columns, but {len(names)} are wanted"
                )
            if cells:
                rows.append(Row(path, reader.line_num, dict(zip(names, cells, strict=True))))
    except csv.Error as error:
        raise InputError(f"{path} is not a pair list that can be read ({error})") from None
    if not rows:
        raise InputError(f"{path}: the split is empty, the list holds no pair")
    return rows


def read_matrix(path: Path, name: str) -> NDArray[np.float64]:
    """One matrix of a MATLAB file."""
    from scipy.io import loadmat

    read_bytes(path, "file of annotations", MOST_BYTES_MATRIX)  # raises if it is no such file
    try:
        return np.asarray(loadmat(path, variable_names=[name])[name], np.float64)
    except KeyError:
        raise InputError(f"{path}: the annotation has no matrix {name!r}") from None
    except Exception as error:  # a damaged file makes loadmat raise almost anything
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{path} is not an annotation that can be read ({reason[:200]})") from None


def read_object(path: Path) -> dict[str, Any]:
    """A JSON file that holds one object."""
    content = read_json(path, "file of annotations", MOST_BYTES_JSON)
    if not isinstance(content, dict):
        raise InputError(f"{path} is not an annotation: one JSON object is wanted")
    return content


def records(values: object, place: str) -> Iterator[tuple[str, Record]]:
    """The objects of a JSON list, each with what to call it in errors."""
    if not isinstance(values, list):
        raise InputError(f"{place} is not a list")
    for number, record in enumerate(values):
        if not isinstance(record, dict):
            raise InputError(f"{place}[{number}] is not an object with named fields")
        yield f"{place}[{number}]", record


def inner_path(name: str, place: str) -> Path:
    """A name in a file of strangers as a relative path that stays below the folder it is taken from."""
    parts = PureWindowsPath(name).parts
    if points_out(name) or not parts or not name.isprintable():
        raise InputError(f"{place} is {name[:SHOWN]!r}, but a path inside the data set's folder is wanted")
    return Path(*parts)


def points_out(name: str) -> bool:
    """Does a relative path leave its folder, on any system?"""
    windows = PureWindowsPath(name)  # its rules include those of other systems
    return bool(windows.drive or windows.root or ".." in windows.parts)


def as_points(values: object, place: str | Path, what: str) -> NDArray[np.float64]:
    """Coordinates as a (K, 2) array."""
    points = as_numbers(values, place, what)
    if points.size == 0:
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"{place}: {what} has shape {points.shape}, but (K, 2) is wanted")
    return points


def as_box(values: object, place: str | Path, what: str) -> NDArray[np.float64]:
    """Four numbers."""
    box = numbers(values, place, what)
    if box.shape != (4,):
        raise InputError(f"{place}: {what} holds {box.size} numbers, but a box has 4")
    return box


def box_of_corner(values: object, place: str) -> NDArray[np.float64] | None:
    """Left, top, width, height from the image's corner -> x1, y1, x2, y2 from the first pixel's centre.

    None for what is empty: so write tools that know no box.
    """
    if not values:
        return None
    box = as_box(values, place, "box")
    return np.concatenate([box[:2], box[:2] + box[2:]]) - 0.5 if (box[2:] > 0).all() else None


def numbers(values: object, place: str | Path, what: str) -> NDArray[np.float64]:
    """A flat array; null becomes NaN."""
    return as_numbers(values, place, what).reshape(-1)


def as_numbers(values: object, place: str | Path, what: str) -> NDArray[np.float64]:
    """An array of any shape; null becomes NaN."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{place}: {what} is not made of numbers") from None
