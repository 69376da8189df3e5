"""Files of users and for users: reading that is bounded, writing that is all or nothing."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import os
import platform
import secrets
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path
from typing import Any

from .errors import InputError

SMALL = 64 * 2**20  # bytes: more than any list of points, pairs or settings needs
STDOUT = Path("-")  # as the name of an output
MARK = hashlib.sha256(platform.node().encode()).hexdigest()[:6]  # of temporary files: which machine's


def cache_folder() -> Path:
    """Where downloads are kept: ``$DHPF_HOME``, else the user's cache folder."""
    try:
        if given := os.environ.get("DHPF_HOME"):
            return Path(given).expanduser()
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dhpf"
    except RuntimeError:
        raise InputError("there is no home folder for downloads; set DHPF_HOME to a folder") from None


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


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """Rows as text; None is an empty cell."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def sha256(path: Path) -> str:
    """The checksum of a file's content."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(2**20):
            digest.update(chunk)
    return digest.hexdigest()


def check_writable(path: Path) -> None:
    """Raise before hours of work, not after, if ``path`` cannot be written."""
    check_outputs([path])


def check_outputs(outputs: Iterable[Path | None], inputs: Iterable[Path | None] = ()) -> None:
    """Raise before any work if an output cannot be written, or would replace an input or another output.

    A file is the same by any name, symbolic and hard links included. None stands for a file that is not asked
    for. The inputs, which may be many, are looked at only if an output exists.

    >>> check_outputs([Path("figures.json"), None], inputs=[Path("predictions.npz")])
    """
    wanted = [path for path in outputs if path is not None]
    exists = any(os.path.lexists(path) for path in wanted)
    taken = {name for path in inputs if path is not None for name in _names(path)} if exists else set()
    seen: set[Path] = set()
    probed: set[Path] = set()
    for path in wanted:
        if path != STDOUT and not taken.isdisjoint(_names(path)):
            raise InputError(f"{path} is an input; give the output another name")
        real = path if path == STDOUT else _checked(path)
        if real in seen:
            raise InputError(f"two outputs have the same name, {path}; give each its own")
        seen.add(real)
        if path == STDOUT:
            continue
        if real.parent not in probed:
            _probe(path, real)
            probed.add(real.parent)


def make_folder(path: Path) -> None:
    """Make a folder for results, with those above it, or say why that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {error.strerror}") from None


def check_folder(path: Path) -> None:
    """Raise before any work if a folder for results cannot be made or written to; nothing is made."""
    there = real_path(path)
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise InputError(f"cannot make the folder {path}: {there} is a file; choose another place")
    _probe(path, there / path.name)


def write_atomically(path: Path, content: bytes | memoryview, durable: bool = True) -> None:
    """Write one file as :func:`write_together` does."""
    write_together({path: content}, durable)


def write_together(files: Mapping[Path, bytes | memoryview], durable: bool = True) -> None:
    """Write all of the files or none, in their order, so that the last one vouches for the others.

    Of several processes that write the same files at a time, the last one's stay. Standard output is last.

    Parameters
    ----------
    durable
        Have the content on the disc before the name, so that a power cut leaves nothing half-written. It
        takes a moment for each file, which a cache can save.
    """
    named = {path: _checked(path) for path in files if path != STDOUT}
    filled: dict[Path, Path] = {}
    with _alone({real.parent for real in named.values()}):
        try:
            for path, real in named.items():
                filled[path] = _temporary(real)
                with filled[path].open("xb") as stream:
                    stream.write(files[path])
                    stream.flush()
                    if durable:
                        os.fsync(stream.fileno())
            for path, temporary in filled.items():
                temporary.replace(named[path])
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror or error}") from None
        finally:
            for temporary in filled.values():
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
    if STDOUT in files:
        sys.stdout.write(bytes(files[STDOUT]).decode())


def real_path(path: Path) -> Path:
    """What a link points to, a circle of links too: it is the file that is replaced, not the link."""
    return Path(os.path.realpath(path))


def _names(path: Path) -> set[object]:
    """What two names of one file have in common: its location or, with hard links, its number on the disc."""
    names: set[object] = {real_path(path)}
    with contextlib.suppress(OSError):
        status = path.stat()
        names.add((status.st_dev, status.st_ino))
    return names


def _checked(path: Path) -> Path:
    """The file to write, or an error."""
    try:
        real = real_path(path)
        if not real.parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {path.parent}; create it first")
        with contextlib.suppress(FileNotFoundError):
            mode = real.lstat().st_mode
            if not stat.S_ISREG(mode):
                raise InputError(f"cannot write {path}: it is a {_kind(mode)}; give a file name")
            if not os.access(real, os.W_OK):
                raise InputError(f"cannot write {path}: it is write-protected; choose another name")
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another place") from None
    return real


def _probe(path: Path, real: Path) -> None:
    """Try to write into the folder, since permissions do not tell all; remove what killed processes left."""
    try:
        temporary = _temporary(real)
        temporary.touch(exist_ok=False)
        temporary.unlink(missing_ok=True)
        with _alone({real.parent}, wait=False) as alone:
            for left in real.parent.glob(f".*.{MARK}*.partial*") if alone else ():
                left.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}; choose another place") from None


def _kind(mode: int) -> str:
    return "folder" if stat.S_ISDIR(mode) else "circle of links" if stat.S_ISLNK(mode) else "device or a pipe"


def _temporary(real: Path) -> Path:
    """A new name in the same folder, so that it can be renamed; short, where the file's own is long."""
    return real.with_name(f".{real.stem[:20]}.{MARK}{secrets.token_hex(8)}.partial{real.suffix[:20]}")


@contextlib.contextmanager
def _alone(folders: Set[Path], wait: bool = True) -> Iterator[bool]:
    """Keep other processes from writing there, so that their files and ours do not mix; False if that fails.

    It fails where the system cannot lock folders and, without waiting, while another process writes.
    """
    alone = False
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            for folder in sorted(folders):  # in one order, or two processes could wait for each other
                lock = os.open(folder, os.O_RDONLY)
                stack.callback(os.close, lock)
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            alone = True
        yield alone
