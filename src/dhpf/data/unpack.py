"""Archives -> folders, trusting nothing that the archive says about itself.

Only files and their folders are made, with the permissions of this process. A link inside a tar archive
becomes a copy of the member it points to. Names and links that leave the folder, devices, pipes and encrypted
files are refused before anything is written.
"""

from __future__ import annotations

import errno
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, NamedTuple

from ..errors import InputError
from .annotations import points_out

DISK = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES}  # full or not to be written
CHUNK = 2**20  # bytes copied at a time
MOST_BYTES = 20_000_000_000  # of all that is unpacked


class Member(NamedTuple):
    """One file of an archive."""

    name: str
    content: Callable[[], IO[bytes] | None]


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a zip or tar archive into a folder, which is made.

    Raises
    ------
    InputError
        Naming the archive: it is not one, it is damaged or encrypted, or it holds something unsafe.
    OSError
        The disk is full, or the folder cannot be written: the archive is not to blame.
    """
    try:
        if zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as opened_zip:
                _write(list(_zip_members(opened_zip, archive)), archive, folder)
        else:
            with tarfile.open(archive) as opened_tar:
                _write(list(_tar_members(opened_tar, archive)), archive, folder)
    except FileNotFoundError:
        raise InputError(f"{archive}: the archive is missing") from None
    except (InputError, MemoryError):
        raise
    except Exception as error:  # a damaged archive makes the libraries raise almost anything
        if isinstance(error, OSError) and error.errno in DISK:
            raise
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{archive}: not a readable zip or tar archive ({reason})") from None


def _zip_members(archive: zipfile.ZipFile, path: Path) -> Iterator[Member]:
    for info in archive.infolist():
        _check_name(info.filename, path)
        if stat.S_IFMT(info.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            raise InputError(f"{path}: refused, {info.filename!r} is neither a file nor a folder")
        if info.flag_bits & 1:
            raise InputError(f"{path}: {info.filename!r} is encrypted; unpack it yourself, with its password")
        if not info.is_dir():
            yield Member(info.filename, partial(archive.open, info))


def _tar_members(archive: tarfile.TarFile, path: Path) -> Iterator[Member]:
    for info in archive.getmembers():
        _check_name(info.name, path)
        if info.issym() or info.islnk():
            _check_name(info.linkname, path)
        elif not info.isreg() and not info.isdir():
            raise InputError(f"{path}: refused, {info.name!r} is neither a file nor a folder")
        if not info.isdir():
            yield Member(info.name, partial(archive.extractfile, info))


def _check_name(name: str, archive: Path) -> None:
    if points_out(name):
        raise InputError(f"{archive}: refused, {name!r} points out of the archive's folder")


def _write(members: list[Member], archive: Path, folder: Path) -> None:
    total = 0
    for name, content in members:
        if os.name == "nt":
            name = name.replace(":", "_")  # SPair-71k has file names with a colon
        target = folder.joinpath(*PurePosixPath(name).parts)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            source = content()
        except (KeyError, RecursionError):  # no such member, or links in a circle
            source = None
        if source is None:
            raise InputError(f"{archive}: refused, the link {name!r} points to no file of the archive")
        with source, target.open("wb") as out:
            while chunk := source.read(CHUNK):
                total += len(chunk)
                if total > MOST_BYTES:
                    raise InputError(f"{archive}: refused, it unpacks to more than {MOST_BYTES:,} bytes")
                out.write(chunk)
