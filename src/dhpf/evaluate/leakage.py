"""Which pairs share an image with what a model was trained on."""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterable
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .predictions import Predictions

MOST_BYTES = 2**26
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
    path = Path(path)
    try:
        if path.exists() and not path.is_file():  # a pipe or a device may never end
            raise InputError(f"{path}: not a regular file; wanted: the list of training images")
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: larger than {MOST_BYTES:,} bytes; wanted: the list of training images")
        rows = list(csv.reader(path.read_text(encoding="utf-8").splitlines()))
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; wanted: the list of training images") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
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
