"""Data sets from their official addresses to a folder of the cache: resumed, verified, unpacked."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from rich.progress import DownloadColumn, Progress

from ..errors import InputError
from ..files import cache_folder, sha256
from ..progress import plain_console
from .registry import DatasetInfo, RemoteFile, find_dataset
from .unpack import unpack

CHUNK = 2**18  # bytes read at a time
TIMEOUT = 30.0  # seconds without a byte before the connection counts as lost


class Fetched(NamedTuple):
    """A file on the disk."""

    path: Path
    sha256: str
    verified: bool  # against a published checksum


class Downloaded(NamedTuple):
    """A data set on the disk."""

    folder: Path
    files: tuple[Fetched, ...]  # empty if the folder was there already


def dataset_folder(info: DatasetInfo) -> Path:
    """Where a downloaded data set is, or would be."""
    return cache_folder() / "datasets" / info.folder


def download(name: str) -> Downloaded:
    """Download a data set, or what is still missing of it, and unpack it, in the cache folder.

    Parameters
    ----------
    name
        ``pf-pascal``, ``pf-willow``, ``caltech-101`` or ``spair-71k``.

    Raises
    ------
    InputError
        An address is dead, a checksum is wrong, an archive is unsafe: with what to do by hand.
    """
    info = find_dataset(name)
    if not info.files:
        raise InputError(f"{name} is a format of your own data, with nothing to download; see {info.page}")
    folder = dataset_folder(info)
    if folder.exists():
        return Downloaded(folder, ())
    downloads = cache_folder() / "downloads"
    files = tuple(fetch(remote, downloads, info.page) for remote in info.files)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Unpacked beside the final place and renamed at the end: a folder that is there is whole.
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder.parent) as temporary:
            _assemble(info, downloads, Path(temporary)).rename(folder)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write {folder}: {reason}; make room, or set DHPF_HOME") from None
    return Downloaded(folder, files)


def _assemble(info: DatasetInfo, downloads: Path, temporary: Path) -> Path:
    """Unpack the data set's one archive, and add the pair lists that are published elsewhere."""
    archive, *lists = sorted(info.files, key=lambda remote: remote.top is None)
    path, ready = downloads / archive.name, temporary / (archive.top or "")
    try:
        unpack(path, temporary)
        if not ready.is_dir():
            raise InputError(f"{path}: the archive has no folder {archive.top!r}")
        for name in archive.inner:
            unpack(ready / name, ready)
            (ready / name).unlink()
    except InputError as error:
        raise InputError(f"{error}; {_set_aside(path, info.page)}") from error
    for remote in lists:
        shutil.copyfile(downloads / remote.name, ready / remote.name)
    return ready


def fetch(remote: RemoteFile, folder: Path, page: str) -> Fetched:
    """Get one file: from the folder if it is there, otherwise from its address, resuming what was begun.

    Parameters
    ----------
    remote
        What to get, and its checksum.
    folder
        Where to keep it.
    page
        The official page, for the error message of a dead address.
    """
    path = folder / remote.name
    if not path.exists():
        part = folder / f"{remote.name}.part"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _receive_all(remote.url, part)
        except (OSError, HTTPException) as error:
            raise InputError(
                f"could not download {remote.url} ({error}); run again to resume, "
                f"or get the file from {page} and put it at {path}"
            ) from error
        part.replace(path)
    digest = sha256(path)
    if remote.sha256 is not None and digest != remote.sha256:
        raise InputError(
            f"{remote.url}: the file has sha256 {digest}, but {remote.sha256} is wanted; "
            f"{_set_aside(path, page)}"
        )
    return Fetched(path, digest, remote.sha256 is not None)


def _set_aside(path: Path, page: str) -> str:
    """Move a file that is no use to a name that nothing takes for complete; returns the advice."""
    aside = path.replace(path.with_name(f"{path.name}.damaged"))
    return f"it was moved to {aside}; run again, or get the file from {page} and put it at {path}"


def _receive_all(url: str, part: Path) -> None:
    """Receive until the file is whole; a lost connection is tried again as long as bytes arrive."""
    columns = *Progress.get_default_columns(), DownloadColumn()
    with Progress(*columns, console=plain_console(stderr=True)) as progress:
        show = partial(progress.update, progress.add_task(part.stem))
        while True:
            before = _size(part)
            try:
                return _receive(url, part, show)
            except HTTPError:
                raise
            except (OSError, HTTPException):
                if _size(part) <= before:
                    raise


def _receive(url: str, part: Path, show: Callable[..., None]) -> None:
    """Append to ``part`` what it lacks, or write it anew where the server cannot continue."""
    have = _size(part)
    version = part.with_name(f"{part.name}.version")  # what the server called the file that we have begun
    request = Request(url, headers={"User-Agent": "dhpf"})
    if have:
        request.add_header("Range", f"bytes={have}-")
        if version.exists():
            request.add_header("If-Range", version.read_text(encoding="utf-8"))
    try:
        response = urlopen(request, timeout=TIMEOUT)
    except HTTPError as error:
        if error.code != 416:
            raise
        error.close()
        part.unlink()  # nothing lies beyond what we have: whole or of another file, it cannot be told
        return _receive(url, part, show)
    with response:
        if response.status != 206:
            have = 0
        length = response.headers["Content-Length"]
        total = have + int(length) if length else None
        named = response.headers["ETag"] or response.headers["Last-Modified"]
        if named and not named.startswith("W/"):  # a weak name does not promise the same bytes
            version.write_text(named, encoding="utf-8")
        with part.open("ab" if have else "wb") as out:
            while chunk := response.read(CHUNK):
                out.write(chunk)
                have += len(chunk)
                show(completed=have, total=total)
    if total is not None and have < total:
        raise ConnectionError(f"the connection was lost after {have} of {total} bytes")
    version.unlink(missing_ok=True)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
