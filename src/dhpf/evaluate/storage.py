"""Files that are whole or absent, and arrays <-> .npz: no pickles, the same bytes for the same content."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..files import write_atomically

EPOCH = (1980, 1, 1, 0, 0, 0)  # the date of every zip member: the earliest that zip can hold
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError)
UNREADABLE = (ValueError, SyntaxError, NotImplementedError, RuntimeError, MemoryError)


def write_file(path: Path, content: bytes) -> Path:
    """Write all of it, or nothing."""
    write_atomically(path, content)
    return path


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """An .npz file of the arrays, without the time of day."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            info = zipfile.ZipInfo(f"{name}.npy", date_time=EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, member.getvalue())
    return content.getvalue()


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All arrays of an .npz file; one that is absent, damaged or something else is an InputError."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; `dhpf predict --out {path}` writes one") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if not content.startswith(b"PK"):
        raise InputError(f"{path}: not an .npz file; wanted: predictions as `dhpf predict` writes them")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name.removesuffix(".npy"): _array(archive.read(name)) for name in archive.namelist()}
    except DAMAGE:
        raise InputError(f"{path}: cut short or damaged; predict again, or copy the file again") from None
    except UNREADABLE as error:
        raise InputError(f"{path}: an array in it cannot be read ({str(error).splitlines()[0]})") from None


def _array(member: bytes) -> NDArray[Any]:
    array: NDArray[Any] = np.lib.format.read_array(io.BytesIO(member), allow_pickle=False)
    return array
