"""Arrays <-> .npz: no pickles, the same bytes for the same content, and a layout that arrays must fit.

A file that a stranger made takes no more memory than it may, and holds nothing that does harm later.
"""

from __future__ import annotations

import io
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError, unknown

MOST_BYTES = 2**30  # of all arrays of a file together
FEW_BYTES = 2**26  # that any file may take; a larger one,
EXPANSION = 100  # so many times what it takes on the disc: predictions shrink less than what is made to burst
LARGEST = 1e9  # number in an array: products of such do not overflow
EPOCH = (1980, 1, 1, 0, 0, 0)  # the date of every zip member: the earliest that zip can hold
COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # Python inflates the others without a bound
ENCRYPTED = 0x1  # flag of a zip member

# Which NumPy kinds are taken for each type, and the one type that they become.
TYPES: dict[str, tuple[str, type[np.generic]]] = {
    "text": ("U", np.str_),
    "integer": ("iu", np.int64),
    "number": ("fiu", np.float64),
    "number or NaN": ("fiu", np.float64),  # where there is none
    "boolean": ("b", np.bool_),
}


class ArrayLayout(NamedTuple):
    """What an array must be."""

    type: str  # a key of TYPES
    shape: tuple[str | int, ...]  # letters are lengths that arrays share; () is a single value
    required: bool

    def __str__(self) -> str:
        """The shape as Python writes it."""
        return f"({', '.join(map(str, self.shape))}{',' * (len(self.shape) == 1)})"


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
    """All arrays of an .npz file; if it is absent, damaged, too large or something else, an InputError."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device may never end
            raise InputError(f"{path}: cannot be read (it is not a regular file)")
        with path.open("rb") as stream:
            if stream.read(2) != b"PK":
                raise InputError(
                    f"{path}: not an .npz file; wanted: predictions as `dhpf predict` writes them"
                )
            with zipfile.ZipFile(stream) as archive:
                return _arrays(archive)
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; `dhpf predict --out {path}` writes one") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (zipfile.BadZipFile, zlib.error, EOFError):
        raise InputError(f"{path}: cut short or damaged; predict again, or copy the file again") from None
    except Exception as error:  # zipfile and NumPy raise many kinds for what they do not understand
        reason = " ".join(str(error).split())
        raise InputError(f"{path}: an array in it cannot be read ({reason:.200})") from None


def has_array(path: Path, name: str) -> bool:
    """Whether this is an .npz file with an array of that name."""
    try:
        with zipfile.ZipFile(path) as archive:
            return f"{name}.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def _arrays(archive: zipfile.ZipFile) -> dict[str, NDArray[Any]]:
    members, arrays = archive.infolist(), {}
    for member in members:
        if member.flag_bits & ENCRYPTED or member.compress_type not in COMPRESSIONS:
            raise ValueError(f"{member.filename} is encrypted, or compressed in a way that is not read")
    total = sum(member.file_size for member in members)
    packed = sum(member.compress_size for member in members)
    most = min(MOST_BYTES, max(FEW_BYTES, EXPANSION * packed))
    if total > most:
        raise ValueError(f"it takes {total:,} bytes; at most {most:,} are read")
    for member in members:
        with archive.open(member) as stream:
            content = stream.read(member.file_size)  # no more than was promised
        arrays[member.filename.removesuffix(".npy")] = _array(content)
    return arrays


def _array(content: bytes) -> NDArray[Any]:
    """As ``np.load``, which would take whatever memory the header names."""
    header = io.BytesIO(content)
    first = np.lib.format.read_magic(header) == (1, 0)
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    shape, by_column, dtype = read(header)
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    array: NDArray[Any] = np.frombuffer(content, dtype, offset=header.tell())
    return array.reshape(shape, order="F" if by_column else "C")


def check_names(given: Iterable[str], layout: Mapping[str, ArrayLayout]) -> None:
    """Raise unless there is every array that the layout requires, and none that it does not know."""
    names = set(given)
    for name in sorted(names - set(layout)):
        raise unknown("array", ascii(name)[1:-1], layout)
    if missing := sorted(name for name, array in layout.items() if array.required and name not in names):
        raise InputError(f"missing: {', '.join(missing)}; docs/protocols.md lists what a file holds")


def fit(given: Mapping[str, Any], layout: Mapping[str, ArrayLayout]) -> dict[str, Any]:
    """The values with their one type, single ones as Python's own; what does not fit is an InputError."""
    values = {name: _converted(name, value, layout[name]) for name, value in given.items()}
    lengths: dict[str, tuple[int, str]] = {}
    for name, value in values.items():
        for letter, length in zip(layout[name].shape, np.shape(value), strict=True):
            wanted, by = (
                (letter, "") if isinstance(letter, int) else lengths.setdefault(letter, (length, name))
            )
            if length != wanted:
                because = f" ({letter} = {wanted}, by {by})" if by else ""
                raise InputError(f"{name} has shape {value.shape}; wanted: {layout[name]}{because}")
    return values


def _converted(name: str, value: Any, layout: ArrayLayout) -> Any:
    array = np.asarray(value)
    kinds, dtype = TYPES[layout.type]
    if array.size == 0 and array.ndim < len(layout.shape):  # an empty list has but one axis
        array = array.reshape(0, *(side if isinstance(side, int) else 0 for side in layout.shape[1:]))
    if array.dtype.kind not in kinds and array.size > 0:
        raise InputError(f"{name} holds {array.dtype}; wanted: {layout.type}")
    if array.ndim != len(layout.shape):
        raise InputError(f"{name} has shape {array.shape}; wanted: {layout}")
    array = array.astype(dtype, copy=False)
    if layout.type == "text" and _is_broken(array):
        raise InputError(f"{name} holds control characters or broken Unicode; wanted: plain text")
    if dtype is np.float64:
        nan = layout.type == "number or NaN"
        bad = ~(np.abs(array) <= LARGEST)
        if (bad & ~np.isnan(array) if nan else bad).any():
            given = "infinity" if nan else "NaN, infinity"
            raise InputError(f"{name} holds {given} or a number beyond {LARGEST:g}")
    return array.item() if layout.shape == () else array


def _is_broken(texts: NDArray[Any]) -> bool:
    """Whether there are characters that steer a terminal, or that are none."""
    codes = np.frombuffer(texts.tobytes(), np.uint32)  # NumPy stores UCS-4, filled up with zeros
    control = ((codes > 0) & (codes < 32)) | ((codes >= 127) & (codes < 160))
    surrogate = (codes >= 0xD800) & (codes < 0xE000)
    return bool((control | surrogate | (codes > 0x10FFFF)).any())
