"""Points files: JSON or CSV, x then y, in pixels of the source photo."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

from .errors import InputError


def read_points(path: Path) -> list[list[float]]:
    """Read points from a file.

    Parameters
    ----------
    path
        ``.json``: a list of [x, y], or an object with such a list under "points" or "source_points" (so what
        ``dhpf match --json`` writes can be read again). ``.csv``: two columns x, y, with or without a header.
    """
    if not path.is_file():
        raise InputError(f"no such points file: {path}")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError):
        raise InputError(f"{path} cannot be read as text; wanted JSON or CSV") from None
    rows = _from_csv(text, path) if path.suffix.lower() == ".csv" else _from_json(text, path)
    points = []
    for index, row in enumerate(rows, start=1):
        try:
            x, y = (float(value) for value in row)
        except (TypeError, ValueError):
            raise InputError(f"{path}: point {index} is {row!r}; wanted two numbers, x and y") from None
        points.append([x, y])
    if not points:
        raise InputError(f"{path} holds no points; wanted at least one [x, y]")
    return points


def _from_json(text: str, path: Path) -> list[Any]:
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not valid JSON (line {error.lineno}: {error.msg})") from None
    if isinstance(content, dict):
        content = content.get("points", content.get("source_points"))
    if not isinstance(content, list):
        raise InputError(f"{path}: wanted a list of [x, y], or an object with one under 'points'")
    return content


def _from_csv(text: str, path: Path) -> list[Any]:
    rows = [row for row in csv.reader(text.splitlines()) if any(cell.strip() for cell in row)]
    if rows and [cell.strip().lower() for cell in rows[0]] == ["x", "y"]:
        rows = rows[1:]
    return rows
