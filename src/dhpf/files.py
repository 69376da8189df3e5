"""Files for people and programs: the cache folder, and writing that is all or nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from .errors import InputError


def cache_folder() -> Path:
    """Where downloads are kept: ``$DHPF_HOME``, else the user's cache folder."""
    given = os.environ.get("DHPF_HOME")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dhpf"


def check_writable(path: Path) -> None:
    """Raise before hours of work, not after, if ``path`` cannot be written."""
    folder = path.parent
    if path.is_dir():
        raise InputError(f"cannot write {path}: it is a folder; give a file name")
    if not folder.is_dir():
        raise InputError(f"cannot write {path}: the folder {folder} does not exist; create it first")
    if not os.access(folder, os.W_OK) or (path.exists() and not os.access(path, os.W_OK)):
        raise InputError(f"cannot write {path}: permission denied; choose another place")


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary file beside ``path``, then move it there: all of it, or nothing.

    The temporary name is fixed by the final one, so what a killed process left behind is overwritten, not
    added to. It keeps the ending, from which libraries tell the format.
    """
    temporary = path.with_name(f".{path.stem}.partial{path.suffix}")
    try:
        write(temporary)
        os.replace(temporary, path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        temporary.unlink(missing_ok=True)
