"""Where a review is on the disc: its annotations, the log of its changes, its photos."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..annotate.photos import find_photo
from ..errors import InputError
from ..files import check_outputs, read_text

MOST_BYTES = 2**30  # of the log


def review_files(annotations: Path) -> tuple[Path, Path]:
    """The review's file and its log."""
    own = Path(f"{annotations}.log")
    if own.is_file():
        return annotations, own
    path = annotations.with_name(f"{annotations.stem}.reviewed.json")
    log = Path(f"{path}.log")
    if path.exists() and not log.is_file():
        raise InputError(f"{path} is there, but not of a review (it has no {log.name}); move it away first")
    check_outputs([path, log], [annotations])
    return path, log


def photo_below(images: Path, name: str, file: Path) -> Path:
    """The photo of that name, below the folder also if links are followed."""
    path = find_photo(name, [images])
    if path is None:
        raise InputError(f"{file}: its photo {name} is not in {images}; give its folder as --images")
    if not path.resolve().is_relative_to(images.resolve()):
        raise InputError(f"{file}: its photo {name} is a link out of {images}; wanted photos below it")
    return path


class Log:
    """A line a change, each on the disc before it counts; locked as long as it is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._stream = path.open("ab", buffering=0)  # or a line that failed would be tried again later
        except OSError as error:
            raise InputError(f"cannot write {path}: {error.strerror}") from None
        try:
            with suppress(ImportError):
                import fcntl

                fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self.close()
            raise InputError(f"{path} is in use by another dhpf web; stop that one first") from None

    def lines(self) -> list[str]:
        """What was changed before; half a line, which a kill may have left, is dropped."""
        text = read_text(self.path, "log of a review", MOST_BYTES)
        whole = text.rfind("\n") + 1
        self._stream.truncate(len(text[:whole].encode()))
        return text[:whole].splitlines()

    def add(self, line: dict[str, Any]) -> None:
        """Write a change."""
        left = json.dumps(line, allow_nan=False).encode() + b"\n"
        length = self.path.stat().st_size
        try:
            while left:
                left = left[self._stream.write(left) :]
            os.fsync(self._stream.fileno())
        except OSError as error:
            self._stream.truncate(length)  # half a line would spoil the next one
            raise InputError(f"cannot write {self.path}: {error.strerror}; the change is not kept") from None

    def close(self) -> None:
        """Let others write."""
        self._stream.close()
