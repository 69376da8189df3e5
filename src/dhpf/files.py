"""Files for people and programs: the cache folder, and writing that is all or nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from .errors import InputError

Writer: TypeAlias = Callable[[Path], object]  # fills the file of that name


def cache_folder() -> Path:
    """Where downloads are kept: ``$DHPF_HOME``, else the user's cache folder."""
    given = os.environ.get("DHPF_HOME")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dhpf"


def check_writable(path: Path) -> None:
    """Raise before hours of work, not after, if ``path`` cannot be written."""
    try:
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder; give a file name")
        if path.exists() and not path.is_file():
            raise InputError(f"cannot write {path}: it is a device or a pipe; give a file name")
        if not _real(path).parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}; create it first")
        if path.exists() and not os.access(path, os.W_OK):
            raise InputError(f"cannot write {path}: it is write-protected; choose another name")
        _partial(path).touch()  # permissions do not tell all: read-only discs, quotas, too long names
        _partial(path).unlink()
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another place") from None


def write_atomically(path: Path, write: Writer) -> None:
    """Write one file: all of it, or nothing."""
    write_together({path: write})


def write_together(files: Mapping[Path, Writer]) -> None:
    """Fill temporary files beside all the paths, then move them there in order: all of them, or none."""
    try:
        for path, write in files.items():
            write(_partial(path))
        for path in files:
            _partial(path).replace(_real(path))
    except (OSError, ValueError) as error:  # encoders answer a picture that is too large with ValueError
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot write {path}: {reason}") from None
    finally:
        for path in files:
            with contextlib.suppress(OSError):
                _partial(path).unlink(missing_ok=True)


def _partial(path: Path) -> Path:
    """The temporary file for a path.

    Its name is fixed by the final one, so what a killed process left behind is overwritten, not added to. It
    keeps the ending, from which libraries tell the format.
    """
    return _real(path).with_name(f".{path.stem}.partial{path.suffix}")


def _real(path: Path) -> Path:
    """What a link points to: it is the file that is replaced, not the link."""
    return Path(os.path.realpath(path))
