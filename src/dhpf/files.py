"""Files for people and programs: the cache folder, and writing that is all or nothing."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from .errors import InputError

SMALL = 64 * 2**20  # bytes: more than any list of points, pairs or settings needs
STDOUT = Path("-")  # as the name of an output
Writer: TypeAlias = Callable[[Path], object]  # fills the file of that name


def cache_folder() -> Path:
    """Where downloads are kept: ``$DHPF_HOME``, else the user's cache folder."""
    given = os.environ.get("DHPF_HOME")
    if given:
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "dhpf"


def read_bytes(path: Path, what: str, limit: int = SMALL) -> bytes:
    """The content of a regular file of at most ``limit`` bytes; ``what`` it should be, for errors."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InputError(f"{path} is a {_kind(status.st_mode)}; wanted a {what}")
        if status.st_size > limit:
            raise InputError(f"{path} is too large for a {what}: {status.st_size:,} bytes, at most {limit:,}")
        with path.open("rb") as stream:
            content = stream.read(status.st_size + 1)
    except FileNotFoundError:
        raise InputError(f"no such {what}: {path}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}; wanted a {what}") from None
    if len(content) != status.st_size:
        raise InputError(f"{path} changed while it was read; wanted a {what}")
    return content


def read_text(path: Path, what: str, limit: int = SMALL) -> str:
    """The text of a file in UTF-8, with or without a byte order mark; else as :func:`read_bytes`."""
    content = read_bytes(path, what, limit)
    with contextlib.suppress(UnicodeDecodeError):
        if b"\0" not in content:
            return content.decode("utf-8-sig")
    raise InputError(f"{path} is not text in UTF-8; wanted a {what}")


def read_json(path: Path, what: str, limit: int = SMALL) -> Any:
    """What a JSON file holds; its numbers may be NaN or infinite. Else as :func:`read_text`."""
    try:
        return json.loads(read_text(path, what, limit))
    except json.JSONDecodeError as error:
        raise InputError(f"{path} is not valid JSON (line {error.lineno}: {error.msg})") from None
    except InputError:
        raise
    except (ValueError, RecursionError):  # a number of thousands of digits, lists in lists in lists ...
        raise InputError(f"{path} nests too deeply or has too long a number for a {what}") from None


def sha256(path: Path) -> str:
    """The checksum of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def check_writable(path: Path) -> None:
    """Raise before hours of work, not after, if ``path`` cannot be written. Nothing is touched."""
    check_outputs([path])


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Raise before any work if an output cannot be written, or would replace an input or another output.

    A file is the same by any name, symbolic and hard links included. What lies in an input folder is input.
    None stands for a file that is not asked for.

    >>> check_outputs([Path("figures.json"), None], inputs=[Path("predictions.npz"), Path("PF-PASCAL")])
    """
    given = [path for path in inputs if path is not None]
    taken = {name for path in given for name in _names(path)}
    folders = {real for path in given if (real := _real(path)).is_dir()}
    seen: set[object] = set()
    probed: set[Path] = set()
    for path in outputs:
        if path is None:
            continue
        names = {path} if path == STDOUT else _names(path)
        if not names.isdisjoint(taken):
            raise InputError(f"{path} is an input; give the output another name")
        if not names.isdisjoint(seen):
            raise InputError(f"two outputs have the same name, {path}; give each its own")
        seen |= names
        if path != STDOUT:
            real = _checked(path, probed)
            if folders and real.exists() and not folders.isdisjoint(real.parents):
                raise InputError(f"{path} is a file of the input folder; choose another name")


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


def _names(path: Path) -> set[object]:
    """What two names of one file have in common: its location or, with hard links, its number on the disc."""
    names: set[object] = {_real(path)}
    with contextlib.suppress(OSError):
        status = path.stat()
        names.add((status.st_dev, status.st_ino))
    return names


def _checked(path: Path, probed: set[Path] | None = None) -> Path:
    """The file to write, or an error; folders are probed once, since permissions do not tell all."""
    try:
        real = _real(path)
        if not real.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}; create it first")
        with contextlib.suppress(FileNotFoundError):
            mode = real.lstat().st_mode
            if not stat.S_ISREG(mode):
                raise InputError(f"cannot write {path}: it is a {_kind(mode)}; give a file name")
            if not os.access(real, os.W_OK):
                raise InputError(f"cannot write {path}: it is write-protected; choose another name")
        if probed is not None and real.parent not in probed:
            temporary = _temporary(real)
            temporary.touch(exist_ok=False)
            temporary.unlink()
            probed.add(real.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another place") from None
    return real


def _kind(mode: int) -> str:
    return "folder" if stat.S_ISDIR(mode) else "circle of links" if stat.S_ISLNK(mode) else "device or a pipe"


def _temporary(real: Path) -> Path:
    """A new name in the same folder, so that it can be renamed; short, where the file's own is long."""
    return real.with_name(f".{real.stem[:20]}.{secrets.token_hex(8)}.partial{real.suffix[:20]}")
