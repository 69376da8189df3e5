"""Annotation files (CSV, MATLAB, JSON) -> values, with one-line errors that name the file."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError


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
        return self.values[column].strip()

    def integer(self, column: str) -> int:
        """One cell as a whole number."""
        try:
            return int(self.text(column))
        except ValueError:
            raise InputError(
                f"{self.place}: {column} is {self.text(column)!r}, but a whole number is wanted"
            ) from None

    def number(self, column: str) -> float:
        """One cell as a number."""
        try:
            return float(self.text(column))
        except ValueError:
            raise InputError(
                f"{self.place}: {column} is {self.text(column)!r}, but a number is wanted"
            ) from None

    def numbers(self, column: str, separator: str) -> NDArray[np.float64]:
        """One cell that holds several numbers; an empty cell holds none."""
        text = self.text(column)
        try:
            return np.array([float(part) for part in text.split(separator)] if text else [], np.float64)
        except ValueError:
            raise InputError(
                f"{self.place}: {column} holds {text[:40]!r}, but numbers between {separator!r} are wanted"
            ) from None

    def points(self, x_column: str, y_column: str, separator: str) -> NDArray[np.float64]:
        """Two cells of coordinates as (K, 2)."""
        x, y = self.numbers(x_column, separator), self.numbers(y_column, separator)
        if len(x) != len(y):
            raise InputError(
                f"{self.place}: {len(x)} values in {x_column}, but {len(y)} in {y_column}; as many are wanted"
            )
        return np.stack([x, y], axis=1)

    def box(self, column: str, separator: str) -> NDArray[np.float64]:
        """One cell with a box: x1, y1, x2, y2."""
        box = self.numbers(column, separator)
        if len(box) != 4:
            raise InputError(f"{self.place}: {column} holds {len(box)} numbers, but a box has 4")
        return box


def read_rows(path: Path, columns: tuple[str, ...] | None = None) -> list[Row]:
    """Read a pair list: a CSV file with a header line.

    Parameters
    ----------
    columns
        Names by position, for lists whose header varies; by default the file's own.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            names = list(columns) if columns is not None else header
            rows = []
            for cells in reader:
                if not cells:
                    continue
                if len(cells) != len(names):
                    raise InputError(
                        f"{path}, line {reader.line_num}: {len(cells)} columns, but {len(names)} are wanted"
                    )
                rows.append(Row(path, reader.line_num, dict(zip(names, cells, strict=True))))
    except FileNotFoundError:
        raise InputError(f"{path}: the pair list is missing") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: not a readable pair list ({error})") from error
    if not rows:
        raise InputError(f"{path}: the split is empty, the list holds no pair")
    return rows


def read_matrix(path: Path, name: str) -> NDArray[np.float64]:
    """One matrix of a MATLAB file."""
    from scipy.io import loadmat

    if not path.exists():
        raise InputError(f"{path}: the annotation is missing")
    try:
        return np.asarray(loadmat(path)[name], np.float64)
    except KeyError:
        raise InputError(f"{path}: the annotation has no matrix {name!r}") from None
    except Exception as error:  # a damaged file makes loadmat raise almost anything
        raise InputError(f"{path}: not a readable annotation ({_first_line(error)})") from error


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file that holds one object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: the annotation is missing") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable annotation ({_first_line(error)})") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: not a readable annotation (one JSON object is wanted)")
    return content


def as_points(values: object, file: Path, what: str) -> NDArray[np.float64]:
    """Coordinates read from ``file`` as a (K, 2) array."""
    try:
        points = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{file}: {what} are not numbers") from None
    if points.size == 0:
        return np.zeros((0, 2))
    if points.ndim != 2 or points.shape[1] != 2:
        raise InputError(f"{file}: {what} have shape {points.shape}, but (K, 2) is wanted")
    return points


def as_box(values: object, file: Path, what: str) -> NDArray[np.float64]:
    """A box read from ``file``: x1, y1, x2, y2."""
    try:
        box = np.asarray(values, np.float64).reshape(-1)
    except (TypeError, ValueError):
        raise InputError(f"{file}: {what} is not made of numbers") from None
    if box.shape != (4,):
        raise InputError(f"{file}: {what} holds {box.size} numbers, but a box has 4")
    return box


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
