"""Which pairs share an image with what a model was trained on."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files import read_text
from .predictions import Predictions

SPAIR_LINE = re.compile(r"\d+-([^:]+)-([^:]+):\w+")  # 000004-2008_000585-2008_004138:aeroplane


def leak_free_pairs(predictions: Predictions, training_images: Collection[str]) -> NDArray[np.bool_]:
    """(P,) true where neither image of the pair is among the training images.

    Lists name the same photo with more or fewer folders and with or without an ending. Two names mean
    the same photo if one's parts are the last parts of the other: ``a/b.jpg`` is ``b``, not ``c/b.jpg``.
    """
    whole = {_parts(name) for name in training_images}
    endings = {ending for parts in whole for ending in _endings(parts)}

    def seen(name: str) -> bool:
        parts = _parts(name)
        return parts in endings or any(ending in whole for ending in _endings(parts))

    known = {name for name in {*predictions.source_images, *predictions.target_images} if seen(name)}
    pairs = zip(predictions.source_images, predictions.target_images, strict=True)
    return np.array([known.isdisjoint(pair) for pair in pairs], dtype=np.bool_)


def read_training_list(path: str | Path) -> tuple[str, ...]:
    """Image names from a file: one a line, or the first two columns of a CSV of pairs, or SPair's layout."""
    text = read_text(Path(path), "list of training images")
    try:
        rows = list(csv.reader(text.splitlines()))
    except csv.Error as error:
        raise InputError(f"{path}: cannot be read as a list of training images ({error})") from None
    names = {name for row in rows[_header(rows) :] for name in _names(row)}
    if not names:
        raise InputError(f"{path}: names no image; wanted: one name a line, or a CSV of pairs")
    return tuple(sorted(names))


def _header(rows: list[list[str]]) -> int:
    """A CSV of pairs begins with a line of column names; they have no ending like ``.jpg``."""
    return int(bool(rows) and len(rows[0]) > 1 and not PurePosixPath(rows[0][0]).suffix)


def _names(row: list[str]) -> Iterable[str]:
    cells = [cell.strip() for cell in row[:2] if cell.strip()]
    spair = SPAIR_LINE.fullmatch(cells[0]) if len(cells) == 1 else None
    return spair.groups() if spair else cells


def _parts(name: str) -> tuple[str, ...]:
    path = PurePosixPath(name.replace("\\", "/"))
    return (*path.parts[:-1], path.stem) if path.parts else ()


def _endings(parts: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [parts[start:] for start in range(len(parts))]
